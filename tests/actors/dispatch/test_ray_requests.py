"""What is asked of Ray for a worker, by means of a Ray that only notes it: which cluster, which actor, what room."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from actors import StartError
from actors.dispatch import ray as door
from actors.dispatch.host.ray_handle import RayPlace
from actors.dispatch.ray import MEGABYTE, ClusterLook
from tests.support.hardening import LONG_S, eventually
from trees import Ray


class NotingRay(SimpleNamespace):
    """Ray, as far as the door uses it to connect and to create an actor."""

    def __init__(self, *, connected: bool) -> None:
        super().__init__()
        self.connected = connected
        self.addresses: list[str] = []
        self.options: dict[str, Any] = {}
        self.session, self.killed = object(), list[str]()
        self.makers = 0
        self.has_core = connected

    def is_initialized(self) -> bool:
        return self.connected

    def init(self, address: str) -> None:
        self.addresses.append(address)
        self.connected = True

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address="10.0.0.1:6379", get_job_id=lambda: "job")

    def remote(self, **always: Any) -> Any:
        self.makers += 1

        def maker(**options: Any) -> Any:
            self.options = {**always, **options}
            return SimpleNamespace(remote=lambda *_: self.created())

        return lambda _: SimpleNamespace(options=maker)

    def created(self) -> str:
        return "actor"

    def kill(self, actor: str, *, no_restart: bool) -> None:
        assert no_restart
        self.killed.append(actor)


def noting(monkeypatch: pytest.MonkeyPatch, *, connected: bool = False, ray: NotingRay | None = None) -> NotingRay:
    ray = NotingRay(connected=connected) if ray is None else ray
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(door, "_on_a_thread_that_stays", lambda act: act())
    monkeypatch.setattr(door, "_session", lambda: ray.session)
    monkeypatch.setattr(door, "_has_core", lambda: ray.has_core)
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

    door.join(place(address=named))

    assert ray.addresses == joins


def test_an_actor_is_created_with_what_the_worker_asks_for_and_is_never_restarted_by_ray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = noting(monkeypatch, connected=True)
    given: dict[str, Any] = {"num_cpus": 2, "num_gpus": 0.5, "resources": {"tape": 1}, "runtime_env": {"pip": ["a"]}}

    door.actor_at(place(memory_mb=3, **given))

    assert ray.options.pop("max_concurrency") == door.METHODS
    assert ray.options == {"max_restarts": 0, "max_task_retries": 0, "memory": 3 * 1024 * 1024, **given}


def test_one_class_of_actors_is_made_for_each_session_because_the_cluster_keeps_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = noting(monkeypatch, connected=True)
    for _ in range(3):
        door.actor_at(place(num_cpus=2))
    assert ray.makers == 1
    ray.session = object()
    door.actor_at(place())
    assert ray.makers == 2
    assert ray.options["num_cpus"] == 1


@pytest.mark.parametrize("named", ["10.0.0.1:6379", "localhost:6379", "127.0.0.1:6379", "head:6379", "auto", "local"])
def test_any_name_of_the_head_names_the_cluster_that_this_process_is_in(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    noting(monkeypatch, connected=True)
    names_resolve(monkeypatch)
    door.join(place(address=named))


@pytest.mark.parametrize("named", ["10.0.0.2:6379", "localhost:6380", "other:6379", "unknown:6379"])
def test_another_host_or_another_port_is_another_cluster(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    noting(monkeypatch, connected=True)
    names_resolve(monkeypatch)
    with pytest.raises(StartError, match=f"connected to the cluster at 10.0.0.1:6379, and cannot use {named} as well"):
        door.join(place(address=named))


def names_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three names; this machine is the head."""
    known = {"localhost": "127.0.0.1", "head": "10.0.0.1", "other": "10.0.0.3"}

    def found(host: str, _: None) -> list[tuple[Any, ...]]:
        if host == "unknown":
            raise OSError(host)
        return [(None, None, None, "", (known.get(host, host), 0))]

    monkeypatch.setattr(door.socket, "getaddrinfo", found)
    monkeypatch.setattr(door, "_ip_here", lambda: "10.0.0.1")


