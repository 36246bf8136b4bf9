"""A worker waits for a task that it has submitted as in an ask: nobody waits so until he is killed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import actors
from actors import ActorStoppedError, ChildExited, TreeDownError
from actors.testing import Hang
from tests.support.crew import LONG_S, Record, faulty, meanwhile, running
from tests.support.hardening import eventually
from trees import Plan, Retry, StaticPlan, Subtask, SubtaskFailed, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start

HELPED = {"helper": "helped"}
TO_HELPER = Plan([Subtask("helper", worker="helper")])


class Asker:
    """Submits a task to the desk, and waits for it; notes what came."""

    def __init__(self, gate: Hang | None = None) -> None:
        self.tree: Any = None
        self.gate = gate
        self.came: list[Any] = []

    def waits(self, *_: object) -> Any:
        if self.gate is not None:
            self.gate.hold()
        handle = self.tree.submit(Task("help", id="help", plan=TO_HELPER), "shop/desk")
        try:
            self.came.append(handle.result().output)
        except Exception as error:
            self.came.append(error)
            raise
        return self.came[-1]

    async def awaits(self, *_: object) -> Any:
        if self.gate is not None:
            await self.gate.hold_async()
        handle = await self.tree.asubmit(Task("help", id="help", plan=TO_HELPER), "shop/desk")
        try:
            self.came.append((await handle).output)
        except Exception as error:
            self.came.append(error)
            raise
        return self.came[-1]

    def maps(self, *_: object) -> Any:
        if self.gate is not None:
            self.gate.hold()
        for _item, result in self.tree.map(["help"], "shop/desk/helper"):
            self.came.append(result if isinstance(result, Exception) else {"helper": result})
        return self.last()

    async def maps_async(self, *_: object) -> Any:
        if self.gate is not None:
            await self.gate.hold_async()
        async for _item, result in self.tree.map(["help"], "shop/desk/helper"):
            self.came.append(result if isinstance(result, Exception) else {"helper": result})
        return self.last()

    def _waits_in(self, kind: str) -> object:
        handle = self.tree.submit(Task("help", plan=TO_HELPER), "shop/desk")
        if "cancel" in kind:
            return handle.cancel().get()
        return list(handle.stream() if "stream" in kind else handle.events())

    def waits_in(self, kind: str, *_: object) -> Any:
        if self.gate is not None:
            self.gate.hold()
        try:
            self._waits_in(kind)
            self.came.append(HELPED)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.came.append(error)
        return self.last()

    async def waits_in_async(self, kind: str, *_: object) -> Any:
        if self.gate is not None:
            await self.gate.hold_async()
        handle = await self.tree.asubmit(Task("help", plan=TO_HELPER), "shop/desk")
        try:
            if "cancel" in kind:
                await handle.cancel()
            else:
                [each async for each in (handle.stream() if "stream" in kind else handle.events())]
            self.came.append(HELPED)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.came.append(error)
        return self.last()

    def last(self) -> Any:
        if isinstance(self.came[-1], Exception):
            raise self.came[-1]
        return self.came[-1]

    def work(self, kind: str) -> Callable[..., Any]:
        if "map" in kind:
            return self.maps_async if "async" in kind else self.maps
        if "," in kind:
            return partial(self.waits_in_async if "async" in kind else self.waits_in, kind)
        return self.awaits if "async" in kind else self.waits


def shop(
    asker: Asker, kind: str, helps: Callable[..., Any], *, asker_first: bool = True, **words: Any
) -> SupervisorSpec:
    as_what = "handle" if "handler" in kind else "execute"
    worker = WorkerSpec(id="asker", shutdown="infinity", **{as_what: asker.work(kind)})  # type: ignore[arg-type]
    again = Retry(3, initial_s=0.0, max_s=0.0, jitter=0.0)
    desk = SupervisorSpec(id="desk", tasks=Tasks(on_failure=[again]), children=[WorkerSpec(id="helper", execute=helps)])
    children = [worker, desk] if asker_first else [desk, worker]
    if "handler" not in kind:
        words["tasks"] = Tasks(planner=StaticPlan([Subtask("asker")]), on_failure=[])
    return SupervisorSpec(id="shop", children=[faulty("culprit"), *children, faulty("last")], **words)


def begin(tree: Tree, asker: Asker, kind: str) -> Any:
    asker.tree = tree
    if "handler" in kind:
        return tree.ref("shop/asker").ask("go", timeout=None, block=False)
    return tree.submit(Task("go"), "shop")


def waits(tree: Tree) -> bool:
    """True while somebody waits for a task of the desk."""
    return bool(tree._system.children["shop/desk/orchestrator"].mailbox.waits)


def is_refused(asker: Asker) -> bool:
    return type(asker.came[0]) is ActorStoppedError and "not started again before 'shop/asker' has ended" in str(
        asker.came[0]
    )


@contextlib.contextmanager
def restarted(kind: str, helps: Any, begun: threading.Event, *, is_down: bool) -> Iterator[tuple[Asker, Record]]:
    """A group that restarts while the asker waits; ``is_down``: the desk is down by the time at which it begins to."""
    with Hang(deaf=True) as gate:
        asker = Asker(gate if is_down else None)
        with running(shop(asker, kind, helps, strategy="one_for_all")) as tree:
            record = Record(tree)
            going = begin(tree, asker, kind)
            if is_down:
                gate.wait_until_entered(LONG_S)
            else:
                assert begun.wait(LONG_S)
                eventually(lambda: waits(tree), "the wait")
            tree.ref("shop/culprit").tell("raise ValueError")
            if is_down:
                eventually(lambda: tree.child("shop/desk").state != "running", "the end of the desk")
                gate.release()
            if "handler" in kind:
                with pytest.raises(ActorStoppedError):
                    going.get(timeout=LONG_S)
                record.wait_for(ChildExited, "shop/asker")
            else:
                assert going.result(timeout=LONG_S).results == {"asker": HELPED}
            yield asker, record


_KINDS = ["attempt", "async attempt", "handler", "async handler"]
EACH_KIND = [*_KINDS, *(f"{each}, map" for each in _KINDS)]
KINDS = pytest.mark.parametrize("kind", EACH_KIND)
LOOKS = pytest.mark.parametrize("kind", [f"{each}, {how}" for each in _KINDS for how in ("events", "stream", "cancel")])


@KINDS
@pytest.mark.parametrize("is_down", [False, True], ids=["before it is down", "when it is down"])
def test_a_wait_for_a_task_fails_that_cannot_end_before_whoever_waits_has_stopped(kind: str, is_down: bool) -> None:
    begun, calls = threading.Event(), list[str]()

    def helps(*_: object) -> str:
        calls.append("helper")
        begun.set()
        if len(calls) == 1 and not is_down:
            while not actors.sleep(LONG_S):  # until it is to stop
                pass
            raise ValueError("it was stopped")
        return "helped"

    with restarted(kind, helps, begun, is_down=is_down) as (asker, record):
        assert is_refused(asker), asker.came
        assert record.exits("shop/asker") == ["shutdown"]
        assert not record.of(SubtaskFailed)


@LOOKS
def test_so_does_a_wait_for_its_events_its_text_or_the_record_of_a_cancel(kind: str) -> None:
    begun = threading.Event()

    async def helps(*_: object) -> str:
        if begun.is_set():
            return "helped"
        begun.set()
        await asyncio.Event().wait()
        return ""

    with restarted(kind, helps, begun, is_down="cancel" in kind) as (asker, record):
        assert "async attempt" in kind or is_refused(asker), asker.came
        assert record.exits("shop/asker") == ["shutdown"]


@pytest.mark.parametrize("kind", [each for each in EACH_KIND if "async attempt" not in each])  # those are cancelled
def test_whoever_waits_for_the_task_of_an_older_one_that_waits_for_a_helper_is_stopped_at_once(kind: str) -> None:
    """The older one could begin again and again: each time its helper is down."""
    asker = Asker()
    with Hang(deaf=True) as gate:

        def helps(*_: object) -> Any:
            gate.hold()
            return actors.ref("shop/last").ask("help", timeout=None)

        spec = shop(asker, kind, helps, asker_first=False, strategy="one_for_all")
        last = WorkerSpec(id="last", handle=lambda _: "helped")
        spec = spec.model_copy(update={"children": (*spec.children[:-1], last)})
        with start(spec) as tree:
            record = Record(tree)
            going = begin(tree, asker, kind)
            gate.wait_until_entered(LONG_S)
            eventually(lambda: waits(tree), "the wait")
            helper = tree.ref("shop/last")
            tree.ref("shop/culprit").tell("raise ValueError")
            eventually(lambda: not helper.is_alive(), "the end of the helper")
            gate.release()
            if "handler" in kind:
                with pytest.raises(ActorStoppedError):
                    going.get(timeout=LONG_S)
                record.wait_for(ChildExited, "shop/asker")
            else:
                going.result(timeout=LONG_S)
                assert asker.came[1:] == [HELPED]

            assert type(asker.came[0]) is ActorStoppedError
            assert record.exits("shop/asker") == ["shutdown"]
            assert not record.of(SubtaskFailed)


@KINDS
@pytest.mark.parametrize("is_down", [False, True], ids=["before it is down", "when it is down"])
def test_a_tree_that_ends_is_not_held_up_by_one_who_waits_for_a_task_of_one_that_has_ended(
    kind: str, is_down: bool
) -> None:
    begun = threading.Event()

    async def is_broken_off(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    with Hang(deaf=True) as gate:
        asker = Asker(gate if is_down else None)
        with running(shop(asker, kind, is_broken_off)) as tree:
            begin(tree, asker, kind)
            if is_down:
                gate.wait_until_entered(LONG_S)
            else:
                assert begun.wait(LONG_S)
                eventually(lambda: waits(tree), "the wait")
            with meanwhile(tree.stop):
                if is_down:
                    eventually(lambda: tree.child("shop/desk").state != "running", "the end of the desk")
                gate.release()

    expected = (TreeDownError, ActorStoppedError) if "attempt" in kind else (TreeDownError,)
    assert len(asker.came) == 1
    assert type(asker.came[0]) in expected


def test_a_wait_that_is_over_is_listed_no_more() -> None:
    asker = Asker()
    with running(shop(asker, "handler", lambda *_: "helped")) as tree:
        assert begin(tree, asker, "handler").get(timeout=LONG_S) == HELPED

        eventually(lambda: not waits(tree))
