"""Streams of real clients that are cut off, tell no usage, fail, or hold unknown items: answers are whole and count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("agents", reason="the SDK of OpenAI Agents")
pytest.importorskip("httpx2", reason="the client of openai")

from agents import Agent as OpenAIAgentOfSDK
from agents import OpenAIChatCompletionsModel
from agents import OpenAIResponsesModel as ResponsesOfSDK
from pydantic_ai import Agent
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.trees.agents.fake_provider import SAID, TOKENS, Provider
from tests.trees.agents.one_agent import report_of, tree_of
from trees import Retry, start


def chat(provider: Provider, name: str) -> Any:
    return Agent(OpenAIChatModel(name, provider=OpenAIProvider(openai_client=provider.client())))


def responses(provider: Provider, name: str) -> Any:
    return Agent(OpenAIResponsesModel(name, provider=OpenAIProvider(openai_client=provider.client())))


def wrapped(provider: Provider, name: str) -> Any:
    return Agent(WrapperModel(chat(provider, name).model))


def fallback(provider: Provider, name: str) -> Any:
    return Agent(FallbackModel(chat(provider, name).model, chat(provider, "plain").model))


def with_a_tool(provider: Provider, name: str) -> Any:
    return Agent(chat(provider, name).model, tools=[abs])


def sdk_chat(provider: Provider, name: str) -> Any:
    return OpenAIAgentOfSDK(name="it", model=OpenAIChatCompletionsModel(name, provider.client()))


def sdk_responses(provider: Provider, name: str) -> Any:
    return OpenAIAgentOfSDK(name="it", model=ResponsesOfSDK(name, provider.client()))


Made = Callable[[Provider, str], Any]
ALL = (chat, responses, wrapped, fallback, with_a_tool, sdk_chat, sdk_responses)
CHATS = (chat, wrapped, fallback, with_a_tool, sdk_chat)


@pytest.mark.slow
@pytest.mark.parametrize("made", [chat, responses, sdk_chat, sdk_responses])
def test_a_stream_that_is_whole_is_the_answer_and_its_usage_counts(made: Made) -> None:
    provider = Provider()
    report = report_of(made(provider, "plain"))

    assert report.results["w"] == SAID
    assert report.usage.tokens == TOKENS
    assert provider.streamed == [True]


@pytest.mark.parametrize("made", ALL)
def test_an_answer_that_is_cut_off_by_a_closed_connection_is_not_taken_for_a_whole_one(made: Made) -> None:
    provider = Provider()
    report = report_of(made(provider, "cut"), on_failure=[Retry(max_attempts=2, initial_s=0.0, jitter=0.0)])

    if made is sdk_responses:  # its stream says by itself that it is cut off: a broken connection, tried again
        assert "in the middle" in str(report.failed["w"])
        assert provider.streamed == [True, True]
    else:
        assert report.results["w"] == SAID
        assert report.usage.tokens == TOKENS
        assert provider.streamed == [True, False]


@pytest.mark.parametrize("made", CHATS)
def test_a_server_that_never_says_why_a_stream_ends_is_asked_for_whole_answers_from_the_third_on(made: Made) -> None:
    provider = Provider()
    with start(tree_of(made(provider, "endless"))) as tree:
        reports = [tree.run("go on", timeout=60) for _ in range(3)]

    assert provider.streamed == [True, False, True, False, False]
    assert [report.usage.tokens for report in reports] == [2 * TOKENS, 2 * TOKENS, TOKENS]


@pytest.mark.parametrize("made", CHATS)
def test_a_page_in_place_of_a_stream_is_no_empty_answer(made: Made) -> None:
    provider = Provider()
    report = report_of(made(provider, "no stream"), on_failure=[])

    if made is sdk_chat:
        assert report.results["w"] == SAID
        assert provider.streamed == [True, False]
    else:  # pydantic-ai says so itself
        assert "without content" in str(report.failed["w"])


@pytest.mark.parametrize("made", CHATS)
def test_a_provider_that_tells_no_usage_when_it_streams_is_asked_for_whole_answers_from_then_on(made: Made) -> None:
    provider = Provider()
    agent = made(provider, "silent")
    with start(tree_of(agent)) as tree:
        tree.run("once")
        begun = len(provider.streamed)
        report = tree.run("once more")

    assert provider.streamed[begun:] == [False]
    assert report.usage.tokens == TOKENS
    assert provider.streamed.count(True) == 1


@pytest.mark.parametrize("made", [chat, wrapped, with_a_tool, sdk_chat])
@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_does_not_know_the_wish_for_usage_is_asked_without_a_stream(made: Made, status: int) -> None:
    provider = Provider(refuses=status)
    with start(tree_of(made(provider, "strict"))) as tree:
        reports = [tree.run("go on", timeout=60) for _ in range(2)]

    assert [report.results["w"] for report in reports] == [SAID] * 2
    assert [report.usage.tokens for report in reports] == [TOKENS] * 2
    assert provider.streamed == [True, False, False]
