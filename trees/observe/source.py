"""Interface of whatever is looked at and operated: a live tree, one behind its console, a store, a fleet.

The page (``trees.observe.web``), the console (``trees.host.console``) and the terminal (``regrow top``) know only this.
So they show the same, and each is written once. Every answer is a plain dict for JSON with ``"version": 1``; its shape
is that of the page's API. A payload is in none of them unless the host has asked for content.

Each method may wait a moment, for a database or another process: on an event loop, call it with ``asyncio.to_thread``.
Each may be called from any thread. Whatever goes wrong is a ``SourceError``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from actors.model.errors import ActorsError

VERSION: Final = 1
"""Version of all these shapes. It grows where one loses something, or something gets another meaning."""
ROWS: Final = 500
"""Children that a snapshot has, at most, unless more are asked for."""
TASKS: Final = 200
"""Tasks of a list, likewise."""

Shape: TypeAlias = dict[str, Any]
Act: TypeAlias = Literal["restart", "terminate", "unpark"]
ACTS: Final[tuple[Act, ...]] = get_args(Act)
ANSWERS: Final = ("approve", "edit", "respond", "reject")
Status: TypeAlias = Literal[400, 404, 409, 503]


METRICS_ELSEWHERE: Final = (
    "The program of a tree tells its metrics itself: its own page has /metrics, or it calls metrics()."
)


class SourceError(ActorsError):
    """A source could not do what it was asked for: one sentence, and a number of HTTP that says whose fault it is.

    400: the request is wrong. 404: there is no such child, task or question. 409: not now, or not any more. 503: the
    source itself is gone, or does not answer.
    """

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text

    def __str__(self) -> str:
        return self.text


class Source(Protocol):
    """Something that can be looked at and operated.

    A store has no children that live, and no stacks: what needs them is refused with 409.
    """

    @property
    def name(self) -> str:
        """Id of the root, or the name of the store."""

    def snapshot(
        self, unfold: Collection[str] = (), limit: int = ROWS, text: str = "", troubled: bool = False
    ) -> Shape:
        """The tree as rows; what is folded has only its size, but for ``unfold`` and what is looked for.

        Args:
            unfold: paths of supervisors whose children are rows, however many they are.
            limit: of rows.
            text: look for what has it in its path.
            troubled: look for what is neither running nor stopped, or has a breaker that is not closed.
        """

    def child(self, path: str) -> Shape:
        """One child: its row, settings, last exits, restarts and attempts."""

    def stack(self, path: str) -> Shape:
        """Where the code of a child stands now."""

    def tasks(self, status: str | None = None, text: str = "", limit: int = TASKS) -> Shape:
        """The tasks, the newest first: all, or those that stand so, or have this text in id or goal."""

    def task(self, id: str) -> Shape:
        """One task: graph, timeline, usage, log."""

    def cancel(self, id: str, reason: str = "", by: str = "") -> Shape:
        """Cancel a task."""

    def questions(self) -> Shape:
        """All that waits for a person, the oldest first."""

    def answer(self, id: str, answer: str, text: str | None = None, value: Any = None, by: str = "") -> Shape:
        """Answer a question: approve, edit (``value``), respond (``text``) or reject (``text``: why)."""

    def act(self, path: str, act: str, by: str = "") -> Shape:
        """Restart, terminate or unpark a child; ``by`` says who did, in the event of it."""

    def subscribe(self, callback: Callable[[Shape], object]) -> Callable[[], None]:
        """Have ``callback(event.as_dict())`` called for all that happens from now on; returns how to end that."""

    def metrics(self) -> str:
        """Metrics as Prometheus reads them; a source that has none refuses with 404."""

    def close(self) -> None:
        """Let go of what it has open; a tree goes on."""
