"""Where each kind of code runs, and which dispatch is refused for it."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from actors.model.errors import Problem
from actors.model.spec import DispatcherKind
from tests.actors.execution.targets import (
    Asynchronous,
    AsyncMachine,
    AsyncMethod,
    Mixed,
    MixedByInheritance,
    MixedByMixin,
    Plain,
    Stock,
    StockAsync,
    Tamed,
    async_body,
    async_handler,
    body,
    handler,
)
from trees.declaration.check import check
from trees.declaration.kinds import where
from trees.declaration.specs import Mailbox, SupervisorSpec, WorkerSpec


def of_worker(**fields: Any) -> list[Problem]:
    return check(SupervisorSpec(id="shop", children=[WorkerSpec(id="w", **fields)]))


EVERYWHERE = {
    "auto": DispatcherKind.POOL,
    "pool": DispatcherKind.POOL,
    "loop": DispatcherKind.LOOP,
    "thread": DispatcherKind.THREAD,
}
ON_THE_LOOP = {"auto": DispatcherKind.LOOP, "loop": DispatcherKind.LOOP}
ACCEPTED: dict[str, tuple[dict[str, Any], dict[str, DispatcherKind]]] = {
    "a sync body": ({"run": body}, {"auto": DispatcherKind.THREAD, "thread": DispatcherKind.THREAD}),
    "an async body": ({"run": async_body}, ON_THE_LOOP),
    "a sync handler": ({"handle": handler}, EVERYWHERE),
    "an async handler": ({"handle": async_handler}, ON_THE_LOOP),
    "an object with an async call": ({"handle": AsyncMachine()}, ON_THE_LOOP),
    "a partial of an async handler": ({"handle": functools.partial(async_handler)}, ON_THE_LOOP),
    "a worker with sync hooks": ({"actor": Plain}, EVERYWHERE),
    "a worker that made its base sync": ({"actor": Tamed}, EVERYWHERE),
    "a worker by import string": ({"actor": "tests.actors.execution.targets:Bare"}, EVERYWHERE),
    "a worker with an async hook": ({"actor": Asynchronous}, ON_THE_LOOP),
    "a worker with an async method": ({"actor": AsyncMethod}, ON_THE_LOOP),
    "a worker with both": ({"actor": Mixed}, {"loop": DispatcherKind.LOOP}),
    "a worker with both by its base": ({"actor": MixedByInheritance}, {"loop": DispatcherKind.LOOP}),
    "a worker with both by a mixin": ({"actor": MixedByMixin}, {"loop": DispatcherKind.LOOP}),
    "a stock actor": (
        {"actor": Stock},
        {"auto": DispatcherKind.THREAD, "thread": DispatcherKind.THREAD, "pool": DispatcherKind.POOL},
    ),
    "a stock actor with an async hook": ({"actor": StockAsync}, {}),
}


@pytest.mark.parametrize("word", ["auto", "pool", "loop", "thread"])
@pytest.mark.parametrize("code", ACCEPTED)
def test_code_runs_where_it_can_and_anywhere_else_is_one_problem(code: str, word: Any) -> None:
    given, accepted = ACCEPTED[code]
    spec = WorkerSpec(id="w", dispatch=word, **given)

    problems = of_worker(dispatch=word, **given)

    if word in accepted:
        assert problems == []
        assert where(spec) is accepted[word]
    else:
        (problem,) = problems
        assert problem.path == ("shop/w.dispatch" if accepted else "shop/w.actor")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"actor": Mixed}, "a sync on_receive beside async on_start would run on the event loop"),
        ({"actor": AsyncMethod, "dispatch": "pool"}, "'pool' cannot run what is async: fetch"),
        ({"run": async_body, "dispatch": "thread"}, "'thread' cannot run what is async: async_body"),
        ({"run": body, "dispatch": "loop"}, "'loop' cannot run a sync body, which needs a thread of its own"),
        ({"actor": Stock, "dispatch": "loop"}, "a stock Pykka actor would hold up the event loop"),
        ({"actor": StockAsync}, "a stock Pykka actor never awaits its async on_receive"),
    ],
)
def test_a_dispatch_that_cannot_be_is_told_with_the_reason(given: dict[str, Any], what: str) -> None:
    (problem,) = of_worker(**given)

    assert problem.what == what
    assert problem.hint


def test_the_mailbox_of_a_body_cannot_be_bounded() -> None:
    (problem,) = of_worker(run=body, mailbox=Mailbox(capacity=10))

    assert (problem.path, problem.what) == ("shop/w.mailbox", "a run= body has no mailbox to bound")
    assert of_worker(run=body, mailbox=Mailbox()) == []
    assert of_worker(handle=handler, mailbox=Mailbox(capacity=10)) == []
