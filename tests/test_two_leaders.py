"""One round of each; ``python -m tests.faults.two_leaders --rounds 20`` is the long one."""

from __future__ import annotations

import secrets
from pathlib import Path
from random import Random

import pytest

from tests.faults.two_leaders import LEASE_S, play

HOWS = [
    pytest.param("kill", id="the leader is killed"),
    pytest.param("freeze", id="it is frozen and goes on later"),
    pytest.param("cut", id="its store is cut off"),
    pytest.param("stop", id="it is stopped in order"),
]


@pytest.mark.serial
@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_one_leads_and_the_other_takes_over_and_nothing_is_lost(store_url: str, tmp_path: Path, how: str) -> None:
    seed = secrets.randbelow(10**6)
    print(f"seed {seed}")

    took = play(store_url, tmp_path, how, LEASE_S, Random(seed))  # noqa: S311 - chance, not secrets

    assert took <= LEASE_S + 1


@pytest.mark.serial
@pytest.mark.slow
def test_a_leader_whose_store_falls_silent_is_followed_too(postgres_url: str, tmp_path: Path) -> None:
    seed = secrets.randbelow(10**6)
    print(f"seed {seed}")

    took = play(postgres_url, tmp_path, "silent", LEASE_S, Random(seed))  # noqa: S311 - chance, not secrets

    assert took <= LEASE_S + 1
