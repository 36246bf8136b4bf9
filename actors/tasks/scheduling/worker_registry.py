"""The workers of one supervisor, as the engine knows them: who can have work, who has how much, who could take over.

It is a fold over what the supervisor tells (``WorkerChanged``), never a look at a supervisor's own table, which may be
in the middle of a decision. Only the engine touches it, so there is no lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from actors.messaging.mailbox import Mailbox
from actors.model.child_state import State
from actors.model.raised import kind_of
from actors.model.spec import ChildSpec, DispatcherKind, SupervisorRecipe, WorkerRecipe
from actors.tasks.model import DESCRIBED, Executable, ExecutableInfo, Failure, is_one_of
from actors.tasks.scheduling.circuit_breaker import CircuitBreaker
from actors.tasks.scheduling.ready_queue import LaneKey

_BEST_FIRST: tuple[State, ...] = ("running", "restarting", "stopped", "parked")
COMES_BACK: frozenset[State] = frozenset({"running", "restarting"})
"""Where a member works, or will by itself."""


@dataclass(frozen=True, slots=True)
class WorkerChanged:
    """From the supervisor: where a child stands now that everything about it is decided. None: it is forgotten."""

    spec: ChildSpec
    path: str
    state: State | None
    mailbox: Mailbox
    executable: Executable | None = None
    """Description that the child has given of itself; None: that of its spec, or the last one, is to be kept."""


class RegistryEntry:
    """One worker, pool or team."""

    def __init__(self, id_: str, path: str, spec: ChildSpec, executable: Executable) -> None:
        self.id = id_
        self.path = path
        self.spec = spec
        self.executable = executable
        self.is_team = isinstance(spec.recipe, SupervisorRecipe)
        self.size = 1
        if isinstance(spec.recipe, SupervisorRecipe) and spec.recipe.settings is not None:
            self.size = spec.recipe.settings.max_parallel
        self.is_async = isinstance(spec.recipe, WorkerRecipe) and spec.recipe.where is DispatcherKind.LOOP
        self.adapter: TypeAdapter[Any] | None = None if executable.output is None else TypeAdapter(executable.output)
        self.breaker = None if executable.breaker is None else CircuitBreaker(executable.breaker)
        self.was_up = False
        """True once some of it has been seen running."""
        self.members: dict[str, State] = {}
        """Members: each of a pool; else itself."""
        self.boxes: dict[str, Mailbox] = {}
        self.free: dict[Mailbox, None] = {}
        """Members that are up and have nothing."""
        self.attempts: dict[str, Mailbox | None] = {}
        """Keys of the attempts that it has now, and where each was put; None: with a team, or not known."""
        self.lanes: set[LaneKey] = set()
        """Lanes that wait until it is free."""

    def begins_anew(self) -> None:
        """Forget its members: their supervisor has begun anew, and tells who there is."""
        self.members.clear()
        self.boxes.clear()
        self.free.clear()

    def holds_nothing(self) -> None:
        """Forget its attempts: a new engine takes up those that still run."""
        for key in list(self.attempts):
            self.release(key)
        self.lanes.clear()
        if self.breaker is not None:
            self.breaker.probe = None

    @property
    def state(self) -> State:
        """State of the worker; of a pool the best of its members."""
        states = self.members.values()  # of thousands of members the first ones say it, most of the time
        return next((state for state in _BEST_FIRST if state in states), "stopped")

    @property
    def is_up(self) -> bool:
        """Some of it runs."""
        return "running" in self.members.values()

    @property
    def is_gone(self) -> bool:
        """None of it will run again by itself."""
        return COMES_BACK.isdisjoint(self.members.values())

    def info(self, now: float, *, is_only: bool = False) -> ExecutableInfo:
        """Return its row."""
        executable = self.executable
        return ExecutableInfo(
            id=self.id,
            path=self.path,
            state=self.state,
            breaker=None if self.breaker is None else self.breaker.state_at(now),
            load=len(self.attempts),
            size=self.size if self.is_team else max(1, len(self.members)),
            is_only=is_only,
            is_missing=not (self.spec.required or self.was_up),
            **{name: getattr(executable, name) for name in DESCRIBED},
        )

    # -- its members ---------------------------------------------------------------------------------------

    def change(self, path: str, state: State | None, box: Mailbox) -> None:
        """A member stands somewhere else now."""
        was = self.members.get(path)
        if state is None:
            self.members.pop(path, None)
        else:
            self.members[path] = state
            self.boxes[path] = box
            self.was_up = self.was_up or state == "running"
        if self.is_team:
            return
        if state == "running" and was != "running":
            if box not in self.attempts.values():
                self.free[box] = None
        elif state != "running":
            self.free.pop(box, None)

    def admits(self, now: float) -> bool:
        """Return True where its breaker lets it have work."""
        return self.breaker is None or self.breaker.admits(now)

    @property
    def probe(self) -> str | None:
        """Key of the probe of its breaker, before whose end nothing else is given to it; None: none is under way."""
        return None if self.breaker is None else self.breaker.probe

    def counts(self, failure: Failure) -> bool:
        """Return True where a failure says something of it, and not only of the request."""
        return failure.counts and not is_one_of(kind_of(failure.error), self.executable.expected)

    def has_room(self) -> bool:
        """Return True where it could begin one more now."""
        if self.is_team:
            return self.is_up and len(self.attempts) < self.size
        return bool(self.free)

    def may_have_room(self) -> bool:
        """Return True if it has room, or a member that comes back by itself has none of its attempts."""
        return self.has_room() or len(self.attempts) < sum(state in COMES_BACK for state in self.members.values())

    def assign(self, key: str) -> Mailbox | None:
        """Return the mailbox that an attempt goes to, which is taken by it; None: that of a team's orchestrator."""
        if self.is_team:
            self.attempts[key] = None
            return None
        box, _ = self.free.popitem()
        self.attempts[key] = box
        return box

    def any_box(self) -> Mailbox:
        """Return the mailbox of a member: of one that is free, else that runs, if there is one."""
        running = (box for path, box in self.boxes.items() if self.members.get(path) == "running")
        return next(iter(self.free), None) or next(running, None) or next(iter(self.boxes.values()))

    def reassign(self, key: str, box: Mailbox | None) -> None:
        """Note an attempt that it has already, from before this incarnation of the engine.

        Where its member was deleted the attempt was put into another mailbox than that of the member that has this path
        now, and keeps nobody busy.
        """
        self.attempts[key] = box if box is not None and self.boxes.get(box.path) is box else None
        if box is not None:
            self.free.pop(box, None)

    def release(self, key: str) -> None:
        """Note that an attempt is over. A member whose mailbox refuses is down, and its supervisor will say so."""
        box = self.attempts.pop(key, None)
        if box is None or self.members.get(box.path) != "running":
            return
        if box.refusal is None:
            self.free[box] = None
        else:
            self.members[box.path] = "restarting"


