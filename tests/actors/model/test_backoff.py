"""The delay before a restart: a pure function of the attempt and a random number."""

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from actors.model.spec import Backoff


class Always:
    """A source of randomness that is none."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


BACKOFFS = st.builds(
    Backoff,
    initial_s=st.floats(0, 10),
    factor=st.floats(1, 10),
    max_s=st.floats(10, 1000),
    jitter=st.floats(0, 1),
)


def test_the_delays_double_up_to_the_longest() -> None:
    backoff = Backoff(initial_s=1, factor=2, max_s=10, jitter=0.5)

    assert [backoff.delay_s(n, Always(0.0)) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert [backoff.delay_s(n, Always(0.5)) for n in (1, 6)] == [1.25, 12.5]


@given(BACKOFFS, st.integers(1, 10**9), st.integers(0, 2**32))
def test_no_delay_is_negative_endless_or_longer_than_the_longest_and_its_jitter(
    backoff: Backoff, attempt: int, seed: int
) -> None:
    delay_s = backoff.delay_s(attempt, random.Random(seed))  # noqa: S311 - a test's dice

    assert 0 <= delay_s <= backoff.max_s * (1 + backoff.jitter) * (1 + 1e-9)
    assert math.isfinite(delay_s)


@given(BACKOFFS, st.integers(1, 100))
def test_a_later_attempt_never_waits_less(backoff: Backoff, attempt: int) -> None:
    assert backoff.delay_s(attempt, Always(0.3)) <= backoff.delay_s(attempt + 1, Always(0.3))


def test_a_child_that_fails_for_days_overflows_nothing() -> None:
    assert Backoff(initial_s=1, factor=1e300, max_s=30, jitter=0).delay_s(10**12, Always(0)) == 30
