"""What a random run may be made of: workers, tasks with their plans, and what happens to them, all short to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

CAPABILITIES = ("x", "y")
DEEDS = ("ok", "ok", "ok", "raise", "crash", "no", "later", "reject", "ask", "rubbish")
"""How an attempt ends when it is let go: ``no`` is a failure that is not to be tried again, ``ask`` asks a person."""
LADDERS = ("retry", "retry,failover", "failover,ask")


@dataclass(frozen=True, repr=False)
class Hand:
    """A worker or a pool."""

    id: str
    kind: str
    """def, async def: plain functions; Worker, AsyncWorker: objects."""
    pool: int = 1
    can: tuple[str, ...] = ()
    backup: str | None = None
    undo: str = ""
    """def, async def; u: another worker."""
    timeout_s: float | None = None
    breaker: bool = False
    """It has one, of two failures."""

    def __repr__(self) -> str:
        words = [self.kind + (f"*{self.pool}" if self.pool > 1 else ""), *(f"can:{each}" for each in self.can)]
        words += [f"backup={self.backup}"] if self.backup else []
        words += [f"undo={self.undo}"] if self.undo else []
        words += [f"{self.timeout_s:g}s"] if self.timeout_s else []
        words += ["breaker"] if self.breaker else []
        return f"{self.id}[{' '.join(words)}]"


@dataclass(frozen=True, repr=False)
class Sub:
    """A subtask, and how its attempts end, one after the other; after those they are ok."""

    id: str
    to: str
    """A worker's id or a capability."""
    needs: tuple[str, ...] = ()
    required: bool = True
    deeds: tuple[str, ...] = ()

    def __repr__(self) -> str:
        needs = f"({' '.join(self.needs)})" if self.needs else ""
        deeds = f":{','.join(self.deeds)}" if self.deeds else ""
        return f"{self.id}{needs}@{self.to}{'' if self.required else '?'}{deeds}"


@dataclass(frozen=True, repr=False)
class Job:
    """A task."""

    subs: tuple[Sub, ...]
    priority: int = 0
    deadline_s: float | None = None

    def __repr__(self) -> str:
        deadline = f" within {self.deadline_s:g}s" if self.deadline_s else ""
        return f"<{self.priority}{deadline}| {' '.join(map(repr, self.subs))}>"


@dataclass(frozen=True, repr=False)
class Move:
    """Something that happens. ``pick`` says to whom, of those that there are then."""

    what: str
    """go: an attempt is let go; tick; submit; cancel; kill: the orchestrator crashes; terminate and restart: a worker;
    answer: a person does."""
    pick: int = 0

    def __repr__(self) -> str:
        return f"{self.what} {self.pick}"


@dataclass(frozen=True, repr=False)
class Run:
    """All of it."""

    hands: tuple[Hand, ...]
    jobs: tuple[Job, ...]
    moves: tuple[tuple[Move, ...], ...]
    """Those that stand together follow each other at once; after each group nothing moves any more."""
    max_parallel: int = 10
    ladder: str = "retry"
    strategy: str = "one_for_one"

    def __repr__(self) -> str:
        moves = "; ".join(", ".join(map(repr, group)) for group in self.moves)
        lines = [f"{self.strategy}, {self.max_parallel} at once, {self.ladder}", *map(repr, self.hands)]
        return "\n  ".join([*lines, *map(repr, self.jobs), f"moves: {moves}"])

    def _repr_pretty_(self, printer: Any, cycle: object) -> None:
        """Hypothesis would show a dataclass field by field."""
        printer.text(repr(self))


@st.composite
def hands(draw: st.DrawFn, number: int) -> Hand:
    others = [f"w{each}" for each in range(number)]  # only those before it: no circles
    return Hand(
        f"w{number}",
        draw(st.sampled_from(["async def", "def", "AsyncWorker", "Worker"])),
        pool=draw(st.sampled_from([1, 1, 1, 2, 3])),
        can=tuple(each for each in CAPABILITIES if draw(st.booleans())),
        backup=draw(st.sampled_from([None, None, *others])),
        undo=draw(st.sampled_from(["", "", "def", "async def", "u"])),
        timeout_s=draw(st.sampled_from([None, None, 5.0])),
        breaker=draw(st.booleans()),
    )


@st.composite
def jobs(draw: st.DrawFn, who: tuple[Hand, ...], most: int) -> Job:
    able = [each.id for each in who] + sorted({each for hand in who for each in hand.can})
    subs = []
    for number in range(draw(st.integers(1, most))):
        earlier = [f"s{each}" for each in range(number)]
        needs = draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)) if earlier else []
        subs.append(
            Sub(
                f"s{number}",
                draw(st.sampled_from(able)),
                tuple(sorted(needs)),
                required=draw(st.integers(0, 3)) < 3,
                deeds=tuple(draw(st.lists(st.sampled_from(DEEDS), max_size=3))),
            )
        )
    return Job(tuple(subs), draw(st.integers(0, 2)), draw(st.sampled_from([None, None, None, 12.0])))


MOVES = st.builds(
    Move,
    st.sampled_from(
        ["go", "go", "go", "go", "go", "go", "tick", "submit", "kill", "terminate", "restart", "answer", "cancel"]
    ),
    st.integers(0, 5),
)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Any of them."""
    who = tuple(draw(hands(number)) for number in range(draw(st.integers(1, 4))))
    count = draw(st.integers(1, 3))
    return Run(
        who,
        tuple(draw(jobs(who, 25 // count)) for _ in range(count)),
        tuple(tuple(group) for group in draw(st.lists(st.lists(MOVES, min_size=1, max_size=3), max_size=25))),
        max_parallel=draw(st.sampled_from([1, 2, 3, 10])),
        ladder=draw(st.sampled_from(LADDERS)),
        strategy=draw(st.sampled_from(["one_for_one", "one_for_one", "one_for_all", "rest_for_one"])),
    )
