"""Runs a stateful model for long: ``python -m tests.stateful.test_trees --minutes 20 [--seed N]``."""

from __future__ import annotations

import argparse
import faulthandler
import secrets
import sys
import time
import traceback
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.errors import HypothesisException
from hypothesis.reporting import with_reporter
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from loguru import logger

RUNS_PER_SEED = 20
HANG_S = 600.0
"""Seconds after which one seed is taken to hang: then the stacks of all threads are printed, and the program ends."""


def main(machine: type[RuleBasedStateMachine], steps_per_run: int = 50) -> None:
    """Run the machine with one seed after the other until the minutes are over, and print each seed that fails.

    A run that fails is printed at once, as it was: much of what fails depends on the timing of threads, so the same
    steps may pass when they are done again.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="the first seed")
    options = parser.parse_args()
    logger.remove()
    runs = steps = 0
    said: list[str] = []
    """What the run under way has done so far: its steps and notes."""

    class Counted(machine):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            nonlocal runs
            super().__init__()
            runs += 1
            said.clear()

        def check_invariants(self, *args: Any, **kwargs: Any) -> None:
            """Called once before the first step, and after each: an ``invariant`` would be printed each time."""
            nonlocal steps
            super().check_invariants(*args, **kwargs)
            steps += 1

        def teardown(self) -> None:
            """Called with the error of a step, if there was one, under way."""
            try:
                super().teardown()
            finally:
                error = sys.exc_info()[1]
                if isinstance(error, Exception) and not isinstance(error, HypothesisException):
                    failed.setdefault(number, "\n".join((*said, "".join(traceback.format_exception(error)))))

    how = settings(
        max_examples=RUNS_PER_SEED,
        stateful_step_count=steps_per_run,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        verbosity=Verbosity.debug,
        suppress_health_check=list(HealthCheck),
    )
    failed: dict[int, str] = {}
    number, end = options.seed, time.monotonic() + options.minutes * 60
    while time.monotonic() < end:
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        try:
            with with_reporter(lambda line: said.append(str(line))):
                run_state_machine_as_test(seed(number)(Counted), settings=how)
        except Exception as error:  # noqa: BLE001 - whatever a model finds is printed, and the next seed has its turn
            failed.setdefault(number, "".join(traceback.format_exception(error)))
        if number in failed:  # also where hypothesis has taken the error for the end of a run that is of no use
            print(f"--- seed {number} failed\n{failed[number]}", flush=True)
        number += 1
    faulthandler.cancel_dump_traceback_later()
    seeds = f"seeds {options.seed} to {number - 1}"
    print(f"{machine.__name__}: {runs} runs, {steps} steps, {seeds}; failed: {list(failed)}")
    sys.exit(1 if failed else 0)
