"""A source that notes what it is asked for and answers as it is told to: for its three users, without a tree."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any

from trees.observe.source import METRICS_ELSEWHERE, ROWS, TASKS, VERSION, Shape, SourceError

Told = Callable[[Shape], object]


class ScriptedSource:
    """A ``Source`` of plain answers."""

    def __init__(self, name: str = "shop", **answers: Any) -> None:
        self.name = name
        self.answers: dict[str, Any] = answers
        """By method: a dict, an error to raise, or a function of no arguments."""
        self.asked: list[tuple[str, Shape]] = []
        self.subscribers: list[Told] = []
        self.subscribed = threading.Semaphore(0)
        self.left = threading.Semaphore(0)
        self.closed = False

    def _answer(self, method: str, **given: Any) -> Shape:
        self.asked.append((method, given))
        answer = self.answers.get(method, {})
        if isinstance(answer, BaseException):
            raise answer
        said: Shape = answer() if callable(answer) else answer
        return {"version": VERSION, **said}

    def acts(self) -> list[tuple[str, Shape]]:
        """All that was to change something, in order."""
        return [each for each in self.asked if each[0] in {"act", "answer", "cancel"}]

    def snapshot(
        self, unfold: Collection[str] = (), limit: int = ROWS, text: str = "", troubled: bool = False
    ) -> Shape:
        return self._answer("snapshot", unfold=tuple(unfold), limit=limit, text=text, troubled=troubled)

    def child(self, path: str) -> Shape:
        return self._answer("child", path=path)

    def stack(self, path: str) -> Shape:
        return self._answer("stack", path=path)

    def tasks(self, status: str | None = None, text: str = "", limit: int = TASKS) -> Shape:
        return self._answer("tasks", status=status, text=text, limit=limit)

    def task(self, id: str) -> Shape:
        return self._answer("task", id=id)

    def cancel(self, id: str, reason: str = "", by: str = "") -> Shape:
        return self._answer("cancel", id=id, reason=reason, by=by)

    def questions(self) -> Shape:
        return self._answer("questions")

    def answer(self, id: str, answer: str, text: str | None = None, value: Any = None, by: str = "") -> Shape:
        return self._answer("answer", id=id, answer=answer, text=text, value=value, by=by)

    def act(self, path: str, act: str, by: str = "") -> Shape:
        return self._answer("act", path=path, act=act, by=by)

    def subscribe(self, callback: Told) -> Callable[[], None]:
        self._answer("subscribe")
        self.subscribers.append(callback)
        self.subscribed.release()

        def end() -> None:
            self.subscribers.remove(callback)
            self.left.release()

        return end

    def tell(self, **event: Any) -> None:
        """Something happens."""
        for each in list(self.subscribers):
            each({"version": VERSION, **event})

    def metrics(self) -> str:
        raise SourceError(404, METRICS_ELSEWHERE)

    def close(self) -> None:
        self.closed = True
