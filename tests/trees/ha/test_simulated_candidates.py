"""Several candidates and one store in a world of its own: time is a number, and whatever can go wrong is drawn.

Requests take their time, are lost on the way there or on the way back; processes are frozen at any moment, die, and
come back; each has a clock of its own. What must hold at all times: things are started with growing tokens only, and by
one process at a time. And when the world calms down, somebody leads within the lease and a second.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from trees import HA
from trees.ha.candidate import Action, Candidate, CandidatePhase
from trees.store.lease_store import LeaseState

LEASE_S = 8.0
ROUGH_S = 60.0
"""How long things go wrong."""
LONGEST_S = 25.0
"""After this everything that hangs has come back."""
TICK_S = 0.1


@dataclass
class Store:
    """The row, timed by the store's clock."""

    token: int = 0
    holder: str = ""
    expires_at: float | None = None

    def row(self, now: float) -> LeaseState:
        left_s = 0.0 if self.expires_at is None else self.expires_at - now
        return LeaseState(self.token, self.holder, self.expires_at, left_s)

    def do(self, request: Action, process: Process, token: int, now: float) -> int | LeaseState | None:
        ours = (self.token, self.holder) == (token, process.name)
        if request is Action.ACQUIRE and self.row(now).left_s <= 0:
            self.token, self.holder, self.expires_at = self.token + 1, process.name, now + LEASE_S
            return self.token
        if request is Action.RENEW and ours:
            self.expires_at = now + LEASE_S
            return token
        if request is Action.RELEASE:
            self.expires_at = now if ours else self.expires_at
            return None
        return self.row(now)


@dataclass(eq=False)
class Process:
    """One candidate, its tree (up or not), and its clock."""

    name: str
    offset: float
    candidate: Candidate
    facts: list[Callable[[float], None]] = field(default_factory=list)
    until: float = -math.inf
    """Of ``LocalLease``."""
    over: bool = False
    up: bool = False
    frozen_until: float = -math.inf
    dead: bool = False


