"""User code of the task side never runs on the tree's event loop: a table of every place, each probed and blocked.

An async function of a user's is the exception, as an async worker is: it runs on the loop, and what it must not do
there is its own affair.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, PrivateAttr, field_serializer, field_validator

from actors.messaging.reply import Reply
from actors.tasks.execution.prompt import prompt_of
from actors.testing import Hang, ManualClock
from tests.support.crew import LONG_S
from tests.tasks.dispatching import one, until
from trees import (
    ModelPlanner,
    ModelSynthesizer,
    Plan,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    TaskFailedError,
    Tasks,
    Tree,
    Verdict,
    WorkerSpec,
    start,
)

Probe = Callable[[], None]
"""Called by the user code; it notes its thread, or blocks."""
UNDO: list[Probe] = []
"""Of the undo that is named as ``module:attr``."""

PLAN = [one("w")]


async def work(_: Any, __: Any) -> Any:
    return {"number": 1}


def sync_work(_: Any, __: Any) -> Any:
    return {"number": 1}


def prompted(probe: Probe) -> Callable[..., Any]:
    async def execute(task: Any, context: Any) -> Any:
        return await prompt_of(task, context, called(probe, "say it"))

    return execute


async def fail(_: Any, __: Any) -> None:
    raise OSError


def undo_by_name(_: Any, __: Any, ___: Any) -> None:
    UNDO[-1]()


class Lazy(list[Subtask]):
    """A plan whose making is the user's code."""

    probe: Probe

    def __iter__(self) -> Iterator[Subtask]:
        self.probe()
        return super().__iter__()


def called(probe: Probe, value: Any) -> Callable[..., Any]:
    def code(*_: Any) -> Any:
        probe()
        return value

    return code


def lazily(probe: Probe) -> Callable[..., Any]:
    def plan(*_: Any) -> Lazy:
        made = Lazy(PLAN)
        made.probe = probe
        return made

    return plan


async def async_model(*_: Any) -> Any:
    return {"subtasks": [{"id": "w"}]}


def read_by(probe: Probe) -> Callable[..., Any]:
    """An async planner's answer is read by code of the user's."""

    async def plan(*_: Any) -> Lazy:
        made = Lazy(PLAN)
        made.probe = probe
        return made

    return plan


def prompting(probe: Probe) -> ModelPlanner:
    """A planner whose prompt is the user's code."""

    class Prompting(ModelPlanner):
        @staticmethod
        def prompt(*_: Any) -> str:
            probe()
            return "plan it"

    return Prompting(lambda *_: MODEL)


