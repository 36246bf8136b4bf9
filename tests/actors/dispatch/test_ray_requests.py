"""What is asked of Ray for a worker, by means of a Ray that only notes it: which cluster, and which actor."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from actors.dispatch import ray as door
from actors.dispatch.ray import RayHandle, RayPlace
from trees import Ray


class NotingRay(SimpleNamespace):
    """Ray, as far as the door uses it to connect and to create an actor."""

    def __init__(self, *, connected: bool) -> None:
        super().__init__()
        self.connected = connected
        self.addresses: list[str] = []
        self.options: dict[str, Any] = {}
        self.session, self.killed = object(), list[str]()

    def is_initialized(self) -> bool:
        return self.connected

    def init(self, address: str) -> None:
        self.addresses.append(address)
        self.connected = True

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address="10.0.0.1:6379", get_job_id=lambda: "job")

    def remote(self, **options: Any) -> Any:
        self.options = options
        return lambda _: SimpleNamespace(remote=lambda *_: self.created())

    def created(self) -> str:
        return "actor"

    def kill(self, actor: str, *, no_restart: bool) -> None:
        assert no_restart
        self.killed.append(actor)


def noting(monkeypatch: pytest.MonkeyPatch, *, connected: bool = False) -> NotingRay:
    ray = NotingRay(connected=connected)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(door, "_on_a_thread_that_stays", lambda act: act())
    monkeypatch.setattr(door, "_session", lambda: ray.session)
    return ray


def place(**given: Any) -> RayPlace:
    return Ray(**given).place("w")


@pytest.mark.parametrize(
    ("connected", "named", "environment", "joins"),
    [
        (True, None, "10.0.0.2:6379", []),
        (False, "10.0.0.1:6379", "10.0.0.2:6379", ["10.0.0.1:6379"]),
        (False, None, "10.0.0.2:6379", ["10.0.0.2:6379"]),
        (False, None, "", ["local"]),
        (False, None, None, ["local"]),
    ],
)
def test_the_cluster_of_the_host_comes_before_the_one_named_then_the_environment_then_one_here(
    monkeypatch: pytest.MonkeyPatch, connected: bool, named: str | None, environment: str | None, joins: list[str]
) -> None:
    ray = noting(monkeypatch, connected=connected)
    if environment is None:
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
    else:
        monkeypatch.setenv("RAY_ADDRESS", environment)

    door._connected(place(address=named))

    assert ray.addresses == joins


def test_an_actor_is_created_with_what_the_worker_asks_for_and_is_never_restarted_by_ray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = noting(monkeypatch, connected=True)
    given: dict[str, Any] = {"num_cpus": 2, "num_gpus": 0.5, "resources": {"tape": 1}, "runtime_env": {"pip": ["a"]}}

    door._actor_at(place(memory_mb=3, **given))

    assert ray.options.pop("max_concurrency") == door.METHODS
    assert ray.options == {"max_restarts": 0, "max_task_retries": 0, "memory": 3 * 1024 * 1024, **given}


def test_where_the_host_leaves_and_joins_again_while_an_actor_is_created_it_is_none_of_the_new_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = noting(monkeypatch, connected=True)

    def leaves() -> str:
        ray.session = object()
        return "actor"

    monkeypatch.setattr(ray, "created", leaves)
    begun: list[str] = []

    async def scenario() -> None:
        handle = RayHandle(SimpleNamespace(), place())  # type: ignore[arg-type]
        await handle._create()
        handle._actor = SimpleNamespace(begin=SimpleNamespace(remote=lambda: begun.append("begin")))
        with pytest.raises(ChildProcessError, match="has left the cluster"):
            await handle._begun()
        await handle.end()
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(scenario())
    assert (begun, ray.killed) == ([], []), "whatever is asked now is asked of another cluster"
