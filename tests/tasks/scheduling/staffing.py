"""Workers that exist only in a registry, for the tests of who is given work."""

from __future__ import annotations

import math
from typing import NamedTuple

from actors.messaging.mailbox import Mailbox
from actors.model.child_state import State
from actors.model.spec import ChildSpec, DispatcherKind, WorkerRecipe
from actors.tasks.model.executable import Executable
from actors.tasks.scheduling.worker_registry import RegistryEntry, WorkerChanged, WorkerRegistry
from trees import Breaker

BREAKER = Breaker(failure_threshold=1, window_s=60.0, cooldown_s=30.0)


def spec(id_: str, *can: str, backup: str | None = None, pool: int | None = None, breaker: bool = True) -> ChildSpec:
    executable = Executable(capabilities=frozenset(can), backup=backup, breaker=BREAKER if breaker else None)
    recipe = WorkerRecipe(make=None, where=DispatcherKind.LOOP)
    return ChildSpec(id=id_, recipe=recipe, pool=pool, registration=executable, start_timeout_s=math.inf)


class Given(NamedTuple):
    """An attempt that a worker was given."""

    key: str
    box: Mailbox | None


class Office:
    """A registry, and the mailboxes of those who are in it."""

    def __init__(self, *specs: ChildSpec) -> None:
        self.workers = WorkerRegistry()
        self.boxes: dict[str, Mailbox] = {}
        self.specs: dict[str, ChildSpec] = {}
        self.numbers = 0
        for each in specs:
            self.specs[each.id] = each
            for member in each.member_ids():
                self.hear(member, "running")

    def hear(self, member: str, state: State | None) -> RegistryEntry | None:
        """What the supervisor tells of a member."""
        made = self.specs[member.partition("#")[0]]
        path = f"r/{member}"
        box = self.boxes.setdefault(path, Mailbox(path))
        return self.workers.hear(WorkerChanged(made, path, state, box))

    def entry(self, id_: str) -> RegistryEntry:
        entry = self.workers.get(id_)
        assert entry is not None
        return entry

    def busy(self, id_: str, times: int = 1) -> list[Given]:
        """It is given so many attempts."""
        given = []
        for _ in range(times):
            self.numbers += 1
            key = f"t/s{self.numbers}#1.1"
            given.append(Given(key, self.entry(id_).assign(key)))
        return given

    def refused(self, id_: str, now: float = 0.0) -> None:
        """Its breaker is open."""
        breaker = self.entry(id_).breaker
        assert breaker is not None
        breaker.failed(breaker.begin(now), now)