class World:
    """Everything, and what is wrong with it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 0.0
        self.rough_s = ROUGH_S
        self.store = Store()
        self.store_offset = random.uniform(-1e6, 1e6)
        self.numbers = itertools.count()
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.processes: list[Process] = []
        self.started: list[tuple[int, str]] = []
        """What was started: with which token, and by whom."""

    @property
    def rough(self) -> bool:
        return self.now < self.rough_s

    def at(self, time: float, then: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (time, next(self.numbers), then))

    def run(self, until: float) -> None:
        while self.heap and self.heap[0][0] <= until:
            self.now, _, then = heapq.heappop(self.heap)
            then()
        self.now = until

    def delay(self) -> float:
        rough = self.rough and self.random.random() < 0.2
        return self.random.uniform(0.0, 12.0) if rough else self.random.uniform(0.0, 0.02)

    # -- processes -----------------------------------------------------------------------------------------

    def add(self) -> None:
        offset = self.random.uniform(0, 1e6)
        name = f"p{len(self.processes)}"
        process = Process(name, offset, Candidate(HA(lease_s=LEASE_S), self.now + offset))
        self.processes.append(process)
        self.wake(process)
        self.tick(process)

    def hear(self, process: Process, fact: Callable[[float], None]) -> None:
        process.facts.append(fact)
        self.wake(process)

    def wake(self, process: Process) -> None:
        """The keeper's loop."""
        if process.dead or process.candidate.phase is CandidatePhase.OVER:
            return
        if self.now < process.frozen_until:
            self.at(process.frozen_until, lambda: self.wake(process))
            return
        now = self.now + process.offset
        facts, process.facts = process.facts, []
        for fact in facts:
            fact(now)
        for do in process.candidate.step(now):
            self.do(process, do, now)
        due = process.candidate.wake_at()
        if due < math.inf:
            self.at(max(due - process.offset, self.now + 1e-6), lambda: self.wake(process))

    def do(self, process: Process, do: Action, sent: float) -> None:
        candidate = process.candidate
        if do is Action.OPEN:
            self.at(self.now + self.delay(), lambda: self.hear(process, candidate.opened))
        elif do is Action.START:
            process.up = True
            self.at(self.now + self.delay(), lambda: self.hear(process, lambda _: candidate.up()))
        elif do in {Action.STOP, Action.KILL}:
            process.over = process.over or do is Action.KILL
            takes = self.random.uniform(0, 0.05) if do is Action.KILL else self.delay()
            self.at(self.now + takes, lambda: self.down(process))
        else:
            token = candidate.token
            self.at(self.now + self.delay(), lambda: self.arrives(process, do, token, sent))

    def arrives(self, process: Process, do: Action, token: int, sent: float) -> None:
        if process.dead or (self.rough and self.random.random() < 0.1):
            return  # lost on the way there
        answer = self.store.do(do, process, token, self.now + self.store_offset)
        if self.rough and self.random.random() < 0.1:
            return  # lost on the way back
        self.at(self.now + self.delay(), lambda: self.hear(process, lambda now: self.told(process, answer, sent, now)))

    def told(self, process: Process, answer: int | LeaseState | None, sent: float, now: float) -> None:
        candidate = process.candidate
        if answer is None:
            candidate.released(sent)
        elif isinstance(answer, LeaseState):
            candidate.seen(sent, answer, now)
        else:
            candidate.granted(sent, answer, now)
            if answer == candidate.token and not process.over:
                process.until = max(process.until, sent + HA(lease_s=LEASE_S).kill_s)

    def down(self, process: Process) -> None:
        if self.now < process.frozen_until:
            self.at(process.frozen_until, lambda: self.down(process))
        elif process.up:
            process.up, process.over = False, True
            self.hear(process, lambda now: process.candidate.down(now, clean=True))

    # -- what they are there for ---------------------------------------------------------------------------

    def tick(self, process: Process) -> None:
        """Something is to be started, wherever the tree is up; it looks at its lease first."""
        if process.dead:
            return
        if self.now >= process.frozen_until and process.up and not process.over:
            if self.now + process.offset < process.until:
                self.started.append((process.candidate.token, process.name))
            else:
                process.over = True
                self.hear(process, lambda _: process.candidate.lease_lost("found it over"))
        self.at(self.now + self.random.uniform(0.5, 1.5) * TICK_S, lambda: self.tick(process))

    def mishap(self) -> None:
        """Something happens to somebody."""
        alive = [each for each in self.processes if not each.dead]
        if not self.rough:
            return
        if alive:
            process = self.random.choice(alive)
            what = self.random.random()
            if what < 0.5:
                process.frozen_until = max(process.frozen_until, self.now + self.random.expovariate(1 / 6.0))
            elif what < 0.7:
                process.dead = True
            elif what < 0.85:
                self.hear(process, process.candidate.leave)
        if self.random.random() < 0.3:
            self.add()
        self.at(self.now + self.random.expovariate(1 / 4.0), self.mishap)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_whatever_goes_wrong_one_leads_at_a_time_and_in_the_end_somebody_does(seed: int) -> None:
    world = World(Random(seed))  # noqa: S311 - chance, not secrets
    for _ in range(3):
        world.add()
    world.at(1.0, world.mishap)

    world.run(ROUGH_S)
    world.add()  # whatever became of the others, one is there that is well
    world.run(ROUGH_S + LONGEST_S + LEASE_S + 1.0)
    begun = len(world.started)
    world.run(world.now + 1.0)

    tokens = [token for token, _ in world.started]
    assert tokens == sorted(tokens), "something was started with an old token after a newer one"
    assert len({*world.started}) == len(set(tokens)), "two had the same token"
    assert len(world.started) > begun, "nobody leads"


@pytest.mark.parametrize("seed", range(20))
def test_a_leader_that_dies_is_followed_within_the_lease_and_a_second(seed: int) -> None:
    world = World(Random(seed))  # noqa: S311 - chance, not secrets
    world.rough_s = 0.0
    world.add()
    world.add()
    world.run(world.random.uniform(1.0, 30.0))
    (leader,) = (each for each in world.processes if each.candidate.phase is CandidatePhase.LEADING)

    leader.dead = True
    world.run(world.now + LEASE_S + 1.0)

    (follower,) = (
        each for each in world.processes if each.candidate.phase is CandidatePhase.LEADING and each is not leader
    )
    assert follower.candidate.token == leader.candidate.token + 1
