"""What a dump of a tree says of breakers and waiting work, and the parts of it that may be asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors.testing import ManualClock, settle
from trees import (
    Backoff,
    Breaker,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

# -- breakers --------------------------------------------------------------------------------------------------


def fails(task: Any, context: Any) -> None:
    raise OSError("no route")


@contextmanager
def tripped(clock: ManualClock, pool: int = 1) -> Iterator[Tree]:
    """A tree whose worker has an open breaker for 12 s, and a task that waits for it."""
    breaker = Breaker(failure_threshold=1, cooldown_s=12.0)
    worker = WorkerSpec(id="w", execute=fails, breaker=breaker, on_failure=[], pool=pool)
    spec = SupervisorSpec(
        id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")]), on_failure=[]), children=[worker]
    )
    with start(spec, clock=clock) as tree:
        tree.submit(Task("go", id="first"))
        settle(tree)
        tree.submit(Task("go", id="t"))
        settle(tree)
        yield tree
        tree.task("t").cancel()
        settle(tree)


@pytest.mark.parametrize("pool", [1, 3])
def test_the_dump_shows_an_open_breaker_and_why_a_subtask_waits_in_the_queue(pool: int) -> None:
    clock = ManualClock()
    with tripped(clock, pool) as tree:
        plain, verbose, data = tree.dump(), tree.dump(verbose=True), json.loads(tree.dump(format="json"))
        clock.advance(4.0)
        later = tree.dump(verbose=True)

    assert re.search(r"└─ w .*   breaker open$", plain, re.MULTILINE)
    assert re.search(r"◦ a .*queued .*breaker of w open$", plain, re.MULTILINE)
    assert "probe" not in plain
    assert re.search(r"└─ w .*   breaker open, probe in 12 s", verbose)
    assert "breaker of w open, probe in 12 s" in verbose
    assert "breaker open, probe in 8 s" in later
    worker = data["top"]["children"][-1]
    assert worker["breaker"] == {"state": "open", "probe_in_s": 12.0}
    (subtask,) = data["top"]["tasks"][0]["subtasks"]
    assert (subtask["status"], subtask["reason"], subtask["probe_in_s"]) == ("queued", "breaker of w open", 12.0)


def test_a_breaker_whose_cooldown_is_over_is_half_open_before_anything_is_given() -> None:
    worker = WorkerSpec(id="w", execute=fails, breaker=Breaker(failure_threshold=1, cooldown_s=12.0), on_failure=[])
    clock = ManualClock()
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=[worker]), clock=clock) as tree:
        with pytest.raises(TaskFailedError):
            tree.run("do it")
        clock.advance(12.0)
        (_, shown) = json.loads(tree.dump(format="json"))["top"]["children"]

    assert shown["breaker"] == {"state": "half_open", "probe_in_s": None}


# -- restarts --------------------------------------------------------------------------------------------------


def test_a_child_that_parks_says_its_figures_only_once_there_was_a_restart() -> None:
    child = WorkerSpec(id="w", handle=int, on_exhausted="park")
    with start(SupervisorSpec(id="p", max_restarts=1, children=[child]), clock=ManualClock()) as tree:
        texts = [tree.dump()]
        for _ in range(2):
            tree.ref("p/w").tell("no number")
            settle(tree)
            texts.append(tree.dump())

    assert "parks after" not in texts[0]
    assert "parks after restarts 1/1 in 5 s" in texts[1]
    assert "parked after 2 restarts in 5 s" in texts[2]
    assert all("restarts 0/1 in 5 s" in text.splitlines()[0] for text in texts)


# -- parts of a tree -------------------------------------------------------------------------------------------


def plant() -> SupervisorSpec:
    """Two teams of workers, one of which crashes."""
    backoff = Backoff(initial_s=60.0, max_s=60.0, jitter=0.0)
    sick = SupervisorSpec(
        id="sick", children=[WorkerSpec(id="w", handle=int), WorkerSpec(id="slow", handle=int, backoff=backoff)]
    )
    well = SupervisorSpec(id="well", children=[WorkerSpec(id=f"w{number}", handle=int) for number in range(3)])
    return SupervisorSpec(id="p", children=[WorkerSpec(id="one", handle=int), sick, well])


def names(text: str) -> list[str]:
    return [line.strip("├─└│ ").partition("   ")[0] for line in text.splitlines() if line and line[0] in "p├└│ "]


CRASHES: list[tuple[str, list[str], float, list[str]]] = [
    ("nothing has happened", [], 0.0, ["p", "... and 3 more"]),
    ("one has crashed just now", ["p/sick/w"], 0.0, ["p", "sick", "w", "... and 1 more", "... and 2 more"]),
    ("one had crashed some time ago", ["p/sick/w"], 6.0, ["p", "... and 3 more"]),
    ("one waits for its backoff", ["p/sick/slow"], 50.0, ["p", "sick", "slow", "... and 1 more", "... and 2 more"]),
]


@pytest.mark.parametrize(("crashed", "later_s", "shown"), [row[1:] for row in CRASHES], ids=[row[0] for row in CRASHES])
def test_only_what_is_troubled_is_shown_with_what_stands_above_it(
    crashed: list[str], later_s: float, shown: list[str]
) -> None:
    clock = ManualClock()
    with start(plant(), clock=clock) as tree:
        for path in crashed:
            tree.ref(path).tell("no number")
            settle(tree)
        clock.advance(later_s)
        text = tree.dump(only="troubled")
        data = json.loads(tree.dump(format="json", only="troubled"))

    assert names(text) == shown
    assert data["top"]["hidden"] == int(shown[-1].split()[-2])


def test_a_task_that_does_not_get_on_is_trouble() -> None:
    clock = ManualClock()
    with tripped(clock) as tree:
        assert "◦ task t" in tree.dump(only="troubled")
        assert "breaker open" in tree.dump(only="troubled")
        assert "orchestrator" not in tree.dump(only="troubled")


DEPTHS: list[tuple[int | None, list[str]]] = [
    (0, ["p", "... and 3 more"]),
    (1, ["p", "one", "sick", "... and 2 more", "well", "... and 3 more"]),
    (2, ["p", "one", "sick", "w", "slow", "well", "w0", "w1", "w2"]),
    (None, ["p", "one", "sick", "w", "slow", "well", "w0", "w1", "w2"]),
]


@pytest.mark.parametrize(("depth", "shown"), DEPTHS)
def test_a_dump_may_end_at_a_depth(depth: int | None, shown: list[str]) -> None:
    with start(plant(), clock=ManualClock()) as tree:
        assert names(tree.dump(depth=depth)) == shown
        below = tree.dump("p/well", depth=depth)
        assert names(below)[0] == "p/well"
        assert ("w0" in below) is (depth != 0)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda tree: tree.dump(only="broken"), "only='broken' is not a part of a tree. Use 'troubled'"),
        (lambda tree: tree.dump(depth=-1), "depth=-1 is not a depth"),
        (lambda tree: tree.dump(depth=1.5), "depth=1.5 is not a depth"),
    ],
)
def test_what_is_no_part_of_a_tree_is_refused(ask: Callable[[Tree], str], said: str) -> None:
    with start(plant()) as tree, pytest.raises(ValueError, match=re.escape(said)):
        ask(tree)
