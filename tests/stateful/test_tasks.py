"""A stateful model of tasks, through public names alone: workers do what the model says, and the process may end.

The model (``Tasks``) submits plans, tells each running attempt what to do next, asks, answers, cancels, stops and
restarts children, lets time pass, and ends the process at any moment: it stops the tree at once and starts it again on
the same store. What workers and readers of events see is noted in a ``World``. At the end every attempt is let go;
then all tasks must end, and journal, report and what the workers did must agree.

For long: ``python -m tests.stateful.test_tasks --minutes 20 --seed N``.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import trees
from actors import (
    ActorStoppedError,
    ChildError,
    Escalated,
    Failed,
    Later,
    RecursionDetectedError,
    Rejected,
    TreeDownError,
    UnknownPathError,
    Worker,
    stopping,
)
from actors.testing import ManualClock
from tests.stateful import run
from trees import (
    Approve,
    Compensated,
    Compensating,
    Done,
    Edit,
    Escalate,
    EscalationError,
    EscalationRaised,
    Failover,
    NoCapableWorkerError,
    Plan,
    Reject,
    Report,
    Respond,
    Retry,
    Reviewed,
    Subtask,
    SubtaskCancelled,
    SubtaskFailed,
    SubtaskFailedError,
    SubtaskRetrying,
    SubtaskSkipped,
    SubtaskStarted,
    SubtaskSucceeded,
    SupervisorSpec,
    Task,
    TaskEnding,
    TaskEvent,
    TaskFinished,
    TaskHandle,
    Usage,
    Verdict,
    WorkerSpec,
)

WAIT_S = 30.0
UNDOABLE = {"a", "c", "x"}
POOL = 4
TEAM_SLOTS = 2
LADDERS: dict[str, list[Any]] = {
    "none": [],
    "retry": [Retry(max_attempts=2, initial_s=1.0, jitter=0.0)],
    "failover": [Retry(max_attempts=2, initial_s=1.0, jitter=0.0), Failover()],
    "ask": [Escalate()],
    "retry, ask": [Retry(max_attempts=2, initial_s=1.0, jitter=0.0), Escalate(timeout_s=60.0)],
}
ATTEMPTS = {"none": 1, "retry": 2, "failover": 4}
"""At most so many attempts of a subtask; where a person is asked there is no such limit."""
LIMIT_S = 20.0
MOST_BIASED = 5
HELP = {"attempt", "subtask", "ask"}
ASKED = ("p", "a", "c")
WORDS = ["ok"] * 5 + [
    "fail",
    "fail",
    "no",
    "later",
    "reject",
    "question",
    "use",
    "attempt",
    "attempt",
    "subtask",
    "ask",
    "ask",
]
ANSWERS = {"use": "edit", "no": "reject", "ok": "respond"}
"""What a person says, by the word that an attempt would get."""
ENDS = (SubtaskSucceeded, SubtaskFailed, SubtaskSkipped, SubtaskCancelled)


@dataclass
class Sub:
    """A subtask, as the model has drawn it."""

    to: str
    needs: frozenset[int]
    ladder: str
    required: bool
    timeout_s: float | None
    members: int
    bias: str

    def subtask(self, name: str, at: int) -> Subtask:
        """It, as number ``at`` of the plan of the task ``name``."""
        unit = f"{name}/s{at}"
        to: dict[str, Any] = {"capability": "dig"} if self.to == "dig" else {"worker": self.to}
        limits: dict[str, Any] = {} if self.timeout_s is None or self.to == "team" else {"timeout_s": self.timeout_s}
        return Subtask(
            f"s{at}",
            f"do {unit}",
            depends_on=sorted(f"s{each}" for each in self.needs if each < at),
            inputs={"unit": unit, "members": self.members},
            on_failure=LADDERS[self.ladder],
            required=self.required,
            **to,
            **limits,
        )


SUBS = st.builds(
    Sub,
    to=st.sampled_from(["a", "b", "c", "dig", "p", "team"]),
    needs=st.frozensets(st.integers(0, 4), max_size=2),
    ladder=st.sampled_from(sorted(LADDERS)),
    required=st.sampled_from([True, True, False]),
    timeout_s=st.sampled_from([None, None, LIMIT_S]),
    members=st.integers(1, 3),
    bias=st.sampled_from(["ok", "ok", "ok", "fail", "question"]),
)


class Hold:
    """An attempt, or an undo, that runs: it waits until the model tells it what to do."""

    def __init__(self, no: int, worker: str, context: Any, undoes: bool, began: float, process: int) -> None:
        self.no, self.worker, self.undoes = no, worker, undoes
        self.began, self.process = began, process
        self.unit: str = context.inputs["unit"]
        self.task = self.unit.partition("/")[0]
        self.key: str = context.idempotency_key
        self.attempt: int = context.attempt
        self.plan: int = context.inputs.get("plan", 0)
        self.is_busy, self.has_asked = True, False
        self.asked: set[str] = set()
        self.steps: Counter[str] = Counter()
        self.left = 0
        """When it was over, in numbers of holds. 0: it is not."""
        self.value: Any = None
        self.word: Future[tuple[str, int]] = Future()

    def __repr__(self) -> str:
        return f"<{'undo' if self.undoes else self.attempt} of {self.unit} by {self.worker}>"

    @property
    def is_member(self) -> bool:
        return self.worker in {"x", "y"}

    @property
    def is_sync(self) -> bool:
        return self.worker == "b"


class World:
    """What workers and readers have seen."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.clock = ManualClock()
        self.process = 0
        self.limit = 1
        self.groups = False
        """Whether a crash restarts all."""
        self.threads_end = False
        """True while threads are given up: another attempt may begin before the model knows it."""
        self.limited: set[str] = set()
        """Subtasks that may run for a time only."""
        self.holds: list[Hold] = []
        self.live: list[Hold] = []
        self.wrong: list[str] = []
        self.doomed: set[str] = set()
        """Tasks that are to be cancelled, or that have a deadline: threads that work for them may be given up."""
        self.ordered: set[str] = set()
        """Those whose cancel may not be recorded yet."""
        self.cancelled: set[str] = set()
        """Those whose cancel is recorded."""
        self.bias: dict[str, str] = {}
        """What becomes of a subtask at first where it is told to succeed."""
        self.needs: dict[str, tuple[set[str], set[str]]] = {}
        """By subtask of a plan, whose results it may see, and whose it must see."""
        self.keys: dict[str, dict[object, str]] = defaultdict(dict)
        """By subtask of a plan, the keys of what is to have its effect once."""
        self.answers: dict[str, list[str]] = defaultdict(list)
        self.edits: list[dict[str, Any]] = []
        """Results that a person gave."""
        self.turn: Counter[str] = Counter()
        """How many attempts of a unit have ended by themselves, or went to another worker."""
        self.script: dict[str, list[tuple[str, int]]] = defaultdict(list)
        """Steps and asks that the present attempt of a unit has made."""
        self.last_worker: dict[str, str] = {}
        self.steps: set[tuple[object, ...]] = set()
        """Steps that were acknowledged."""
        self.again: list[tuple[Hold, tuple[object, ...]]] = []
        """Those that were made once more: right where another worker was given the unit meanwhile, and never began."""
        self.plans = 0
        """Plans that were made for teams. A team that is tried again makes another one, and its members begin anew."""
        self.used: Counter[str] = Counter()
        self.reviews: Counter[str] = Counter()
        self.journals: dict[str, list[TaskEvent]] = defaultdict(list)
        """What readers of the present process have read."""

    def check(self, is_right: bool, *what: object) -> None:
        if not is_right:
            self.wrong.append(" ".join(map(str, what)))

    # -- what workers do -----------------------------------------------------------------------------------

    @contextmanager
    def holding(self, worker: str, context: Any, *, undoes: bool = False) -> Iterator[Hold]:
        with self.changed:
            hold = Hold(len(self.holds) + 1, worker, context, undoes, self.clock.now(), self.process)
            if not undoes:
                self._look_at(hold, context)
            self.holds.append(hold)
            self.live.append(hold)
            self.changed.notify_all()
        try:
            yield hold
        finally:
            self.over(hold)

    def _look_at(self, hold: Hold, context: Any) -> None:
        """An attempt begins: may it?"""
        unit, others = hold.unit, [each for each in self.live if not each.undoes and not self.may_be_lost(each)]
        self.check(all(each.unit != unit for each in others), hold, "begins while it runs:", others)
        # A member may begin just before its team hears of the end of the whole.
        self.check(hold.is_member or hold.task not in self.cancelled, hold, "begins after its task was cancelled")
        self.check(self.most(hold.is_member) > self.at_work(hold.is_member), hold, "is too many at once:", others)
        for id_, value in context.results.items():
            is_known = "unit" not in value or value in self.results_of(f"{hold.task}/{id_}")
            self.check(is_known, hold, "sees as the result of", id_, value)
        if unit in self.needs:
            self._look_at_planned(hold, context)
        if self.last_worker.setdefault(unit, hold.worker) != hold.worker:
            self.turn[unit] += 1
            self.last_worker[unit] = hold.worker

    def _look_at_planned(self, hold: Hold, context: Any) -> None:
        """It is no member of a team, and nobody has asked for it: then it is known what it is to see."""
        unit, results, seen = hold.unit, set(context.results), [repr(each) for each in context.answers]
        may_have, must_have = self.needs[unit]
        self.check(must_have <= results <= may_have, hold, "sees the results of", results, "needs", may_have)
        self.check(seen == self.answers[unit], hold, "sees the answers", seen, "not", self.answers[unit])
        act = (len(seen), context.revision)
        is_known = any(before != act and key == hold.key for before, key in self.keys[unit].items())
        self.check(not is_known, hold, "has the key of something else:", hold.key)
        key = self.keys[unit].setdefault(act, hold.key)
        self.check(key == hold.key, hold, "has another key than an earlier attempt of the same:", key, hold.key)

    def results_of(self, unit: str) -> list[Any]:
        done = [hold.value for hold in self.holds if hold.unit == unit and hold.value is not None]
        return done + [value for value in self.edits if value["unit"] == unit]

    def had_another(self, hold: Hold) -> bool:
        """Whether the unit of an attempt was given to another worker, too."""
        starts = [event for event in self.journals[hold.task] if isinstance(event, SubtaskStarted)]
        return any(f"{hold.task}/{id_of(each)}" == hold.unit and each.worker != hold.worker for each in starts)

    def has_limit(self, hold: Hold) -> bool:
        """Whether time may end it."""
        return hold.unit.partition(">")[0].partition("-")[0] in self.limited

    def may_be_lost(self, hold: Hold) -> bool:
        """Whether its thread may have been given up without the model knowing it yet."""
        is_ending = self.groups or self.threads_end or self.has_limit(hold) or hold.task in self.doomed
        return hold.is_sync and is_ending

    def most(self, of_team: bool) -> int:
        return TEAM_SLOTS if of_team else self.limit

    def at_work(self, of_team: bool) -> int:
        """Attempts that run and have a slot, as far as that is sure: who has asked may wait for one."""
        sure = [each for each in self.live if not each.undoes and not each.has_asked and not self.may_be_lost(each)]
        return sum(each.is_member is of_team for each in sure)

    def over(self, hold: Hold) -> None:
        with self.changed:
            if hold in self.live:
                self.live.remove(hold)
                hold.left = len(self.holds)
            self.changed.notify_all()

    def begin(self, hold: Hold) -> None:
        """It does what it was told."""
        with self.changed:
            hold.word, hold.is_busy = Future(), True
            self.changed.notify_all()

    def waits(self, hold: Hold) -> None:
        """It waits for its next word."""
        with self.changed:
            hold.is_busy = False
            self.changed.notify_all()

    def end(self, hold: Hold, word: str, number: int) -> Any:
        """How an attempt ends by itself."""
        with self.changed:
            if hold.left:
                raise ValueError("given up")
            if word == "ok" and self.turn[hold.unit] < MOST_BIASED:
                word = self.bias.get(hold.unit, "ok")
            self.turn[hold.unit] += 1
            self.script[hold.unit] = [each for each in self.script[hold.unit] if each[0] == "subtask"]
            if word == "ok":
                hold.value = {"unit": hold.unit, "no": hold.no}
                self.used[hold.task] += number
                return Done(hold.value, usage=Usage(tokens=number))
        raise {
            "fail": ValueError("it does not work"),
            "no": Failed("it never will", retryable=False),
            "later": Later(1.0),
            "reject": Rejected("not mine"),
            "question": Escalated(f"{hold.unit}: question {hold.no}?"),
        }[word]

    def use(self, hold: Hold, number: int, context: Any) -> None:
        with self.changed:
            if not hold.left:
                context.use(tokens=number)
                self.used[hold.task] += number

    def step(self, hold: Hold, keep: str) -> tuple[str, Callable[[], str], tuple[object, ...]]:
        """Name and function of the next step, and what it is known by once it is kept."""
        name = f"step-{keep}"
        hold.steps[name] += 1
        own = hold.key, hold.worker, hold.attempt, self.turn[hold.unit]
        turn = own if keep == "attempt" else (hold.key.rpartition(":")[0],)
        known = (hold.unit, hold.plan, *turn, name, hold.steps[name])

        def made() -> str:
            with self.changed:
                if known in self.steps:
                    self.again.append((hold, known))
            return name

        return name, made, known

    def stepped(self, hold: Hold, known: tuple[object, ...]) -> None:
        with self.changed:
            if not hold.left:
                self.steps.add(known)

    @contextmanager
    def asking(self, hold: Hold, to: str) -> Iterator[dict[str, Any]]:
        with self.changed:
            hold.has_asked = True
            hold.asked.add(to)
        with suppress(SubtaskFailedError, RecursionDetectedError, NoCapableWorkerError):
            yield {"unit": f"{hold.unit}>{to}"}

    async def work(self, worker: str, context: Any) -> Any:
        """As code does that is run again, it begins with the steps and asks that it has made before."""
        with self.holding(worker, context) as hold:
            for word, number in [*self.script[hold.unit]]:
                await self.help(hold, word, number, context)
            while True:
                self.waits(hold)
                word, number = await asyncio.wrap_future(hold.word)
                self.begin(hold)
                if word in HELP:
                    self.script[hold.unit].append((word, number))
                    await self.help(hold, word, number, context)
                elif word == "use":
                    self.use(hold, number, context)
                else:
                    return self.end(hold, word, number)

    def work_sync(self, worker: str, context: Any) -> Any:
        if stopping():
            raise ValueError("given up")
        with self.holding(worker, context) as hold:
            for word, number in [*self.script[hold.unit]]:
                self.help_sync(hold, word, number, context)
            while True:
                self.waits(hold)
                word, number = hold.word.result()
                self.begin(hold)
                if word in HELP:
                    self.script[hold.unit].append((word, number))
                    self.help_sync(hold, word, number, context)
                elif word == "use":
                    self.use(hold, number, context)
                else:
                    return self.end(hold, word, number)

    async def help(self, hold: Hold, word: str, number: int, context: Any) -> None:
        if word != "ask":
            name, made, known = self.step(hold, word)
            await context.step(name, made, keep=word)
            self.stepped(hold, known)
        elif ASKED[number] not in hold.asked:
            with self.asking(hold, ASKED[number]) as inputs:
                await context.ask(ASKED[number], f"help {hold.unit}", inputs)

    def help_sync(self, hold: Hold, word: str, number: int, context: Any) -> None:
        if word != "ask":
            name, made, known = self.step(hold, word)
            context.step_sync(name, made, keep=word)
            self.stepped(hold, known)
        elif ASKED[number] not in hold.asked:
            with self.asking(hold, ASKED[number]) as inputs:
                context.ask_sync(ASKED[number], f"help {hold.unit}", inputs)

    async def undo(self, worker: str, context: Any) -> None:
        with self.holding(worker, context, undoes=True) as hold:
            self.waits(hold)
            word, _ = await asyncio.wrap_future(hold.word)
            if word not in {"ok", "use", "ask", "attempt"}:
                raise ValueError("it cannot be undone")

    # -- the declaration -----------------------------------------------------------------------------------

    def function(self, id_: str, **more: Any) -> WorkerSpec:
        async def work(task: Any, context: Any) -> Any:
            return await self.work(id_, context)

        def work_sync(task: Any, context: Any) -> Any:
            return self.work_sync(id_, context)

        return WorkerSpec(
            id=id_, execute=work_sync if id_ == "b" else work, breaker=None, undo=self.undoing(id_), **more
        )

    def undoing(self, id_: str) -> Any:
        async def undo(task: Any, result: Any, context: Any) -> None:
            await self.undo(id_, context)

        return undo if id_ in UNDOABLE else None

    def object(self, id_: str, **more: Any) -> WorkerSpec:
        """What it raises is a crash."""
        world = self

        class Member(Worker):
            async def execute(self, task: Any, context: Any) -> Any:
                return await world.work(id_, context)

        return WorkerSpec(id=id_, actor=Member, breaker=None, undo=self.undoing(id_), **more)

    def plan_of_team(self, task: Any, _: Any, __: Any) -> Plan:
        unit, members = task.inputs["unit"], task.inputs.get("members", 1)
        id_ = unit.partition("/")[2].replace(">", ".")
        with self.changed:
            self.plans += 1
            number = self.plans
        return Plan(
            [
                Subtask(
                    f"{id_}-{at}",
                    worker="xy"[at % 2],
                    depends_on=[f"{id_}-0"] if at == 2 else [],
                    inputs={"unit": f"{unit}-{at}", "plan": number},
                    on_failure=LADDERS["retry" if at == 0 else "none"],
                )
                for at in range(members)
            ]
        )

    def review(self, task: Any, plan: Any, results: dict[str, Any]) -> Verdict:
        """Send the first result back, as often as the task says."""
        name, first = task.inputs["name"], next(iter(sorted(results)), None)
        with self.changed:
            self.reviews[name] += 1
            passed = first is None or self.reviews[name] > task.inputs["send_back"]
        checks = [] if first is None else [trees.Check(first, passed=passed, feedback="" if passed else "better")]
        return Verdict(passed, checks)

    def spec(self, strategy: Any) -> SupervisorSpec:
        more = {"max_restarts": 100_000, "period_s": 1.0}
        settings_ = {"max_losses": 1000, "step_timeout_s": None, "age_s": 30.0}
        team = SupervisorSpec(
            id="team",
            tasks=trees.Tasks(planner=self.plan_of_team, max_parallel=TEAM_SLOTS, **settings_),
            children=[self.function("x", pool=TEAM_SLOTS + 1), self.object("y")],
            **more,
        )
        return SupervisorSpec(
            id="r",
            strategy=strategy,
            tasks=trees.Tasks(reviewer=self.review, max_parallel=self.limit, **settings_),
            children=[
                self.function("a", capabilities={"dig"}),
                self.function("b", shutdown="brutal_kill"),
                self.object("c", capabilities={"dig"}),
                self.function("p", pool=POOL),
                team,
            ],
            **more,
        )


