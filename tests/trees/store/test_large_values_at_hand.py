"""What a durable store holds of unfinished journals: no large value that is kept. Whoever reads one gets it whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors import Event
from actors.tasks.journal.dropped import Dropped, dropped_of
from actors.tasks.model import task_events
from actors.tasks.model.task_errors import DamagedJournalError
from tests.support.hardening import eventually
from tests.support.programs import ran
from tests.trees.store.stores import OWNER, PATIENCE_S, Opens, ended, kept, opens, queued, submitted, succeeded
from tests.trees.store.test_migrations import execute
from trees import Plan, StoreError, Subtask
from trees.store import SqlStore, large_values

__all__ = ["opens"]

LARGE = "x" * 20_000
HUGE = ["y" * 1_000] * 2_000


def answered(task: str, value: Any) -> task_events.EscalationAnswered:
    return task_events.EscalationAnswered(OWNER, task, 3.5, "s", f"{task}:s:1", "edit", value)


KINDS: dict[str, tuple[Callable[[str], Event], bool]] = {
    "a result": (lambda task: succeeded(task, LARGE), True),
    "a result of many parts": (lambda task: succeeded(task, HUGE), True),
    "an output": (lambda task: task_events.Synthesized(OWNER, task, 3.5, {"a": LARGE}), True),
    "a small result": (lambda task: succeeded(task, "x"), False),
    "an answer, on which what is next depends": (lambda task: answered(task, LARGE), False),
    "a plan, likewise": (
        lambda task: task_events.Planned(OWNER, task, 3.5, Plan([Subtask("a", instruction=LARGE, worker="w")])),
        False,
    ),
}


def at_hand(store: SqlStore, stream: str) -> list[Event]:
    return store._index.journals[stream]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "is_dropped"), KINDS.values(), ids=KINDS.keys())
def test_what_no_state_depends_on_is_at_hand_until_it_is_kept(
    opens: Opens, make: Callable[[str], Event], *, is_dropped: bool
) -> None:
    store, record = opens(), make("t")
    store.create("t", OWNER, submitted("t"))
    store.append("t", record)
    kept(store)

    assert (dropped_of(at_hand(store, "t")[1]) is not None) is is_dropped
    assert (dropped_of(store.outline("t")[1]) is not None) is is_dropped
    assert list(store.read("t")) == [submitted("t"), record]
    store.close()
    again = opens()
    assert (dropped_of(at_hand(again, "t")[1]) is not None) is is_dropped, "a start holds no more than what went on"
    assert list(again.read("t", 1)) == [record]


def test_large_inputs_are_dropped_one_by_one_and_the_rest_of_the_task_stays(opens: Opens) -> None:
    store = opens()
    first = submitted("t", inputs={"a": 1, "b": HUGE}, priority=7)
    store.create("t", OWNER, first)
    kept(store)

    for each in (store, None):
        found = (each or opens()).outline("t")[0].spec  # type: ignore[attr-defined]
        assert (found.goal, found.priority, found.inputs) == ("do it", 7, {"a": 1, "b": Dropped("t", 0, "b")})
        store.close()


def test_the_value_of_a_record_that_was_replaced_or_withdrawn_is_nobody_elses(opens: Opens) -> None:
    store = opens()
    store.create("t", OWNER, submitted("t", inputs={"b": HUGE}))
    store.remove("t")
    store.create("t", OWNER, submitted("t", inputs={"b": [LARGE, *HUGE]}))
    kept(store)

    assert dropped_of(at_hand(store, "t")[0]) is not None
    assert list(store.read("t")) == [submitted("t", inputs={"b": [LARGE, *HUGE]})]


def test_a_value_that_is_kept_in_pieces_is_left_out_and_read_back(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_values, "PIECE", 3_000)
    store = opens()
    store.create("t", OWNER, submitted("t"))
    store.append("t", succeeded("t", LARGE))
    kept(store)

    assert dropped_of(at_hand(store, "t")[1]) == Dropped("t", 1)
    assert store.fetch("t", [1]).get(timeout=PATIENCE_S) == {1: succeeded("t", LARGE)}


def test_a_stream_that_ends_with_a_large_value_is_finished_and_read_as_any_other(opens: Opens) -> None:
    store = opens()
    store.create("t", OWNER, submitted("t"))
    store.append("t", succeeded("t", LARGE))
    kept(store)
    store.finish("t")
    kept(store)
    store.close()

    again = opens()
    assert again.last("t") == succeeded("t", LARGE)
    assert list(again.read("t")) == [submitted("t"), succeeded("t", LARGE)]


def test_parts_that_are_done_hold_no_large_value_while_their_task_goes_on(opens: Opens) -> None:
    store = opens()
    store.create("t", OWNER, submitted("t"))
    store.create("t@s:1.1", OWNER, submitted("t@s:1.1", inputs={"results": HUGE}))
    store.append("t@s:1.1", succeeded("t@s:1.1", LARGE))
    store.append("t@s:1.1", ended("t@s:1.1"))
    store.finish("t@s:1.1")
    kept(store)

    for each in (store, None):
        found = each or opens()
        assert [dropped_of(record) is not None for record in at_hand(found, "t@s:1.1")] == [True, True, False]
        assert found.read("t@s:1.1")[1] == succeeded("t@s:1.1", LARGE)
        store.close()


# -- reading them back ---------------------------------------------------------------------------------------


def with_value(store: SqlStore, name: str = "t") -> None:
    store.create(name, OWNER, submitted(name))
    store.append(name, succeeded(name, LARGE))
    store.append(name, queued(name))
    kept(store)


def reading_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.endswith("-store-reads")]


def test_a_fetch_waits_for_a_database_that_is_away(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opens()
    with_value(store)
    read, tries = store._values._read, list[int]()

    def away(stream: str, numbers: Any) -> Any:
        tries.append(1)
        if len(tries) < 4:
            raise StoreError("s", "is away")
        return read(stream, numbers)

    monkeypatch.setattr(store._values, "_read", away)

    assert store.fetch("t", [1]).get(timeout=PATIENCE_S) == {1: succeeded("t", LARGE)}
    assert len(tries) == 4


DAMAGE = {
    "it is gone": "UPDATE regrow_records SET large = 'gone' WHERE stream = 't' AND n = 1",
    "it is no JSON": "UPDATE regrow_large SET body = '[' WHERE hash ="
    " (SELECT large FROM regrow_records WHERE stream = 't' AND n = 1)",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_value_that_is_damaged_is_said_at_once_and_its_journal_is_damaged_from_then_on(
    opens: Opens, store_url: str, damage: str
) -> None:
    store = opens()
    with_value(store)
    with_value(store, "u")
    execute(store_url, damage)

    with pytest.raises(DamagedJournalError):
        store.fetch("t", [1]).get(timeout=PATIENCE_S)

    with pytest.raises(DamagedJournalError):
        store.outline("t")
    standing = store.standing("t")
    assert standing is not None
    assert standing.is_ == "damaged"
    assert store.streams(OWNER) == ["t", "u"], "whoever goes on with it stumbles, and says so"


def test_a_store_that_is_closed_ends_all_waits_and_can_still_be_read(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opens()
    with_value(store)
    read, tried = store._values._read, threading.Event()

    def away(_stream: str, _numbers: Any) -> Any:
        tried.set()
        raise StoreError("s", "is away")

    monkeypatch.setattr(store._values, "_read", away)
    waits = store.fetch("t", [1])
    assert tried.wait(PATIENCE_S)
    store.close()

    with pytest.raises(StoreError, match="is away"):
        waits.get(timeout=PATIENCE_S)
    monkeypatch.setattr(store._values, "_read", read)
    assert store.fetch("t", [1]).get(timeout=PATIENCE_S) == {1: succeeded("t", LARGE)}
    assert reading_threads() == []


def test_a_bug_while_reading_fails_that_fetch_and_the_next_one_is_read(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opens()
    with_value(store)
    with monkeypatch.context() as broken:
        broken.setattr(store._values, "_read", lambda *_: 1 / 0)
        with pytest.raises(StoreError, match="ZeroDivisionError"):
            store.fetch("t", [1]).get(timeout=PATIENCE_S)

    assert store.fetch("t", [1]).get(timeout=PATIENCE_S) == {1: succeeded("t", LARGE)}


def test_the_thread_that_reads_ends_when_there_is_nothing_to_read(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trees.store.value_reader.IDLE_S", 0.05)
    store = opens()
    with_value(store)
    for _ in range(3):
        assert store.fetch("t", [1]).get(timeout=PATIENCE_S)
        eventually(lambda: reading_threads() == [])


def test_many_threads_may_fetch_at_once(opens: Opens) -> None:
    store = opens()
    for number in range(4):
        with_value(store, f"t{number}")
    found: list[bool] = []

    def fetch(name: str) -> None:
        for _ in range(20):
            records = store.fetch(name, [1]).get(timeout=PATIENCE_S)
            found.append(records == {1: succeeded(name, LARGE)})

    threads = [threading.Thread(target=fetch, args=(f"t{number % 4}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [True] * 160


# -- measured ------------------------------------------------------------------------------------------------

PROGRAM = """
import ctypes, gc, sys, time, threading
getattr(ctypes.CDLL(None), "mallopt", print)(-3, 131072)   # M_MMAP_THRESHOLD: what is let go of is given back at once
from loguru import logger
logger.remove()
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

