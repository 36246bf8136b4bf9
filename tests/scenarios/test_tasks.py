"""The programs of this folder, each run as its reader would run it: what they print is what the library promises."""

from __future__ import annotations

import re

import pytest

from tests.scenarios import dataflow, hung, isolation, loop, urgent


def test_the_dependent_of_a_fast_subtask_does_not_wait_for_an_unrelated_slow_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dataflow.main()

    assert capsys.readouterr().out.splitlines() == [
        "done in this order: fast, after_fast, slow",
        "fast: here already",
        "slow: waited for it",
        "after_fast: fast is here already",
    ]


def test_ten_sub_agents_of_which_one_fails_give_nine_results(capsys: pytest.CaptureFixture[str]) -> None:
    isolation.main()
    others = ", ".join(f"part-{n}" for n in range(10) if n != 3)

    assert capsys.readouterr().out.splitlines() == [
        f"failed with 9 results: {others}",
        "part-3: ValueError: nothing found",
        "cut short: 0",
    ]


def test_a_delegation_loop_ends_in_one_error_within_milliseconds(capsys: pytest.CaptureFixture[str]) -> None:
    loop.main()
    error, calls, took = capsys.readouterr().out.splitlines()
    took_ms = re.fullmatch(r"ended after (\d+) ms", took)

    assert "team > team/plan > team/research > team/write > team/plan: 'team/plan' would wait for itself." in error
    assert error.count("RecursionDetectedError") == 1
    assert calls == "calls: {'plan': 1, 'research': 1, 'write': 1}"
    assert took_ms is not None
    assert int(took_ms[1]) < 30_000, "nobody has waited for a time limit"


def test_an_urgent_task_preempts_and_the_interrupted_one_is_done_later(capsys: pytest.CaptureFixture[str]) -> None:
    urgent.main()

    assert capsys.readouterr().out.splitlines() == [
        "patient: queued",
        "patient: started",
        "urgent: queued",
        "patient: requeued",
        "urgent: started",
        "urgent: succeeded",
        "patient: started",
        "patient: succeeded",
        "urgent: done in attempt 1",
        "patient: done in attempt 1",
    ]


def test_a_hung_sync_tool_is_replaced_and_its_slot_counted(capsys: pytest.CaptureFixture[str]) -> None:
    hung.main()
    timeout, done, *dump = capsys.readouterr().out.splitlines()

    assert timeout == "attempt 1: AttemptTimeoutError: subtask 'tool': attempt 1 ran longer than 2 s"
    assert done == "tool: done in attempt 2"
    assert dump[0].startswith("team ")
    assert "restarts 0/3" in dump[0], "it does not count in any restart window"
    assert re.search(r"tool +permanent +running +incarnation 2 .* abandoned 1$", dump[2])
    assert dump[-1] == "abandoned: team/tool 1"