def checked_output(probe: Probe) -> type[BaseModel]:
    class Output(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def look(cls, value: int) -> int:
            probe()
            return value

    return Output


def serialized(probe: Probe) -> BaseModel:
    class Output(BaseModel):
        number: int = 1

        @field_serializer("number")
        def look(self, value: int) -> int:
            probe()
            return value

    return Output()


def answering(result: Any) -> Callable[..., Any]:
    async def execute(_: Any, __: Any) -> Any:
        return result

    return execute


async def hangs_in_its_prompt(task: Any, context: Any) -> Any:
    return await prompt_of(task, context, lambda *_: threading.Event().wait(LONG_S))


class Hanging(BaseModel):
    """A result that cannot be pickled, and whose JSON is never made."""

    number: int = 1
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @field_serializer("number")
    def look(self, _: int) -> int:
        threading.Event().wait(LONG_S)
        return 1


def hangs_as_json(_: Any, __: Any) -> Any:
    return Hanging()


def tree_of(settings: dict[str, Any], words: dict[str, Any], *more: WorkerSpec) -> SupervisorSpec:
    settings = {"planner": StaticPlan(PLAN), "on_failure": [], **settings}
    workers = [WorkerSpec(**{"id": "w", "execute": work, **words}), *more]
    return SupervisorSpec(id="shop", tasks=Tasks(**settings), children=workers)


def undoes(settings: dict[str, Any], words: dict[str, Any]) -> SupervisorSpec:
    plan = [*PLAN, one("bad", depends_on=["w"])]
    return tree_of({"planner": StaticPlan(plan), **settings}, words, WorkerSpec(id="bad", execute=fail))


def named(probe: Probe, limits: dict[str, Any]) -> SupervisorSpec:
    UNDO.append(probe)
    return undoes(limits, {"undo": f"{__name__}:undo_by_name"})


_VALIDATOR = "a validator of output=, of an async worker"
_SERIALIZER = "a serializer of a result, of an async worker"
MODEL = '{"subtasks": [{"id": "w"}]}'
PLACES: dict[str, Callable[[Probe, dict[str, Any]], SupervisorSpec]] = {
    "a sync planner": lambda probe, more: tree_of({"planner": called(probe, Plan(PLAN)), **more}, {}),
    "a sync call of a ModelPlanner": lambda probe, more: tree_of(
        {"planner": ModelPlanner(called(probe, MODEL)), **more}, {}
    ),
    "a prompt of a ModelPlanner": lambda probe, more: tree_of({"planner": prompting(probe), **more}, {}),
    "the iteration of a sync planner's plan": lambda probe, more: tree_of({"planner": lazily(probe), **more}, {}),
    "the iteration of an async planner's plan": lambda probe, more: tree_of({"planner": read_by(probe), **more}, {}),
    "a sync reviewer": lambda probe, more: tree_of({"reviewer": called(probe, Verdict(passed=True)), **more}, {}),
    "a sync synthesizer": lambda probe, more: tree_of({"synthesizer": called(probe, "all"), **more}, {}),
    "a sync call of a ModelSynthesizer": lambda probe, more: tree_of(
        {"synthesizer": ModelSynthesizer(called(probe, "all")), **more}, {}
    ),
    "an estimate, of a plan that is fixed": lambda probe, more: tree_of(more, {"estimate": called(probe, 5)}),
    "an estimate, of a planner's": lambda probe, more: tree_of(
        {"planner": ModelPlanner(async_model), **more}, {"estimate": called(probe, 5)}
    ),
    "count_tokens": lambda probe, more: tree_of({"count_tokens": called(probe, 5), **more}, {}),
    "count_tokens, of a sync worker": lambda probe, more: tree_of(
        {"count_tokens": called(probe, 5), **more}, {"execute": sync_work}
    ),
    _VALIDATOR: lambda probe, more: tree_of(more, {"output": checked_output(probe)}),
    "a validator of output=, of a sync worker": lambda probe, more: tree_of(
        more, {"output": checked_output(probe), "execute": sync_work}
    ),
    "a validator of output=, of a worker on a thread": lambda probe, more: tree_of(
        more, {"output": checked_output(probe), "execute": sync_work, "dispatch": "thread"}
    ),
    _SERIALIZER: lambda probe, more: tree_of(more, {"execute": answering(serialized(probe))}),
    "a serializer of a result, of a sync worker": lambda probe, more: tree_of(
        more, {"execute": called(lambda: None, serialized(probe))}
    ),
    "a prompt": lambda probe, more: tree_of(more, {"execute": prompted(probe)}),
    "a sync undo": lambda probe, more: undoes(more, {"undo": called(probe, None)}),
    "an undo by its name": named,
}


def on_loop(tree: Tree) -> int:
    """Which thread the event loop is."""
    found: list[int] = []
    done = Reply()
    tree._system.loop.call(lambda: (found.append(threading.get_ident()), done.complete()))
    assert done.wait(LONG_S)
    return found[0]


@pytest.mark.parametrize("place", PLACES)
def test_user_code_never_runs_on_the_orchestrators_loop(place: str) -> None:
    ran: list[int] = []
    with start(PLACES[place](lambda: ran.append(threading.get_ident()), {})) as tree:
        handle = tree.submit("go")
        handle._done.wait(LONG_S)
        assert ran
        assert on_loop(tree) not in ran


@pytest.mark.parametrize("place", PLACES)
def test_user_code_that_blocks_stalls_no_async_worker_and_its_time_limit_is_enforced(place: str) -> None:
    with Hang(deaf=True) as hang:
        first = threading.Lock()

        def block() -> None:
            if first.acquire(blocking=False):
                hang.hold()

        spec = PLACES[place](block, {"step_timeout_s": 0.3})
        clock = ManualClock()
        with start(spec, clock=clock) as tree:
            handle = tree.submit("go")
            hang.wait_until_entered()
            assert on_loop(tree)  # it answers
            assert handle.report is None
            until(
                lambda: handle.report is not None or handle.escalations, clock, by=0.3
            )  # a person is asked about an undo
            hang.release()


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("count_tokens", "count_tokens="),
        (_VALIDATOR, "output="),
        (_SERIALIZER, "result's class"),
        ("a prompt", "prompt="),
    ],
)
def test_the_error_names_the_code_that_took_too_long_and_the_limit(place: str, what: str) -> None:
    with Hang(deaf=True) as hang, start(PLACES[place](hang.hold, {"step_timeout_s": 0.2})) as tree:
        with pytest.raises(TaskFailedError) as caught:
            tree.submit("go").result(LONG_S)
        hang.release()

    assert caught.value.report is not None
    assert str(caught.value.report.failed["w"]).endswith(f"its {what} took longer than 0.2 s (step_timeout_s)")


@pytest.mark.parametrize(
    ("code", "what"), [(hangs_in_its_prompt, "prompt="), (hangs_as_json, "result's class")], ids=["prompt", "result"]
)
def test_code_beside_work_in_a_process_ends_with_the_limit_and_a_fresh_process_goes_on(code: Any, what: str) -> None:
    spec = tree_of({"step_timeout_s": 0.2}, {"execute": code, "dispatch": "process"})
    with start(spec) as tree:
        with pytest.raises(TaskFailedError, match=rf"its {what} took longer than 0.2 s \(step_timeout_s\)"):
            tree.submit("go").result(LONG_S)
        until(lambda: tree.child("shop/w").incarnation == 2)


def test_a_large_plain_result_is_nobodys_code_and_has_no_limit() -> None:
    rows = [{"number": number, "of": (number, None)} for number in range(100_000)]
    with start(tree_of({"step_timeout_s": 0.001}, {"execute": answering(rows)})) as tree:
        assert len(tree.submit("go").result(LONG_S).results["w"]) == len(rows)


def test_without_a_limit_that_code_may_take_its_time() -> None:
    clock, words = ManualClock(), {"step_timeout_s": None}
    with Hang(deaf=True) as hang, start(PLACES[_VALIDATOR](hang.hold, words), clock=clock) as tree:
        handle = tree.submit("go")
        hang.wait_until_entered()
        clock.advance(1e6)
        assert on_loop(tree)
        hang.release()
        assert handle.result(LONG_S).results == {"w": {"number": 1}}
