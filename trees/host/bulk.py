"""Checks many tasks that are to be submitted at once: tasks with ids, or one ``ConfigError`` with all problems."""

from __future__ import annotations

from collections.abc import Generator, Iterable
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
    steps = _checking(tasks)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def checked_tasks_async(tasks: Iterable[Task | str]) -> list[Task]:
    """Do this on an event loop, without holding it up."""
    steps = _checking(tasks)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        await let_others_run()


def _checking(tasks: object) -> Generator[None, None, list[Task]]:
    """Check all tasks; yields after each ``AT_ONCE`` of them, so that an event loop may do something else."""
    if isinstance(tasks, (str, bytes, Task)) or not isinstance(tasks, Iterable):
        what = f"{type_phrase(tasks)} is not a list of tasks"
        raise ConfigError((Problem("tasks", what, "Write [Task(...), ...], or submit one with tree.submit(task)."),))
    found, problems, places = list[Task](), list[Problem](), dict[str, int]()
    for place, given in enumerate(tasks):
        try:
            task = own_copy(_checked(given))
        except ConfigError as error:
            problems += [Problem(f"tasks[{place}]: {one.path}", one.what, one.hint) for one in error.problems]
            task = _STAND_IN
        first = place if task.id is None else places.setdefault(task.id, place)
        if first != place and found[first] != task:
            what = f"is that of tasks[{first}] as well, which is another task"
            problems.append(Problem(f"tasks[{place}].id", what, "Give each its own id, or none."))
        found.append(found[first] if first != place else task)
        if place % AT_ONCE == AT_ONCE - 1:
            yield
    if problems:
        raise ConfigError(tuple(problems))
    return found


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
