"""Tasks with large results that are being written: who waits for that, and until when."""

from __future__ import annotations

from actors.tasks.scheduling.unsettled import Unsettled


def test_a_task_waits_for_all_of_its_large_results_and_no_other_one_waits() -> None:
    unsettled, called = Unsettled(), list[str]()

    def again() -> None:
        called.append("again")

    unsettled.begin("t")
    unsettled.begin("t")
    assert not unsettled.must_wait("other", "s", again)
    assert unsettled.must_wait("t", "s", again)
    assert unsettled.must_wait("t", "s", again)
    assert list(unsettled.end("t")) == []
    assert unsettled.must_wait("t", "s2", again)
    assert len(list(unsettled.end("t"))) == 2
    assert not unsettled.must_wait("t", "s", again)
    assert list(unsettled.end("t")) == []
    assert not unsettled.must_wait("t", "s", again)
    assert called == []
