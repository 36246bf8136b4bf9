"""Orchestrators that die at a record of a breaker: the attempt that it was about is not lost, nor is it in the way."""

from typing import Any

import pytest

from actors import ChildExited
from actors.model.events import Event
from actors.tasks.orchestration.orchestrator import Orchestrator
from actors.tasks.scheduling.worker_registry import RegistrySnapshot
from actors.testing import ScriptedExecutable, settle
from tests.faults.cut_points import Cut
from tests.support.attempts import no, shop
from tests.support.deadly import Deadly
from trees import Breaker, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start
from trees.store import MemoryStore

_replace = MemoryStore.replace


class Breaks:
    """A store's ``replace`` that breaks down at the n-th record of a breaker, before it is written or after."""

    def __init__(self, at: int, *, before: bool) -> None:
        self._at, self._before, self.count = at, before, 0

    def __call__(self, store: MemoryStore, stream: str, owner: str, record: Event) -> None:
        self.count += 1
        breaks = self.count == self._at
        if not (breaks and self._before):
            _replace(store, stream, owner, record)
        if breaks:
            raise Cut


def breaking(monkeypatch: pytest.MonkeyPatch, at: int, *, before: bool) -> Breaks:
    breaks = Breaks(at, before=before)

    def replace(store: MemoryStore, stream: str, owner: str, record: Event) -> None:
        breaks(store, stream, owner, record)

    monkeypatch.setattr(MemoryStore, "replace", replace)
    return breaks


BEFORE = pytest.mark.parametrize("before", [True, False], ids=["before", "after"])


@BEFORE
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_an_orchestrator_that_dies_at_any_record_of_a_breaker_goes_on_with_the_attempt_that_it_was_about(
    monkeypatch: pytest.MonkeyPatch, at: int, *, before: bool
) -> None:
    """The third is the one of the probe, whose attempt is made by then and not yet given."""
    store = breaking(monkeypatch, at, before=before)
    script = ScriptedExecutable(no, no, "done", by="call")
    opens = Breaker(failure_threshold=2, window_s=60.0, cooldown_s=30.0)
    exits: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, ChildExited):
            exits.append(event.path)

    with shop(
        [Subtask("x", worker="a")], WorkerSpec(id="a", execute=script.execute, breaker=opens), on_failure=[]
    ) as it:
        it.tree.subscribe(hear)
        it.submit()
        it.submit()
        it.advance(30.0)
        it.submit()
        report = it.report()
        settle(it.tree)
        died = list(exits)

    assert store.count >= at
    assert (report.status, report.results, len(script.calls)) == ("succeeded", {"x": "done"}, 3)
    assert died == ["shop/orchestrator"], "it died of more than that record"


@BEFORE
@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_orchestrator_that_dies_as_it_gives_up_a_probe_that_killed_its_process_gives_it_up_the_next_time(
    monkeypatch: pytest.MonkeyPatch, at: int, *, before: bool
) -> None:
    """The second is the one of the probe as it begins, the third that of the probe as it is given up."""

    def execute(task: Subtask, context: Any) -> str:
        if task.id == "bad":
            raise no
        return deadly.execute(task, context)

    plan = StaticPlan([Subtask("bad", worker="w", required=False), Subtask("poison", worker="w", required=False)])
    tasks = Tasks(planner=plan, on_failure=[], max_losses=1, max_parallel=1)
    spec = WorkerSpec(id="w", execute=execute, breaker=Breaker(failure_threshold=1, cooldown_s=0.01))
    deadly = Deadly(lambda _: SupervisorSpec(id="p", tasks=tasks, children=[spec]))
    store = breaking(monkeypatch, at, before=before)

    report = deadly.run_one(4)

    assert store.count >= at
    assert deadly.deaths == 1
    assert report.failed["poison"].startswith("AttemptLostError")


def test_the_registry_shows_an_open_breaker_from_the_start_on_also_before_the_orchestrator_has_heard_of_its_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who looks as soon as ``start`` returns may be there first."""
    store = MemoryStore()
    opens = Breaker(failure_threshold=1, failure_rate=0.0, cooldown_s=1000.0)
    workers = [
        WorkerSpec(id="bad", execute=ScriptedExecutable(no), breaker=opens),
        WorkerSpec(id="good", execute=ScriptedExecutable("done"), breaker=opens),
        WorkerSpec(id="free", execute=ScriptedExecutable("done"), breaker=None),
    ]
    plan = StaticPlan([Subtask(each.id, required=False) for each in workers])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=[]), children=workers)
    with start(spec, store=store) as tree:
        tree.run("go", timeout=60)
        heard = {row.id: row.breaker for row in tree.registry()}

    monkeypatch.setitem(Orchestrator._HANDLERS, RegistrySnapshot, lambda *_: None)
    with start(spec, store=store) as tree:
        not_yet = {row.id: row.breaker for row in tree.registry()}

    assert heard == not_yet == {"bad": "open", "good": "closed", "free": None}