class TaskModel(RuleBasedStateMachine):
    """Tasks of one tree, in one process after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.clock = self.world.clock
        self.subs: dict[str, list[Sub]] = {}
        self.folder = tempfile.TemporaryDirectory()
        self.tree: trees.Tree | None = None
        self.down: set[str] = set()
        self.disturbed: set[str] = set()
        """Tasks that were not at their end when a process ended."""
        self.live_events: dict[str, list[TaskEvent]] = defaultdict(list)
        self.before: dict[str, list[TaskEvent]] = {}
        """The journals, as readers of earlier processes have read them."""
        self.readers: dict[str, threading.Thread] = {}

    # -- the process ---------------------------------------------------------------------------------------

    @initialize(
        subs=st.lists(SUBS, min_size=2, max_size=5),
        limit=st.integers(1, POOL - 1),
        strategy=st.sampled_from(["one_for_one", "one_for_one", "one_for_all"]),
        file=st.sampled_from(["tasks.db", "tasks.jsonl"]),
    )
    def first_process(self, subs: list[Sub], limit: int, strategy: str, file: str) -> None:
        self.world.limit, self.world.groups = limit, strategy == "one_for_all"
        self.strategy, path = strategy, Path(self.folder.name) / file
        self.store = f"sqlite:///{path}" if file == "tasks.db" else str(path)
        self.start()
        self.submit(subs)

    def start(self) -> None:
        self.world.process += 1
        self.tree = trees.start(self.world.spec(self.strategy), store=self.store, clock=self.clock)
        self.stop_hearing = self.tree.subscribe(self.hear)
        for name in self.subs:
            self.follow(name)

    @property
    def host(self) -> trees.Tree:
        assert self.tree is not None
        return self.tree

    def hear(self, event: Any) -> None:
        if isinstance(event, TaskEvent) and type(event).journalled:
            with self.world.changed:
                self.live_events[event.task].append(event)
                self.world.changed.notify_all()

    def follow(self, name: str) -> None:
        """Read the journal of a task from its beginning, as far as this process comes."""
        journal, world, events = self.world.journals[name], self.world, self.host.task(name).events()

        def read() -> None:
            with suppress(TreeDownError):
                for event in events:
                    with world.changed:
                        journal.append(event)
                        if is_work(event) and (
                            isinstance(event, SubtaskCancelled) or getattr(event, "kind", "") == "timeout"
                        ):
                            self.give_up(name, event)
                        world.changed.notify_all()

        self.readers[name] = threading.Thread(target=read, name=f"reader of {name}")
        self.readers[name].start()

    def give_up(self, name: str, event: Any) -> None:
        """Of a thread whose time is over nobody takes the result."""
        for hold in [*self.world.live]:
            if (
                hold.is_sync
                and hold.unit == f"{name}/{id_of(event)}"
                and hold.attempt <= getattr(event, "attempt", hold.attempt)
            ):
                self.lose(hold)

    def lose(self, hold: Hold) -> None:
        """An attempt of a thread was given up: the thread ends, and nobody listens."""
        self.world.over(hold)
        with suppress(Exception):
            hold.word.set_exception(CancelledError())

    def lose_threads(self, threads: Iterable[Hold]) -> None:
        with self.world.changed:
            for hold in threads:
                if hold in self.world.live:
                    self.lose(hold)

    def end_process(self) -> None:
        self.host.stop(timeout=0)
        with self.world.changed:
            for hold in [*self.world.live]:
                self.lose(hold)
        for reader in self.readers.values():
            reader.join(WAIT_S)
            assert not reader.is_alive(), f"{reader.name} goes on after the tree has stopped"
        self.down.clear()

    @rule()
    def restart_the_process(self) -> None:
        reports = {name: self.host.task(name).report for name in self.subs}
        self.end_process()
        ended = {name for name, report in reports.items() if report is not None}
        self.disturbed |= set(self.subs) - ended
        self.before = {name: list(journal) for name, journal in self.world.journals.items()}
        self.world.journals.clear()
        self.world.cancelled |= self.world.ordered  # the next process does it before it begins anything
        self.start()
        assert sorted(handle.id for handle in self.host.tasks()) == sorted(self.subs)
        for name in ended:
            assert self.host.task(name).report == reports[name]
        self.wait(lambda: all(len(self.world.journals[name]) >= len(old) for name, old in self.before.items()))
        for name, old in self.before.items():
            self.is_replayed(name, old)

    def is_replayed(self, name: str, old: list[TaskEvent]) -> None:
        new = self.world.journals[name][: len(old)]
        assert [(each.seq, each) for each in new] == [(each.seq, each) for each in old], f"{name} has another past"

    # -- waiting -------------------------------------------------------------------------------------------

    def wait(self, is_so: Callable[[], Any], what: str = "") -> None:
        with self.world.changed:
            if not self.world.changed.wait_for(is_so, WAIT_S):
                raise AssertionError(f"{what or 'it does not come'}\n{self.story()}")

    def story(self) -> str:
        lines = [
            f"live: {self.world.live} of {self.world.limit}",
            f"could run: {self.could_run()}",
            f"down: {self.down}",
            f"wrong: {self.world.wrong}",
        ]
        for name in self.subs:
            lines += [f"--- {name}: {self.subs[name]}", *map(str, self.world.journals[name])]
        return "\n".join([*lines, self.host.dump(verbose=True)])

    # -- what people do ------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.subs) < 6)
    @rule(
        subs=st.lists(SUBS, min_size=1, max_size=5),
        priority=st.integers(0, 2),
        deadline_s=st.sampled_from([None, None, None, 60.0]),
        send_back=st.sampled_from([0, 0, 0, 1]),
        again=st.booleans(),
    )
    def submit(
        self,
        subs: list[Sub],
        priority: int = 0,
        deadline_s: float | None = None,
        send_back: int = 0,
        again: bool = False,
    ) -> None:
        name = f"t{len(self.subs)}"
        plan = Plan([sub.subtask(name, at) for at, sub in enumerate(subs)])
        inputs = {"name": name, "send_back": send_back}
        task = Task(f"do {name}", id=name, inputs=inputs, plan=plan, priority=priority, deadline_s=deadline_s)
        self.subs[name] = subs
        self.world.limited |= {f"{name}/s{at}" for at, sub in enumerate(subs) if sub.timeout_s and sub.to != "team"}
        for at in range(len(subs)):
            needs = self.needs_of(name, f"s{at}")
            self.world.bias[f"{name}/s{at}"] = subs[at].bias
            self.world.needs[f"{name}/s{at}"] = (needs, {id_ for id_ in needs if self.is_required(name, id_)})
        if deadline_s is not None:
            self.world.doomed.add(name)
        handle = self.host.submit(task)
        if again:
            assert self.host.submit(task) == handle
        self.follow(name)

    def unfinished(self) -> list[TaskHandle]:
        return [handle for name in self.subs if (handle := self.host.task(name)).report is None]

    def idle(self) -> list[Hold]:
        """Attempts that wait to be told what to do, in an order that does not depend on when they began."""
        free = [hold for hold in self.world.live if not hold.word.done() and not hold.is_busy]
        return sorted(free, key=lambda hold: (hold.unit, hold.worker, hold.no))

    @rule(
        moves=st.lists(
            st.tuples(st.integers(0, 50), st.sampled_from(WORDS), st.integers(0, 2)), min_size=4, max_size=12
        )
    )
    def go_on(self, moves: list[tuple[int, str, int]]) -> None:
        """Attempts do something, or a person answers, one after the other."""
        for pick, word, number in moves:
            with self.world.changed:
                choice = [*self.idle(), *self.host.escalations()]
                if not choice:
                    return
                chosen = choice[pick % len(choice)]
                if not isinstance(chosen, Hold):
                    self.respond(chosen, ANSWERS.get(word, "approve"))
                    continue
            self.move(chosen, word, number)

    def move(self, hold: Hold, word: str, number: int) -> None:
        told, threads = hold.word, [each for each in self.world.live if each.is_sync]
        # Where a limit may end an attempt only its events tell whether the same one runs again.
        self.tell(hold, "ok" if word == "attempt" and self.world.has_limit(hold) else word, number)
        self.wait(lambda: hold.left or hold.word is not told or told.cancelled(), f"{hold} does not go on")
        if self.world.groups and hold.worker == "c" and word == "fail":  # a crash: its group begins anew
            self.lose_threads(threads)  # those that have begun since are of the new group

    def tell(self, hold: Hold, word: str, number: int = 0) -> None:
        with suppress(Exception):  # it was ended just now
            hold.word.set_result((word, number))

    def respond(self, question: Any, word: str) -> None:
        unit = f"{question.task}/{id_of(question)}"
        value = {"unit": unit, "edited": question.id}
        answer: Any = {
            "approve": Approve(),
            "respond": Respond(f"as to {question.id}"),
            "edit": Edit(value),
            "reject": Reject("no"),
        }[word]
        with suppress(EscalationError):  # its time was up just now
            self.host.respond(question.id, answer)
            if not question.undoing:
                self.world.answers[unit].append(repr(answer))
                if word == "edit":
                    self.world.edits.append(value)
            assert all(each.id != question.id for each in self.host.escalations()), f"{question.id} is open still"

    @rule(pick=st.integers(0, 9), what=st.sampled_from(["cancel", "cancel and wait", "cancel and end", -2, 0, 1, 2]))
    def order(self, pick: int, what: str | int) -> None:
        """Cancel a task, or give it another priority."""
        name = sorted(self.subs)[pick % len(self.subs)]
        if isinstance(what, int):
            self.host.task(name).set_priority(what)
            return
        if what == "cancel and end":
            self.host.terminate_child("r/orchestrator")  # nobody does it before the process ends
        self.world.doomed.add(name)
        recorded = self.host.task(name).cancel("the model wants it so")
        self.world.ordered.add(name)
        if what == "cancel and wait" and "orchestrator" not in self.down:
            recorded.get()
            self.world.cancelled.add(name)
        elif what == "cancel and end":
            self.restart_the_process()

    @rule(child=st.sampled_from(["orchestrator", "a", "b", "c", "p", "team", "team/x"]))
    def terminate(self, child: str) -> None:
        self.world.threads_end = child == "b"
        with suppress(ChildError, UnknownPathError, ActorStoppedError):
            self.host.terminate_child(f"r/{child}")
            self.down.add(child)
            if child == "b":
                self.lose_threads([each for each in self.world.live if each.is_sync])
        self.world.threads_end = False

    @precondition(lambda self: self.down)
    @rule(pick=st.integers(0, 9))
    def restart(self, pick: int) -> None:
        self.bring_up(sorted(self.down)[pick % len(self.down)])

    @rule(path=st.sampled_from(["orchestrator", "orchestrator"]))
    def restart_what_decides(self, path: str) -> None:
        """Attempts that run are taken up again, and do not begin anew."""
        if path in self.down or ("team" in self.down and path != "orchestrator"):
            return
        with suppress(ActorStoppedError):  # its team is just restarted
            self.host.terminate_child(f"r/{path}")
            self.host.restart_child(f"r/{path}")

    def bring_up(self, child: str) -> None:
        self.down.discard(child)
        with suppress(ChildError, UnknownPathError, ActorStoppedError):
            self.host.restart_child(f"r/{child}")

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 11.0, 31.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # -- what must hold ------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_wrong(self) -> None:
        for hold, known in self.world.again:
            self.world.check(self.world.had_another(hold), hold, "makes again the step", known)
        self.world.again.clear()
        assert not self.world.wrong, "\n".join(self.world.wrong) + "\n" + self.story()

    @invariant()
    def what_can_run_runs(self) -> None:
        if self.tree is not None and not self.down:
            self.wait(lambda: not self.could_run() or self.world.wrong, "work that could run does not")

    @invariant()
    def what_takes_too_long_is_ended(self) -> None:
        if self.tree is not None and not self.down:
            self.wait(lambda: not self.overdue() or self.world.wrong, "an attempt runs longer than it may")

    def overdue(self) -> list[Hold]:
        limited = [hold for hold in self.world.live if self.world.has_limit(hold) and not hold.is_member]
        late = [hold for hold in limited if self.clock.now() > hold.began + LIMIT_S]
        late = [hold for hold in late if not hold.undoes and not hold.has_asked and ">" not in hold.unit]
        # One jump of the clock may end the task first: then a thread has a moment of the clock to come back.
        return [hold for hold in late if not (hold.is_sync and Standing(self.world.journals[hold.task]).is_ending)]

    def could_run(self) -> list[str]:
        """Subtasks that are ready, have a free worker and a slot, and do not run."""
        busy = Counter(hold.worker for hold in self.world.live)
        standing = {name: Standing(self.world.journals[name]) for name in self.subs}
        at_work = sum(not hold.is_member and not hold.undoes for hold in self.world.live)
        if at_work >= self.world.limit:
            return []
        found = []
        for name, each in standing.items():
            if each.is_ending or each.is_reworked or not each.is_planned:
                continue
            for at, sub in enumerate(self.subs[name]):
                id_ = f"s{at}"
                if sub.to == "team" or not each.is_ready(id_, sub, self.subs[name], self.clock.now()):
                    continue
                able = ["a", "c"] if sub.to == "dig" else [sub.to]
                if any(busy[worker] < (POOL if worker == "p" else 1) for worker in able):
                    found.append(f"{name}/{id_}")
        return found

    # -- the end -------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if self.tree is None:
            return
        try:
            self.nothing_is_wrong()
            self.let_all_end()
            for name in self.subs:
                self.look_at(name)
            self.slots_are_free()
        finally:
            self.end_process()
            self.folder.cleanup()

    def let_all_end(self) -> None:
        for child in sorted(self.down):
            self.bring_up(child)
        end = monotonic() + WAIT_S
        while self.unfinished() or self.world.live:
            with self.world.changed:
                holds, questions = self.idle(), self.host.escalations()
                for hold in holds:
                    self.tell(hold, "ok")
                for question in questions:
                    self.respond(question, "approve")
                self.world.changed.wait(0.05)
            if not holds and not questions:
                self.clock.advance(1.0)
            assert monotonic() < end, f"it does not end\n{self.story()}"
        for reader in self.readers.values():
            reader.join(WAIT_S)
        self.nothing_is_wrong()

    def look_at(self, name: str) -> None:
        """What is written down of a task that has ended is right."""
        report, journal = self.host.task(name).report, self.world.journals[name]
        assert report is not None
        wrong = [*self.wrong_with(name, report, journal)]
        assert not wrong, "\n".join([*wrong, str(report), *map(str, journal)])

    def wrong_with(self, name: str, report: Report, journal: list[TaskEvent]) -> Iterator[str]:
        mine = list(self.host.task(name).events(deep=False))
        if [event for event in journal if not getattr(event, "is_deep", False)] != mine:
            yield "events with and without those of teams differ"
        numbers = [event.seq for event in journal]
        for before, number in pairwise(numbers):
            if number != before + 1 and (number <= before or number % 1_000_000):
                yield f"event {number} follows on {before}"
        if numbers[0] != 1 or not isinstance(journal[-1], TaskFinished) or journal[-1].status != report.status:
            yield "it does not begin with 1 and end with its end"
        known = {event.seq: event for event in journal}
        wrong = [
            event for event in self.live_events[name] if event.seq <= numbers[-1] and known.get(event.seq) != event
        ]
        if wrong:
            yield f"seen live and not in the journal: {wrong}"
        fold, planned = Standing(mine), {f"s{at}" for at in range(len(self.subs[name]))}
        if {id_: value for id_, value in fold.results.items() if id_ in planned} != report.results:
            yield f"the events say the results {fold.results}"
        failed = {id_ for id_, event in fold.last.items() if isinstance(event, SubtaskFailed)}
        if (failed ^ set(report.failed)) & planned:
            yield "the events say that others have failed"
        ended = {*report.results, *report.failed, *report.skipped, *report.compensated}
        if any(isinstance(event, trees.Planned) for event in mine) and planned - ended:
            yield f"they have not ended: {planned - ended}"
        told = self.world.used[name]
        # What a thread returns is not looked at that is given up just then: its group is stopped, or its time is up.
        given_up = {
            getattr(each, "reason", "") == "stopped" or getattr(each, "kind", "") == "timeout" for each in journal
        }
        is_sure = name not in self.disturbed and True not in given_up
        if report.usage.tokens > told or (is_sure and report.usage.tokens != told):
            yield f"{told} tokens were used up, and it says {report.usage.tokens}"
        yield from self.starts_are_wrong(name, journal)
        yield from self.limits_are_broken(name, mine)
        yield from self.undos_are_wrong(name, journal, report)
        yield from self.is_done_twice(name, journal)

    def starts_are_wrong(self, name: str, journal: list[TaskEvent]) -> Iterator[str]:
        """What a subtask needs is done, or failed and was not required, before it starts."""
        passed: set[str] = set()
        for event in filter(is_work, journal):
            id_ = id_of(event)
            if isinstance(event, SubtaskStarted):
                missing = self.needs_of(name, id_) - passed
                if missing:
                    yield f"{id_} began before {missing} had ended"
            elif isinstance(event, ENDS):
                passed.discard(id_)
                if isinstance(event, SubtaskSucceeded) or not self.is_required(name, id_):
                    passed.add(id_)

    def limits_are_broken(self, name: str, journal: list[TaskEvent]) -> Iterator[str]:
        """It does not succeed after its deadline, and nothing is tried more often than it may."""
        first, last = journal[0], journal[-1]
        deadline = getattr(first, "deadline", None)
        if deadline is not None and last.at > deadline and getattr(last, "status", "") == "succeeded":
            yield "it succeeded after its deadline"
        is_reworked = any(isinstance(event, Reviewed) and event.rerun for event in journal)
        for event in filter(is_work, journal):
            id_ = id_of(event)
            sub = self.subs[name][int(id_[1:])] if id_[1:].isdigit() else None
            most = 100 if sub is None or is_reworked else ATTEMPTS.get(sub.ladder, 100)
            if isinstance(event, SubtaskStarted) and event.attempt > most:
                yield f"{id_} was tried {event.attempt} times"

    def undos_are_wrong(self, name: str, journal: list[TaskEvent], report: Report) -> Iterator[str]:
        """What was done is undone after all that was built on it, if the task does not succeed."""
        done: set[str] = set()
        """Subtasks that were done and can be undone, and are not yet."""
        for event in journal:
            own = id_of(event)
            if isinstance(event, SubtaskSucceeded) and event.worker in UNDOABLE:
                done.add(own)
            elif isinstance(event, Compensated):
                done.discard(own)
            elif isinstance(event, Compensating):
                above = {id_ for id_ in done if own in self.needs_of(name, id_)}
                if above:
                    yield f"{own} was undone before {above}"
        if report.status != "succeeded" and done:
            yield f"not undone: {done}"

    def needs_of(self, name: str, id_: str) -> set[str]:
        """What a subtask of the plan depends on; of others (members, what was asked for) nothing is known."""
        at = int(id_[1:]) if id_[1:].isdigit() else len(self.subs[name])
        return {f"s{need}" for need in self.subs[name][at].needs if need < at} if at < len(self.subs[name]) else set()

    def is_required(self, name: str, id_: str) -> bool:
        return not id_[1:].isdigit() or self.subs[name][int(id_[1:])].required

    def is_done_twice(self, name: str, journal: list[TaskEvent]) -> Iterator[str]:
        """What was recorded under a key, or returned in a process that went on, was not done again under it."""
        undone = {id_of(event) for event in journal if isinstance(event, Compensated)}
        recorded = [event.value for event in journal if isinstance(event, SubtaskSucceeded)]
        mine = [hold for hold in self.world.holds if hold.task == name and not hold.undoes]
        for hold in mine:
            if hold.value is None or hold.unit.partition("/")[2] in undone:
                continue
            later = [each for each in mine if (each.unit, each.key) == (hold.unit, hold.key) and each.no > hold.left]
            is_kept = hold.value in recorded
            again = [each for each in later if is_kept or each.process == hold.process]
            if again and (is_kept or hold.unit in self.world.needs) and not self.world.may_be_lost(hold):
                yield f"{hold} was done, and is done again: {again}"

    def slots_are_free(self) -> None:
        """As many attempts as there are slots run at the same time, and not one more."""
        for path, worker, slots in ((None, "p", self.world.limit), ("r/team", "x", TEAM_SLOTS)):
            name = f"last-{worker}"
            plan = Plan([Subtask(f"s{at}", worker=worker, inputs={"unit": f"{name}/{at}"}) for at in range(slots + 1)])
            inputs = {"name": name, "send_back": 0}
            handle = self.host.submit(Task("take all slots", id=name, inputs=inputs, plan=plan), path)
            self.wait(lambda slots=slots: len(self.idle()) >= slots, f"not all {slots} slots are free")
            while handle.report is None:
                with self.world.changed:
                    for hold in self.idle():
                        self.tell(hold, "ok")
                    self.world.changed.wait(0.05)
            assert len(handle.result(WAIT_S).results) == slots + 1
            self.nothing_is_wrong()


class Standing:
    """Where a task stands, as its events say."""

    def __init__(self, journal: list[TaskEvent]) -> None:
        self.last: dict[str, Any] = {}
        """The last of the events that say where a subtask stands."""
        self.results: dict[str, Any] = {}
        self.retried: set[str] = set()
        self.stepped: set[str] = set()
        self.moved: set[str] = set()
        """Those that a worker has rejected."""
        self.is_planned = self.is_ending = self.is_reworked = False
        for event in [*journal]:
            id_ = id_of(event)
            self.is_planned |= isinstance(event, trees.Planned)
            self.is_ending |= isinstance(event, (TaskEnding, TaskFinished))
            self.is_reworked |= isinstance(event, Reviewed) and bool(event.rerun)
            if not is_work(event):
                continue
            if isinstance(event, (*ENDS, SubtaskStarted, SubtaskRetrying, EscalationRaised)):
                if not getattr(event, "undoing", False):
                    self.last[id_] = event
            elif isinstance(event, (trees.SubtaskQueued, trees.SubtaskRequeued)):
                self.last.pop(id_, None)
            if isinstance(event, trees.SubtaskStepped):
                self.stepped.add(id_)
            if isinstance(event, SubtaskRetrying):
                (self.moved if event.kind == "rejected" else self.retried).add(id_)
            if isinstance(event, SubtaskSucceeded):
                self.results[id_] = event.value
            elif isinstance(event, (*ENDS, SubtaskStarted)):
                self.results.pop(id_, None)

    @property
    def running(self) -> set[str]:
        return {id_ for id_, event in self.last.items() if isinstance(event, SubtaskStarted)}

    def is_ready(self, id_: str, sub: Sub, subs: list[Sub], now: float) -> bool:
        """Whether it could be given to its worker, or to one of two. Once it is bound to another one, nobody knows."""
        if (
            id_ in self.moved
            or (sub.to == "dig" and id_ in self.stepped)
            or (sub.ladder == "failover" and id_ in self.retried)
        ):
            return False
        last = self.last.get(id_)
        needs = [f"s{need}" for need in sub.needs if need < int(id_[1:])]
        if isinstance(last, SubtaskRetrying):
            return last.due <= now
        return last is None and all(isinstance(self.last.get(need), SubtaskSucceeded) for need in needs)


def is_work(event: Any) -> bool:
    """Whether it is about a subtask, and not about a planner, a reviewer or an undo."""
    return getattr(event, "role", "work") == "work"


def id_of(event: Any) -> str:
    """The id of a subtask as this model gives it, from its path: ``s0/@1/s0.1-2`` is ``s0.1-2``."""
    return str(getattr(event, "subtask", "")).replace("/@", ".").rpartition("/")[2]


TestTasks = pytest.mark.timeout(600)(pytest.mark.usefixtures("quiet_log")(TaskModel.TestCase))  # if it fails
TestTasks.settings = settings(
    max_examples=6,
    stateful_step_count=30,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

if __name__ == "__main__":
    run.main(TaskModel)
