"""The two programs that come in between: Ctrl-C and finalizers, for a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import ran

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [(("interrupts", "--seconds", "2"), "every worker answers"), (("finalizers", "--messages", "600"), "2400 came")],
    ids=["interrupts", "finalizers"],
)
def test_whatever_comes_in_between_no_message_is_lost(words: tuple[str, ...], said: str) -> None:
    program, *options = words
    done = ran("-m", f"tests.faults.{program}", *options, cwd=ROOT)

    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
