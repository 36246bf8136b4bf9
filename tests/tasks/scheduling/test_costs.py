"""What one subtask of a chain costs the tree's event loop, counted: a busy machine does not change that."""

import enum
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import actors
from actors import Context
from actors.tasks.orchestration.orchestrator import Orchestrator
from actors.testing import settle
from tests.support.operations import counted_on_loop
from trees import Plan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start

FEW, MANY = 10, 50
OPERATIONS = 9_500
"""A tenth more than were counted."""
OURS = str(Path(actors.__file__).parent)


@pytest.fixture(autouse=True)
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test looks at the books after each message here: that costs more than the message."""
    monkeypatch.setattr(Orchestrator, "watch", None)


async def work(task: Subtask, context: Context) -> str:
    return "done"


def chain(number: int) -> Task:
    subtasks = [Subtask(f"n{at}", worker="w", depends_on=[f"n{at - 1}"] if at else []) for at in range(number)]
    return Task("go", plan=Plan(subtasks))


def of_one_more(measure: Callable[[Tree, Task], int]) -> float:
    """Cost of each subtask by which a chain is longer: what the task itself costs is no part of it."""
    spec = SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=work)])
    with start(spec) as tree:
        tree.run(chain(FEW), timeout=60)  # what is made once is there
        settle(tree)
        few, many = (measure(tree, chain(number)) for number in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def test_a_subtask_of_a_chain_costs_so_many_operations_of_the_interpreter() -> None:
    def measure(tree: Tree, task: Task) -> int:
        with counted_on_loop(tree) as operations:
            tree.run(task, timeout=60)
            settle(tree)
        return operations.count

    assert of_one_more(measure) < OPERATIONS


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from 3.12 on members are found by their class at once")
def test_a_subtask_of_a_chain_finds_next_to_no_member_of_an_enumeration_by_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: Counter[str] = Counter()
    real = type.__getattribute__

    def look(cls: Any, name: str) -> Any:
        caller = sys._getframe(1).f_code
        if caller.co_filename.startswith(OURS):
            found[f"{real(cls, '__name__')}.{name} in {caller.co_qualname}"] += 1
        return real(cls, name)

    monkeypatch.setattr(enum.EnumMeta, "__getattribute__", look)

    def measure(tree: Tree, task: Task) -> int:
        before = found.total()
        tree.run(task, timeout=60)
        settle(tree)
        return found.total() - before

    assert of_one_more(measure) < 3, found.most_common(20)
