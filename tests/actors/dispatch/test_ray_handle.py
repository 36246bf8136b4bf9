"""The handle of an actor of Ray, by means of actors that do as a test says: which call comes back first, or fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from actors.dispatch import ray as door
from actors.dispatch.host import ray_handle
from actors.dispatch.host.ray_handle import RayHandle
from tests.actors.dispatch.test_ray_requests import NotingRay, noting, place
from tests.support.hardening import LONG_S


class DiedError(Exception):
    """Error of an actor that has died, as Ray has one."""

    actor_init_failed = False


class Owner:
    """Owner of a handle."""

    def __init__(self) -> None:
        self.deaths: list[tuple[Any, ...]] = []

    def took(self, frame: Any) -> None:
        raise AssertionError(frame)

    def died(self, *how: Any) -> None:
        self.deaths.append(how)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> NotingRay:
    found = noting(monkeypatch, connected=True)
    monkeypatch.setattr(door, "deaths", lambda: (DiedError, DiedError))
    monkeypatch.setattr(ray_handle, "LOOK_S", 0.01)
    return found


def in_a_loop(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), LONG_S))


def handle_of(owner: Owner | None = None) -> RayHandle:
    return RayHandle(owner or Owner(), place())


class Gate:
    """A call of Ray on another thread that comes back when it may."""

    def __init__(self, then: Callable[..., Any]) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()
        self._then = then

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.has_begun.set()
        assert self.may_end.wait(LONG_S)
        return self._then(*args, **kwargs)


async def begun(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.has_begun.wait, LONG_S)


# -- calls on other threads --------------------------------------------------------------------------------------


def test_the_end_of_a_handle_waits_for_the_call_that_kills_its_actor(
    ray: NotingRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that leaves its cluster once its tree is stopped would be ended by Ray in the middle of it."""
    gate = Gate(ray.kill)
    monkeypatch.setattr(ray, "kill", gate)

    async def scenario() -> None:
        handle = handle_of()
        await handle._create()
        end = asyncio.ensure_future(handle.end())
        await begun(gate)
        await asyncio.sleep(0.02)
        assert not end.done()
        gate.may_end.set()
        await end
        assert ray.killed == ["actor"], "once, though the death of the wire and the end both ask for it"

    in_a_loop(scenario)


