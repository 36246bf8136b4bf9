"""How a tree is started: the arguments of ``start`` and ``start_async``, right by themselves.

Comes in: what a host wrote. Goes out: a frozen record, or one ``ConfigError`` with every mistake, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, InstanceOf, PlainValidator

from actors.model.clock import Clock
from actors.runtime.event_log import ErrorsInLog
from actors.tasks.journal.store import Store
from actors.validation import field_types
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import type_phrase, validation_error
from trees.observe.alerts import Alert
from trees.observe.web.web_settings import Web
from trees.store import Keep
from trees.store.retention import Durability

LoopOwner: TypeAlias = Literal["tree", "host"]
"""Owner of the event loop on which async workers run."""


def _made_as(protocol: type, what: str, hint: str) -> Callable[[object], object]:
    """Return a validator for an object that has all methods of a protocol; None is fine, too."""
    names = [name for name in vars(protocol) if not name.startswith("_")]

    def checked(value: object) -> object:
        if value is not None and not all(hasattr(value, name) for name in names):
            raise validation_error(f"expected a {what}, got {type_phrase(value)}", hint)
        return value

    return checked


_a_clock = _made_as(Clock, "clock", "Leave it out, or give a ManualClock() in a test.")
_made_store = _made_as(
    Store,
    "store",
    "Write 'tasks.jsonl', 'sqlite:///tasks.db' or 'postgresql://user@host/database'; without it: memory.",
)


def _a_store(value: object) -> object:
    return str(value) if isinstance(value, (str, Path)) else _made_store(value)


class Options(SpecModel, frozen=True, kw_only=False):
    """Options of ``start`` beside the spec; each is explained there."""

    _called: ClassVar[str] = "start(...)"

    clock: Annotated[Any, PlainValidator(_a_clock)]
    seed: int | None
    max_threads: Annotated[int, Field(ge=1)]
    max_hops: field_types.Count
    refuse_tells: bool
    console: bool
    store: Annotated[Any, PlainValidator(_a_store)]
    durability: Durability
    keep: InstanceOf[Keep] | None
    log_errors: ErrorsInLog
    ha: Any
    """Looked at by ``trees.ha``, together with the store."""
    loop: LoopOwner = "tree"
    loop_stall_s: field_types.StartTimeout = 10.0
    web: InstanceOf[Web] | None = None
    alerts: Sequence[InstanceOf[Alert]] = ()
