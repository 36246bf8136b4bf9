"""The restart window, against the rule of the semantics written out naively."""

from hypothesis import given
from hypothesis import strategies as st

from actors.model.restart_window import RestartWindow
from actors.model.spec import RestartLimit

TIMES = st.lists(st.integers(0, 40), max_size=30).map(sorted)


@given(TIMES, st.integers(0, 5), st.integers(1, 10))
def test_it_admits_until_more_than_the_limit_are_within_the_period(times: list[int], most: int, period: int) -> None:
    window = RestartWindow(RestartLimit(most, float(period)))
    for n, now in enumerate(times):
        recent = [at for at in times[: n + 1] if at >= now - period]

        assert window.admit(float(now)) is (len(recent) <= most)
        assert window.count(float(now)) == len(recent)


def test_zero_restarts_gives_up_at_the_first_crash() -> None:
    assert RestartWindow(RestartLimit(0, 5.0)).admit(100.0) is False


def test_a_restart_exactly_one_period_old_still_counts() -> None:
    window = RestartWindow(RestartLimit(1, 5.0))
    window.admit(10.0)

    assert window.admit(15.0) is False
    assert window.admit(20.000001) is True


@given(TIMES)
def test_counting_changes_nothing(times: list[int]) -> None:
    window, watched = RestartWindow(RestartLimit(3, 5.0)), RestartWindow(RestartLimit(3, 5.0))
    for now in times:
        watched.count(float(now + 100))

        assert window.admit(float(now)) == watched.admit(float(now))


def test_what_counted_at_the_last_attempt_is_known_without_counting() -> None:
    window = RestartWindow(RestartLimit(max_restarts=3, period_s=5.0))
    for now in (0.0, 1.0, 7.0):
        window.admit(now)

        assert window.admitted == window.count(now)