url, shape, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
MB, go_on = 1_000_000, threading.Event()

def used():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096 // MB

def text(number):
    return f"{number:08d}" + "x" * MB

def work(task, context):
    return text(hash(context.idempotency_key))

def last(task, context):
    go_on.wait(60)

children = [WorkerSpec(id="w", execute=work), WorkerSpec(id="last", execute=last)]
if shape == "results":      # of one task that goes on
    plan = [Subtask(f"s{n}", worker="w") for n in range(count)]
    plan.append(Subtask("end", worker="last", depends_on=[f"s{count - 1}"]))
    given = [Task("go", id="t")]
elif shape == "inputs":     # of tasks that wait for their turn
    plan = [Subtask("end", worker="last")]
    given = [Task("go", id=f"t{n}", inputs={"text": text(n)}) for n in range(count)]
else:                       # what a team was given, and has made of it, while its task goes on
    inner = Tasks(planner=StaticPlan([Subtask("i", worker="inner")]), context_tokens=1000)
    team = SupervisorSpec(id="team", tasks=inner,
        children=[WorkerSpec(id="inner", execute=work)])
    children.append(team)
    plan = [Subtask("s", worker="w"), *(Subtask(f"p{n}", worker="team", depends_on=["s"]) for n in range(count)),
        Subtask("end", worker="last", depends_on=[f"p{count - 1}"])]
    given = [Task("go", id="t")]
