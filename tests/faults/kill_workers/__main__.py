"""The command."""

from __future__ import annotations

import argparse
import importlib.util
import secrets
import sys
from collections import Counter
from contextlib import nullcontext

from loguru import logger

from tests.faults import kill_workers
from tests.faults.kill_workers.rampage import Rampage
from tests.support.clusters import running_cluster


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 where a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kill_workers", description=kill_workers.__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--no-ray", action="store_true", help="no workers in a cluster; so it is without Ray")
    options = parser.parse_args(arguments)
    logger.disable("actors")  # thousands of crashes, on purpose
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    has_cluster = importlib.util.find_spec("ray") is not None and not options.no_ray
    with running_cluster() if has_cluster else nullcontext() as cluster:
        run = Rampage(seed, options.seconds, cluster)
        passed = run.run()
    for problem, count in Counter(run.problems).items():
        print(f"  {count} x {problem}")
    print(f"kill_workers {'passed' if passed else 'FAILED'}: {run.summary}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
