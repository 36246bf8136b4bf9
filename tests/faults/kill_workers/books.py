"""What was sent, and what became of it.

For each path, a pool being one: ``told = begun + dead letters + lost before they were begun``; whatever was not begun
or not brought to an end is lost with an incarnation, and each of these losses is told by an exit of its own::

    tells not begun and no dead letters  +  begun and neither done nor raised  +  raised  <=  losses that exits told of
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from actors import ChildExited, DeadLetter, Event
from tests.faults.chaos.ledger import Ledger, base
from tests.faults.kill_workers.crew import Asked, Told


@dataclass
class Books:
    """One run."""

    notes: Path
    ledger: Ledger = field(default_factory=Ledger)
    """Events: a start for each exit, no error of the library's own."""
    told: dict[int, str] = field(default_factory=dict)
    asked: dict[int, str] = field(default_factory=dict)
    forwarded: dict[int, str] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    """Asks that have ended, whichever way."""
    answered: set[int] = field(default_factory=set)
    lost: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    """Tells that became dead letters."""

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def tell(self, path: str, deed: str, other: str) -> Told:
        """A new message that nobody waits for."""
        number = next(self._numbers)
        with self._lock:
            self.told[number] = path
            self.forwarded[-number] = other
        return Told(number, deed, other)

    def ask(self, path: str, deed: str, other: str) -> Asked:
        """A new message that somebody waits for."""
        number = next(self._numbers)
        with self._lock:
            self.asked[number] = path
            self.forwarded[-number] = other
        return Asked(number, deed, other)

    def hear(self, event: Event) -> None:
        """The subscriber."""
        self.ledger.hear(event)
        if isinstance(event, ChildExited):
            self.lost[base(event.path)] += event.lost
        elif isinstance(event, DeadLetter) and event.message_type == Told.__name__:
            self.dead[base(event.path)] += 1

    def noted(self) -> dict[str, Counter[int]]:
        """What the workers have noted: begun, done, raised."""
        found: dict[str, Counter[int]] = {"begun": Counter(), "done": Counter(), "raised": Counter()}
        for line in self.notes.read_text(encoding="ascii").splitlines():
            what, number = line.split(" ")
            found[what][int(number)] += 1
        return found

    def problems(self) -> list[str]:
        """Every rule that was broken."""
        notes = self.noted()
        begun, over = notes["begun"], notes["done"] | notes["raised"]
        problems = [*self.ledger.violations]
        problems += [f"message {number} was begun {count} times" for number, count in begun.items() if count > 1]
        problems += [f"ask {number} of {path} has not ended" for number, path in self.asked.items() - self._ended()]
        problems += [f"ask {number} was answered by nobody" for number in self.answered - notes["done"].keys()]
        if self.ledger.events_lost:
            return [*problems, f"{self.ledger.events_lost} events were lost: the books cannot be closed"]
        problems += [
            f"{path}: incarnation {record.up} never exited"
            for path, record in self.ledger.records.items()
            if record.up is not None
        ]
        where = {**self.told, **self.asked, **self.forwarded}
        missing = Counter(path for number, path in self.told.items() if number not in begun)
        unended = Counter(where[number] for number in begun if number not in over)
        # What raises in an ask of a function is a failed request: nothing is lost with it.
        raised = Counter(where[number] for number in notes["raised"] if number not in self.asked)
        for path in sorted({*missing, *unended, *raised}):
            gone = missing[path] - self.dead[path]
            if gone < 0:
                problems.append(f"{path}: {self.dead[path]} tells are dead letters, {missing[path]} were not begun")
            elif gone + unended[path] + raised[path] > self.lost[path]:
                problems.append(
                    f"{path}: {gone} tells are unaccounted for, {unended[path]} were cut off, {raised[path]} raised, "
                    f"and the exits told of {self.lost[path]} losses"
                )
        return problems

    def _ended(self) -> set[tuple[int, str]]:
        return {(number, self.asked[number]) for number in self.ended}

    def __str__(self) -> str:
        notes = self.noted()
        return (
            f"{len(self.told)} tells, {len(self.asked)} asks ({len(self.answered)} answered), "
            f"{len(notes['begun'])} begun, {len(notes['done'])} done, {self.lost.total()} lost in exits, "
            f"{self.dead.total()} tells dead; exits {dict(self.ledger.ends)}"
        )
