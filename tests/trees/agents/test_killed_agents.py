"""An agent of ten requests is killed with SIGKILL in each of them: it pays for at most one request more."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import Cluster
from tests.support.sizes import WHOLE
from tests.trees.agents.agent_of_ten import REQUESTS

ROOT = Path(__file__).parents[3]
POINTS = [f"request {number}" for number in range(1, REQUESTS + 1)]
CALLS = [f"tool {number}" for number in range(1, REQUESTS)]
SAMPLE = [POINTS[0], POINTS[6], CALLS[4]]


class Agents:
    """The process whose forks are the lives of agents."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.trees.agents.agent_of_ten"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, url: str, at: str = "", *, streamed: bool = False) -> tuple[str, Counter[str], bool]:
        """Run one to its end: the result, how often each thing was begun, and whether it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([url, at, streamed]) + "\n")
        self._process.stdin.flush()
        result, done, killed = json.loads(self._process.stdout.readline())
        return result, Counter(done), killed

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def agents() -> Iterator[Agents]:
    process = Agents()
    yield process
    process.close()


def pays_once_more(agents: Agents, new: Any, points: list[str], *, streamed: bool) -> None:
    """Kill it at each of these points, and compare with a run that nobody disturbed."""
    wanted, once, killed = agents.run(new("undisturbed"), streamed=streamed)
    assert not killed
    assert once == Counter(POINTS + CALLS)
    for point in points:
        result, done, killed = agents.run(new(point), point, streamed=streamed)
        assert killed, point
        assert result == wanted, point
        assert done - once == Counter([point]), point
        assert not once - done, point


@pytest.mark.timeout(900)  # forty processes, beside other tests
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_agent_that_is_killed_in_any_request_or_tool_repeats_that_one_only(
    agents: Agents, tmp_path: Path, *, streamed: bool
) -> None:
    def new(point: str) -> str:
        return f"sqlite:///{tmp_path / point.replace(' ', '-')}.db"

    points = POINTS + CALLS if WHOLE else SAMPLE if streamed else [*POINTS, CALLS[4]]
    pays_once_more(agents, new, points, streamed=streamed)


@pytest.mark.timeout(900)
def test_an_agent_on_postgresql_that_is_killed_repeats_one_request_only(agents: Agents, postgres: Cluster) -> None:
    urls: list[str] = []

    def new(_: str) -> str:
        urls.append(postgres.create())
        return urls[-1]

    try:
        pays_once_more(agents, new, POINTS + CALLS if WHOLE else SAMPLE, streamed=False)
    finally:
        for url in urls:
            postgres.drop(url)
