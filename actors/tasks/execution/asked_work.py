"""Work that an attempt asks somebody else for (``context.ask``)."""

from __future__ import annotations

from typing import Any, NamedTuple

from actors.tasks.model.task import Subtask, same_instruction


class AskedWork(NamedTuple):
    """One request of an attempt."""

    to: str
    """A capability, or the id of a worker or team."""
    instruction: str
    inputs: dict[str, Any]
    tool: str | None = None
    """Tool of a worker that has several."""

    @property
    def words(self) -> str:
        """Key that two requests share that ask for the same thing."""
        words = same_instruction(self.instruction, self.inputs)
        return words if self.tool is None else f"{words} tool={self.tool}"

    def subtask(self, id_: str, *, is_worker: bool) -> Subtask:
        """Return it as a subtask; ``is_worker``: its target is the id of a worker, and no capability."""
        return Subtask(
            id=id_,
            instruction=self.instruction,
            worker=self.to if is_worker else None,
            capability=None if is_worker else self.to,
            tool=self.tool,
            inputs=self.inputs,
            required=False,
        )
