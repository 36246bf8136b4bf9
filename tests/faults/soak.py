"""``python -m tests.faults.soak --seconds 60 [--seed N]``: a tree under load while everything in it breaks.

Eight threads send; others terminate, restart, add and delete children; workers crash, hang, exit and fail to start. At
the end the books must balance: every ask ended, every message was handled, lost with its worker or became a dead
letter, no two incarnations ran at once, no thread is left, and the supervisors answered all the time.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from loguru import logger

from actors import ActorsError, ChildExited, Event, EventsLost, InternalError, ReplyTimeoutError, StartError
from tests.faults.crew import DEEDS, Async, Books, Stock, Sync, async_body, body
from trees import Backoff, Mailbox, SupervisorSpec, Tree, WorkerSpec, start

SENDERS = 8
MEDDLERS = 2
ASK_S = 30.0
"""An ask that takes longer than this was not answered."""
ANSWER_S = 10.0
"""A supervisor that takes longer than this to carry out a call does not answer."""
PATIENCE_S = 20.0
STARTS = 10
"""Most tries to start the tree."""

WORKERS = (
    "soak/parse",
    "soak/stock",
    "soak/all/sync",
    "soak/all/async",
    "soak/all/pinned",
    "soak/rest/first",
    "soak/rest/async",
    "soak/rest/last",
    "soak/flaky/async",
    "soak/flaky/transient",
    "soak/flaky/brief",
    "soak/flaky/parks",
    "soak/extra",
)
SUPERVISORS = ("soak", "soak/all", "soak/rest", "soak/flaky")


def declare(books: Books) -> SupervisorSpec:
    """Three levels, all strategies, workers of every kind. Only ``flaky`` has a limit that is ever used up."""
    common = {"args": (books, WORKERS), "shutdown": 0.05, "start_timeout_s": 0.1}
    backoff = Backoff(initial_s=0.01, max_s=0.1)
    never = {"max_restarts": 10**9, "period_s": 1.0}
    return SupervisorSpec(
        id="soak",
        **never,
        children=[
            WorkerSpec(id="parse", actor=Sync, pool=4, **common),
            WorkerSpec(id="stock", actor=Stock, **common),
            WorkerSpec(id="body", run=body, args=(books,), shutdown=0.05),
            WorkerSpec(id="async_body", run=async_body, args=(books,), shutdown=0.05),
            SupervisorSpec(
                id="all",
                strategy="one_for_all",
                **never,
                children=[
                    WorkerSpec(id="sync", actor=Sync, mailbox=Mailbox(capacity=20, overflow="drop_oldest"), **common),
                    WorkerSpec(id="async", actor=Async, **common),
                    WorkerSpec(id="pinned", actor=Sync, dispatch="thread", **common),
                ],
            ),
            SupervisorSpec(
                id="rest",
                strategy="rest_for_one",
                **never,
                children=[
                    WorkerSpec(id="first", actor=Sync, mailbox=Mailbox(capacity=10), **common),
                    WorkerSpec(id="async", actor=Async, **common),
                    WorkerSpec(id="last", actor=Stock, **common | {"shutdown": "brutal_kill"}),
                ],
            ),
            SupervisorSpec(
                id="flaky",
                max_restarts=5,
                period_s=1.0,
                children=[
                    WorkerSpec(id="async", actor=Async, mailbox=Mailbox(capacity=10, overflow="reject"), **common),
                    WorkerSpec(id="transient", actor=Sync, restart="transient", **common),
                    WorkerSpec(id="brief", actor=Sync, restart="temporary", **common),
                    WorkerSpec(id="parks", actor=Sync, on_exhausted="park", backoff=backoff, **common),
                ],
            ),
        ],
    )


@dataclass
class Soak:
    """One run."""

    seed: int
    seconds: float
    books: Books = field(init=False)
    ends: Counter[str] = field(default_factory=Counter)
    """Exits by reason."""
    lost: int = 0
    slowest_s: float = 0.0
    events_lost: int = 0
    calls: int = 0

    def __post_init__(self) -> None:
        self.books = Books(self.seed)

    def run(self) -> list[str]:
        """Run it; every rule that was broken."""
        before = set(threading.enumerate())
        tree = self._started()
        tree.subscribe(self._hear)
        self.books.armed.set()
        until = time.monotonic() + self.seconds
        jobs: list[Callable[[Tree, random.Random], None]] = [self._send] * SENDERS + [self._meddle] * MEDDLERS
        threads = [
            threading.Thread(target=self._repeat, args=(job, tree, until, number), name=f"soak-load-{number}")
            for number, job in enumerate(jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.seconds + ASK_S + PATIENCE_S)
        hung = [thread.name for thread in threads if thread.is_alive()]
        survived = tree.is_alive
        in_order = tree.stop(timeout=PATIENCE_S)
        problems = [f"{name} hangs" for name in hung]
        problems += [] if survived else ["the root went down"]
        problems += [] if in_order else ["the tree had to be killed at the end"]
        problems += self._leaked(before)
        return [*problems, *self._audit(tree), *self.books.violations]

    def _started(self) -> Tree:
        """Start the tree: the limits of its starts are so short that a busy machine may pass one before any fault."""
        for _ in range(STARTS):
            try:
                return start(declare(self.books), seed=self.seed)
            except StartError as late:
                refused = late
        raise refused

    def _hear(self, event: Event) -> None:
        if isinstance(event, ChildExited):
            self.ends[str(event.reason)] += 1
            self.lost += event.lost
        elif isinstance(event, InternalError):
            self.books.violations.append(f"internal error: {event.error!r}")
        elif isinstance(event, EventsLost):
            self.events_lost += event.count

    # -- load ----------------------------------------------------------------------------------------------

    def _repeat(self, job: Callable[[Tree, random.Random], None], tree: Tree, until: float, number: int) -> None:
        dice = self.books.dice(f"load {number}")
        while time.monotonic() < until:
            try:
                job(tree, dice)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is one for the verdict
                self.books.violations.append(f"{job.__name__} met {error!r}")
                return

    def _send(self, tree: Tree, dice: random.Random) -> None:
        """One message, or a few, to some worker."""
        try:
            ref = tree.ref(dice.choice(WORKERS))
        except ActorsError:
            return
        if dice.random() < 0.3:
            for _ in range(dice.randint(1, 20)):
                self.books.tell(ref, dice.choice(DEEDS))
            return
        patience_s = 0.02 if dice.random() < 0.05 else ASK_S
        try:
            self.books.ask(ref, dice.choice(DEEDS), patience_s)
        except ReplyTimeoutError:
            if patience_s == ASK_S:
                self.books.violations.append(f"{ref.path}: an ask was not answered")
        except Exception:  # noqa: BLE001 - whatever the worker died of is an answer, too
            return

    def _meddle(self, tree: Tree, dice: random.Random) -> None:
        """One child call, now and then."""
        time.sleep(0.01)
        path = dice.choice([*WORKERS, *SUPERVISORS[1:], "soak/body", "soak/async_body"])
        extra = WorkerSpec(
            id="extra",
            actor=dice.choice([Sync, Async, Stock]),
            args=(self.books, WORKERS),
            shutdown=0.05,
            start_timeout_s=0.1,
            restart=dice.choice(["permanent", "transient", "temporary"]),
        )
        call = dice.choice(
            [
                lambda: tree.start_child(dice.choice(SUPERVISORS), extra),
                lambda: tree.start_child("soak", extra),
                lambda: (tree.terminate_child(path), tree.restart_child(path)),
                lambda: (tree.terminate_child("soak/extra"), tree.delete_child("soak/extra")),
                lambda: tree.ref(path).stop(timeout=ANSWER_S),
                lambda: tree.count_children(dice.choice(SUPERVISORS)),
            ]
        )
        began = time.monotonic()
        try:
            call()
        except ReplyTimeoutError:
            self.books.violations.append(f"{path}: a stop was not answered")
        except ActorsError:
            pass  # refused: an answer, too
        took_s = time.monotonic() - began
        self.calls += 1
        self.slowest_s = max(self.slowest_s, took_s)
        if took_s > ANSWER_S:
            self.books.violations.append(f"{path}: a call took {took_s:.1f} s")

    # -- the end -------------------------------------------------------------------------------------------

    def _leaked(self, before: set[threading.Thread]) -> list[str]:
        until = time.monotonic() + PATIENCE_S
        new = [thread for thread in threading.enumerate() if thread not in before]
        for thread in new:
            thread.join(max(0.0, until - time.monotonic()))
        return [f"thread {thread.name} is left" for thread in new if thread.is_alive()]

    def _audit(self, tree: Tree) -> list[str]:
        """Handled + lost with a worker + dead letters = sent."""
        books, problems = self.books, []
        begun, finished = set(books.begun), set(books.finished)
        if len(begun) != len(books.begun):
            problems.append(f"{len(books.begun) - len(begun)} messages were handled twice")
        if len(books.asks_ended) != len(books.asked):
            problems.append(f"{len(books.asked) - len(books.asks_ended)} asks have not ended")
        answered = set(books.asked) - set(books.asks_refused)
        odd = answered - begun
        if odd:
            problems.append(f"{len(odd)} asks were answered by nobody")
        reasons = tree._system.dead_letters
        self.dead = sum(reasons.values()) - reasons["expired"]  # what expires are asks: a tell has no deadline
        missing = sum(number not in begun for number in books.told) - self.dead
        # A kill may hit between the moment a message is taken and the first line of its handler: such a one is lost
        # with its worker and not begun. There can be no more of them than the exits have told of.
        excuses = max(0, self.lost - len([n for n in begun if n not in finished])) if not self.events_lost else missing
        if not 0 <= missing <= max(excuses, self.ends["killed"]):
            problems.append(f"{missing} messages are unaccounted for (excused at most: {excuses})")
        self.missing = missing
        return problems

    def __str__(self) -> str:
        books = self.books
        return (
            f"seed {self.seed}, {self.seconds:g} s: sent {len(books.told)} tells and {len(books.asked)} asks; "
            f"begun {len(books.begun)}, finished {len(books.finished)}, lost in exits {self.lost} "
            f"({self.missing} not begun), dead letters {self.dead}; exits {dict(self.ends)}; "
            f"{self.calls} child calls, the slowest {self.slowest_s:.2f} s"
        )


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 where a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    logger.disable("actors")  # thousands of crashes, on purpose
    soak = Soak(options.seed if options.seed is not None else secrets.randbelow(10**6), options.seconds)
    problems = soak.run()
    for problem, count in Counter(problems).items():
        print(f"  {count} x {problem}")
    print(f"soak {'FAILED' if problems else 'passed'}: {soak}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
