"""A worker in a process: its ends, its limits, and that nothing is left; each sentence of the rules."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from actors import (
    ConfigError,
    NotPicklableError,
    ProcessDiedError,
    StalledError,
    StartError,
    WorkerCrashedError,
)
from tests.actors.dispatch import process_workers as there
from tests.actors.dispatch.process_trees import Exits, running, runs, spec_of, worker
from tests.support.command import out
from tests.support.hardening import LONG_S, eventually
from tests.support.load import beside_others
from tests.support.programs import python
from trees import Backoff, Process, start

ROOT = Path(__file__).parents[3]


# -- 1.5: any end is one exit ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "code", "number", "shown"),
    [
        ("segfault", None, signal.SIGSEGV, "died SIGSEGV"),
        (("exit", 3), 3, None, "died exit code 3"),
        (("exit", 0), 0, None, "died exit code 0"),
    ],
)
def test_any_end_of_the_process_is_one_exit_and_who_waited_for_the_message_in_flight_hears_of_it(
    how: Any, code: int | None, number: signal.Signals | None, shown: str
) -> None:
    with running(worker(expected=(Exception,))) as (tree, ask):
        exits = Exits(tree)
        with pytest.raises(WorkerCrashedError) as caught:
            ask(how)
        cause = caught.value.__cause__
        assert isinstance(cause, ProcessDiedError)
        assert (cause.path, cause.exit_code, cause.signal) == ("p/w", code, number)
        how = f"ended by itself with exit code {code}" if number is None else f"was ended by {number.name}"
        assert str(cause) == f"process {cause.pid} of worker p/w {how}"
        assert ask(21) == 42
        error = exits.one().error
        assert isinstance(error, ProcessDiedError)
        assert shown in tree.dump()


def test_who_waits_hears_of_the_death_of_the_process_within_100_ms(tmp_path: Path) -> None:
    """The shortest of five: the others may have waited for a busy machine, and none for a timer of ours."""
    took: list[float] = []
    with running(worker()) as (tree, ask):
        for n in range(5):
            pid, up = ask("pid"), tmp_path / f"up{n}"
            reply = tree.ref("p/w").ask(("until stopped", str(up)), timeout=None, block=False)
            assert eventually(up.exists)
            began = monotonic()
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(WorkerCrashedError):
                reply.get(timeout=60)
            took.append(monotonic() - began)
    assert min(took) < beside_others(0.1)


def test_a_process_that_is_killed_between_two_messages_is_one_exit_too() -> None:
    with running(worker()) as (tree, ask):
        exits = Exits(tree)
        os.kill(ask("pid"), signal.SIGKILL)
        error = exits.one().error
        assert isinstance(error, ProcessDiedError)
        assert error.signal == signal.SIGKILL
        assert ask(21) == 42
        assert "died SIGKILL" in tree.dump()


def test_a_message_that_the_process_has_never_read_waits_for_the_next_incarnation() -> None:
    with running(worker()) as (tree, ask):
        pid = ask("pid")
        os.kill(pid, signal.SIGSTOP)
        reply = tree.ref("p/w").ask(21, timeout=60, block=False)
        eventually(lambda: tree.ref("p/w").depth == 0)  # it was handed over
        os.kill(pid, signal.SIGKILL)
        assert reply.get() == 42
        assert tree.child("p/w").incarnation == 2


@pytest.mark.parametrize("how", ["segfault", "exit", "odd"])
def test_a_process_that_ends_while_it_starts_is_a_failed_start(how: str) -> None:
    with pytest.raises(StartError), start(spec_of(worker(actor=there.Broken, args=(how,)))):
        pass


def test_a_worker_that_raises_ignore_is_left_out() -> None:
    with running(worker(), worker("i", actor=there.Broken, args=("ignore",))) as (tree, _):
        assert tree.child("p/i").pid is None


def test_a_process_that_its_code_leaves_by_sys_exit_has_crashed() -> None:
    with running(worker()) as (tree, ask):
        with pytest.raises(WorkerCrashedError):
            ask("leave")
        assert ask(21) == 42
        assert tree.child("p/w").incarnation == 2


# -- 1.6: stopping is real ------------------------------------------------------------------------------------


def test_stop_asks_and_the_handler_sees_it(tmp_path: Path) -> None:
    with running(worker()) as (tree, _):
        up = tmp_path / "up"
        reply = tree.ref("p/w").ask(("until stopped", str(up)), timeout=None, block=False)
        assert eventually(up.exists)
        tree.terminate_child("p/w")
        assert reply.get(timeout=60) == "stopped"


@pytest.mark.parametrize("shutdown", [0.2, "brutal_kill"])
def test_at_the_end_of_shutdown_the_whole_group_is_killed(shutdown: Any) -> None:
    with running(worker(shutdown=shutdown)) as (tree, ask):
        pid, child = ask("pid"), ask("below")
        tree.ref("p/w").tell("spin")
        started = monotonic()
        tree.terminate_child("p/w")
        assert monotonic() - started < beside_others(5.0)
        assert eventually(lambda: not runs(pid) and not runs(child))


@pytest.mark.parametrize(
    ("body", "notes_at_the_end"),
    [(there.body, "stopped"), (there.async_body, "stopped"), (there.spinning_body, "up")],
)
def test_a_body_runs_in_its_process_and_is_stopped_or_killed(tmp_path: Path, body: Any, notes_at_the_end: str) -> None:
    notes = tmp_path / "notes"
    shutdown = 0.5 if body is there.spinning_body else LONG_S
    with start(spec_of(worker(run=body, args=(str(notes),), shutdown=shutdown))) as tree:
        assert eventually(lambda: notes.exists() and notes.read_text() == "up")
        pid = tree.child("p/w").pid
        assert pid is not None
    assert notes.read_text() == notes_at_the_end
    assert eventually(lambda: not runs(pid))


def test_a_body_that_dies_comes_back(tmp_path: Path) -> None:
    spec = worker(run=there.body, args=(str(tmp_path / "n"), "segfault"), backoff=Backoff(initial_s=0.05, jitter=0.0))
    with start(spec_of(spec)) as tree:
        exits = Exits(tree)
        eventually(lambda: exits.all)
        assert isinstance(exits.all[0].error, ProcessDiedError)


def test_async_code_runs_on_a_loop_of_its_process_and_is_killed_there() -> None:
    with running(worker(actor=there.Async, shutdown=0.3)) as (tree, ask):
        assert ask(21) == 42
        pid = tree.child("p/w").pid
        tree.ref("p/w").tell("sleep")
        assert pid is not None
    assert eventually(lambda: not runs(pid))


# -- 1.7: no orphan, ever -------------------------------------------------------------------------------------


def test_if_the_host_is_killed_every_process_of_its_workers_and_what_they_started_is_gone() -> None:
    """Its worker is a function of the very program that is the host: with a guard, that is found there.

    Within a second: the shorter of two counts, because the other one may have waited for a busy machine.
    """
    assert min(_seconds_to_be_gone() for _ in range(2)) < beside_others(1.0)


def _seconds_to_be_gone() -> float:
    """Kill a host, one of whose workers spins, and wait until nothing of it runs."""
    with python("-m", "tests.actors.dispatch.host_of_workers", cwd=ROOT) as host:
        try:
            pids = [int(each) for each in out(host).readline().split()]
            assert len(pids) == 3
            assert all(map(runs, pids))
        finally:
            began = monotonic()
            host.kill()
    assert eventually(lambda: not any(map(runs, pids)))
    return monotonic() - began


def test_if_the_fork_server_is_killed_it_is_started_again_and_the_workers_go_on() -> None:
    with running(worker(), worker("x")) as (tree, ask):
        pid = ask("pid")
        server = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(server, signal.SIGKILL)
        eventually(lambda: not runs(server))
        assert ask("pid") == pid
        other = tree.ref("p/x").ask("pid")
        os.kill(other, signal.SIGKILL)
        assert tree.ref("p/x").ask("pid", timeout=60) != other
        assert ask("pid") == pid
        assert tree.child("p/w").incarnation == 1


# -- 1.8: limits, environment, folder -------------------------------------------------------------------------


def test_memory_mb_is_a_hard_limit_and_what_exceeds_it_comes_back() -> None:
    with running(worker(dispatch=Process(memory_mb=1500))) as (_, ask):
        with pytest.raises((MemoryError, WorkerCrashedError)):
            ask(("eat", 3000))
        assert ask(("eat", 1)) == 1024 * 1024


def test_env_adds_to_the_environment_and_cwd_sets_the_folder_and_neither_shows(tmp_path: Path) -> None:
    process = Process(env={"TOKEN": "secret-1"}, cwd=tmp_path)
    with running(worker(dispatch=process)) as (tree, ask):
        assert ask(("environment", "TOKEN")) == ("secret-1", str(tmp_path))
        assert ask(("environment", "PATH"))[0] == os.environ["PATH"]
        shown = tree.dump() + tree.dump(verbose=True) + repr(process) + repr(tree.snapshot())
        assert "secret-1" not in shown
        assert str(tmp_path) not in shown


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory_mb": 0},
        {"env": {"A": 1}},
        {"cwd": 3},
        {"cwd": ""},
        {"cwd": "a\0b"},
        {"preload": "numpy"},
        {"preload": ("no module",)},
    ],
)
def test_a_process_says_what_is_wrong_with_its_fields(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        Process(**wrong)
    assert caught.value.problems[0].path == f"Process.{next(iter(wrong))}"


def test_when_a_tree_is_down_nothing_of_its_workers_is_left() -> None:
    with running(worker(pool=2)) as (tree, _):
        pids = [tree.child(f"p/w#{n}").pid or 0 for n in range(2)]
        with suppress(NotPicklableError):
            tree.ref("p/w").tell(threading.Lock())
    assert eventually(lambda: not any(map(runs, pids)))


def test_a_sign_of_life_crosses_and_a_hung_process_is_killed_and_comes_back(tmp_path: Path) -> None:
    with running(worker(stall_s=2.0)) as (tree, ask):
        exits = Exits(tree)
        assert ask(("beat", 3.0), timeout=60) == "beaten", "longer than it may be silent"
        assert ask(("until stopped", str(tmp_path / "up"), 3.0), timeout=60) == "stopped", "a wait is no silence"
        assert not exits.all
        pid = ask("pid")
        with pytest.raises(StalledError):
            ask("spin", timeout=60)
        assert isinstance(exits.one().error, StalledError)
        assert eventually(lambda: not runs(pid))
        assert ask(21) == 42