def test_ray_client_is_refused_with_what_to_do_whoever_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = noting(monkeypatch)
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(StartError, match=r"cannot use ray://head:10001: Ray Client .* like \"head:6379\""):
        door.join(place())
    assert ray.addresses == []
    ray.connected, ray.session = True, None
    with pytest.raises(StartError, match="this process uses Ray Client"):
        door.join(place())


def test_a_host_that_leaves_while_it_is_asked_where_it_is_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = noting(monkeypatch, connected=True)
    monkeypatch.setattr(ray, "get_runtime_context", SimpleNamespace)  # Ray deletes the client that knows it
    with pytest.raises(ChildProcessError, match="has left the cluster"):
        door.join(place())


def test_an_actor_is_created_in_no_cluster_that_ray_would_start_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = noting(monkeypatch)
    with pytest.raises(ChildProcessError, match="has left the cluster"):
        door.actor_at(place())
    assert ray.makers == 0


def test_a_node_without_this_library_is_named_as_what_it_is() -> None:
    """Ray says it in the middle of a page."""
    error = RuntimeError("The actor died ... ModuleNotFoundError: No module named 'actors' ...")
    said = str(door.explained(error, place()))
    assert said.startswith("w: this library cannot be imported on the node")
    assert "runtime_env" in said
    other = RuntimeError("it has no room in its disk")
    assert door.explained(other, place()) is other


# -- room ----------------------------------------------------------------------------------------------------


class Room(NotingRay):
    """A cluster that says what it has once it may."""

    def __init__(self) -> None:
        super().__init__(connected=True)
        self.may_say = threading.Event()
        self.looks = 0

    def cluster_resources(self) -> dict[str, float]:
        self.looks += 1
        assert self.may_say.wait(LONG_S)
        return {"CPU": 8, "memory": 64 * MEGABYTE}

    def available_resources(self) -> dict[str, float]:
        return {"CPU": 0.5, "memory": 16 * MEGABYTE}


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    found = Room()
    noting(monkeypatch, ray=found)
    yield found
    found.may_say.set()


def test_one_look_serves_all_that_wait_and_no_second_one_begins_meanwhile(room: Room) -> None:
    look = ClusterLook()
    asks = place(num_cpus=2, memory_mb=32, resources={"tape": 1})
    assert look.room(asks, room.session) == (
        "the cluster has not started it: it asks for 2 CPU, 32 MB of memory, 1 tape"
    )
    for _ in range(50):
        look.begin()
    assert eventually(lambda: room.looks)
    room.may_say.set()
    assert eventually(lambda: "free" in look.room(asks, room.session))
    assert look.room(asks, room.session) == (
        "the cluster has not started it: it asks for 2 CPU, of which 0.5 of 8 are free, "
        "32 MB of memory, of which 16 of 64 are free, 1 tape, of which 0 of 0 are free"
    )
    assert "free" not in look.room(asks, object()), "that was another cluster"
    assert room.looks == 1
    look.begin()
    assert eventually(lambda: room.looks == 2)


def test_a_cluster_that_has_not_said_what_it_has_for_long_does_not_answer(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = ClusterLook()
    look.begin()
    assert eventually(lambda: room.looks)
    assert "does not answer" not in look.room(place(), room.session)
    monkeypatch.setattr(door, "SLOW_S", -1.0)
    assert look.room(place(), room.session) == "the cluster does not answer"
    room.may_say.set()
    assert eventually(lambda: "free" in look.room(place(), room.session))


def test_a_cluster_that_refuses_to_say_it_is_asked_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    look = ClusterLook()

    def refuses() -> None:
        raise ConnectionError

    with monkeypatch.context() as patches:
        patches.setattr(room, "available_resources", refuses)
        room.may_say.set()
        look.begin()
        assert eventually(lambda: look._began is None)
    look.begin()
    assert eventually(lambda: "free" in look.room(place(), room.session))
