"""Errors of providers: tried again, put off, or given up."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest

from actors import Escalated, Failed, Later
from tests.trees.agents.one_agent import ProviderError
from trees.agents.model_errors import outcome_of, retry_after_s


def caused(error: Exception) -> Exception:
    outer = RuntimeError("in the agent")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
@pytest.mark.parametrize("wrap", [lambda error: error, caused])
def test_a_wrong_request_is_given_up(status: int, wrap: Any) -> None:
    error = wrap(ProviderError(status))
    outcome = outcome_of(error)

    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert outcome.__cause__ is error


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("wrap", [lambda error: error, caused])
def test_what_passes_is_tried_again(status: int, wrap: Any) -> None:
    error = wrap(ProviderError(status))

    assert outcome_of(error) is error


@pytest.mark.parametrize("error", [ConnectionError("reset"), TimeoutError(), ValueError("of a tool"), OSError(5, "io")])
def test_any_other_error_is_tried_again(error: Exception) -> None:
    assert outcome_of(error) is error


@pytest.mark.parametrize("status", [429, 503, 529])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
    ],
)
def test_a_provider_that_says_when_to_come_back_gets_that(status: int, headers: dict[str, str], seconds: float) -> None:
    outcome = outcome_of(caused(ProviderError(status, headers)))

    assert isinstance(outcome, Later)
    assert outcome.after_s == seconds


def test_a_date_to_come_back_at_is_seconds_from_now() -> None:
    after_s = retry_after_s(ProviderError(429, {"retry-after": formatdate(time.time() + 60, usegmt=True)}))

    assert after_s is not None
    assert 50 < after_s <= 60


@pytest.mark.parametrize("said", ["", "soon", "nan", "inf", "Mon, 99 Foo"])
def test_rubbish_in_the_header_is_as_if_it_said_nothing(said: str) -> None:
    error = ProviderError(429, {"retry-after": said})

    assert outcome_of(error) is error


@pytest.mark.parametrize("signal", [Later(3.0), Escalated("why?"), Failed("no")])
def test_a_signal_within_an_agent_is_that_of_the_attempt(signal: Exception) -> None:
    assert outcome_of(signal) is signal
    assert outcome_of(caused(signal)) is signal


def test_causes_that_lead_in_a_circle_end() -> None:
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one

    assert outcome_of(one) is one