class WorkerRegistry:
    """All of them."""

    def __init__(self) -> None:
        self.entries: dict[str, RegistryEntry] = {}
        self._able: dict[str, list[RegistryEntry]] = {}
        """By capability."""

        self._gone: dict[str, RegistryEntry] = {}
        """Workers that are listed no longer: what they did may still have to be undone."""

    def __iter__(self) -> Iterator[RegistryEntry]:
        return iter(self.entries.values())

    def get(self, id_: str | None) -> RegistryEntry | None:
        """The worker of this id."""
        return None if id_ is None else self.entries.get(id_)

    def has_had(self, key: LaneKey) -> bool:
        """Return True if somebody of this process can do what waits in a lane, or could before it was deleted."""
        return key.worker in self.entries or key.worker in self._gone or key.capability in self._able

    def get_including_removed(self, id_: str, *, is_team: bool) -> RegistryEntry | None:
        """The worker of this id, or the team; also one that is not listed any more, or whose id the other kind has."""
        known = self.entries.get(id_), self._gone.get(id_)
        return next((entry for entry in known if entry is not None and entry.is_team is is_team), None)

    def hear(self, change: WorkerChanged) -> RegistryEntry | None:
        """A child stands somewhere else now; the worker, pool or team that it is, or was, a part of."""
        executable = change.spec.registration
        if executable is None:
            return None
        id_ = change.spec.id
        entry = self.entries.get(id_)
        if entry is None or entry.spec is not change.spec:
            if change.state is None:
                return entry
            if entry is not None:
                self._remove(entry)
            path = change.path if change.spec.pool is None else change.path.rpartition("#")[0]
            entry = self.entries[id_] = RegistryEntry(id_, path, change.spec, executable)
            self._index(entry)
        if change.executable is not None and change.executable != entry.executable:
            self._remove_from_index(entry)
            entry.executable = change.executable
            self._index(entry)
        entry.change(change.path, change.state, change.mailbox)
        if not entry.members:
            self._remove(entry)
        return entry

    def drop_empty(self) -> None:
        """List no longer who has no members."""
        for entry in [each for each in self.entries.values() if not each.members]:
            self._remove(entry)

    def _remove(self, entry: RegistryEntry) -> None:
        if self.entries.get(entry.id) is entry:
            del self.entries[entry.id]
            self._gone[entry.id] = entry
        self._remove_from_index(entry)

    def _index(self, entry: RegistryEntry) -> None:
        for capability in entry.executable.capabilities:
            self._able.setdefault(capability, []).append(entry)

    def _remove_from_index(self, entry: RegistryEntry) -> None:
        for capability in entry.executable.capabilities:
            if entry in self._able.get(capability, ()):
                self._able[capability].remove(entry)

    # -- who could do it -----------------------------------------------------------------------------------

    def primaries(self, key: LaneKey) -> list[RegistryEntry]:
        """Return the workers that are asked first: no backups, as long as there are others."""
        if key.worker is not None:  # a capability is then that of others, should its breaker be open
            entry = self.entries.get(key.worker)
            return [] if entry is None or entry.id in key.without else [entry]
        able = [entry for entry in self._able.get(key.capability or "", ()) if entry.id not in key.without]
        backups = {entry.executable.backup for entry in able}
        return [entry for entry in able if entry.id not in backups] or able

    def backups(self, primaries: Iterable[RegistryEntry], without: Iterable[str]) -> list[RegistryEntry]:
        """Return the backups of these, and the backups of those, each once."""
        found = [*primaries, None]
        for entry in found:  # it grows
            backup = None if entry is None else self.get(entry.executable.backup)
            if backup not in found:
                found.append(backup)
        return [entry for entry in found[found.index(None) :] if entry is not None and entry.id not in without]

    def successor(self, key: LaneKey, tried: tuple[str, ...], rejected: tuple[str, ...], now: float) -> str | None:
        """Return the worker that follows when ``tried`` have used up their tries: another that can, else a backup.

        One whose breaker is open only where there is no other: work waits for it.
        """
        out = {*tried, *rejected}
        worked = [entry for id_ in tried if (entry := self.get(id_)) is not None]
        candidates = [*self.primaries(key), *self.backups([*self.primaries(key), *worked], out)]
        able = [entry for entry in candidates if entry.id not in out and not entry.is_gone]
        return next((entry.id for entry in able if entry.admits(now)), able[0].id if able else None)
