"""Nobody waits in ``on_start`` for a reply that cannot come before he has started himself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import actors
from actors import ActorsError, ActorStoppedError, StartError, Worker
from actors.testing import settle
from tests.support.crew import EACH_TARGET, LONG_S, faulty, running, shop
from trees import SupervisorSpec, WorkerSpec, start


class Asker(Worker):
    """Asks with no limit of time as it starts; notes what came."""

    def __init__(self, path: str, came: list[Any]) -> None:
        self.path, self.came = path, came

    def on_start(self) -> None:
        try:
            self.came.append(actors.ref(self.path).ask("a message", timeout=None))
        except ActorsError as error:
            self.came.append(error)
            raise

    def on_receive(self, message: Any) -> Any:
        return message


class AsyncAsker(Asker):
    async def on_start(self) -> None:  # type: ignore[override]
        try:
            self.came.append(await actors.ref(self.path).ask_async("a message", timeout=None))
        except ActorsError as error:
            self.came.append(error)
            raise

    async def on_receive(self, message: Any) -> Any:
        return message


ASKERS = pytest.mark.parametrize("asker", [Asker, AsyncAsker])


def x(asker: type[Asker], path: str, came: list[Any]) -> WorkerSpec:
    return WorkerSpec(id="x", actor=asker, args=(path, came), start_timeout_s=None)


def refused(came: list[Any]) -> list[str]:
    return [str(each) for each in came if type(each) is ActorStoppedError]


@ASKERS
@EACH_TARGET
def test_an_ask_of_a_younger_sibling_fails_at_once_and_so_does_the_start(
    asker: type[Asker], path: str, target: Callable[[Any], WorkerSpec | SupervisorSpec]
) -> None:
    came: list[Any] = []

    with pytest.raises(StartError) as failed, start(shop(x(asker, path, came), target(str))):
        pass

    assert failed.value.__cause__ is came[0]
    assert refused(came) == [f"{path}: is not started before 'shop/x' has started."]


@ASKERS
def test_in_a_nested_supervisor_likewise(asker: type[Asker]) -> None:
    came: list[Any] = []
    desk = SupervisorSpec(id="desk", children=[x(asker, "shop/y", came)])

    with pytest.raises(StartError), start(shop(desk, WorkerSpec(id="y", handle=str))):
        pass

    assert refused(came) == ["shop/y: is not started before 'shop/desk/x' has started."]


@ASKERS
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_in_a_group_that_restarts_likewise_and_each_is_a_failed_restart(asker: type[Asker], strategy: Any) -> None:
    came: list[Any] = []

    class Again(asker):  # type: ignore[valid-type,misc]
        """Asks in its second incarnation, and in no other one."""

        starts = 0

        def on_start(self) -> Any:
            Again.starts += 1
            return super().on_start() if Again.starts == 2 else None

    spec = shop(
        faulty("culprit"), x(Again, "shop/y", came), WorkerSpec(id="y", handle=str), strategy=strategy, max_restarts=2
    )
    with running(spec) as tree:
        tree.ref("shop/culprit").tell("raise ValueError")
        settle(tree)
        assert refused(came) == ["shop/y: is not started before 'shop/x' has started."]
        assert tree.ref("shop/y").ask("back", timeout=LONG_S) == "back"
        assert tree.snapshot().top.limit.restarts == 2


def test_an_ask_of_one_that_is_up_or_that_nobody_waits_for_is_answered() -> None:
    replies: list[Any] = []

    class Patient(Worker):
        def on_start(self) -> None:
            assert actors.ref("shop/old").ask("old", timeout=None) == "old"
            replies.append(actors.ref("shop/young").ask("young", block=False))

    with start(
        shop(WorkerSpec(id="old", handle=str), WorkerSpec(id="x", actor=Patient), WorkerSpec(id="young", handle=str))
    ):
        assert replies[0].get(timeout=LONG_S) == "young"
