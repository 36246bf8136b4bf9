"""Reports of finished tasks that are at hand (``actors.tasks.results.report_cache``)."""

from pathlib import Path

import pytest

from actors.tasks.results.report_cache import MOST, ReportCache
from trees import Report, StaticPlan, Subtask, SupervisorSpec, Tasks, TaskStatus, Usage, WorkerSpec, start

LARGE = 20_000


def report(task: str, size: int) -> Report:
    results = {"a": "word " * size}
    status = TaskStatus.SUCCEEDED
    return Report(
        task, "go", status, None, results, {}, {}, [], {}, 0, best_effort=False, usage=Usage(), timings={}, graph=()
    )


def test_what_is_at_hand_is_worth_no_more_than_the_limit_and_the_oldest_go_first() -> None:
    cache = ReportCache(most_tokens=1000)
    for number in range(20):
        cache.add(report(f"t{number}", 150))
        assert cache.tokens <= 1000

    at_hand = [number for number in range(20) if f"t{number}" in cache]
    assert at_hand
    assert at_hand == list(range(20 - len(at_hand), 20))
    assert cache.get("t0") is None


def test_a_report_that_is_worth_more_than_the_limit_is_not_held_and_costs_no_other_its_place() -> None:
    cache = ReportCache(most_tokens=1000)
    cache.add(report("small", 10))
    before = cache.tokens
    cache.add(report("large", LARGE))

    assert cache.get("large") is None
    assert cache.get("small") is not None
    assert cache.tokens == before


def test_there_are_never_more_than_so_many_however_small() -> None:
    cache = ReportCache(most_tokens=10**9)
    for number in range(MOST + 10):
        cache.add(report(f"t{number}", 1))

    assert len(cache) == MOST
    assert "t0" not in cache


def test_a_report_that_comes_twice_or_again_after_it_was_forgotten_counts_once() -> None:
    cache = ReportCache(most_tokens=1000)
    cache.add(report("t", 100))
    once = cache.tokens
    assert not cache.add(report("t", 100))
    assert (len(cache), cache.tokens) == (1, once)
    cache.forget("t")
    assert cache.get("t") is None
    assert cache.add(report("t", 100))
    assert (len(cache), cache.tokens) == (1, once)


def test_a_task_counts_once_also_where_its_report_is_not_held() -> None:
    cache = ReportCache(most_tokens=1000)
    assert [cache.add(report("large", LARGE)) for _ in range(3)] == [True, False, False]
    for number in range(20):
        cache.add(report(f"t{number}", 150))
    assert "t0" not in cache
    assert not cache.add(report("t0", 150))
    assert cache.tokens <= 1000


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_task_whose_results_are_too_large_to_be_held_has_its_report_all_the_same(store: str, tmp_path: Path) -> None:
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")]), context_tokens=1000),
        children=[WorkerSpec(id="w", execute=lambda task, context: "word " * LARGE)],
    )
    with start(spec, store=f"sqlite:///{tmp_path}/s.db" if store == "sqlite" else None) as tree:
        handles = [tree.submit(f"t{number}") for number in range(5)]
        results = [handle.result(timeout=60.0).results["a"] for handle in handles]
        assert results == ["word " * LARGE] * 5
        desk = tree._system.services["tasks"].ports["p"]
        assert (len(desk.reports), desk.finished) == (0, 5)
        for handle in handles:
            again = tree.task(handle.id)
            assert again.status is TaskStatus.SUCCEEDED
            found = again.report
            assert found is not None
            assert found.results == {"a": "word " * LARGE}
            assert again.result(timeout=60.0) == found
