"""Numbers of the events of a task: each event has one, and ``handle.events(after=n)`` goes on from there."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from actors.messaging.reply import Reply
from actors.runtime.handle import system_of
from actors.tasks.journal.store import decode, encode
from actors.tasks.model.task_events import SubtaskProgressed, SubtaskStarted, TaskEvent, TaskFinished, TaskSubmitted
from actors.tasks.orchestration.event_numbers import STRIDE, first_after
from tests.support.attempts import LONG_S
from tests.support.hardening import eventually
from tests.tasks.orchestration.one_worker import held
from tests.tasks.orchestrators import kill_orchestrator
from tests.tasks.resuming import Change, NotingStore
from trees import Plan, StaticPlan, Subtask, SupervisorSpec, Task, TaskHandle, Tasks, WorkerSpec, start
from trees.host.journal_follower import JournalFollower
from trees.store import Keep, MemoryStore

# -- a task with teams -----------------------------------------------------------------------------------------


def done(task: Any, context: Any) -> str:
    return "done"


def team(id_: str, plan: list[Subtask], *children: Any) -> SupervisorSpec:
    return SupervisorSpec(id=id_, tasks=Tasks(planner=StaticPlan(plan), on_failure=[]), children=children)


def house(code: Any = done) -> SupervisorSpec:
    """Two teams at once, and then a worker."""
    one = team("one", [Subtask("a", worker="w")], WorkerSpec(id="w", execute=code))
    two = team("two", [Subtask("b", worker="w")], WorkerSpec(id="w", execute=done))
    plan = [Subtask("left", worker="one"), Subtask("right", worker="two"), Subtask("w", depends_on=["left"])]
    return team("p", plan, one, two, WorkerSpec(id="w", execute=done))


def numbers_of(events: Any) -> list[int]:
    return [event.seq for event in events]


async def collected(events: Any) -> list[TaskEvent]:
    return [event async for event in events]


def require_numbered(events: list[TaskEvent]) -> None:
    """Each has a number, and they come in their order; only what is in no journal shares one."""
    kept = numbers_of(event for event in events if not isinstance(event, SubtaskProgressed))
    assert kept == sorted(set(kept))
    assert kept[0] >= 1
    assert numbers_of(events) == sorted(numbers_of(events))


def test_each_event_has_a_number_and_whoever_knows_the_last_one_goes_on_after_it() -> None:
    with start(house()) as tree:
        handle = tree.submit("go")
        live = list(handle.events())
        again = list(handle.events())
        require_numbered(live)
        assert numbers_of(again) == numbers_of(live) == list(range(1, len(live) + 1))
        assert isinstance(live[0], TaskSubmitted)

        for last in range(len(live) + 2):
            assert list(handle.events(after=last)) == live[last:]
            assert asyncio.run(collected(handle.events(after=last))) == live[last:]


def test_a_stream_without_what_happens_inside_teams_has_the_same_numbers_with_gaps() -> None:
    with start(house()) as tree:
        handle = tree.submit("go")
        deep = list(handle.events())
        flat = list(handle.events(deep=False))
        part = next(event.part for event in deep if isinstance(event, SubtaskStarted) and event.part)
        its = list(tree.task(part).events())

        assert numbers_of(flat) == numbers_of(event for event in deep if event.task == handle.id)
        assert numbers_of(its) == numbers_of(event for event in deep if event.task == part)
        assert list(handle.events(after=flat[2].seq, deep=False)) == flat[3:]


def test_a_reader_that_comes_back_while_the_task_runs_gets_the_rest_of_it() -> None:
    with held() as (tree, hang, script):
        handle = tree.submit("go")
        script.wait_for_calls(1)
        reader = iter(handle.events())
        first = [next(reader), next(reader)]
        reader.close()  # type: ignore[attr-defined]
        hang.release()
        rest = list(handle.events(after=first[-1].seq))

        assert [*first, *rest] == list(handle.events())


def test_an_orchestrator_that_is_replaced_goes_on_counting() -> None:
    with held() as (tree, hang, script):
        handle = tree.submit("go")
        script.wait_for_calls(1)
        kill_orchestrator(tree)
        hang.release()
        seen = list(handle.events())

        assert numbers_of(seen) == list(range(1, len(seen) + 1))


@pytest.mark.parametrize("bad", [-1, 1.0, "3", True])
def test_what_is_no_number_of_an_event_is_refused_where_the_events_are_asked_for(bad: Any) -> None:
    with start(house()) as tree:
        handle = tree.submit("go")
        with pytest.raises(ValueError, match=r"events: after=.* is not a number of an event. Give the seq"):
            handle.events(after=bad)


# -- what is in no journal -------------------------------------------------------------------------------------


def test_progress_has_the_number_of_the_record_before_it_so_that_no_record_is_missed_after_it() -> None:
    gate = threading.Event()

    def works(task: Any, context: Any) -> None:
        assert gate.wait(LONG_S)
        for step in range(20):
            context.progress(step / 20, "on it")

    with start(house(works)) as tree:
        handle, seen = tree.submit("go"), list[TaskEvent]()
        for event in handle.events():
            seen.append(event)
            gate.set()
        kept = list(handle.events())

        require_numbered(seen)
        told = [event for event in seen if isinstance(event, SubtaskProgressed)]
        assert told
        for event in told:
            at = seen.index(event)
            before = [each for each in seen[:at] if not isinstance(each, SubtaskProgressed)]
            assert event.seq == before[-1].seq
            assert list(handle.events(after=event.seq)) == kept[len(before) :]


# -- processes -------------------------------------------------------------------------------------------------


async def hangs(task: Any, context: Any) -> str:
    BEGUN.set()
    await asyncio.get_running_loop().create_future()
    return "never"


BEGUN = threading.Event()


def first_process(store: Any) -> list[TaskEvent]:
    """A process that ends in the middle of the task; what a reader has seen of it by then."""
    BEGUN.clear()
    seen: list[TaskEvent] = []
    with start(house(hangs), store=store) as tree:
        handle = tree.submit(Task("go", id="t"))
        reader = iter(handle.events())
        assert BEGUN.wait(LONG_S)
        while not any(isinstance(event, SubtaskStarted) and event.path == "p/one" for event in seen):
            seen.append(next(reader))
        reader.close()  # type: ignore[attr-defined]
    return seen


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_numbers_are_the_same_in_the_next_process_and_a_reader_goes_on_there(kind: str, tmp_path: Any) -> None:
    store = MemoryStore() if kind == "memory" else f"sqlite:///{tmp_path / 's.db'}"
    seen = first_process(store)
    with start(house(), store=store) as tree:
        handle = tree.task("t")
        rest = list(handle.events(after=seen[-1].seq))
        everything = list(handle.events())
        new = list(handle.events(new=True))

    require_numbered(everything)
    assert everything[: len(seen)] == seen
    assert numbers_of(everything[: len(seen)]) == numbers_of(seen)
    assert everything[len(seen) :] == rest
    assert numbers_of(new) == list(range(STRIDE, STRIDE + len(new)))
    with start(house(), store=store) as tree:  # and in a third one, in which nothing of it happens
        assert numbers_of(tree.task("t").events()) == numbers_of(everything)
        assert list(tree.task("t").events(new=True)) == []


def test_what_was_lost_with_its_process_before_it_was_kept_gives_its_number_to_nothing_else() -> None:
    store = NotingStore()
    with start(house(), store=store) as tree:
        seen = numbers_of(tree.submit(Task("go", id="t")).events())
    lost = set(seen)
    for at in range(1, len(store.changes)):
        kept = NotingStore(store.changes[:at])
        known = {
            record.seq for journal in kept.journals.values() for record in journal if isinstance(record, TaskEvent)
        }
        with start(house(), store=kept) as tree:
            handle = tree.task("t")
            handle.result(LONG_S)
            after = list(handle.events(after=max(seen)))
            everything = list(handle.events())

        require_numbered(everything)
        fresh = {*numbers_of(everything)} - known
        assert not fresh & lost, at
        assert {*numbers_of(after)} == {number for number in numbers_of(everything) if number > max(seen)}
        assert fresh <= {*numbers_of(after)}


def numbers_in(store: NotingStore) -> set[int]:
    return {record.seq for journal in store.journals.values() for record in journal if isinstance(record, TaskEvent)}


def test_no_number_comes_again_in_a_third_process_where_the_second_had_gone_on_with_parts_only() -> None:
    first = NotingStore()
    with start(house(), store=first) as tree:
        tree.submit(Task("go", id="t")).result(LONG_S)
    begun = first.changes_when(SubtaskStarted, "t@left:1.1")
    second = NotingStore(begun)
    with start(house(), store=second) as tree:
        tree.task("t").result(LONG_S)
    seen = numbers_in(second)
    for at in range(len(begun) + 1, len(second.changes)):  # of the second one some records are kept
        third = NotingStore(second.changes[:at])
        known = numbers_in(third)
        with start(house(), store=third) as tree:
            handle = tree.task("t")
            handle.result(LONG_S)
            everything = list(handle.events())
            new = list(handle.events(new=True))

        require_numbered(everything)
        assert {*numbers_of(everything)} == numbers_in(third), at
        assert not ({*numbers_of(everything)} - known) & seen, at
        assert {*numbers_of(new)} == {*numbers_of(everything)} - known, at


@pytest.mark.parametrize(
    ("last", "first"),
    [(0, STRIDE), (1, STRIDE), (STRIDE // 2 - 1, STRIDE), (STRIDE // 2, 2 * STRIDE), (STRIDE, 2 * STRIDE)],
)
def test_a_process_begins_at_the_next_million_at_least_half_of_one_away(last: int, first: int) -> None:
    assert first_after(last) == first
    assert first - last > STRIDE // 2 - 1


# -- journals that lack something ------------------------------------------------------------------------------


def without_numbers(changes: list[Change]) -> list[Change]:
    """As an older version has written them."""
    return [
        change if change.record is None else change._replace(record=(change.record[0], _unnumbered(change.record[1])))
        for change in changes
    ]


def _unnumbered(body: str) -> str:
    return json.dumps({name: value for name, value in json.loads(body).items() if name != "seq"})


def test_records_of_an_older_version_are_counted_where_they_are_read() -> None:
    store = NotingStore()
    with start(house(), store=store) as tree:
        tree.run(Task("go", id="t"), timeout=LONG_S)
    changes = without_numbers(store.changes)
    assert not any(decode(*change.record).seq for change in changes if change.record is not None)  # type: ignore[attr-defined]
    with start(house(), store=NotingStore(changes)) as tree:
        handle = tree.task("t")
        seen = list(handle.events())
        require_numbered(seen)
        assert numbers_of(seen) == list(range(1, len(seen) + 1))
        assert [list(handle.events(after=last)) for last in (0, 5, len(seen))] == [seen, seen[5:], []]


def test_a_task_that_an_older_version_has_begun_goes_on_in_the_next_million() -> None:
    store = NotingStore()
    first_process(store)
    changes = without_numbers(store.changes)
    with start(house(), store=NotingStore(changes)) as tree:
        handle = tree.task("t")
        new = list(handle.events(new=True))
        everything = list(handle.events())

    require_numbered(everything)
    old = len(everything) - len(new)
    assert numbers_of(everything[:old]) == list(range(1, old + 1))
    assert numbers_of(new) == list(range(STRIDE, STRIDE + len(new)))


def test_a_part_that_was_pruned_leaves_a_gap_and_the_other_numbers_as_they_are() -> None:
    store = MemoryStore()
    with start(house(), store=store) as tree:
        handle = tree.submit("go")
        everything = list(handle.events())
        part = next(event.part for event in everything if isinstance(event, SubtaskStarted) and event.part)
        store.remove(part)

        left = [event for event in everything if event.task != part]
        assert list(handle.events()) == left
        assert numbers_of(handle.events()) == numbers_of(left)
        assert list(handle.events(after=left[4].seq)) == left[5:]


@pytest.mark.parametrize("after", [None, 0, 3, 10_000])
@pytest.mark.parametrize("deep", [True, False])
def test_the_events_of_a_task_that_was_pruned_end(after: int | None, *, deep: bool, tmp_path: Any) -> None:
    with start(house(), store=f"sqlite:///{tmp_path / 's.db'}", keep=Keep(count=0)) as tree:
        handle = tree.submit("go")
        handle.result(LONG_S)
        store = tree._system.services["tasks"].store
        eventually(lambda: store.standing(handle.id) is None, "the end of what is kept of it")
        found: list[Any] = []

        def read() -> None:
            try:
                found.extend(handle.events(after=after, deep=deep))
                found.extend(handle.stream())
                found.extend(asyncio.run(collected(handle.events(after=after, deep=deep))))
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is told of
                found.append(error)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(LONG_S)

        assert not reader.is_alive()
        assert found == []


@pytest.mark.parametrize("seen", [1, 3])
@pytest.mark.parametrize("is_over", [True, False])
@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_the_events_of_a_task_that_was_removed_end_though_another_one_has_its_id(
    where: str, seen: int, tmp_path: Path, *, is_over: bool
) -> None:
    gate = threading.Event()
    spec = SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=lambda *_: gate.wait(LONG_S))])

    def task(number: int) -> Task:
        return Task("go", id="t", plan=Plan([Subtask(f"s{at}", worker="w") for at in range(number)]))

    with start(spec, store=None if where == "memory" else f"sqlite:///{tmp_path / 's.db'}") as tree:
        handle, found = tree.submit(task(1)), list[Any]()
        events = iter(handle.events())
        found += [next(events) for _ in range(seen)]
        gate.set()
        handle.result(LONG_S)
        system_of(tree).bus.flush(LONG_S)
        tree.remove_task("t")
        if not is_over:
            gate.clear()
        other = tree.submit(task(5))
        if is_over:
            other.result(LONG_S)
        else:
            eventually(lambda: len(tree._system.services["tasks"].store.read("t")) > 6, "its beginning")

        reader = threading.Thread(target=lambda: found.extend(events), daemon=True)
        reader.start()
        reader.join(LONG_S)
        gate.set()

        assert not reader.is_alive()
        assert sum(isinstance(event, TaskSubmitted) for event in found) == 1
        assert {getattr(event, "subtask", "s0") for event in found} == {"s0"}


def test_events_end_where_the_task_is_removed_between_the_telling_of_its_end_and_its_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, report = threading.Event(), Reply()
    spec = SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=lambda *_: gate.wait(LONG_S))])
    with start(spec) as tree:
        handle = tree.submit("go")
        with monkeypatch.context() as patched:
            patched.setattr(handle._port, "waiting", lambda _: report)
            follower = JournalFollower(handle._port, handle.id, deep=True, after=0)
        assert list(follower.news())
        gate.set()
        handle.result(LONG_S)
        system_of(tree).bus.flush(LONG_S)  # the end was told
        tree.remove_task(handle.id)

        assert not list(follower.news())
        assert not follower.over
        report.complete(None)

        assert follower.signal.done
        system_of(tree).bus.flush(LONG_S)  # and behind that the reader knows that it has heard all
        assert not list(follower.news())
        assert follower.over


def test_the_end_of_a_task_ends_the_events_also_for_who_has_seen_it() -> None:
    with start(house()) as tree:
        handle = tree.submit("go")
        *_, end = handle.events()
        assert isinstance(end, TaskFinished)
        assert list(handle.events(after=end.seq)) == []
        assert asyncio.run(collected(handle.events(after=end.seq))) == []


def test_the_number_is_written_with_its_record_and_read_back() -> None:
    record = TaskFinished("p", "t", 1.0, "succeeded", seq=7)  # type: ignore[arg-type]

    assert decode(*encode(record)).seq == 7  # type: ignore[attr-defined]
    assert record.as_dict()["seq"] == 7


# -- leaving ---------------------------------------------------------------------------------------------------


def test_who_closes_the_events_wakes_the_reader_that_waits_for_the_next_one() -> None:
    async def main(handle: TaskHandle) -> list[TaskEvent]:
        events = aiter(handle.events())
        seen: list[TaskEvent] = []
        waits = asyncio.Event()

        async def read() -> None:
            async for event in events:
                seen.append(event)
                if isinstance(event, SubtaskStarted):
                    waits.set()

        reading = asyncio.create_task(read())
        await waits.wait()
        await asyncio.sleep(0.02)
        await events.aclose()
        await asyncio.wait_for(reading, LONG_S)
        return seen

    with held() as (tree, _, script):
        handle = tree.submit("go")
        script.wait_for_calls(1)
        seen = asyncio.run(main(handle))

    assert isinstance(seen[-1], SubtaskStarted)
