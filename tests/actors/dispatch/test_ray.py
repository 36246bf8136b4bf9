"""Workers in a cluster of Ray, on a real one: each sentence of the rules."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from loguru import logger

from actors import (
    ChildAbandoned,
    Failed,
    NotPicklableError,
    ProcessDiedError,
    ReplyTimeoutError,
    StartError,
    WorkerCrashedError,
    WorkerLostError,
)
from tests.actors.dispatch import process_workers as there
from tests.actors.dispatch.process_trees import Exits, spec_of
from tests.actors.dispatch.process_trees import running as started
from tests.actors.dispatch.process_trees import worker as placed
from tests.support.clusters import START_S, RayCluster, on_ray
from tests.support.hardening import eventually
from trees import Ray, Tree, WorkerSpec, start

LONG_S = 120.0
"""Seconds for an answer that waits for the next incarnation: an actor starts in half a second, or in ten under load."""
POOL = 2
pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow, pytest.mark.timeout(400)]


def worker(id_: str = "w", **rules: Any) -> WorkerSpec:
    """A worker that has time to start there."""
    return placed(id_, **{"start_timeout_s": START_S, **rules})


@contextlib.contextmanager
def running(*children: WorkerSpec) -> Iterator[tuple[Tree, Callable[..., Any]]]:
    """A tree of these, and how to ask its first worker, which may have to start first."""
    with started(*children) as (tree, ask):
        yield tree, functools.partial(ask, timeout=LONG_S)


@pytest.mark.parametrize(
    ("work", "message", "answer"),
    [
        ({"handle": there.do}, 21, 42),
        ({"handle": f"{there.__name__}:do"}, 21, 42),
        ({"actor": there.Counter}, 21, 21),
        ({"actor": there.Async}, 21, 42),
    ],
    ids=["handler", "import string", "actor", "async"],
)
def test_handlers_and_actors_run_there(work: dict[str, Any], message: Any, answer: Any) -> None:
    with running(worker(dispatch=on_ray(), **work)) as (_, ask):
        assert ask(message) == answer


def test_state_stays_between_messages_and_is_new_after_a_crash() -> None:
    with running(worker(actor=there.Counter, dispatch=on_ray())) as (tree, ask):
        assert [ask(1), ask(2)] == [1, 3]
        with pytest.raises(ZeroDivisionError):
            ask(("raise", ZeroDivisionError()))
        assert ask(5) == 5
        assert tree.child("p/w").restarts == 1


def test_large_messages_cross_and_what_cannot_be_pickled_is_refused_before_it_is_sent() -> None:
    data = os.urandom(1024) * 20_000
    with running(worker(dispatch=on_ray())) as (tree, ask):
        assert ask(("echo", data)) == data
        assert bytes(ask(("echo", there.Buffer(data))).data) == data
        with pytest.raises(NotPicklableError, match="generator"):
            ask(each for each in ())
        with pytest.raises(NotPicklableError, match="lock"):
            ask("lock")
        assert tree.child("p/w").incarnation == 1


def test_log_lines_resources_deadlines_and_failed_requests_are_those_of_a_worker_in_a_process() -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, format="{level} {message}")
    owner = worker("o", handle=there.resource_of, lifespan=there.owned, dispatch=on_ray())
    try:
        with running(worker(dispatch=on_ray()), owner, WorkerSpec(id="local", handle=there.do)) as (tree, ask):
            ask(("log", "hello {there}"))
            assert eventually(lambda: "WARNING p/w: hello {there}\n" in lines)
            resource, pid = tree.ref("p/o").ask("", timeout=LONG_S)
            assert resource == f"resource of {pid}"
            with pytest.raises(NotPicklableError):
                ask(("ask", "p/local", "lock"))
            with pytest.raises(Failed, match="no luck"):
                ask(("raise", Failed("no luck")))
            with pytest.raises(ReplyTimeoutError):
                tree.ref("p/w").ask(("ask", "p/local", ("until stopped", os.devnull), 600), timeout=0.5)
            assert ask(21) == 42, "it waits no longer than its asker"
            assert tree.child("p/w").incarnation == 1
    finally:
        logger.remove(sink)


# -- its ends ----------------------------------------------------------------------------------------------------


def test_a_stop_asks_and_the_handler_sees_it(tmp_path: Any) -> None:
    with running(worker(dispatch=on_ray())) as (tree, _):
        up = tmp_path / "up"
        reply = tree.ref("p/w").ask(("until stopped", str(up)), timeout=None, block=False)
        assert eventually(up.exists, within_s=LONG_S)
        tree.terminate_child("p/w")
        assert reply.get(timeout=LONG_S) == "stopped"


def test_any_end_of_the_actor_is_one_exit_and_who_waited_for_the_message_in_flight_hears_of_it() -> None:
    """One actor after the other, each the next incarnation of the last: it takes a second of work to start one."""
    with running(worker(dispatch=on_ray(), expected=(Exception,))) as (tree, ask):
        for how in ("null", ("exit", 3), ("exit", 0)):
            exits = Exits(tree)
            with pytest.raises(WorkerCrashedError) as caught:
                ask(how)
            cause = caught.value.__cause__
            assert isinstance(cause, ProcessDiedError)
            assert (cause.exit_code, cause.signal) == (None, None), "Ray tells neither"
            assert ask(21) == 42, how
            assert isinstance(exits.one(LONG_S).error, ProcessDiedError)
            assert "died" in tree.dump()
        exits = Exits(tree)
        os.kill(ask("pid"), signal.SIGKILL)  # between two messages
        assert isinstance(exits.one(LONG_S).error, ProcessDiedError)
        assert ask(21) == 42
        assert tree.child("p/w").restarts == 4


@pytest.mark.parametrize("shutdown", [0.2, "brutal_kill"])
def test_what_does_not_end_in_time_is_killed_and_nothing_is_abandoned(shutdown: Any) -> None:
    with running(worker(dispatch=on_ray(), shutdown=shutdown)) as (tree, ask):
        lost: list[object] = []
        tree.subscribe(lambda event: lost.append(event) if isinstance(event, ChildAbandoned) else None)
        pid = ask("pid")
        tree.ref("p/w").tell("spin")
        tree.terminate_child("p/w")
        eventually(lambda: not _runs(pid), within_s=LONG_S)
        assert not lost
        tree.restart_child("p/w")
        assert ask(21) == 42


def test_no_actor_outlives_its_tree() -> None:
    with running(worker(dispatch=on_ray(), pool=2)) as (tree, _):
        pids = [tree.ref(f"p/w#{n}").ask("pid", timeout=LONG_S) for n in range(2)]
    eventually(lambda: not any(map(_runs, pids)), within_s=LONG_S)


# -- room, and its loss ------------------------------------------------------------------------------------------


def test_a_worker_for_which_there_is_no_room_says_what_it_asked_for_and_what_there_is() -> None:
    crowded = worker(dispatch=Ray(num_cpus=1000, resources={"tape": 2}), start_timeout_s=2.0)
    with pytest.raises(StartError) as caught, start(spec_of(crowded)):
        pass
    said = str(caught.value)
    assert "did not start within 2 s" in said
    assert "1000 CPU, of which" in said
    assert "2 tape, of which 0 of 0 are free" in said


def test_a_worker_waits_for_room(cluster: RayCluster) -> None:
    late = worker("late", dispatch=on_ray(resources={"late": 1}), required=False, start_timeout_s=60.0)
    with running(worker(dispatch=on_ray())) as (tree, _), ThreadPoolExecutor(1) as other:
        added = other.submit(tree.start_child, "p", late)
        eventually(lambda: "late" in tree.dump(), within_s=LONG_S)
        with cluster.node("late"):
            added.result()
            assert tree.ref("p/late").ask(21, timeout=LONG_S) == 42


def test_the_loss_of_a_node_is_the_exit_of_each_worker_on_it_and_they_come_back_on_another(
    cluster: RayCluster,
) -> None:
    with cluster.node("side") as one, cluster.node("side") as other:
        place = on_ray(resources={"side": 0.1})
        pool = worker("pool", dispatch=place, pool=POOL)
        with running(worker(dispatch=on_ray()), pool) as (tree, ask):
            exits = Exits(tree)
            members = [f"p/pool#{n}" for n in range(POOL)]
            homes = {path: tree.ref(path).ask("node", timeout=LONG_S) for path in members}
            lost = next(node for node in (one, other) if node.node_id == homes[members[0]])
            cluster.lose(lost)
            gone = [path for path in members if homes[path] == lost.node_id]
            eventually(lambda: len(exits.all) == len(gone), within_s=LONG_S)
            assert {event.path for event in exits.all} == set(gone)
            for event in exits.all:
                assert isinstance(event.error, WorkerLostError)
                assert event.error.node == lost.node_id
            assert [tree.ref(path).ask(21, timeout=LONG_S) for path in members] == [42] * POOL
            assert ask(21) == 42


# -- the host, and its cluster -----------------------------------------------------------------------------------


def _host(how: str, address: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.actors.dispatch.host_in_a_cluster", how],
        env={**os.environ, "RAY_ADDRESS": address},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _number(host: subprocess.Popen[str]) -> int:
    """The number that a host says next; Ray may say other things."""
    assert host.stdout is not None
    return next(int(line) for line in host.stdout if line.strip().isdigit())


def test_a_host_that_is_killed_leaves_no_actor(cluster: RayCluster) -> None:
    with _host("stays", cluster.address) as host:
        pid = _number(host)
        host.kill()
    eventually(lambda: not _runs(pid), within_s=LONG_S)


def test_a_process_without_a_cluster_starts_one_that_stays_for_its_next_tree_and_ends_with_it() -> None:
    with _host("goes", "") as host:
        pids = [_number(host), _number(host)]
        host.stdin.close()  # type: ignore[union-attr]
        assert host.wait(60) == 0
    eventually(lambda: not any(map(_runs, pids)), within_s=LONG_S)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
