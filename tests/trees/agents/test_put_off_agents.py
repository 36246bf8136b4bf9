"""An agent whose provider says when to come back goes on then with the request that was refused."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents import Agent, ModelResponse, function_tool
from openai import RateLimitError

from actors import Later
from tests.support.attempts import LONG_S
from tests.support.programs import python
from tests.trees.agents.openai_fakes import Scripted, calls, says
from tests.trees.agents.put_off_agent import BUSY, REQUESTS, busy_agent, tree_of
from trees import Report, Task, start
from trees.agents import OpenAIAgent, PydanticAI

ROOT = Path(__file__).parents[3]
LIFE_S = 110.0
ONCE = Counter(range(1, REQUESTS + 1))


class Busy:
    """A provider that refuses the sixth request once, by whoever asks."""

    def __init__(self) -> None:
        self.made: Counter[int] = Counter()

    def note(self, number: int) -> int:
        self.made[number] += 1
        return self.made[number]

    def answer(self, said: Any) -> ModelResponse:
        items = [said] if isinstance(said, str) else said
        number = 1 + sum(isinstance(each, dict) and each.get("type") == "function_call" for each in items)
        if self.note(number) == 1 and number == BUSY:
            request = httpx.Request("POST", "http://offline")
            response = httpx.Response(429, headers={"retry-after": "0.01"}, request=request)
            raise RateLimitError("busy", response=response, body=None)
        return (
            says("done", 7) if number == REQUESTS else calls(("double", {"number": number}), tokens=7, id_=f"c{number}")
        )

    def agent(self, framework: str, **words: Any) -> Any:
        if framework == "pydantic-ai":
            return PydanticAI(busy_agent(self.note), stream=False, **words)
        model = Scripted(*[self.answer] * 100)
        return OpenAIAgent(Agent(name="a", model=model, tools=[double]), max_turns=REQUESTS + 2, **words)


@function_tool
def double(number: int) -> int:
    """Double it."""
    return 2 * number


def run(executable: Any, store: str | None = None) -> Report:
    with start(tree_of(executable), store=store) as tree:
        return tree.submit(Task("add up")).result(timeout=LONG_S)


FRAMEWORKS = pytest.mark.parametrize("framework", ["pydantic-ai", "openai-agents"])


@FRAMEWORKS
@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "SQLite"])
def test_only_the_request_that_was_refused_is_made_again(tmp_path: Path, framework: str, *, is_durable: bool) -> None:
    busy = Busy()

    report = run(busy.agent(framework), f"sqlite:///{tmp_path}/s.db" if is_durable else None)

    assert report.results == {"x": "done"}
    assert busy.made - ONCE == Counter([BUSY])
    assert report.usage.tokens == 7 * REQUESTS
    assert report.graph[0].attempts == 1


@FRAMEWORKS
def test_without_steps_it_begins_anew(framework: str) -> None:
    busy = Busy()

    report = run(busy.agent(framework, durable=False))

    assert busy.made - ONCE == Counter(range(1, BUSY + 1))
    assert report.usage.tokens == 7 * (REQUESTS + BUSY - 1)


def test_a_tool_that_says_later_has_the_whole_attempt_begin_anew() -> None:
    """That is the user's word, and means what it means in a function."""
    busy, left = Busy(), [Later(0.001)]
    busy.made[BUSY] = 1

    @function_tool(failure_error_function=None)
    def double(number: int) -> int:
        """Double it."""
        if number == 3 and left:
            raise left.pop()
        return 2 * number

    model = Scripted(*[busy.answer] * 100)

    report = run(OpenAIAgent(Agent(name="a", model=model, tools=[double]), max_turns=REQUESTS + 2))

    assert report.results == {"x": "done"}
    assert busy.made[1] == 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_process_that_is_killed_when_it_comes_back_leaves_all_answers_to_the_next_one(tmp_path: Path) -> None:
    for dies, expected in (("yes", -signal.SIGKILL), ("no", 0)):
        url = f"sqlite:///{tmp_path}/s.db"
        with python("-m", "tests.trees.agents.put_off_agent", url, tmp_path, dies, cwd=ROOT) as process:
            _, errors = process.communicate(timeout=LIFE_S)
            assert process.wait(LIFE_S) == expected, errors

    made = Counter(int(number) for number in (tmp_path / "notes").read_text().split())
    assert made - ONCE == Counter([BUSY, BUSY])
    assert (tmp_path / "result").read_text() == f"done {7 * REQUESTS}"
