"""Progress of a task, as an MCP client is told of it while ``run_task`` waits: what begins, how far it is, what ends.

The figure is the number of subtasks that have ended, and the shares of those that run, which they tell by
``context.progress``. It grows with each report, as the protocol wants it, and is never more than what has begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from mcp.server.mcpserver.exceptions import ToolError

from actors.model.errors import ActorsError
from actors.tasks.journal.view import Escalation
from actors.tasks.model import (
    Planned,
    SubtaskCancelled,
    SubtaskFailed,
    SubtaskProgressed,
    SubtaskSkipped,
    SubtaskStarted,
    SubtaskSucceeded,
)
from trees.agents.mcp_messages import sendable

_ENDED: Final = (SubtaskSucceeded, SubtaskFailed, SubtaskSkipped, SubtaskCancelled)
_SMALL: Final = 0.001
"""Share of what is left that a report adds which has no progress by itself, such as that of a subtask that begins."""
_SHARES_EVERY_S: Final = 0.1
"""How often what subtasks say of themselves is reported, at most."""


class Following:
    """Progress of a task, told to a client, and its questions.

    ``report(progress, total, message)`` tells the client.
    """

    def __init__(self, handle: Any, report: Callable[[float, float | None, str], Awaitable[None]]) -> None:
        self._handle = handle
        self._report = report
        self._total: float | None = None
        self._done: set[str] = set()
        self._shares: dict[str, float] = {}
        """By the subtask that runs: how far it is, from 0 to 1."""
        self._told = 0.0
        self._next_share = 0.0
        """When what a subtask says of itself may be reported again, on the clock of the loop."""

    async def questions(self) -> AsyncIterator[list[Escalation]]:
        """Yield the open questions each time when there are any, until the task has ended."""
        try:
            async for event in self._handle.events():
                await self._tell(event)
                if asked := self._handle.escalations:
                    yield asked
        except ActorsError as error:
            raise ToolError(str(error)) from None

    async def _tell(self, event: Any) -> None:
        said = self._said(event) if getattr(event, "task", "") == self._handle.id else ""
        if said:
            begun = float(len(self._done) + max(1, len(self._shares)))
            figure = len(self._done) + sum(self._shares.values())
            self._told = max(figure, self._told + _SMALL * (begun - self._told))
            await self._report(self._told, self._total, said)

    def _said(self, event: Any) -> str:
        """Note what an event changes, and say it in words; empty: nothing is to be reported."""
        if getattr(event, "is_deep", False) or getattr(event, "role", "work") != "work":
            return ""  # of a member of a team, of a review, of an undo
        if isinstance(event, Planned):
            self._total = float(len(event.plan.subtasks))
            return f"planned: {len(event.plan.subtasks)} subtasks"
        if isinstance(event, SubtaskStarted):
            self._shares[event.subtask] = 0.0
            return f"{event.subtask}: started"
        if isinstance(event, _ENDED):
            self._shares.pop(event.subtask, None)
            self._done.add(event.subtask)
            return f"{event.subtask}: {event.name.removeprefix('subtask_')}"
        if isinstance(event, SubtaskProgressed) and event.subtask in self._shares:
            return self._share_of(event)
        return ""

    def _share_of(self, event: SubtaskProgressed) -> str:
        self._shares[event.subtask] = event.fraction
        now = asyncio.get_running_loop().time()
        if now < self._next_share:
            return ""
        self._next_share = now + _SHARES_EVERY_S
        return str(sendable(f"{event.subtask}: {event.text or f'{event.fraction:.0%}'}"))
