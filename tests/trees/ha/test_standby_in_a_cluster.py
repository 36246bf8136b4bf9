"""A leader whose workers run in a cluster is killed: the standby goes on, and only what was in flight runs again."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.clusters import RayCluster
from tests.trees.ha.cluster_candidate import LEASE_S, PARTS, POOL, TASK, spec
from trees import HA, start

ROOT = Path(__file__).parents[3]
LONG_S = 300.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # several actors start, each with a Python of its own


def test_a_standby_goes_on_with_a_plan_of_two_hundred_when_the_leader_is_killed(
    cluster: RayCluster, postgres_url: str, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    command = [sys.executable, "-m", "tests.trees.ha.cluster_candidate", postgres_url, cluster.address, str(notes)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as leader:
        try:
            assert leader.stdout is not None
            done = [leader.stdout.readline()]
            with start(spec(cluster.address), store=postgres_url, ha=HA(lease_s=LEASE_S, name="second")) as standby:
                assert standby.role == "standby"
                done += [leader.stdout.readline() for _ in range(PARTS // 2)]
                assert all(done)
                leader.kill()
                before = len(notes.read_text().splitlines())

                assert standby.wait_for_role("leader", LONG_S)
                report = standby.task(TASK).result(LONG_S)

                assert report.results == {f"n{at}": f"n{at}" for at in range(PARTS)}
        finally:
            leader.kill()
    lines = [line.split() for line in notes.read_text().splitlines()]
    assert before < PARTS, "it was killed in the middle"
    keys = dict[str, set[str]]()
    for part, _, key in lines:
        keys.setdefault(part, set()).add(key)
    assert len(keys) == PARTS
    assert all(len(each) == 1 for each in keys.values()), "an attempt that was lost is tried again with the same key"
    twice = [part for part, times in Counter(part for part, _, _ in lines).items() if times > 1]
    assert len(twice) <= POOL, "only what was in flight runs again"
