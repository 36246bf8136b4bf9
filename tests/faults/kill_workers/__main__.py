"""The command."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections import Counter

from loguru import logger

from tests.faults import kill_workers
from tests.faults.kill_workers.rampage import Rampage


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 where a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kill_workers", description=kill_workers.__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    logger.disable("actors")  # thousands of crashes, on purpose
    run = Rampage(options.seed if options.seed is not None else secrets.randbelow(10**6), options.seconds)
    passed = run.run()
    for problem, count in Counter(run.problems).items():
        print(f"  {count} x {problem}")
    print(f"kill_workers {'passed' if passed else 'FAILED'}: {run.summary}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
