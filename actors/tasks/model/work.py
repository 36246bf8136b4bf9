"""Work as the code of a worker gets it: the instruction as a text, with the rest of the subtask as attributes."""

from __future__ import annotations

from typing import Any, Self

from actors.tasks.model.policy import Ladder
from actors.tasks.model.task import Subtask
from actors.tasks.model.usage import Budget


class Work(str):  # noqa: SLOT000 - it has a dict, so that it costs one copy of that of its subtask
    """Work: a ``str`` that is the instruction, with the fields of the ``Subtask`` as attributes.

    Everything that takes a text takes it. No attribute has the name of a method of ``str``.

    In a test: ``execute(Work("Find otters", inputs={"n": 3}), context)``.

    Args:
        instruction: the text.
        fields: the attributes; those that are left out are as in a ``Subtask``.
    """

    id: str
    instruction: str
    inputs: dict[str, Any]
    """Inputs of the subtask alone; ``context.inputs`` has those of the task, too."""
    metadata: dict[str, Any]
    worker: str | None
    capability: str | None
    depends_on: list[str]
    timeout_s: float | None
    idle_timeout_s: float | None
    required: bool
    preemptible: bool
    undo: str | None
    budget: Budget | None
    estimate: Budget | None
    on_failure: Ladder | None
    tool: str | None

    def __new__(cls, instruction: str = "", /, **fields: Any) -> Self:
        """Make one; see the class."""
        return cls.of(Subtask(**{"id": "work", **fields, "instruction": instruction}))

    @classmethod
    def of(cls, subtask: Subtask) -> Self:
        """Return a subtask as work."""
        work = super().__new__(cls, subtask.instruction)
        vars(work).update(vars(subtask))
        return work