def test_the_end_of_a_handle_waits_for_no_cluster_that_does_not_answer(
    ray: NotingRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(ray.kill)
    monkeypatch.setattr(ray, "kill", gate)
    monkeypatch.setattr(ray_handle, "CALLS_S", 0.01)

    async def scenario() -> None:
        handle = handle_of()
        await handle._create()
        await handle.end()
        assert not ray.killed
        gate.may_end.set()

    in_a_loop(scenario)


def test_a_kill_that_ray_has_not_taken_is_told_again(ray: NotingRay, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def refuses(actor: str, *, no_restart: bool) -> None:
        told.append(actor)
        if len(told) == 1:
            raise ConnectionError(no_restart)

    monkeypatch.setattr(ray, "kill", refuses)

    async def scenario() -> None:
        handle = handle_of()
        await handle._create()
        handle.kill()
        handle.kill()
        await asyncio.wait(handle._calls)
        await handle.end()
        assert told == ["actor", "actor"]

    in_a_loop(scenario)


@pytest.mark.parametrize("comes_first", ["the actor", "the end"])
def test_an_actor_that_comes_after_its_start_was_called_off_is_killed(
    ray: NotingRay, monkeypatch: pytest.MonkeyPatch, comes_first: str
) -> None:
    gate = Gate(ray.created)
    monkeypatch.setattr(ray, "created", gate)

    async def scenario() -> None:
        handle = handle_of()
        start = asyncio.ensure_future(handle.start())
        await begun(gate)
        start.cancel()
        await asyncio.wait({start})
        if comes_first == "the actor":
            gate.may_end.set()
        end = asyncio.ensure_future(handle.end())
        await asyncio.sleep(0.01)
        gate.may_end.set()
        await end
        assert ray.killed == ["actor"], "before the end is over"

    in_a_loop(scenario)


def test_a_cluster_that_cannot_be_joined_holds_up_no_end(ray: NotingRay, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(lambda _: None)
    monkeypatch.setattr(door, "join", gate)

    async def scenario() -> None:
        handle = handle_of()
        start = asyncio.ensure_future(handle.start())
        await begun(gate)
        assert handle.waits_for == "this process has not joined its cluster of Ray, local"
        start.cancel()
        await handle.end()
        assert not gate.may_end.is_set()
        gate.may_end.set()
        assert ray.makers == 0

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    in_a_loop(scenario)


# -- sessions ----------------------------------------------------------------------------------------------------


def test_where_the_host_leaves_and_joins_again_while_an_actor_is_created_it_is_none_of_the_new_session(
    ray: NotingRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaves() -> str:
        ray.session = object()
        return "actor"

    monkeypatch.setattr(ray, "created", leaves)
    asked: list[str] = []

    async def scenario() -> None:
        handle = handle_of()
        await handle._create()
        handle._actor = SimpleNamespace(begin=SimpleNamespace(remote=lambda: asked.append("begin")))
        with pytest.raises(ChildProcessError, match="has left the cluster"):
            await handle._begun()
        await handle.end()

    in_a_loop(scenario)
    assert (asked, ray.killed) == ([], []), "whatever is asked now is asked of another cluster"


def test_one_timer_sees_for_all_actors_of_a_loop_that_the_host_has_left(ray: NotingRay) -> None:
    async def scenario() -> None:
        never = asyncio.get_running_loop().create_future()
        handles = [handle_of() for _ in range(20)]
        for each in handles:
            await each._create()
            each._actor = SimpleNamespace(begin=SimpleNamespace(remote=lambda: never))
        starts = [asyncio.ensure_future(each._begun()) for each in handles]
        await asyncio.sleep(0.03)
        assert len({id(each._watch) for each in handles}) == 1
        assert not any(each.done() for each in starts)
        ray.session = object()
        said = await asyncio.gather(*starts, return_exceptions=True)
        assert [str(each) for each in said] == ["this process has left the cluster"] * 20
        for each in handles:
            await each.end()
        assert handles[0]._watch._timer is None, "nobody is there to look for"

    in_a_loop(scenario)


def test_nothing_of_ray_is_dropped_before_its_core_is_gone(ray: NotingRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """To drop a stream uses the core. While that ends, which takes long under load, Ray ends the process for it."""
    dropped: list[str] = []
    follows = asyncio.Event()

    async def stream() -> AsyncIterator[Any]:
        follows.set()
        try:
            await asyncio.get_running_loop().create_future()
            yield b""
        finally:
            dropped.append("the core is there" if ray.has_core else "it is gone")

    async def scenario() -> None:
        monkeypatch.setattr(ray, "created", lambda: Actor(fails, stream))
        handle = handle_of()
        start = asyncio.ensure_future(handle.start())
        await follows.wait()
        ray.connected, ray.session = False, None
        await asyncio.sleep(0.05)
        assert (dropped, ray.killed) == ([], [])
        ray.has_core = False
        with pytest.raises(ChildProcessError):
            await start
        await handle.end()

    in_a_loop(scenario)
    assert (dropped, ray.killed) == (["it is gone"], [])


# -- deaths ------------------------------------------------------------------------------------------------------


class Actor:
    """An actor that begins at once; what its other methods do is said by a test."""

    def __init__(self, take: Callable[[], Coroutine[Any, Any, None]], told: Callable[[], AsyncIterator[Any]]) -> None:
        self.begin = SimpleNamespace(remote=self._begin)
        self.take = SimpleNamespace(remote=lambda _: take())
        self.told = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=told))

    async def _begin(self) -> str:
        return "node"


async def fails() -> None:
    raise DiedError


async def silent() -> AsyncIterator[Any]:
    await asyncio.get_running_loop().create_future()
    yield b""


def test_a_worker_that_hears_nothing_any_more_is_given_up_also_where_its_stream_goes_on(
    ray: NotingRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an actor that could not be reached for a moment: it has lost a piece, and would wait for ever."""
    monkeypatch.setattr(ray_handle, "GONE_S", 0.01)
    owner = Owner()

    async def scenario() -> None:
        handle = handle_of(owner)
        monkeypatch.setattr(ray, "created", lambda: Actor(fails, silent))
        start = asyncio.ensure_future(handle.start())
        handle._ours.send(b"a frame")
        with pytest.raises(ChildProcessError, match="ended before it said anything"):
            await start
        await handle.end()

    in_a_loop(scenario)
    assert owner.deaths == [(None, None, None)]
    assert len(ray.killed) == 1


def test_the_death_of_an_actor_is_told_though_the_cluster_does_not_say_whether_its_node_is_there(
    ray: NotingRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies() -> AsyncIterator[Any]:
        raise DiedError
        yield b""

    class OtherError(DiedError):
        """Of an actor that cannot be reached."""

    gate = Gate(lambda _: True)
    monkeypatch.setattr(door, "is_there", gate)
    monkeypatch.setattr(door, "deaths", lambda: (DiedError, OtherError))
    monkeypatch.setattr(door, "SLOW_S", 0.01)
    monkeypatch.setattr(ray_handle, "CALLS_S", 0.01)
    owner = Owner()

    async def scenario() -> None:
        monkeypatch.setattr(ray, "created", lambda: Actor(fails, dies))
        handle = handle_of(owner)
        with pytest.raises(ChildProcessError):
            await handle.start()
        await handle.end()
        gate.may_end.set()

    in_a_loop(scenario)
    assert owner.deaths == [(None, None, "node")], "who is not known to be there is lost"
