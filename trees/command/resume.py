"""Handling of the store of a tree by ``regrow run``, and of tasks that an earlier run has left there.

Comes in: what stands on the command line, and a tree that has started. Goes out: which store it is, lines that say what
goes on and what need not be done again, and at the end the reports.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from actors.messaging.message_errors import TreeDownError
from actors.tasks.model import TaskError
from trees.agents.packages import install
from trees.declaration.specs import SupervisorSpec
from trees.host.task_handle import TaskHandle
from trees.host.tree import Tree
from trees.store.retention import Durability
from trees.views.table import one_line

FILE: Final = "regrow.db"
DEFAULT: Final = f"sqlite:///{FILE}"
"""Store of ``regrow run``, in the current directory."""
MEMORY: Final = "memory:"
_GOAL_CHARS: Final = 60

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """Where a run keeps its tasks."""

    url: str | None
    """None: in memory, or it has none."""
    durability: Durability
    said: str
    """For who started it; nothing where there is nothing to say."""


class NothingToResumeError(Exception):
    """``--resume`` where nothing can have been left."""


def store_choice(spec: SupervisorSpec, store: str | None, durability: Durability, *, resume: bool) -> StoreChoice:
    """Which store a run uses.

    Args:
        spec: what is to run.
        store: what was asked for; None: nothing.
        durability: for a store that is not in memory.
        resume: there must be one.

    Raises:
        NothingToResumeError: there is none.
    """
    if not has_tasks(spec):
        if resume:
            raise NothingToResumeError(f"{spec.id}: has no tasks (no tasks= anywhere), so there is nothing to resume")
        return StoreChoice(None, durability, "" if store is None else f"{spec.id}: has no tasks, --store is not used")
    if store == MEMORY or (store is None and not resume and not _has_sqlalchemy()):
        if resume:
            raise NothingToResumeError(f"--store {MEMORY} keeps nothing that could be resumed")
        why = "" if store == MEMORY else f". {FILE} needs SQLAlchemy. {install('sql')}"
        return StoreChoice(None, durability, f"{spec.id}: tasks are kept in memory, they end with this run{why}")
    if store is None:
        return StoreChoice(DEFAULT, durability, f"{spec.id}: tasks are kept in {FILE} ('--store {MEMORY}' keeps none)")
    return StoreChoice(store, durability, "")


def has_tasks(spec: SupervisorSpec) -> bool:
    """True if a supervisor of a declaration has ``tasks=``."""
    return spec.tasks is not None or any(has_tasks(each) for each in spec.children if isinstance(each, SupervisorSpec))


def _has_sqlalchemy() -> bool:
    return importlib.util.find_spec("sqlalchemy") is not None


def announce(tree: Tree, say: Say) -> None:
    """One line that says how many tasks go on, where there are any."""
    number = len(tree.resumed())
    if number:
        go_on = "1 unfinished task of an earlier run goes" if number == 1 else f"{number} unfinished tasks go"
        say(f"{tree.spec.id}: {go_on} on")


def finish(tree: Tree, say: Say) -> bool:
    """Wait for every task that an earlier run has left, and print its report; True where all have succeeded."""
    handles = tree.resumed()
    if not handles:
        say(f"{tree.spec.id}: nothing to resume, no task is unfinished")
    for handle in handles:
        say(_line(handle))
    succeeded = [_succeeds(handle, say) for handle in handles]  # each is waited for before anything is concluded
    return all(succeeded)


def _line(handle: TaskHandle) -> str:
    """A task, and what of it is done already."""
    kept = handle.kept
    done = f"done already, not done again: {', '.join(kept)}" if kept else "no subtask of it is done yet"
    return f"task {handle.id}: {one_line(handle.task.goal, _GOAL_CHARS)}: {done}"


def _succeeds(handle: TaskHandle, say: Say) -> bool:
    try:
        report = handle.result()
    except TreeDownError:
        return False  # why is said by who ends the run
    except TaskError:
        say(f"\n{handle.dump()}")
        return False
    output = json.dumps(report.output, indent=2, ensure_ascii=False, default=repr)
    say(f"\n{handle.dump()}\n\noutput of task {handle.id}:\n{output}")
    return True
