"""The command: rounds, until the time is up or an invariant is broken."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections import Counter

from loguru import logger

from tests.faults import chaos
from tests.faults.chaos.rounds import DEFAULT_SWITCH_S, Round

ROUND_S = 3.0
SWITCHES = (DEFAULT_SWITCH_S, 1e-6, 1e-4)
"""The rounds take turns with these."""


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 where an invariant was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.chaos", description=chaos.__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=None, help="at most so many, each of about 3 s")
    parser.add_argument("--round", type=int, default=1, help="the number of the first one")
    parser.add_argument("--switch-interval", type=float, default=None, help="of all rounds; default: they take turns")
    options = parser.parse_args(arguments)
    logger.disable("actors")  # thousands of crashes, on purpose
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    began, number, total = time.monotonic(), options.round, Counter[str]()
    while time.monotonic() - began < options.seconds and (options.rounds is None or total["rounds"] < options.rounds):
        interval = options.switch_interval or SWITCHES[number % len(SWITCHES)]
        one = Round(seed, number, min(ROUND_S, options.seconds), interval)
        passed = one.run()
        ledger = one.ground.ledger
        total.update(rounds=1, tells=len(ledger.told), asks=len(ledger.asked), handled=len(ledger.begun))
        total.update(dead=len(ledger.dead), lost_events=ledger.events_lost, skipped=one.skipped, **ledger.ends)
        total.update(calls=one.load.calls if one.load is not None else 0)
        if not passed:
            print(one.report())
            print(f"chaos FAILED after {time.monotonic() - began:.0f} s: {dict(total)}", flush=True)
            if one.hangs:
                os._exit(1)  # threads that cannot be ended would keep the interpreter
            return 1
        number += 1
    print(f"chaos passed: seed {seed}, {time.monotonic() - began:.0f} s: {dict(total)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
