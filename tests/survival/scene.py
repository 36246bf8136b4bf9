"""Three tasks in the middle of everything: what each fault of the survival table meets.

``stand`` brings them there: one task has ended; one has a result, an attempt in flight, a retry that waits for its
delay and a question that nobody has answered; one is being undone, half of it is. ``finish`` takes them to their ends,
in the same process or in another one. What workers do outside is noted, so that what was done twice, or not at all, is
the difference to a run in which nothing happened: see ``require_all``.

Time is a clock by hand, so a retry waits until ``finish`` lets time pass, whichever process that is in.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from actors import Context, Escalated, Failed, Worker
from actors.tasks.model import task_events
from actors.testing import Hang, ManualClock
from tests.support.attempts import AT_ONCE
from tests.trees.store.stores import PATIENCE_S, kept
from trees import (
    Escalate,
    Plan,
    Report,
    Respond,
    Retry,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

Note = Callable[[str], object]
PATH = "site/crew"
DELAY_S = 10.0
LATER = Retry(max_attempts=3, initial_s=DELAY_S, jitter=0.0)
PLANS = {
    "ended": [Subtask("made", worker="work")],
    "busy": [
        Subtask("made", worker="work"),
        Subtask("held", worker="hold", depends_on=["made"]),
        Subtask("after", worker="work", depends_on=["held"]),
        Subtask("again", worker="flaky", depends_on=["made"]),
        Subtask("asked", worker="careful", depends_on=["made"]),
        Subtask("end", worker="work", depends_on=["after", "again", "asked"]),
    ],
    "broken": [
        Subtask("one", worker="pay"),
        Subtask("two", worker="pay", depends_on=["one"]),
        Subtask("breaks", worker="breaks", depends_on=["two"]),
    ],
}
HELD, UNDOING = "did busy@held:1", "undid one broken@one/@undo:1"
"""The notes of what is in flight when all stands."""
ENDED, AFTER = "held to the end", "did busy@after:1"
"""The note of the end of the former, and of what depends on it."""


class Scene:
    """One tree, its workers, and what holds them up."""

    def __init__(self, note: Note, *, crashes: bool = False) -> None:
        self._note = note
        self._crashes = crashes
        """The worker that holds crashes in the end, the first time."""
        self.clock = ManualClock()
        self._hold, self._undoing = Hang(), Hang()

    def spec(self) -> SupervisorSpec:
        """A root, a supervisor with an orchestrator, and six workers."""
        crew = SupervisorSpec(
            id="crew",
            tasks=Tasks(planner=lambda task, catalogue, feedback: Plan(subtasks=PLANS[task.goal])),
            children=[
                WorkerSpec(id="work", execute=self._work, pool=3),
                WorkerSpec(id="hold", actor=self._holder(), on_failure=[AT_ONCE]),
                WorkerSpec(id="flaky", execute=self._flaky, on_failure=[LATER]),
                WorkerSpec(id="careful", execute=self._careful, on_failure=[Escalate()]),
                WorkerSpec(id="pay", execute=self._work, undo=self._undo),
                WorkerSpec(id="breaks", execute=self._breaks),
                WorkerSpec(id="fuse", handle=_blow),
            ],
        )
        return SupervisorSpec(id="site", children=[crew])

    # -- its workers ---------------------------------------------------------------------------------------

    def _did(self, context: Context) -> None:
        self._note(f"did {context.idempotency_key}")

    async def _work(self, task: Subtask, context: Context) -> str:
        self._did(context)
        return f"{task.id} after {sorted(context.results)}"

    def _holder(self) -> type[Worker]:
        scene = self

        class Holder(Worker):
            async def execute(self, task: Subtask, context: Context) -> str:
                scene._did(context)
                await scene._hold.hold_async()
                scene._note(ENDED)
                if scene._crashes and context.attempt == 1:
                    raise ArithmeticError("a bug")
                return "held"

        return Holder

    async def _flaky(self, _: Subtask, context: Context) -> str:
        self._did(context)
        if context.attempt == 1:
            raise ConnectionError("the first time never works")
        return f"in attempt {context.attempt}"

    async def _careful(self, _: Subtask, context: Context) -> str:
        self._did(context)
        if not context.feedback:
            raise Escalated("may I?")
        return f"told {context.feedback!r}"

    async def _breaks(self, _: Subtask, context: Context) -> str:
        self._did(context)
        raise Failed("it comes to nothing", retryable=False)

    async def _undo(self, task: Subtask, _: object, context: Context) -> None:
        self._note(f"undid {task.id} {context.idempotency_key}")
        if task.id == "one":
            await self._undoing.hold_async()

    # -- what happens --------------------------------------------------------------------------------------

    def stand(self, tree: Tree) -> None:
        """Submit the three; returns when they are in the middle of everything, and that is kept."""
        ended, busy, broken = (tree.submit(Task(goal, id=goal), path=PATH) for goal in PLANS)
        ended.result(PATIENCE_S)
        _seen(busy, (task_events.SubtaskRetrying, "again"), (task_events.EscalationRaised, "asked"))
        self._hold.wait_until_entered(PATIENCE_S)
        _seen(broken, (task_events.Compensated, "two"))
        self._undoing.wait_until_entered(PATIENCE_S)
        kept(tree._system.services["tasks"].store)

    def go_on(self, tree: Tree) -> list[str]:
        """Let go of what is held up, answer, and let time pass; the questions that were open."""
        resumed = tree._system.services["tasks"].resumed()
        assert resumed.wait(PATIENCE_S)
        questions = tree.escalations()
        self._hold.release()
        self._undoing.release()
        for each in questions:
            tree.respond(each.id, Respond("yes"))
        self.clock.advance(DELAY_S)
        return [f"{each.id}: {each.question}" for each in questions]

    @staticmethod
    def hear(tree: Tree) -> None:
        """Returns when the orchestrator has heard what became of what was held up."""
        for each in ("hold", "orchestrator"):
            assert tree._system.children[f"{PATH}/{each}"].mailbox.when_quiet().wait(PATIENCE_S)

    def finish(self, tree: Tree) -> dict[str, Any]:
        """The same, and wait for the ends: all that is known of the three."""
        questions = self.go_on(tree)
        return {"questions": questions} | self.reports(tree)

    def reports(self, tree: Tree) -> dict[str, Any]:
        """How each of them ends."""
        return {goal: _told(_report(tree, goal)) for goal in PLANS}


def _blow(_: object) -> None:
    raise RuntimeError("the fuse has blown")


def _seen(handle: Any, *wanted: tuple[type[Any], str]) -> None:
    """Wait until each of these has happened to a task."""
    missing = set(wanted)
    for event in handle.events():
        missing -= {(type(event), getattr(event, "subtask", ""))}
        if not missing:
            return
    raise AssertionError(f"{handle.id} has ended without {missing}")


def _report(tree: Tree, id_: str) -> Report:
    handle = tree.task(id_)
    with suppress(TaskFailedError):
        handle.result(PATIENCE_S)
    report = handle.report
    assert report is not None
    return report


def _told(report: Report) -> dict[str, Any]:
    """What must be the same whatever happened; as JSON has it."""
    return {
        "status": str(report.status),
        "error": str(report.error),
        "results": report.results,
        "failed": report.failed,
        "skipped": report.skipped,
        "compensated": list(report.compensated),
    }


# -- what has to hold ----------------------------------------------------------------------------------------


@functools.cache
def undisturbed() -> tuple[dict[str, Any], Counter[str]]:
    """What is known in the end, and what was done, where nothing happened."""
    notes: list[str] = []
    scene = Scene(notes.append)
    with start(scene.spec(), clock=scene.clock) as tree:
        scene.stand(tree)
        found = scene.finish(tree)
    assert [found[goal]["status"] for goal in PLANS] == ["succeeded", "succeeded", "failed"]
    assert found["broken"]["compensated"] == ["two", "one"]
    assert len(found["questions"]) == 1
    return found, Counter(notes)


def require_all(found: dict[str, Any], notes: Iterable[str], *, again: Iterable[str] = ()) -> None:
    """All has survived: the same in the end, and nothing was done once more but ``again``, and that exactly once."""
    wanted, calm = undisturbed()
    done = Counter(note for note in notes if note.startswith(("did ", "undid ")))
    calm = Counter({note: times for note, times in calm.items() if note.startswith(("did ", "undid "))})
    assert found == wanted
    assert calm - done == {}, "not done"
    assert done - calm == Counter(again), "done once more"
