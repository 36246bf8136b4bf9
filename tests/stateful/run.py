"""Runs a stateful model for long: ``python -m tests.stateful.test_trees --minutes 20 [--seed N]``."""

from __future__ import annotations

import argparse
import faulthandler
import secrets
import sys
import time
import traceback
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from loguru import logger

RUNS_PER_SEED = 20
HANG_S = 600.0
"""Seconds after which one seed is taken to hang: then the stacks of all threads are printed, and the program ends."""


def main(machine: type[RuleBasedStateMachine], steps_per_run: int = 50) -> None:
    """Run the machine with one seed after the other until the minutes are over, and print each seed that fails.

    A failing run is printed as it was, and not made smaller: much of what fails depends on the timing of threads.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="the first seed")
    options = parser.parse_args()
    logger.remove()
    runs = steps = 0

    class Counted(machine):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            nonlocal runs
            super().__init__()
            runs += 1

        def check_invariants(self, *args: Any, **kwargs: Any) -> None:
            """Called once before the first step, and after each: an ``invariant`` would be printed each time."""
            nonlocal steps
            super().check_invariants(*args, **kwargs)
            steps += 1

    how = settings(
        max_examples=RUNS_PER_SEED,
        stateful_step_count=steps_per_run,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    failed: list[int] = []
    number, end = options.seed, time.monotonic() + options.minutes * 60
    while time.monotonic() < end:
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        try:
            run_state_machine_as_test(seed(number)(Counted), settings=how)
        except Exception:  # noqa: BLE001 - whatever a model finds is printed, and the next seed has its turn
            failed.append(number)
            print(f"--- seed {number} failed", flush=True)
            traceback.print_exc(file=sys.stdout)
        number += 1
    faulthandler.cancel_dump_traceback_later()
    print(f"{machine.__name__}: {runs} runs, {steps} steps, seeds {options.seed} to {number - 1}; failed: {failed}")
    sys.exit(1 if failed else 0)
