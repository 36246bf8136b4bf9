"""Tasks with large results that are being written: who waits for that, and until when."""

from __future__ import annotations

from actors.tasks.scheduling.unsettled import Unsettled


def test_a_task_waits_for_all_of_its_large_results_and_no_other_one_waits() -> None:
    unsettled: Unsettled[str] = Unsettled()
    unsettled.begin("t")
    unsettled.begin("t")
    assert not unsettled.must_wait("other", "s")
    assert unsettled.must_wait("t", "s")
    assert unsettled.must_wait("t", "s")
    assert list(unsettled.end("t")) == []
    assert unsettled.must_wait("t", "s2")
    assert list(unsettled.end("t")) == ["s", "s2"]
    assert not unsettled.must_wait("t", "s")
    assert list(unsettled.end("t")) == []
    assert not unsettled.must_wait("t", "s")
