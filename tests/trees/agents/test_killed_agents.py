"""An agent of ten requests is killed with SIGKILL in each of them: it pays for at most one request more."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.programs import python
from tests.trees.agents.agent_of_ten import REQUESTS

ROOT = Path(__file__).parents[3]
POINTS = [f"request {number}" for number in range(1, REQUESTS + 1)]
CALLS = [f"tool {number}" for number in range(1, REQUESTS)]
LIFE_S = 110.0
SAMPLE = [POINTS[0], POINTS[6], CALLS[4]]


def incarnation(url: str, at: str, place: Path, *, streamed: bool) -> int:
    """Live one; its exit code."""
    how = "streamed" if streamed else "whole"
    with python("-m", "tests.trees.agents.agent_of_ten", url, at, how, place, cwd=ROOT) as process:
        _, errors = process.communicate(timeout=LIFE_S)
        code = process.wait(LIFE_S)
    assert code in {0, -signal.SIGKILL}, errors
    return code


def lived(url: str, place: Path, at: str = "", *, streamed: bool) -> tuple[str, Counter[str], bool]:
    """Live lives until one reports: the result, how often each thing was begun, and whether the first was killed."""
    place.mkdir()
    killed = incarnation(url, at, place, streamed=streamed) != 0
    if killed:
        assert incarnation(url, "", place, streamed=streamed) == 0
    return (place / "result").read_text(), Counter((place / "notes").read_text().splitlines()), killed


def pays_once_more(new: Callable[[str], str], folder: Path, points: list[str], *, streamed: bool) -> None:
    """Kill it at each of these points, and compare with a run that nobody disturbed."""
    wanted, once, killed = lived(new("undisturbed"), folder / "undisturbed", streamed=streamed)
    assert not killed
    assert once == Counter(POINTS + CALLS)
    for point in points:
        result, done, killed = lived(new(point), folder / point, point, streamed=streamed)
        assert killed, point
        assert result == wanted, point
        assert done - once == Counter([point]), point
        assert not once - done, point


@pytest.mark.slow
@pytest.mark.timeout(900)  # a dozen processes, beside other tests
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_agent_that_is_killed_in_a_request_or_a_tool_repeats_that_one_only(
    tmp_path: Path, *, streamed: bool
) -> None:
    def new(point: str) -> str:
        return f"sqlite:///{tmp_path / point.replace(' ', '-')}.db"

    pays_once_more(new, tmp_path, SAMPLE, streamed=streamed)
