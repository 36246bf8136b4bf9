"""Runs of everything together: teams, asks, reviews, revisions, undos, breakers, people, replans, odd values.

What is wrong with a result, what fails and what people say is part of the run: the same run ends alike, whoever dies in
it. All that is done is noted under the name of the subtask of the plan, also where a member of a team does it.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from actors import Escalated, Failed, Worker
from actors.tasks.model.policy import Answer
from actors.tasks.planning.replanning import ReplanFeedback
from actors.testing import settle
from tests.faults.cut_points import CuttingStore, require_whole, started
from trees import (
    Approve,
    Breaker,
    Check,
    Edit,
    Escalate,
    EscalationError,
    Plan,
    Report,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    TaskTimeoutError,
    WorkerSpec,
)

AGAIN = Retry(max_attempts=2, initial_s=0.001, max_s=0.001, jitter=0.0)
LOOKS = 1200
"""How often a run is looked at, 20 times a second, before it counts as one that does not end."""
UNDOABLE = frozenset({"undoable", "team", "object"})
"""Doers whose effects can be undone."""
DOERS = ("plain", "undoable", "undoable", "object", "asking", "team", "flat-team")
ODD: tuple[Any, ...] = (
    "",
    None,
    0,
    -0.0,
    1e308,
    10**30,
    float("nan"),
    True,
    [],
    {},
    [[[[]]]],
    (1, (2, "x")),
    {"": [None, {"a": [1.5]}]},
    {1: "a", None: 2},
    "line\u2028 \x00 \U0001f600 e\u0301",
    "x" * 5000,
    {"passed": False, "n": "7"},
    {"summary": "{", "error": "no"},
)
"""Values that a result may have in it."""


@dataclass(frozen=True)
class Sub:
    """A subtask: who does it, and what comes of it."""

    id: str
    needs: tuple[str, ...]
    doer: str
    wrong: int = 0
    """How many of its results do not pass."""
    fails: bool = False
    """It never can be done; what another plan has in its place can."""
    stumbles: bool = False
    """Its first attempt raises, which its worker's breaker counts."""
    person: str = ""
    """Answer of a person whom it asks at first: approve, respond, edit; empty: it asks nobody."""
    odd: int = 0
    """Index of the value in its result."""
    required: bool = True


