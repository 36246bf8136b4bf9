"""Workers that are a program: ``command=`` names it and its arguments; its exit is the exit of the worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from actors.model.errors import Problem
from actors.model.spec import DispatcherKind, WorkerRecipe
from actors.worker import command_recipe
from trees.declaration.command import Command
from trees.declaration.kind import Flaw, Rules, Target, WorkKind
from trees.declaration.process import place_of
from trees.declaration.specs import WorkerSpec

_OF_CODE = ("args", "kwargs", "lifespan", "expected", "crash_on_ask_error", "stall_s")
"""Fields that say something of code in Python."""


class CommandKind(WorkKind):
    """A process in a group of its own. It has no mailbox."""

    field = "command"

    def find(self, value: Any) -> Command:
        """Return the command; nothing is imported."""
        return value if isinstance(value, Command) else Command(value)

    def flaw(self, found: Any) -> Flaw | None:  # noqa: ARG002 - its fields were judged when it was made
        """Say nothing: whether the program is there is seen when it is started."""
        return None

    def described(self, found: Any) -> Target:
        """Describe it: there is no code to look at."""
        return Target(found, (), PurePath(found.argv[0]).name)

    def arguments(self, spec: WorkerSpec, at: str, target: Target) -> Iterator[Problem]:
        """Refuse what only code in Python could take."""
        for name in _OF_CODE:
            if getattr(spec, name) != type(spec).model_fields[name].get_default(call_default_factory=True):
                what = f"a command is not code that could take {name} ({target.name})"
                yield Problem(f"{at}.{name}", what, "Leave it out; its arguments stand in the command itself.")

    def dispatch(self, spec: WorkerSpec, at: str, target: Target) -> Iterator[Problem]:  # noqa: ARG002 - see the base
        """Refuse a place, and a mailbox: it is a process, and takes no messages."""
        if spec.dispatch != "auto":
            what = f"{place_of(spec)!r} cannot run a command, which is a process"
            yield Problem(f"{at}.dispatch", what, "Leave dispatch out.")
        if spec.mailbox.capacity is not None:
            hint = "Leave mailbox out, or use handle= for a worker that takes messages."
            yield Problem(f"{at}.mailbox", "a command has no mailbox to bound", hint)

    def place(self, found: Any) -> DispatcherKind:  # noqa: ARG002 - whatever it is
        """Say that it is a process."""
        return DispatcherKind.PROCESS

    def recipe(
        self,
        found: Any,
        args: tuple[Any, ...],  # noqa: ARG002 - it takes none
        kwargs: dict[str, Any],  # noqa: ARG002 - the same
        rules: Rules,  # noqa: ARG002 - they are of messages, and of code
    ) -> WorkerRecipe:
        """Start the program anew in each incarnation."""
        return command_recipe(found.program())

    def shown(self, value: Any) -> str:
        """Name the program alone: its arguments may hold secrets."""
        return f"command {PurePath(self.find(value).argv[0]).name}"