settings = Tasks(planner=StaticPlan(plan), max_subtasks=1000, context_tokens=1000, max_parallel=2)
tree = start(SupervisorSpec(id="p", tasks=settings, children=children), store=url)
before = used()
handles = []
while given:
    handles.append(tree.submit(given.pop()))
while True:
    store = tree._system.services["tasks"].store
    records = [each for handle in handles for each in store.outline(handle.id)]
    done = sum(type(each).__name__ == "SubtaskSucceeded" for each in records)
    begun = any(type(each).__name__ == "SubtaskStarted" and each.subtask == "end" for each in records)
    if store.flush() is None and begun and done >= (0 if shape == "inputs" else count):
        break
    time.sleep(0.05)
time.sleep(0.3)
print(used() - before, flush=True)
import os
os._exit(0)
"""


def megabytes(url: str, shape: str, count: int) -> int:
    """What so many values of a megabyte take, in a process of its own that gives back at once what it lets go of."""
    done = ran("-c", PROGRAM, url, shape, count, timeout=100.0)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "values"), [("results", 1), ("inputs", 1), ("teams", 2)])
def test_the_memory_of_unfinished_tasks_does_not_grow_with_what_their_journals_hold(
    tmp_path: Path, shape: str, values: int
) -> None:
    """Four times as many of them have so many more values of a megabyte each; a process may give back a part late."""
    counts = 10, 40
    few, many = (megabytes(f"sqlite:///{tmp_path}/{count}.db", shape, count) for count in counts)

    assert many - few < values * (counts[1] - counts[0]) / 2, f"{counts[0]}: {few} MB; {counts[1]}: {many} MB"
