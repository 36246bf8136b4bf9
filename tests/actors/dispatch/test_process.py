"""A worker in a process: what crosses, and that the library works there; each sentence of the rules."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from loguru import logger

import actors
from actors import (
    NotPicklableError,
    RemoteError,
    ReplyTimeoutError,
    WorkerCrashedError,
)
from tests.actors.dispatch import process_workers as there
from tests.actors.dispatch.process_trees import running, worker
from tests.support.hardening import LONG_S, eventually
from trees import WorkerSpec

ROOT = Path(__file__).parents[3]


# -- 1.1: one incarnation is one process ---------------------------------------------------------------------


def test_one_incarnation_is_one_process_that_leads_a_session_and_a_group_of_its_own() -> None:
    with running(worker()) as (tree, ask):
        pid, group, session, is_main = ask("ids")
        assert pid == group == session == tree.child("p/w").pid != os.getpid()
        assert is_main, "sync code runs on the main thread of its process"
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: tree.child("p/w").incarnation == 2)
        assert ask("pid") not in {pid, os.getpid()}


def test_one_member_of_a_pool_is_one_process() -> None:
    with running(worker(pool=2)) as (tree, _):
        pids = {tree.ref(f"p/w#{n}").ask("pid") for n in range(2)}
        assert pids == {tree.child(f"p/w#{n}").pid for n in range(2)}
        assert len(pids) == 2
        assert {tree.ref("p/w").ask("pid") for _ in range(4)} <= pids


def test_an_idle_worker_in_a_process_costs_its_host_no_thread() -> None:
    with running(worker("w0")) as (tree, ask):
        ask("pid")
        before = {each.name for each in threading.enumerate() if "reply" not in each.name}
        for n in range(1, 4):
            tree.start_child("p", worker(f"w{n}"))
        more = {each.name for each in threading.enumerate()} - before
        assert not any(f"w{n}" in name for n in range(4) for name in more)
        assert sum("processes" in name and "to-thread" not in name for name in before | more) <= 2  # and its watchdog


def test_the_mailbox_stays_in_the_host_and_one_message_at_a_time_is_handed_over(tmp_path: Path) -> None:
    with running(worker()) as (tree, _):
        ref, up = tree.ref("p/w"), tmp_path / "up"
        first = ref.ask(("until stopped", str(up)), timeout=None, block=False)
        rest = [ref.ask(("echo", n), timeout=None, block=False) for n in range(5)]
        assert eventually(up.exists)
        assert ref.depth == 5
        os.kill(tree.child("p/w").pid or 0, signal.SIGKILL)
        assert [each.get(timeout=60) for each in rest] == list(range(5)), "the next incarnation has handled the rest"
        with pytest.raises(WorkerCrashedError):
            first.get(timeout=60)


# -- 1.2: importable code -------------------------------------------------------------------------------------


def test_code_may_be_named_by_an_import_string() -> None:
    with running(worker(handle="tests.actors.dispatch.process_workers:do")) as (_, ask):
        assert ask(21) == 42


STARTS = """
from trees import Process, SupervisorSpec, Web, WorkerSpec, start

def twice(message):
    return message * 2

def tree(dispatch):
    return SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=twice, dispatch=dispatch)])

"""


def ran(*words: str, cwd: Path) -> tuple[int, str, str]:
    """Run Python there; the exit code, and what it has written."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{cwd}"}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=LONG_S, check=False, cwd=cwd, env=env
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", ", store='sqlite:///p.db', web=Web(port=0)"])
def test_a_script_without_a_main_guard_gets_an_error_that_says_just_that(more: str, tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    start = f"start(tree('process'){more})"
    script.write_text(f"{STARTS}with {start} as tree:\n    print('answer', tree.ref('p/w').ask(21))\n")
    code, said, errors = ran(str(script), cwd=tmp_path)
    assert code != 0
    assert 'if __name__ == "__main__":' in errors
    assert 'if __name__ == "__main__":' in errors.splitlines()[-1], "what to do stands where people look first"
    assert "answer" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dispatch", "more"),
    [("'process'", ", store='sqlite:///p.db', web=Web(port=0)"), ("Process(preload=['app'])", "")],
)
def test_a_module_that_starts_its_tree_while_it_is_imported_gets_an_error_that_says_just_that(
    dispatch: str, more: str, tmp_path: Path
) -> None:
    """As one does that a server of apps imports. Each process would start the next one, without end."""
    start = f"start(tree({dispatch}){more})"
    (tmp_path / "app.py").write_text(f"{STARTS}with {start} as tree:\n    print('answer', tree.ref('p/w').ask(21))\n")
    code, said, errors = ran("-c", "import app", cwd=tmp_path)
    assert code != 0
    assert "Start the tree in a function" in errors.splitlines()[-1]
    assert "answer" not in said


# -- 1.3: what crosses ----------------------------------------------------------------------------------------


def test_what_cannot_be_pickled_is_raised_in_the_sender_before_anything_is_sent() -> None:
    with running(worker(pool=2)) as (tree, ask):
        for path in ("p/w", "p/w#0"):
            ref = tree.ref(path)
            for send in (ref.ask, ref.tell, partial(ref.ask, block=False)):
                with pytest.raises(NotPicklableError, match="lock") as caught:
                    send(threading.Lock())
                assert caught.value.path == path
            assert ref.depth == 0
        assert ask(21) == 42
        assert all(tree.child(f"p/w#{n}").incarnation == 1 for n in range(2))


