"""Table of the attempts that one incarnation of an orchestrator has running, and of the asks that they wait for.

An attempt itself (``actors.tasks.execution.attempt``) outlives the orchestrator. What stands here is of one
incarnation, and each new one makes its own: which subtask an attempt is for, its breaker's token.
Only the orchestrator touches it, so there is no lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from actors.tasks.journal.subtask_state import SubtaskState, asker_of

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.journal.task_state import TaskState
    from actors.tasks.orchestration.delegation_calls import OpenDelegation


def attempt_key(state: TaskState, node: SubtaskState, number: int) -> str:
    """Return the key of an attempt, in every incarnation the same."""
    return f"{state.id}/{node.id}#{node.act}.{number}"


def number_in(key: str | None) -> int:
    """Return the number of an attempt from its key; 0 where that is the key of something else, or there is none."""
    number = (key or "").rpartition(".")[2]
    return int(number) if number.isdecimal() else 0


def subtask_in(key: str | None) -> tuple[str, str]:
    """Return the ids of the task and of the subtask from the key of an attempt; empty ones where there is none."""
    task, _, rest = (key or "").rpartition("/")
    return task, rest.rpartition("#")[0]


class RunningAttempt:
    """One attempt that runs, or has been given and is about to."""

    __slots__ = ("attempt", "breaker_token", "node")

    def __init__(self, attempt: Attempt, node: SubtaskState) -> None:
        self.attempt = attempt
        self.node = node
        self.breaker_token = 0
        """Token of its worker's breaker; 0: its end counts for nothing there."""

    def has_priority(self, priority: int) -> None:
        """Note that its task has another priority now."""
        attempt = self.attempt
        attempt.rank += priority - attempt.priority
        attempt.priority = priority


class AttemptTable:
    """Attempts that run, by key and by subtask."""

    def __init__(self) -> None:
        self.running: dict[str, RunningAttempt] = {}
        self._of: dict[SubtaskState, RunningAttempt] = {}
        self._waits: dict[str, set[str]] = {}
        """Keys of the open asks of each attempt that has any, also of steps and undos."""
        self.waiting = 0
        """Number of running attempts that wait for something that they asked for: they hold no slot."""
        self.of_teams = 0
        """Number of running attempts that teams have."""

    def __iter__(self) -> Iterator[RunningAttempt]:
        return iter(self.running.values())

    @property
    def slots_taken(self) -> int:
        """Number of running attempts that hold a slot."""
        return len(self.running) - self.waiting

    @property
    def slots_at_work(self) -> int:
        """Number of slots whose attempts are not held up by others: those of teams may be.

        Perhaps all that a team does is to wait for what its members have asked for, or for a member that does.
        """
        return self.slots_taken - self.of_teams

    def add(self, attempt: Attempt, node: SubtaskState) -> RunningAttempt:
        """Take a slot for an attempt."""
        key = attempt.key
        row = self.running[key] = self._of[node] = RunningAttempt(attempt, node)
        if key in self._waits:
            self.waiting += 1
        if attempt.spec.part:
            self.of_teams += 1
        return row

    def remove(self, attempt: Attempt) -> tuple[RunningAttempt | None, bool]:
        """Remove one that has ended, and free its slot.

        Returns what is known of it (None: it was removed before), and whether it is the one that its subtask has now.
        """
        key = attempt.key
        row = self.running.pop(key, None)
        if row is None:
            return None, False
        if key in self._waits:
            self.waiting -= 1
        if row.attempt.spec.part:
            self.of_teams -= 1
        node = row.node
        is_current = self._of.get(node) is row
        if is_current:
            del self._of[node]
        return row, is_current

    def get(self, key: str) -> RunningAttempt | None:
        """Return the one of this key."""
        return self.running.get(key)

    def of(self, node: SubtaskState) -> Attempt | None:
        """Return the attempt that a subtask has now."""
        row = self._of.get(node)
        return row.attempt if row is not None else None

    def row_of(self, node: SubtaskState) -> RunningAttempt | None:
        """Return what is known of it."""
        return self._of.get(node)

    # -- asks ----------------------------------------------------------------------------------------------

    def is_waiting(self, attempt: Attempt) -> bool:
        """True where it waits for something that it has asked for."""
        return attempt.key in self._waits

    def is_busy(self, attempt: Attempt) -> bool:
        """True where it runs, and does not wait for what it has asked for."""
        return not attempt.done and attempt.key not in self._waits

    def recall_asks(self, asks: Mapping[str, OpenDelegation], owner: object) -> None:
        """Note, in a new incarnation, which attempts of this owner wait for what."""
        for key, ask in asks.items():
            if ask.attempt.owner is owner:
                self.waits_for(ask.attempt, key)

    def waits_for(self, attempt: Attempt, ask: str) -> None:
        """Note that the attempt waits for an ask. It holds no slot meanwhile."""
        asks = self._waits.setdefault(attempt.key, set())
        self.waiting += not asks and attempt.key in self.running
        asks.add(ask)

    def waits_no_longer(self, ask: str) -> Collection[str]:
        """Note that an ask is over, also where the attempt that has waited in it has ended and is forgotten.

        Returns:
            The other asks in which that attempt waits.
        """
        key = asker_of(ask)
        asks = self._waits.get(key)
        if asks is None:
            return ()
        asks.discard(ask)
        if not asks:
            del self._waits[key]
            self.waiting -= key in self.running
        return asks
