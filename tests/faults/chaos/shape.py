"""Trees of every shape, drawn with the dice of a round."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.faults.chaos.workers import Async, Ground, Stock, Sync, Traits, body, body_async, handle, handle_async
from trees import Backoff, Mailbox, SupervisorSpec, WorkerSpec
from trees.declaration.specs import Spec

STRATEGIES = ("one_for_one", "one_for_all", "rest_for_one")
FOR_EVER = 10**9
"""A restart limit that is never used up."""

KINDS: tuple[dict[str, Any], ...] = (
    {"actor": Sync},
    {"actor": Sync},
    {"actor": Sync, "dispatch": "thread"},
    {"actor": Async},
    {"actor": Async},
    {"actor": Stock},
    {"handle": handle},
    {"handle": handle_async},
    {"run": body},
    {"run": body_async},
)
MAILBOXES = (
    *(None,) * 5,
    Mailbox(capacity=3, overflow="drop_oldest"),
    Mailbox(capacity=1, overflow="drop_oldest"),
    Mailbox(capacity=10, overflow="block"),
    Mailbox(capacity=1, overflow="block"),
    Mailbox(capacity=5, overflow="reject"),
)


class Shape:
    """Draws the tree of a round, and further children for it."""

    def __init__(self, ground: Ground, dice: random.Random) -> None:
        self._ground = ground
        self._dice = dice
        self.ends: dict[str, str] = {}
        """``auto_shutdown`` of each supervisor that was drawn, by its path."""

    def tree(self) -> SupervisorSpec:
        """A root that never gives up, over workers and over supervisors of which some do."""
        dice = self._dice
        nested = [self.supervisor(f"s{n}", STRATEGIES[n % 3]) for n in range(dice.randint(2, 4))]
        workers: list[Spec] = [self.worker(f"w{n}") for n in range(dice.randint(2, 4))]
        children: list[Spec] = [*workers, *nested]
        dice.shuffle(children)
        self.ends["r"] = "never"
        strategy = dice.choice(("one_for_one", "one_for_one", "one_for_all", "rest_for_one"))
        root = SupervisorSpec(
            id="r",
            strategy=strategy,
            max_restarts=FOR_EVER,
            period_s=1.0,
            children=children,
            parallel_stop=self._one_of(4),
        )
        self._ground.paths[:] = [path for path, spec in walk(root, "r") if isinstance(spec, WorkerSpec)]
        return root

    def supervisor(self, id_: str, strategy: str | None = None) -> SupervisorSpec:
        """A supervisor of workers."""
        dice = self._dice
        ends = dice.choice(("never",) * 5 + ("any_significant", "all_significant"))
        self.ends[f"r/{id_}"] = ends
        significant = dice.randrange(2) if ends != "never" else None
        children = [self.worker(f"c{n}", significant=n == significant) for n in range(dice.randint(2, 5))]
        return SupervisorSpec(
            id=id_,
            strategy=strategy or dice.choice(STRATEGIES),
            max_restarts=dice.choice((FOR_EVER, FOR_EVER, 3, 8)),
            period_s=dice.choice((0.2, 1.0)),
            auto_shutdown=ends,
            children=children,
            parallel_stop=self._one_of(4),
            backoff=self._backoff(),
            on_exhausted="park" if self._one_of(6) else "escalate",
        )

    def worker(self, id_: str, *, significant: bool = False, kind: dict[str, Any] | None = None) -> WorkerSpec:
        """A worker, or a pool of them."""
        dice = self._dice
        # One that sends may wait for a sibling that was stopped before it: without a limit its stop would, too.
        limits = (0.03, 0.05, 0.05, 0.3, 0, "brutal_kill")
        kind = kind if kind is not None else dice.choice(KINDS)
        mailbox = dice.choice(MAILBOXES) if "run" not in kind else None
        restart = dice.choice(("permanent",) * 4 + ("transient", "temporary"))
        options: dict[str, Any] = {} if mailbox is None else {"mailbox": mailbox}
        if significant:
            restart, options["significant"] = dice.choice(("transient", "temporary")), True
        elif "run" not in kind and self._one_of(6):
            options["pool"] = dice.randint(2, 4)
        args = (self._ground,) if "handle" in kind else (self._ground, self._traits())
        if "handle" in kind:
            args = (self._ground, Traits())
        return WorkerSpec(
            id=id_,
            args=args,
            restart=restart,
            shutdown=dice.choice((*limits, "infinity") if "run" in kind else limits),
            start_timeout_s=20.0,
            on_exhausted="park" if self._one_of(5) else "escalate",
            backoff=self._backoff(),
            **kind,
            **options,
        )

    def _traits(self) -> Traits:
        dice = self._dice
        return Traits(
            start_s=dice.choice((0.0, 0.0, 0.005, 0.03)),
            stop_s=dice.choice((0.0, 0.0, 0.005, 0.02, 0.04)),
            fails=dice.choice((0.0, 0.05, 0.15)),
            ignores=dice.choice((0.0, 0.0, 0.03)),
            stop_fails=dice.choice((0.0, 0.05)),
        )

    def _backoff(self) -> Backoff | None:
        if not self._one_of(3):
            return None
        return Backoff(initial_s=self._dice.choice((0.005, 0.02)), max_s=0.05, reset_after_s=0.2)

    def _one_of(self, number: int) -> bool:
        return self._dice.randrange(number) == 0


def walk(spec: Spec, path: str) -> Iterator[tuple[str, Spec]]:
    """Every path of a declaration with its spec, in start order; a pool as one."""
    yield path, spec
    for child in spec.children if isinstance(spec, SupervisorSpec) else ():
        yield from walk(child, f"{path}/{child.id}")
