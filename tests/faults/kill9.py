"""``python -m tests.faults.kill9 --rounds 100 [--store sqlite|postgres|URL] [--kills 3] [--seed N]``.

Each round a process works on the fifty errands (``tests.faults.errands``), is killed with SIGKILL at a random moment,
and another one goes on with what it left; up to so many times, and the last one comes to the end. Then all that is
known is compared with a run that nobody disturbed:

* the report is the same;
* in the journal each subtask has succeeded once at most, and nothing of it was started afterwards;
* what was compensated is in the record once, in reverse order;
* each process ran again, of what its predecessors had begun, only what was in flight when they died: so a subtask has
  run as often as it would have, and at most once more for each death that met it; and always with the same key.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import secrets
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

from actors import Event
from actors.tasks.journal.fold import fold
from actors.tasks.model import task_events
from tests.faults.errands import PAID, TASK
from tests.faults.fresh import KINDS, databases
from tests.support import programs
from trees import StoreError, SubtaskStatus
from trees.store import SqlStore

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
TOLD = 10
"""After so many rounds it says how far it is: one that is broken off has shown something, too."""


class Wrong(AssertionError):  # noqa: N818 - a finding
    """Something was lost, or done twice."""


class Process:
    """One process that can be killed. It is loaded beforehand, so that its life begins with its tree."""

    def __init__(self, url: str, effects: Path) -> None:
        self._popen = programs.python("-m", "tests.faults.errands", url, effects, cwd=ROOT, talks=True)
        self._said("ready")

    def _said(self, word: str) -> None:
        line = self._read()
        if line != word:
            raise Wrong(f"the process said {line!r} instead of {word!r}, and ended with {self._popen.wait(PATIENCE_S)}")

    def _read(self) -> str:
        assert self._popen.stdout is not None
        return self._popen.stdout.readline().strip()

    def go(self) -> None:
        """Let it start its tree."""
        assert self._popen.stdin is not None
        self._popen.stdin.write("go\n")
        self._popen.stdin.flush()

    def dies_after(self, seconds: float) -> bool:
        """Kill it after so long; False where it had come to its end before."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
            return False
        self._popen.kill()
        self._popen.wait(PATIENCE_S)
        return True

    def report(self) -> dict[str, Any]:
        """Wait for its end: what it says of the task."""
        self._said("up")
        said = self._read()
        code = self._popen.wait(PATIENCE_S)
        if code or not said:
            raise Wrong(f"the process ended with {code} and said {said!r}")
        report: dict[str, Any] = json.loads(said)
        return report

    def close(self) -> None:
        """Leave nothing of it."""
        self._popen.kill()
        with self._popen:
            self._popen.communicate()


def journal(url: str) -> Sequence[Event]:
    """What is kept of the task; nothing where a process died before there was a store."""
    try:
        store = SqlStore.look(url)
    except StoreError as error:
        if "is not a store yet" in str(error) or "does not exist" in str(error):
            return ()
        raise
    with contextlib.closing(store):
        return store.read(TASK)


