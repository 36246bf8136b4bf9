"""Call of a planner, a reviewer, a synthesizer or an undo, as its code sees it: it is called with plain tasks.

While one runs, a contextvar holds its attempt. So prompts are packed into its ``context_tokens``, and usage that is
reported while a model is asked counts for it, also if the call then raises, is cancelled or takes too long.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from actors.tasks.execution.agent_results import unwrap_result, unwrap_returned
from actors.tasks.execution.off_loop import called, off_loop
from actors.tasks.execution.packing import CONTEXT_TOKENS, NO_NOTES, Notes
from actors.tasks.model import Done, Usage, with_usage

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt

ReadT = TypeVar("ReadT")

ROLE_CALL: Final[ContextVar[Attempt | None]] = ContextVar("regrow_role_call", default=None)
"""Attempt of the call that runs here; None: there is none."""


def shown_here() -> tuple[int, Notes]:
    """Return how many tokens a prompt may have that is made here, and the notes on the results that it shows."""
    attempt = ROLE_CALL.get()
    return (CONTEXT_TOKENS, NO_NOTES) if attempt is None else (attempt.context_tokens, attempt.spec.values.notes)


def report_usage(usage: Usage) -> bool:
    """Count usage of the call that runs here, at once; False: no call runs here, and nothing is counted."""
    attempt = ROLE_CALL.get()
    if attempt is not None:
        attempt.count(usage)
    return attempt is not None


async def asked(ask: Callable[[], Any], read: Callable[[Any], ReadT]) -> ReadT:
    """Ask a model, and read its answer. Neither is done on the loop; the usage that comes with the answer counts."""
    said = unwrap_result(unwrap_returned(with_usage(await called(ask))))
    if isinstance(said, Done):
        if (attempt := ROLE_CALL.get()) is not None:
            attempt.use(said.usage)
        said = said.value
    return await off_loop(partial(read, said))
