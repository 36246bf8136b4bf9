"""Workers that are one call: ``run=`` names a function that is the worker's whole life."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.dispatch.process import ProcessCode
from actors.model.errors import Problem
from actors.model.spec import DispatcherKind, WorkerRecipe
from actors.validation.introspection import is_async
from actors.worker import body_recipe
from trees.declaration.kind import Rules, Target, WorkKind
from trees.declaration.process import Process, elsewhere, place_of
from trees.declaration.specs import WorkerSpec

_OF_MESSAGES = frozenset({"bounds", "expected", "crash_on_ask_error"})
"""Rules that say nothing of a worker that takes no messages."""


class RunKind(WorkKind):
    """A body: it takes no messages, and returning is a normal exit."""

    field = "run"
    maker = staticmethod(body_recipe)

    def first(self) -> tuple[object, ...]:
        """Nothing comes before args."""
        return ()

    def problems(self, spec: WorkerSpec, at: str, target: Target) -> Iterator[Problem]:
        """Yield what is wrong with this worker."""
        yield from super().problems(spec, at, target)
        if spec.mailbox.capacity is not None:
            hint = "Leave mailbox out, or use handle= for a worker that takes messages."
            yield Problem(f"{at}.mailbox", f"a {self.field}= body has no mailbox to bound", hint)

    def dispatch(self, spec: WorkerSpec, at: str, target: Target) -> Iterator[Problem]:
        """Check if the body can run where the spec wants it."""
        yield from super().dispatch(spec, at, target)
        if not target.coroutines and place_of(spec) in {"pool", "loop"}:
            what = f"{spec.dispatch!r} cannot run a sync body, which needs a thread of its own"
            yield Problem(f"{at}.dispatch", what, "Leave dispatch out, or write 'thread'.")

    def process(self, spec: WorkerSpec, at: str) -> Iterator[Problem]:
        """Refuse to count messages, of which it takes none."""
        yield from super().process(spec, at)
        there = elsewhere(spec)
        if isinstance(there, Process) and there.recycle_after is not None:
            hint = "Leave it out, and have the body return: a permanent one is started again."
            yield Problem(f"{at}.dispatch.recycle_after", "it counts messages, and a body takes none", hint)

    def place(self, found: Any) -> DispatcherKind:
        """Give a sync body a thread of its own."""
        return DispatcherKind.LOOP if is_async(found) else DispatcherKind.THREAD

    def code(self, spec: WorkerSpec, rules: Rules) -> ProcessCode:
        """Return the code of the body as it crosses to its process."""
        return super().code(spec, {name: rules[name] for name in rules.keys() - _OF_MESSAGES})

    def recipe(self, found: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rules: Rules) -> WorkerRecipe:
        """Call the function once in each incarnation."""
        return super().recipe(found, args, kwargs, {name: rules[name] for name in rules.keys() - _OF_MESSAGES})
