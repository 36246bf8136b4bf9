"""The state of a task is a fold over its journal, and a journal can be written down and read again."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Event
from actors.tasks.journal.effect_record import EffectRecord
from actors.tasks.journal.fold import fold
from actors.tasks.journal.reporting import report_of
from actors.tasks.journal.store import decode, encode
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.task_errors import StoreError
from tests.faults.cut_points import CuttingStore, World, WritingStore, essence, started
from tests.support.event_kinds import JOURNALLED_KINDS
from tests.tasks.resuming import but_undos, unclear
from trees import Approve, Edit, Escalate, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec

AT_MOST = 4
"""Attempts that run at the same time."""
FAILS = pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails and is undone"])


def act_picture(act: EffectRecord | None) -> object:
    """Without its result: how much of those is held is not a matter of the journal."""
    return None if act is None else {name: getattr(act, name) for name in EffectRecord.__slots__ if name != "result"}


def node_picture(node: SubtaskState) -> dict[str, Any]:
    """All that is not of the present incarnation only."""
    picture = {name: getattr(node, name) for name in SubtaskState.__slots__ if name not in {"live", "ticket"}}
    picture["dependants"] = [dependant.id for dependant in node.dependants]
    picture["acts"] = [act_picture(act) for act in node.acts or ()]
    picture["compensating"] = act_picture(node.compensating)
    picture["escalation"] = node.escalation and node.escalation.id
    return picture


def picture_of(state: TaskState) -> dict[str, Any]:
    """Everything of a state, to compare; but who has become ready since somebody looked."""
    left_out = {"born", "ready", "nodes", "escalations"}
    picture = {name: getattr(state, name) for name in TaskState.__slots__ if name not in left_out}
    picture["nodes"] = {id_: node_picture(node) for id_, node in state.nodes.items()}
    picture["escalations"] = sorted(state.escalations)
    picture["seen"] = state.status
    return picture


@FAILS
def test_what_is_folded_from_any_part_of_a_journal_is_the_state_that_there_was(*, fails: bool) -> None:
    trees: list[Tree] = []
    compared: list[tuple[str, str]] = []
    differs: list[tuple[str, str]] = []

    def look(stream: str, journal: list[Event]) -> None:
        for desk in trees[0]._system.services["tasks"].ports.values() if trees else ():
            if stream in desk.states:
                is_same = picture_of(fold(stream, journal)) == picture_of(desk.states[stream])
                (compared if is_same else differs).append((stream, type(journal[-1]).__name__))

    world, store = World(fails=fails), CuttingStore(look=look)

    world.run(store, trees.append)

    assert differs == []
    assert len(compared) > 80
    assert {stream for stream, _ in compared} == {"t", "t@team:1.1"}


@FAILS
def test_every_record_of_a_run_can_be_written_down_and_read_again(*, fails: bool) -> None:
    store = CuttingStore()
    World(fails=fails).run(store)

    for journal in store.journals.values():
        for record in journal:
            kind, text = encode(record)
            again = decode(kind, text)

            assert again == record
            assert encode(again) == (kind, text)


@FAILS
def test_a_report_made_from_what_was_written_down_is_the_report_that_there_was(*, fails: bool) -> None:
    store = CuttingStore()
    report = World(fails=fails).run(store)

    records = [decode(*encode(record)) for record in store.journals["t"]]

    assert essence(report_of(fold("t", records), lambda: records)) == report


@FAILS
def test_a_run_on_a_store_that_writes_everything_down_has_the_same_report_and_books(*, fails: bool) -> None:
    wanted, world = World(fails=fails), World(fails=fails)
    report = wanted.run(CuttingStore())

    found = world.run(CuttingStore(kept=WritingStore()))

    assert found == report
    assert world.books == wanted.books


@pytest.mark.slow
@FAILS
def test_so_has_one_whose_orchestrator_crashes_now_and_then(*, fails: bool) -> None:
    wanted = World(fails=fails)
    store = CuttingStore()
    report = wanted.run(store)
    for at in range(3, store.written, 14):
        world, cut = World(fails=fails), CuttingStore(at, kept=WritingStore())

        found = world.run(cut)

        doubts = unclear(cut, ["t"])
        assert len(doubts) <= AT_MOST
        assert but_undos({"t": found}, doubts) == but_undos({"t": report}, doubts), f"record {at}"
        assert world.books == wanted.books, f"record {at}"


def test_every_kind_of_record_can_be_folded_and_every_one_that_can_is_known_to_the_journal() -> None:
    plain = {
        task_events.BreakerChanged,
        task_events.BreakerOpened,
        task_events.BreakerHalfOpened,
        task_events.BreakerClosed,
    }
    assert set(TaskState._APPLY) == set(JOURNALLED_KINDS) - plain


def test_a_record_of_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(StoreError, match="'TaskTeleported'"):
        decode("TaskTeleported", b"{}")


def test_questions_and_their_answers_are_in_the_journal_like_everything_else() -> None:
    store = CuttingStore(kept=WritingStore())

    def fails_first(_: Any, context: Any) -> str:
        if context.attempt == 1:
            raise ValueError
        return f"fine, {context.idempotency_key}"

    def never(_: Any, __: Any) -> str:
        raise ValueError

    plan = StaticPlan([Subtask("approved", worker="first"), Subtask("edited", worker="never")])
    tree_spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=plan, on_failure=[Escalate(question="what now?", timeout_s=60)]),
        children=[WorkerSpec(id="first", execute=fails_first), WorkerSpec(id="never", execute=never)],
    )
    with started(tree_spec, store) as tree:
        handle = tree.submit(Task("the goal", id="t"))
        answers = {"approved": Approve(), "edited": Edit({"by": "hand"})}
        for event in handle.events():
            if isinstance(event, task_events.EscalationRaised):
                handle.respond(event.escalation, answers[event.subtask])
        report = handle.result(60)

    assert report.results == {"approved": "fine, t/approved/2", "edited": {"by": "hand"}}
    records = [decode(*encode(record)) for record in store.journals["t"]]
    assert essence(report_of(fold("t", records), lambda: records)) == essence(report)
