"""The two programs that come in between: Ctrl-C and finalizers, for a moment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.programs import ran

ROOT = Path(__file__).parents[2]
HALF_MADE = re.compile(r"Exception ignored in: <function BaseEventLoop\.__del__.*?'_ssock'\n", re.DOTALL)
"""What asyncio says of a loop of its own that an interrupt has left half made."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [(("interrupts", "--seconds", "2"), "every worker answers"), (("finalizers", "--messages", "600"), "2400 came")],
    ids=["interrupts", "finalizers"],
)
def test_whatever_comes_in_between_no_message_is_lost(words: tuple[str, ...], said: str) -> None:
    program, *options = words
    done = ran("-m", f"tests.faults.{program}", *options, cwd=ROOT)

    assert (done.returncode, HALF_MADE.sub("", done.stderr)) == (0, "")
    assert said in done.stdout
