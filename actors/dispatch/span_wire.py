"""Spans on the wire: the span that is current where a message is sent is so where it is handled, in another process.

What makes spans is no part of the runtime. It gives a ``Crossing``, which is pickled by itself: so a side that cannot
rebuild it loses the span, and never the message. Empty bytes: there is no span.
"""

from __future__ import annotations

import contextvars
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.messaging.ports import Crossing, Tracer


def packed_span(tracer: Tracer | None, variables: contextvars.Context | None = None) -> bytes:
    """Return the span that is current in these variables, as bytes.

    Args:
        tracer: what makes spans here. None: nobody wants any.
        variables: where the span is current. None: here.
    """
    crossing = None if tracer is None else tracer.crossing(variables)
    return b"" if crossing is None else pickle.dumps(crossing, protocol=5)


def taken_span(span: bytes, failed: Callable[[Exception], object]) -> Crossing | None:
    """Return a span that has crossed; None: there is none, or it cannot be rebuilt here, which ``failed`` is told."""
    if not span:
        return None
    try:
        crossing: Crossing = pickle.loads(span)  # noqa: S301 - of a process of ours
    except Exception as error:  # noqa: BLE001 - its package may be missing on another node
        failed(error)
        return None
    return crossing
