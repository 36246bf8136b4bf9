"""Workers without state: ``handle=`` names a function that takes one message at a time."""

from __future__ import annotations

from actors.worker import handle_recipe
from trees.declaration.kind import WorkKind


class HandleKind(WorkKind):
    """A function of a message, shared by all incarnations."""

    field = "handle"
    maker = staticmethod(handle_recipe)

    def called(self) -> str:
        """Begin a sentence that goes on with the parameters."""
        return "It is called with the message first and"