@pytest.mark.parametrize("reads", ["the main thread", "a thread beside it"])
def test_a_message_whose_code_waits_where_it_is_rebuilt_is_an_error_of_that_message(reads: str) -> None:
    """It would wait on the thread that reads for what only that could read."""
    with running(worker(), WorkerSpec(id="other", handle=str)) as (tree, ask):
        if reads == "a thread beside it":
            ask(("keep", "p/other"))
        with pytest.raises(NotPicklableError, match="Error while it was unpickled") as caught:
            ask(there.Asking("p/other"))
        assert "Timeout" not in str(caught.value)
        assert ask(21) == 42
        assert tree.child("p/w").incarnation == 1


def test_a_reply_that_cannot_be_pickled_is_raised_at_the_asker_with_the_name_of_its_type_and_the_worker_lives() -> None:
    with running(worker()) as (tree, ask):
        with pytest.raises(NotPicklableError) as caught:
            ask("lock")
        assert caught.value.type_name == "lock"
        with pytest.raises(NotPicklableError):
            ask(("echo", there.Explosive()))  # it cannot be rebuilt there
        assert ask(21) == 42
        assert tree.child("p/w").incarnation == 1


def test_an_exception_that_cannot_be_rebuilt_here_arrives_as_a_remote_error() -> None:
    with running(worker()) as (tree, ask):
        with pytest.raises(RemoteError) as caught:
            ask("odd")
        assert caught.value.type_name.endswith("OddError")
        assert caught.value.text == "1 and 2"
        assert ask(21) == 42
        assert tree.child("p/w").incarnation == 1


def test_every_exception_from_there_carries_the_remote_traceback_as_its_cause() -> None:
    with running(worker(expected=(ValueError,))) as (tree, ask):
        with pytest.raises(ValueError, match="bad") as caught:
            ask(("raise", ValueError("bad")))
        assert "process_workers.py" in str(caught.value.__cause__)
        assert "in do" in str(caught.value.__cause__)
        assert tree.child("p/w").incarnation == 1, "an expected error is a failure of the request"
        tree.ref("p/w").tell(("raise", KeyError("worse")))
        assert eventually(lambda: tree.child("p/w").incarnation == 2)


def test_large_values_cross_whole() -> None:
    value = os.urandom(3_000_000)
    with running(worker()) as (_, ask):
        assert ask(("echo", value)) == value
        assert ask(("echo", bytearray(value))) == value


# -- 1.4: in there the library works as anywhere --------------------------------------------------------------


def test_refs_ask_and_tell_and_ancestry_holds_over_the_wire() -> None:
    with running(worker(), worker("x"), worker("a", actor=there.Async), WorkerSpec(id="h", handle=there.do)) as (
        _,
        ask,
    ):
        assert ask(("ask", "p/x", 4)) == 8
        assert ask(("ask", "p/h", 5)) == 10
        assert ask(("ask", "p/a", ("p/x", 6))) == 12
        ask(("tell", "p/x", 1))
        for circle in (("ask", "p/w", 1), ("ask", "p/x", ("ask", "p/w", 1)), ("ask", "p/h", ("ask", "p/w", 1))):
            with pytest.raises(actors.RecursionDetectedError) as caught:
                ask(circle)
            assert caught.value.chain[0] == caught.value.chain[-1] == "p/w"
        with pytest.raises(actors.UnknownPathError):
            ask(("ask", "p/nobody", 1))
        assert ask(21) == 42


def test_a_deadline_holds_over_the_wire() -> None:
    sleeps = ("ask", "p/x", ("ask", "p/y", ("until stopped", os.devnull), 60), 60)
    with running(worker(), worker("x"), worker("y")) as (tree, ask):
        with pytest.raises(ReplyTimeoutError):
            ask(sleeps, timeout=0.3)
        assert ask(21, timeout=60) == 42, "nobody down the line waits longer"
        assert tree.child("p/w").incarnation == 1


def test_the_error_of_its_own_ask_is_a_failed_request_and_no_crash() -> None:
    with running(worker(), WorkerSpec(id="h", handle=there.do, expected=(ValueError,))) as (tree, ask):
        with pytest.raises(ValueError, match="theirs"):
            ask(("ask", "p/h", ("raise", ValueError("theirs"))))
        with pytest.raises(actors.Failed, match="no"):
            ask(("raise", actors.Failed("no")))
        assert tree.child("p/w").incarnation == 1


def test_log_lines_of_the_process_reach_the_log_of_the_host_with_path_and_level() -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, format="{level} {message}")
    try:
        with running(worker()) as (_, ask):
            ask(("log", "hello {there}"))
            assert eventually(lambda: any("WARNING p/w: hello {there}" in each for each in lines))
    finally:
        logger.remove(sink)


def test_hooks_lifespans_and_proxies_work_as_anywhere(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    owner = worker("o", handle=there.resource_of, lifespan=there.owned)
    with running(worker(actor=there.Counter, args=(str(notes),)), owner) as (tree, ask):
        assert (ask(2), ask(3)) == (2, 5)
        assert tree.ref("p/w").proxy().total().get() == 5
        resource, pid = tree.ref("p/o").ask("")
        assert resource == f"resource of {pid}"
        with pytest.raises(ValueError, match="bad"):
            ask(("raise", ValueError("bad")))
        assert ask(1) == 1, "a new object"
        assert ask("end") == "ended"
        assert ask(4) == 4, "it has stopped itself, and what came meanwhile waited"
    assert notes.read_text().split("\n")[:-1] == [
        *("on_start", "on_failure ValueError", "on_start", "on_stop", "on_start", "on_stop")
    ]
