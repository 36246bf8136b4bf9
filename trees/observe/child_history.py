"""History of the children of a tree: last exits and restarts of each, and crashes by path and type. Bounded.

Crashes of the members of a pool are those of the pool.

It is fed with events and holds plain values: no exception, and no frame with its variables. It begins when the source
is made (with ``start(web=)`` and ``console=True`` before the first child starts); a row has its last error in any case.
It is the one thing of a page that hears events while nobody looks: exits and restarts, and no others (``wants``).

Lock: ``_lock`` guards all of it, between the thread that delivers events and those that look. Nothing is called inside.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any, Final

from actors.model.event_dict import ErrorTexts
from actors.model.events import ChildExited, ChildRestarting, Event

MOST_PATHS: Final = 1000
"""Children that have a history; the one that was longest without news is forgotten."""
MOST_EXITS: Final = 10
MOST_RESTARTS: Final = 50
MOST_CRASHES: Final = 200
_SHOWN_CRASHES: Final = 50
_MOST_TEXT: Final = 2000
_MOST_FRAMES: Final = 50


@dataclass(slots=True)
class _Past:
    exits: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_EXITS))
    restarts: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_RESTARTS))


class ChildHistory:
    """Exits, restarts and crashes, as they are told."""

    def __init__(self, errors: ErrorTexts = "text") -> None:
        self._errors = errors
        self._lock = threading.Lock()
        self._paths: OrderedDict[str, _Past] = OrderedDict()
        self._crashes: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()

    @staticmethod
    def wants(kind: type[Event]) -> bool:
        """Say whether events of a kind are heard; all others need not be delivered."""
        return issubclass(kind, ChildExited | ChildRestarting)

    def hear(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, ChildExited):
            told = event.as_dict(errors=self._errors)
            with self._lock:
                self._exited(told, clean=event.reason.clean)
        elif isinstance(event, ChildRestarting):
            entry = {"at": event.at, "attempt": event.attempt, "delay_s": event.delay_s}
            with self._lock:
                self._past(event.path).restarts.append(entry)

    def _past(self, path: str) -> _Past:
        past = self._paths.setdefault(path, _Past())
        self._paths.move_to_end(path)
        if len(self._paths) > MOST_PATHS:
            self._paths.popitem(last=False)
        return past

    def _exited(self, told: dict[str, Any], *, clean: bool) -> None:
        path, at = told["path"], told["at"]
        past, kind = self._past(path), told.get("error_type") or told.get("detail") or told["reason"]
        text = told.get("error") or told.get("detail") or None
        entry = {
            "at": at,
            "reason": told["reason"],
            "type": kind[:_MOST_TEXT],
            "text": text[:_MOST_TEXT] if text is not None and self._errors == "text" else None,
            "lasted_s": told["lasted_s"],
            "frames": (told.get("frames") or [])[-_MOST_FRAMES:],
        }
        past.exits.append(entry)
        if clean:
            return
        pool = path.partition("#")[0]  # of a member; no id has this sign
        key = (pool, entry["type"])
        crash = self._crashes.setdefault(key, {"path": pool, "type": entry["type"], "count": 0, "last_at": at})
        crash["count"] += 1
        crash["last_at"] = max(crash["last_at"], at)
        self._crashes.move_to_end(key)
        if len(self._crashes) > MOST_CRASHES:
            self._crashes.popitem(last=False)

    def of(self, *paths: str) -> dict[str, list[dict[str, Any]]]:
        """Return exits and restarts of a child, or of the members of a pool, the newest first."""
        with self._lock:
            found = [past for path in paths if (past := self._paths.get(path)) is not None]
            exits = [dict(each) for past in found for each in past.exits]
            restarts = [dict(each) for past in found for each in past.restarts]
        exits.sort(key=lambda each: each["at"], reverse=True)
        restarts.sort(key=lambda each: each["at"], reverse=True)
        return {"exits": exits[:MOST_EXITS], "restarts": restarts[:MOST_RESTARTS]}

    def recent(self, since: float) -> dict[str, list[float]]:
        """Return by path when children were restarted since then; restarts of the members of a pool are those of it."""
        found: dict[str, list[float]] = {}
        with self._lock:
            for path, past in reversed(self._paths.items()):
                times = [each["at"] for each in past.restarts if each["at"] >= since]
                if times:
                    found.setdefault(path.partition("#")[0], []).extend(times)
        return found

    def last_errors(self) -> dict[str, str]:
        """Return by path the last crash of each child, of a pool the last one of its members."""
        with self._lock:
            ends = [(past.exits[-1], path.partition("#")[0]) for path, past in self._paths.items() if past.exits]
        return {
            path: last["text"] or last["type"]
            for last, path in sorted(ends, key=lambda each: each[0]["at"])
            if last["reason"] in {"crashed", "killed"}
        }

    def crashes(self) -> list[dict[str, Any]]:
        """Return crashes by path and type, the newest first."""
        with self._lock:
            found = [dict(each) for each in reversed(self._crashes.values())]
        return sorted(found, key=lambda each: each["last_at"], reverse=True)[:_SHOWN_CRASHES]
