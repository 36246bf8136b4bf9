"""``python -m tests.stress --rounds 20``: the threaded tests, again and again, while nothing goes as usual.

Threads switch every microsecond and a busy process sits on each core, so that rare interleavings become common. It
stops at the first round that fails, with its output. Each round takes the costly tests of another turn
(``tests.support.turns``): twenty rounds of all of them would take a day. What comes after ``--`` goes to pytest, in
place of the threaded tests.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PURE = {
    "bench",
    "check",
    "depth",
    "docstrings",
    "examples",
    "field_types",
    "layering",
    "packaging",
    "readme",
    "resolve",
    "specs",
}
"""Modules without threads of ours, or which start programs of their own."""
ASIDE = ("tests/browser",)
"""Folders of the same kind."""


def without_pure_tests() -> list[str]:
    """Return the options of pytest that leave out the pure ones."""
    modules = sorted((ROOT / "tests").glob("**/test_*.py"))
    pure = [str(path.relative_to(ROOT)) for path in modules if path.stem.removeprefix("test_") in PURE]
    return [f"--ignore={each}" for each in (*pure, *ASIDE)]


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """One process on each core that does nothing but take time."""
    spin = "import os\nowner = os.getppid()\nwhile os.getppid() == owner:\n    sum(range(100_000))"
    spinners = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def run_round(tests: list[str], interval_s: float, timeout_s: float, turn: str) -> tuple[bool, str]:
    """One run of the tests: whether they passed, and what was printed."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.support.stress_plugin", "-p", "no:cacheprovider"]
    environment = os.environ | {"REGROW_SWITCHINTERVAL": str(interval_s), "REGROW_TURN": turn}
    try:
        done = subprocess.run(
            [*pytest, *tests], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        return False, f"{late.stdout!s}\nno end within {timeout_s:g} s"
    return done.returncode == 0, done.stdout + done.stderr


def main() -> int:
    """Exit code 1 where a round failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--interval", type=float, default=1e-6, help="seconds between two switches of threads")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one round")
    parser.add_argument("--turn", default="stress", help="name of the turns of the costly tests")
    parser.add_argument("tests", nargs="*", help="for pytest; default: every test module that has to do with threads")
    options = parser.parse_args()
    tests = options.tests or without_pure_tests()
    with busy_cores():
        for number in range(1, options.rounds + 1):
            began = time.monotonic()
            passed, output = run_round(tests, options.interval, options.timeout, f"{options.turn} {number}")
            verdict = "passed" if passed else "FAILED"
            print(f"round {number} of {options.rounds}: {verdict} in {time.monotonic() - began:.0f} s", flush=True)
            if not passed:
                print(output)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
