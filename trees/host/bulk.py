"""Many tasks that are to be submitted at once: all right, or every problem of them.

Comes in: what a user gives. Goes out: tasks, each with an id, or one ``ConfigError`` that names the wrong ones by their
places. Nothing is submitted here.
"""

from __future__ import annotations

from collections.abc import Iterable
from secrets import token_hex
from typing import Any, Final

from actors.model.errors import ConfigError, Problem
from actors.tasks.journal.codec import to_json
from actors.tasks.model.shared_values import is_small
from actors.tasks.model.task import Plan, Subtask, Task
from actors.tasks.model.task_ids import require_own
from actors.validation.spec_model import ModelT, copy_with
from actors.validation.validation_messages import type_phrase
from trees.host.submission import let_others_run

MOST_CHARACTERS: Final = 1_000_000
"""Limit of one of many tasks, in characters of JSON: all of them are written in one transaction."""
AT_ONCE: Final = 256
"""Tasks that are looked at before an event loop may do something else."""


def own_copy(task: Task) -> Task:
    """Return the task as it is now, with an id: what its caller changes of it later is no part of what runs.

    Raises:
        ConfigError: its caller has put into it what no JSON can be made of.
    """
    more = {} if task.plan is None else {"plan": _own_plan(task.plan)}
    return _unshared(task, "inputs", "metadata", id=task.id or token_hex(6), **more)


def _own_plan(plan: Plan) -> Plan:
    given: list[Any] = plan.subtasks  # somebody may have put anything in: the copy is checked
    changeable = ("depends_on", "inputs", "metadata")
    subtasks = [_unshared(each, *changeable) if isinstance(each, Subtask) else each for each in given]
    return plan.model_copy(update={"subtasks": subtasks, "warnings": plan.warnings})


def _unshared(model: ModelT, *changeable: str, **values: Any) -> ModelT:
    """Copy a model, which shares nothing of its fields that can be changed in place, with these values changed."""
    held = {name: value for name in changeable if (value := getattr(model, name))}
    if held:
        return model.model_copy(update={**held, **values})  # which checks it
    return copy_with(model, {name: type(getattr(model, name))() for name in changeable}, **values)


def checked_tasks(tasks: Iterable[Task | str]) -> list[Task]:
    """Return the tasks, each with an id; the same task twice is one task.

    Raises:
        ConfigError: some of them are wrong, or have one id and are not alike; with the places of all of these.
    """
    checking = _Checking(tasks)
    for each in tasks:
        checking.add(each)
    return checking.all_right()


async def checked_tasks_async(tasks: Iterable[Task | str]) -> list[Task]:
    """Do this on an event loop, without holding it up."""
    checking = _Checking(tasks)
    for number, each in enumerate(tasks):
        checking.add(each)
        if number % AT_ONCE == AT_ONCE - 1:
            await let_others_run()
    return checking.all_right()


class _Checking:
    """Tasks that were looked at so far."""

    def __init__(self, tasks: object) -> None:
        if isinstance(tasks, (str, bytes, Task)) or not isinstance(tasks, Iterable):
            what = f"{type_phrase(tasks)} is not a list of tasks"
            hint = "Write [Task(...), ...], or submit one with tree.submit(task)."
            raise ConfigError((Problem("tasks", what, hint),))
        self._found: list[Task] = []
        self._problems: list[Problem] = []
        self._places: dict[str, int] = {}
        """Place of the first task of each id that was given."""

    def add(self, given: object) -> None:
        """Look at the next one."""
        place = len(self._found)
        try:
            task = own_copy(_checked(given))
        except ConfigError as error:
            self._problems += [Problem(f"tasks[{place}]: {one.path}", one.what, one.hint) for one in error.problems]
            task = _STAND_IN
        first = place if task.id is None else self._places.setdefault(task.id, place)
        if self._found[first:] and self._found[first] != task:
            what = f"is that of tasks[{first}] as well, which is another task"
            self._problems.append(Problem(f"tasks[{place}].id", what, "Give each its own id, or none."))
        self._found.append(self._found[first] if first != place else task)

    def all_right(self) -> list[Task]:
        """Return all of them."""
        if self._problems:
            raise ConfigError(tuple(self._problems))
        return self._found


_STAND_IN: Final = Task(goal="?")
"""Stands for a task that is wrong, so that places are right."""


def _checked(given: object) -> Task:
    task = given if isinstance(given, Task) else Task(goal=given)  # type: ignore[arg-type]  # it says what is wrong
    require_own(task.id)
    if not is_small(task.inputs):
        size = len(to_json(task))
        if size > MOST_CHARACTERS:
            what = f"is {size:,} characters of JSON, more than {MOST_CHARACTERS:,} for one of many"
            raise ConfigError((Problem("Task", what, "Submit it by itself: tree.submit(task)."),))
    return task