class Round:
    """One run that is killed now and then."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._effects = folder / "effects"
        self._processes: list[Process] = []
        self.in_flight: Counter[str] = Counter()
        """How many deaths met a subtask, or its undo, while it was in flight."""

    def process(self) -> Process:
        """One more, loaded and waiting."""
        process = Process(self._url, self._effects)
        self._processes.append(process)
        return process

    def note_in_flight(self) -> None:
        """Somebody has just died: what had it begun and not recorded the end of?"""
        records = journal(self._url)  # none, where it was killed before the first one
        for unit in fold(TASK, records).units.values() if records else ():
            if unit.status is SubtaskStatus.RUNNING:
                self.in_flight[f"did {unit.path}"] += 1
            if unit.undo is not None:
                self.in_flight[f"undid {unit.path}"] += 1

    def effects(self) -> Counter[str]:
        """What was done, and how often: by the words of the lines."""
        return Counter(self._effects.read_text().splitlines()) if self._effects.exists() else Counter()

    def close(self) -> None:
        """Leave nothing of it."""
        for process in self._processes:
            process.close()


def check_journal(records: Sequence[Event]) -> None:
    """Each subtask once, and compensated once, in reverse order of the payments."""
    succeeded: Counter[str] = Counter()
    undone = [each.subtask for each in records if isinstance(each, task_events.Compensated)]
    for record in records:
        if isinstance(record, task_events.SubtaskStarted) and succeeded[record.subtask]:
            raise Wrong(f"{record.subtask} was started again after its result was recorded")
        if isinstance(record, task_events.SubtaskSucceeded):
            succeeded[record.subtask] += 1
    twice = [id_ for id_, times in succeeded.items() if times > 1]
    if twice:
        raise Wrong(f"more than one result is recorded of {twice}")
    paid = [each.subtask for each in records if isinstance(each, task_events.SubtaskStarted) and each.subtask in PAID]
    began = list(dict.fromkeys(paid))
    if undone != began[::-1]:
        raise Wrong(f"paid in the order {began}, and undone in the order {undone}")


def check_effects(done: Counter[str], calm: Counter[str], in_flight: Counter[str]) -> int:
    """As often as undisturbed, and once more at most for each death in the middle of it; how often that was."""
    if done.keys() != calm.keys():
        raise Wrong(f"other keys than undisturbed: {sorted(done.keys() ^ calm.keys())}")
    again = 0
    for line, times in done.items():
        more = times - calm[line]
        verb, key = line.split()[0], line.split()[-1]  # the key of an undo has one word more
        path = key.partition("@")[2].rpartition(":")[0].removesuffix("/@undo")
        what = f"{verb} {path}"
        if not 0 <= more <= in_flight[what]:
            raise Wrong(f"{line!r}: {times} times, {calm[line]} undisturbed, {in_flight[what]} deaths in the middle")
        again += more
    return again


def undisturbed(url: str, folder: Path) -> tuple[dict[str, Any], Counter[str], float]:
    """The report, the effects, and how long it took from the start of the tree."""
    run = Round(url, folder)
    try:
        process = run.process()
        began = perf_counter()
        process.go()
        report = process.report()
        took = perf_counter() - began
        check_journal(journal(url))
        return report, run.effects(), took
    finally:
        run.close()


def disturbed(
    url: str, folder: Path, moments: Sequence[float], report: dict[str, Any], calm: Counter[str]
) -> tuple[int, int]:
    """One round; how many deaths there were, and how much had to be done again."""
    run, deaths = Round(url, folder), 0
    try:
        process = run.process()
        for moment in moments:
            heir = run.process()
            process.go()
            if not process.dies_after(moment):
                break  # it was done before: its report is in the record
            deaths += 1
            run.note_in_flight()
            process = heir
        else:
            heir = process
        heir.go()
        found = heir.report()
        if found != report:
            raise Wrong(f"another report than undisturbed:\n{json.dumps(found)}\n{json.dumps(report)}")
        check_journal(journal(url))
        return deaths, check_effects(run.effects(), calm, run.in_flight)
    finally:
        run.close()


def kill9(which: str, rounds: int, kills: int, seed: int, say: Callable[[str], object]) -> int:
    """So many rounds on one kind of database; how many deaths there were in all."""
    dice = random.Random(seed)  # noqa: S311 - to be repeated
    deaths = again = 0
    began = monotonic()
    with tempfile.TemporaryDirectory() as place, databases(which) as fresh:
        calm_folder = Path(place, "calm")
        calm_folder.mkdir()
        report, calm, took = undisturbed(fresh(), calm_folder)
        say(f"{which}: undisturbed {took:.2f} s, {calm.total()} effects")
        for number in range(rounds):
            folder = Path(place, str(number))
            folder.mkdir()
            moments = [dice.uniform(0.0, took / (1 + at)) for at in range(dice.randint(1, kills))]
            try:
                died, repeated = disturbed(fresh(), folder, moments, report, calm)
            except Wrong as error:
                raise Wrong(f"{which}, round {number}, seed {seed}: {error}") from error
            deaths, again = deaths + died, again + repeated
            if (number + 1) % TOLD == 0:
                say(f"{which}: {number + 1} rounds so far, {deaths} deaths; {monotonic() - began:.0f} s")
    say(
        f"{which}: {rounds} rounds, {deaths} deaths, {again} pieces of work in flight were done again, "
        f"nothing else was, nothing was lost; {monotonic() - began:.0f} s"
    )
    return deaths


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kill9", description="Kill it, and look what is left.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--kills", type=int, default=3, help="at most so many in one round")
    parser.add_argument("--store", choices=KINDS, help="default: both, one after the other")
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args()
    seed = chosen.seed if chosen.seed is not None else secrets.randbits(32)
    print(f"seed {seed}", flush=True)
    for which in [chosen.store] if chosen.store else KINDS:
        kill9(which, chosen.rounds, chosen.kills, seed, lambda text: print(text, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
