"""One round of each; ``python -m tests.faults.two_leaders --rounds 20`` is the long one."""

from __future__ import annotations

import secrets
from pathlib import Path
from random import Random

import pytest

from tests.faults.two_leaders import play
from tests.support.load import beside_others

HOWS = {
    "kill": "the leader is killed",
    "freeze": "it is frozen and goes on later",
    "cut": "its store is cut off",
    "stop": "it is stopped in order",
}
LEASE_S = GRACE_S = 3.0
"""Both longer than in the program itself: beside other tests a process may be held up for a second or two."""
USUAL = 4.0
"""Threads that want each core while the tests run alone."""
ROWS = [
    pytest.param(store, how, id=f"{store}-{HOWS[how]}")
    for store, how in (("sqlite", "kill"), ("postgres", "freeze"), ("sqlite", "cut"), ("postgres", "stop"))
]


@pytest.mark.slow
@pytest.mark.parametrize(("store", "how"), ROWS)
def test_one_leads_and_the_other_takes_over_and_nothing_is_lost(
    store: str, how: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store_url = request.getfixturevalue(f"{store}_url")
    # A stop hands over at once. With a long lease that shows on a busy machine, too.
    assert_follows(store_url, tmp_path, how, 3 * LEASE_S if how == "stop" else LEASE_S)


@pytest.mark.slow
def test_a_leader_whose_store_falls_silent_is_followed_too(postgres_url: str, tmp_path: Path) -> None:
    assert_follows(postgres_url, tmp_path, "silent", LEASE_S)


def assert_follows(url: str, folder: Path, how: str, lease_s: float) -> None:
    """Play one round. A machine that does much else holds up who renews a lease, and who takes one."""
    seed = secrets.randbelow(10**6)
    print(f"seed {seed}")
    busy = max(1.0, beside_others(1.0) / USUAL)

    play(url, folder, how, lease_s * busy, Random(seed), grace_s=GRACE_S * busy)  # noqa: S311 - chance, not secrets
