"""An orchestrator is a child that its supervisor needs: it is stopped and started as others are, and never deleted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors import ChildError, ConfigError
from tests.tasks.dispatching import LONG_S
from tests.tasks.orchestration.one_worker import held, incarnation_of
from tests.tasks.outcomes import one_worker, result_of
from trees import SupervisorSpec, TaskStatus, Tree, WorkerSpec, start

PATH = "p/orchestrator"


def code_of(call: Callable[[str], object], path: str = PATH) -> str:
    with pytest.raises(ChildError) as refused:
        call(path)
    return refused.value.code


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_an_orchestrator_is_not_deleted_and_its_tasks_go_on(state: str) -> None:
    with held() as (tree, hang, _):
        handle = tree.submit("go")
        hang.wait_until_entered()
        if state == "stopped":
            tree.terminate_child(PATH)
        assert code_of(tree.delete_child) == "owned"
        assert tree.child(PATH).state == state
        if state == "stopped":
            tree.restart_child(PATH)
        hang.release()

        assert handle.result(timeout=LONG_S).status is TaskStatus.SUCCEEDED


def test_the_refusal_says_what_ends_its_work() -> None:
    said = pytest.raises(ChildError, match=r"p/orchestrator: .*handle\.cancel\(\)")
    with start(one_worker(result_of)) as tree, said:
        tree.delete_child(PATH)


def test_it_goes_with_its_supervisor_which_may_be_deleted() -> None:
    with start(SupervisorSpec(id="root", children=[one_worker(result_of)])) as tree:
        tree.terminate_child("root/p")
        tree.delete_child("root/p")

        assert tree.which_children("root") == []


def test_a_child_of_that_id_that_somebody_has_declared_is_deleted_as_any_other() -> None:
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="orchestrator", handle=int)])) as tree:
        tree.terminate_child(PATH)
        tree.delete_child(PATH)

        assert tree.which_children("p") == []


def refused(tree: Tree, spec: WorkerSpec) -> bool:
    with pytest.raises(ConfigError, match="the id 'orchestrator' is taken"):
        tree.start_child("p", spec)
    return True


def test_no_child_of_its_id_is_started_beside_it_also_where_one_like_that_is_known() -> None:
    with start(one_worker(result_of)) as tree:
        tree.start_child("p", WorkerSpec(id="first", handle=int_of))  # another one of it is looked at in its place only
        for state in ("running", "stopped"):
            assert refused(tree, WorkerSpec(id="orchestrator", handle=int_of))
            assert tree.child(PATH).state == state
            tree.terminate_child(PATH)
        tree.restart_child(PATH)

        assert incarnation_of(tree) == 2


def int_of(message: str) -> int:
    return int(message)
