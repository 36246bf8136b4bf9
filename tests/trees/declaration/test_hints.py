"""The check warns where a worker's source is known to raise ``Escalated`` and nobody would be asked."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import actors
from actors import Escalated, Worker
from actors import Escalated as NeedsSomebody
from trees import Escalate, Failover, Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec
from trees.command.app import app
from trees.declaration.hints import hints, raises_escalated


class MayI(Escalated):
    """A question of a user's own kind."""


def raises(_: Any, __: Any) -> None:
    raise Escalated("may I?")


def raises_the_class(_: Any, __: Any) -> None:
    raise Escalated


def returns(_: Any, __: Any) -> Any:
    return Escalated("may I?")


async def raises_on_the_loop(_: Any, __: Any) -> None:
    raise NeedsSomebody("may I?")


def raises_its_own(_: Any, __: Any) -> None:
    raise MayI("may I?")


def raises_by_module(_: Any, __: Any) -> None:
    raise actors.Escalated("may I?")


def raises_by_import(_: Any, __: Any) -> None:
    from actors import Escalated as Asks  # noqa: PLC0415 - a user may do that

    raise Asks("may I?")


class Asks(Worker):
    """Asks in a method that its execute calls."""

    def execute(self, task: Any, context: Any) -> None:
        self._ask(task, context)

    def _ask(self, _: Any, __: Any) -> None:
        raise Escalated("may I?")


class AsksAsTool:
    """An object with ``execute``."""

    async def execute(self, _: Any, __: Any) -> None:
        raise Escalated("may I?")


def enclosed() -> Any:
    question = MayI

    def inner(_: Any, __: Any) -> None:
        raise question("may I?")

    return inner


def with_more(_: Any, __: Any, *, more: int) -> None:
    raise Escalated(str(more))


def catches(_: Any, context: Any) -> None:
    try:
        context.ask_sync("person", "may I?")
    except Escalated as error:
        raise ValueError("no") from error


def silent(_: Any, __: Any) -> str:
    return "Escalated"


KNOWN = [
    raises,
    raises_the_class,
    returns,
    raises_on_the_loop,
    raises_its_own,
    raises_by_module,
    raises_by_import,
    Asks,
    AsksAsTool,
    AsksAsTool(),
    AsksAsTool().execute,
    enclosed(),
    functools.partial(with_more, more=1),
]
UNKNOWN = [catches, silent, print, len, Worker, object(), eval("lambda task, context: 1")]  # noqa: S307 - without source


@pytest.mark.parametrize("code", KNOWN, ids=lambda code: getattr(code, "__name__", type(code).__name__))
def test_source_that_raises_or_returns_escalated_is_known(code: Any) -> None:
    assert raises_escalated(code)


@pytest.mark.parametrize("code", UNKNOWN, ids=lambda code: getattr(code, "__name__", type(code).__name__))
def test_source_that_does_not_or_cannot_be_read_is_not_known(code: Any) -> None:
    assert not raises_escalated(code)


def tree(*on_failure: Any, own: list[Any] | None = None) -> SupervisorSpec:
    member = WorkerSpec(id="member", execute=raises, on_failure=own)
    plan = StaticPlan([Subtask("asks")])
    return SupervisorSpec(
        id="p",
        tasks=Tasks(planner=plan, on_failure=list(on_failure)),
        children=[
            WorkerSpec(id="asks", execute=raises, on_failure=own),
            WorkerSpec(id="quiet", execute=silent),
            SupervisorSpec(id="team", tasks=Tasks(), children=[member]),
            SupervisorSpec(id="apart", children=[WorkerSpec(id="handler", handle=silent)]),
        ],
    )


def test_the_check_warns_where_a_workers_source_raises_escalated_and_its_ladder_asks_nobody() -> None:
    found = hints(tree(Retry(), Failover()))

    assert [each.path for each in found] == ["p/asks.on_failure", "p/team/member.on_failure"]
    assert "Escalate()" in found[0].hint
    assert [each.path for each in hints(tree(Escalate()))] == ["p/team/member.on_failure"]
    assert hints(tree(Retry(), own=[Retry(), Escalate()])) == []
    assert len(hints(tree(Escalate(), own=[Retry()]))) == 2


def test_a_hint_is_no_mistake_and_regrow_check_prints_it(tmp_path: Path) -> None:
    file = tmp_path / "asks_somebody.py"
    file.write_text(
        "from actors import Escalated\nfrom trees import SupervisorSpec, Tasks, WorkerSpec\n"
        "def publish(task, context):\n    raise Escalated('Publish?')\n"
        "TREE = SupervisorSpec(id='p', tasks=Tasks(), children=[WorkerSpec(id='publish', execute=publish)])\n"
    )

    result = CliRunner().invoke(app, ["check", str(file)])

    assert result.exit_code == 0, result.output
    assert "hint: p/publish.on_failure: its code raises Escalated" in result.output