@dataclass(frozen=True)
class Run:
    """A plan, the settings of its supervisor, and the record at which an orchestrator dies."""

    subs: tuple[Sub, ...]
    review: str
    on_rejected: str
    max_iterations: int
    replan: int
    step_fails: bool
    max_parallel: int
    breakers: bool
    written: bool
    """The journal gives back what a file would."""
    at: int
    before: bool


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Any of them."""
    subs, replan = [], draw(st.integers(0, 2))
    for number in range(draw(st.integers(1, 6))):
        earlier = [f"s{each}" for each in range(number)]
        needs = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True)) if earlier else []
        required = draw(st.integers(0, 5)) > 0
        # Where a task fails while others of it run, how far those come is a matter of time.
        may_fail = bool(replan) or not required
        subs.append(
            Sub(
                f"s{number}",
                tuple(sorted(needs)),
                draw(st.sampled_from(DOERS)),
                wrong=draw(st.sampled_from([0, 0, 1, 1, 2, 9])),
                fails=may_fail and draw(st.integers(0, 4)) == 0,
                stumbles=draw(st.integers(0, 2)) == 0,
                person=draw(st.sampled_from(["", "", "", "approve", "respond", "edit"])),
                odd=draw(st.integers(0, len(ODD) - 1)),
                required=required,
            )
        )
    review = draw(st.sampled_from(["end", "each"]))
    rejected = draw(st.sampled_from(["best_effort", "escalate", *(["fail"] if review == "end" else [])]))
    return Run(
        tuple(subs),
        review,
        rejected,
        max_iterations=draw(st.integers(1, 3)),
        replan=replan,
        step_fails=draw(st.booleans()),
        max_parallel=draw(st.sampled_from([1, 2, 10])),
        breakers=draw(st.booleans()),
        written=draw(st.booleans()),
        at=draw(st.integers(0, 300)),
        before=draw(st.booleans()),
    )


class World:
    """The tree of one run, and what was done in it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.subs = {sub.id: sub for sub in run.subs}
        self.done: Counter[tuple[str, str, str]] = Counter()
        """Effects and undos: do or undo, name of the subtask, of a team's member or nothing."""
        self.keys: Counter[tuple[str, str, int]] = Counter()
        self._lock = threading.Lock()
        self._stumbled: set[str] = set()

    def _first(self, what: str) -> bool:
        with self._lock:
            first = what not in self._stumbled
            self._stumbled.add(what)
        return first

    def _note(self, what: str, name: str, member: str, context: Any) -> None:
        with self._lock:
            self.done[what, name, member] += 1
            self.keys[what, context.idempotency_key, context.attempt] += 1

    # -- workers -------------------------------------------------------------------------------------------

    def execute(self, task: Any, context: Any) -> dict[str, Any]:
        """Do a subtask of the plan, or a member's part of one."""
        is_member = "@" in context.task_id
        name, member = (context.goal, task.id) if is_member else (task.id, "")
        sub = self.subs[name[:2]]
        if sub.fails and not name.endswith("r"):
            raise Failed("it cannot be done", retryable=False)
        if sub.stumbles and self._first(f"{name} {member}"):
            raise ConnectionError("no route")
        if sub.person and not context.answers and member in {"", "one"}:
            raise Escalated(f"may I do {name}?")
        self._note("do", name, member, context)
        return {"n": context.revision, "odd": ODD[sub.odd]}

    async def asks(self, task: Any, context: Any) -> dict[str, Any]:
        """Do a subtask that needs something of another worker."""
        found = self.execute(task, context)
        return {**found, "told": await context.ask("look", f"look {task.id} up")}

    def look_up(self, task: Any, context: Any) -> Any:
        """Answer one that asks."""
        self._note("look", context.idempotency_key, "", context)
        return ODD[len(task.instruction) % len(ODD)]

    def undo(self, task: Any, result: Any, context: Any) -> None:
        """Undo what was done."""
        is_member = "@" in context.task_id
        name, member = (context.goal, task.id) if is_member else (task.id, "")
        self._note("undo", name, member, context)

    # -- steps ---------------------------------------------------------------------------------------------

    def _step(self, step: str) -> None:
        if self.run.step_fails and self._first(step):
            raise ConnectionError("no route")

    def plan(self, task: Any, catalogue: Any, feedback: Any) -> Plan:
        self._step("plan")
        if not isinstance(feedback, ReplanFeedback):
            return Plan([self._subtask(sub.id, sub.needs) for sub in self.run.subs])
        other = {id_: f"{id_}r" for id_ in feedback.failed}
        left = [sub for sub in self.run.subs if sub.id in feedback.failed or sub.id in feedback.skipped]
        return Plan(
            [self._subtask(other.get(sub.id, sub.id), tuple(other.get(id_, id_) for id_ in sub.needs)) for sub in left]
        )

    def _subtask(self, id_: str, needs: tuple[str, ...]) -> Subtask:
        sub = self.subs[id_[:2]]
        return Subtask(id_, id_, worker=sub.doer, depends_on=list(needs), required=sub.required)

    def review(self, task: Any, plan: Any, results: dict[str, Any]) -> list[Check]:
        self._step("review")
        bad = {id_ for id_, value in results.items() if self._number(value) < self.subs[id_[:2]].wrong}
        return [Check(id_, id_ not in bad, "again" if id_ in bad else "") for id_ in results]

    @staticmethod
    def _number(value: Any) -> int:
        """How often what made a result was sent back; one that a person gave is right."""
        made = value.get("two", value) if isinstance(value, dict) else None
        return int(made["n"]) if isinstance(made, dict) and "n" in made else 99

    def combine(self, task: Any, results: dict[str, Any]) -> list[str]:
        self._step("combine")
        return sorted(results)

    # -- the tree ------------------------------------------------------------------------------------------

    def tree(self) -> SupervisorSpec:
        run: Any = self.run
        tasks = Tasks(
            planner=self.plan,
            reviewer=self.review,
            synthesizer=self.combine,
            review=run.review,
            on_rejected=run.on_rejected,
            max_iterations=run.max_iterations,
            max_parallel=run.max_parallel,
            replan=run.replan,
            step_retry=AGAIN,
            on_failure=[AGAIN, Escalate()],
        )
        breaker = Breaker(failure_threshold=2, failure_rate=0.01, cooldown_s=0.02) if run.breakers else None
        common: dict[str, Any] = {"pool": 2, "breaker": breaker}
        children = [
            WorkerSpec(id="plain", execute=self.execute, **common),
            WorkerSpec(id="undoable", execute=self.execute, undo=self.undo, **common),
            WorkerSpec(id="object", actor=Doer, args=(self,), undo=self.undo, **common),
            WorkerSpec(id="asking", execute=self.asks, **common),
            WorkerSpec(id="look", execute=self.look_up, **common),
            self._team("team", common, self.undo),
            self._team("flat-team", common, None),
        ]
        return SupervisorSpec(id="p", max_restarts=1000, tasks=tasks, children=children)

    def _team(self, id_: str, common: dict[str, Any], undo: Any) -> SupervisorSpec:
        plan = StaticPlan([Subtask("one", worker="first"), Subtask("two", worker="second", depends_on=["one"])])
        return SupervisorSpec(
            id=id_,
            max_restarts=1000,
            tasks=Tasks(planner=plan, on_failure=[AGAIN, Escalate()]),
            children=[
                WorkerSpec(id="first", execute=self.execute, undo=undo, **common),
                WorkerSpec(id="second", execute=self.execute, undo=undo, **common),
            ],
        )

    # -- the run -------------------------------------------------------------------------------------------

    def play(self, store: CuttingStore) -> Report:
        """The whole run; a person answers whatever they are asked."""
        with started(self.tree(), store) as tree:
            handle = tree.submit(Task("the goal", id="t"))
            for _ in range(LOOKS):
                with suppress(EscalationError):  # its orchestrator has just died of it, and is not up again
                    for question in tree.escalations():
                        tree.respond(question.id, self._answer(question))
                with suppress(TaskTimeoutError, TaskFailedError):
                    handle.result(0.05)
                if handle.report is not None:
                    break
            assert handle.report is not None, tree.dump()
            settle(tree)
            require_whole(tree)
        return handle.report

    def _answer(self, question: Any) -> Answer:
        """Give the answer that the run has for a question; a person vouches for what did not pass."""
        _, found, name = str(question.question).removesuffix("?").partition("may I do ")
        said = self.subs[name[:2]].person if found else ""
        return {"respond": Respond("you may"), "edit": Edit(ODD[self.subs[name[:2]].odd] if found else None)}.get(
            said, Approve()
        )


class Doer(Worker):
    """A worker object: what leaves its ``execute`` is a crash."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def execute(self, task: Any, context: Any) -> Any:
        return self.world.execute(task, context)


def told(report: Report, but: Collection[str] = ()) -> str:
    """What of a report is the same each time, as text: some values are not equal to themselves.

    Of those in ``but`` it is left out whether they were undone.
    """
    graph = sorted((each.id, each.id in but or str(each.status)) for each in report.graph if "." not in each.id)
    names = ("status", "output", "results", "failed", "skipped", "iterations", "replans", "best_effort", "undo_errors")
    plain = {"graph": graph, "compensated": sorted({*report.compensated} - {*but})} | {
        name: getattr(report, name) for name in names
    }
    return json.dumps(plain, sort_keys=True, indent=1)
