"""A command as a child: each sentence of the rules, with real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from loguru import logger

from actors import (
    ActorStoppedError,
    ChildExited,
    CommandOutput,
    CommandOutputLost,
    ProcessDiedError,
    StartError,
)
from actors.testing import ManualClock
from tests.actors.dispatch.process_trees import runs
from tests.support.crew import meanwhile, until
from tests.support.hardening import eventually
from tests.support.load import beside_others
from trees import Command, SupervisorSpec, Tree, WorkerSpec, start

ROOT = Path(__file__).parents[3]
SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPS
BELOW = (
    "import subprocess, sys, time; "
    f"below = subprocess.Popen([sys.executable, '-c', {DEAF!r}], stdout=subprocess.PIPE); below.stdout.readline(); "
    "print(below.pid, flush=True); time.sleep(600)"
)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def spec_of(command: Any, **rules: Any) -> SupervisorSpec:
    return SupervisorSpec(id="p", children=[WorkerSpec(id="m", command=command, **rules)])


class Seen:
    """Events of a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.events: list[Any] = []
        tree.subscribe(self.events.append)

    def of(self, kind: type[Any]) -> list[Any]:
        return [each for each in list(self.events) if isinstance(each, kind)]

    def exit(self) -> ChildExited:
        """The first exit."""
        found: ChildExited = eventually(lambda: self.of(ChildExited))[0]
        return found

    def lines(self) -> list[str]:
        return [each.line for each in self.of(CommandOutput)]


@contextmanager
def running(command: Any, **rules: Any) -> Iterator[Seen]:
    """A tree to which the command is added once its events are heard."""
    with start(SupervisorSpec(id="p", max_restarts=1000)) as tree:
        seen = Seen(tree)
        tree.start_child("p", WorkerSpec(id="m", command=command, **rules))
        yield seen


def pid_of(tree: Tree) -> int:
    pid = tree.child("p/m").pid
    assert pid is not None
    return pid


# -- its exit is the exit ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "ok_codes", "reason"),
    [(0, (0,), "normal"), (3, (0, 3), "normal"), (3, (0,), "crashed"), (0, (3,), "crashed")],
)
def test_a_code_of_ok_codes_is_normal_anything_else_a_crash(code: int, ok_codes: Any, reason: str) -> None:
    with running(Command(python(f"raise SystemExit({code})"), ok_codes=ok_codes), restart="temporary") as seen:
        exit_ = seen.exit()

    assert str(exit_.reason) == reason
    assert exit_.started
    if reason == "crashed":
        assert isinstance(exit_.error, ProcessDiedError)
        assert (exit_.error.path, exit_.error.exit_code, exit_.error.signal) == ("p/m", code, None)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_any_signal_not_ours_is_a_crash_and_the_dump_names_it(number: signal.Signals) -> None:
    with running(python(SLEEPS)) as seen:
        os.kill(pid_of(seen.tree), number)
        exit_ = seen.exit()
        eventually(lambda: seen.tree.child("p/m").incarnation == 2)

        assert isinstance(exit_.error, ProcessDiedError)
        assert (exit_.error.exit_code, exit_.error.signal) == (None, number)
        assert f"died {number.name}" in seen.tree.dump()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program-here"], "program 'no-such-program-here' is not there"),
        (["/no/such/program"], "program '/no/such/program' is not there"),
        (["/etc/passwd"], "program '/etc/passwd' is not executable"),
        (Command(["ls"], cwd="/no/such/folder"), "cwd of program 'ls' is not a folder"),
    ],
)
def test_a_program_that_is_not_there_or_not_executable_is_a_start_error_that_names_it(command: Any, said: str) -> None:
    with pytest.raises(StartError, match=said) as raised:
        start(spec_of(command))

    assert raised.value.path == "p/m"
    assert isinstance(raised.value.__cause__, OSError)


# -- ready ---------------------------------------------------------------------------------------------------


def test_with_a_regular_expression_start_waits_for_a_line_that_matches(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    waits = f"while not os.path.exists({str(flag)!r}): time.sleep(0.01)"
    code = f"import os, time\nprint('begins', flush=True)\n{waits}\n{SLEEPS}"
    opened = threading.Timer(0.3, flag.touch)
    opened.start()
    with start(spec_of(Command(python(code), ready="^u.$"))) as tree:
        assert flag.exists()
        assert tree.child("p/m").state == "running"


def test_without_ready_it_is_up_as_soon_as_it_runs_and_it_is_shown_like_any_child() -> None:
    with start(spec_of(["sleep", "600"])) as tree:
        child = tree.child("p/m")
        assert (child.state, child.incarnation) == ("running", 1)
        assert runs(child.pid or 0)
        assert re.search(r"m +permanent +running +incarnation 1", tree.dump())


def test_a_callable_is_asked_until_it_is_true_and_an_error_means_not_yet() -> None:
    answers: list[Any] = [False, None, ConnectionRefusedError(), SystemExit(), True, False]

    def ready() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    with start(spec_of(Command(python(SLEEPS), ready=ready))):
        assert answers == [False]


def test_a_callable_is_asked_every_50_ms() -> None:
    asked: list[float] = []

    def ready() -> bool:
        asked.append(monotonic())
        return len(asked) == 8

    with start(spec_of(Command(python(SLEEPS), ready=ready))):
        pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert 0.05 <= min(pauses) < beside_others(0.1)
    assert len(asked) == 8, "nor is it asked when it is ready"


@pytest.mark.parametrize("ready", ["never said", lambda: False])
def test_what_is_not_ready_within_start_timeout_s_is_a_start_error_and_leaves_nothing(ready: Any) -> None:
    pids: list[int] = []
    command = Command(
        python(f"import os; print(os.getpid(), flush=True)\n{SLEEPS}"),
        ready=ready,
        on_line=lambda line: line.isdigit() and pids.append(int(line)),
    )
    clock = ManualClock()
    with meanwhile(start, spec_of(command, start_timeout_s=1), clock=clock) as starting:
        assert eventually(lambda: pids)
        until(starting.done, clock, by=1.0)
        with pytest.raises(StartError, match=r"did not start within 1 s \(it is not ready\)"):
            starting.result()

    eventually(lambda: pids and not runs(pids[0]))


@pytest.mark.parametrize(
    ("code", "said"),
    [(0, "exit code 0 before it was ready"), (3, r"p/m: died exit code 3 while it started \(ProcessDiedError\)\.$")],
)
def test_what_ends_before_it_is_ready_is_a_start_error(code: int, said: str) -> None:
    with pytest.raises(StartError, match=said):
        start(spec_of(Command(python(f"raise SystemExit({code})"), ready="up")))


# -- stop ----------------------------------------------------------------------------------------------------


def test_stop_signal_goes_to_the_process_group_and_after_shutdown_sigkill_to_it() -> None:
    below: list[int] = []
    with running(
        Command(python(BELOW), ready=r"\d+", on_line=lambda line: below.append(int(line))), shutdown=1.0
    ) as seen:
        leader = pid_of(seen.tree)
        eventually(lambda: below)
        began = monotonic()
        seen.tree.terminate_child("p/m")  # the leader ends at once, what is below is deaf to TERM
        took = monotonic() - began

    assert not runs(leader)
    eventually(lambda: not runs(below[0]))
    assert took >= 0.9


@pytest.mark.parametrize(("rules", "reason"), [({"shutdown": 0.3}, "killed"), ({"shutdown": "brutal_kill"}, "killed")])
def test_a_command_that_is_deaf_to_its_stop_signal_is_killed(rules: dict[str, Any], reason: str) -> None:
    with running(Command(python(DEAF), ready="up"), **rules) as seen:
        pid = pid_of(seen.tree)
        seen.tree.terminate_child("p/m")

        assert not runs(pid)
        assert str(seen.exit().reason) == reason


def test_another_stop_signal_is_sent_where_one_is_given() -> None:
    code = f"import signal, sys; signal.signal(signal.SIGINT, lambda *_: sys.exit(7)); {SLEEPS}"
    with running(Command(python(code), ready="up", stop_signal="INT")) as seen:
        seen.tree.terminate_child("p/m")

    assert str(seen.exit().reason) == "shutdown"  # whatever its code: it was ordered to end


def test_standard_input_is_empty_and_there_is_no_shell() -> None:
    with running(
        Command([*python("import sys; print(sys.stdin.read() == '', sys.argv[1])"), "$HOME;ls"]), restart="temporary"
    ) as seen:
        assert seen.exit().output == ("True $HOME;ls",)


def test_env_is_added_and_cwd_is_where_it_runs(tmp_path: Path) -> None:
    code = "import os; print(os.environ['ONE'], os.getcwd(), 'PATH' in os.environ)"
    with running(Command(python(code), env={"ONE": "1"}, cwd=str(tmp_path)), restart="temporary") as seen:
        assert seen.exit().output == (f"1 {tmp_path} True",)


# -- no orphan -----------------------------------------------------------------------------------------------

HOST = """
import sys, time
from loguru import logger
from trees import Command, SupervisorSpec, WorkerSpec, start

logger.remove()
below = []
command = Command([sys.executable, "-c", sys.argv[1]], ready="[0-9]+", on_line=lambda line: below.append(line))
with start(SupervisorSpec(id="p", children=[WorkerSpec(id="m", command=command)])) as tree:
    while not below:
        time.sleep(0.01)
    print(tree.child("p/m").pid, below[0], flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_if_the_host_dies_by_kill_9_the_command_and_what_it_started_are_gone() -> None:
    process = subprocess.Popen([*python(HOST), BELOW], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pids = [int(each) for each in process.stdout.readline().split()]
    try:
        assert len(pids) == 2
        assert all(map(runs, pids))
        process.kill()
        process.communicate()

        eventually(lambda: not any(map(runs, pids)))
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_what_a_command_leaves_in_its_group_ends_with_it() -> None:
    code = BELOW.replace("; time.sleep(600)", "")
    with running(python(code), restart="temporary") as seen:
        below = int(seen.exit().output[0])

        eventually(lambda: not runs(below))


# -- output --------------------------------------------------------------------------------------------------


def test_each_line_of_its_output_is_an_event_and_given_to_on_line_and_the_last_20_are_in_child_exited() -> None:
    heard: list[str] = []
    code = "import os\nfor n in range(30): print(n, flush=True)\nos.write(2, bytes([98, 97, 100, 32, 255, 10]))"
    command = Command(python(code), on_line=heard.append)
    with running(command, restart="temporary") as seen:
        exit_ = seen.exit()
        eventually(lambda: len(heard) == 31)

    out = [each for each in seen.of(CommandOutput) if each.stream == "stdout"]
    assert [each.line for each in out] == [str(number) for number in range(30)]
    assert sorted(heard) == sorted(seen.lines())
    assert "bad \ufffd" in heard
    assert len(exit_.output) == 20
    assert out[0].path == "p/m"
    assert out[0].at > 1e9


def test_each_line_of_its_output_is_a_debug_log_line() -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, format="{level} {message}", level="DEBUG")
    try:
        with running(["sh", "-c", "echo one line; exec sleep 600"]):
            eventually(lambda: any("DEBUG" in each and "p/m" in each and "one line" in each for each in lines))
    finally:
        logger.remove(sink)


def test_an_on_line_that_raises_does_not_end_the_command() -> None:
    def fails(line: str) -> None:
        raise ValueError(line)

    with running(Command(python(SLEEPS), ready="up", on_line=fails)) as seen:
        eventually(lambda: [each for each in seen.events if type(each).__name__ == "CallbackRaised"])
        assert seen.tree.child("p/m").state == "running"


@pytest.mark.slow
def test_a_command_that_writes_100_mb_a_second_neither_blocks_the_tree_nor_fills_memory() -> None:
    blocks = 100
    block = "import os, sys\nblock = (b'x' * 99 + b'\\n') * 10_000\n"
    code = f"{block}for _ in range({blocks}): os.write(1, block)\nprint('end')"
    with running(python(code), restart="temporary") as seen:
        asked = []
        while not seen.of(ChildExited):
            began = monotonic()
            seen.tree.dump()
            asked.append(monotonic() - began)
        exit_ = seen.exit()
        eventually(lambda: seen.of(CommandOutputLost))

    assert exit_.output[-1] == "end"
    assert max(asked) < beside_others(5.0)
    assert len(seen.lines()) < 10_000 * blocks / 3, "a third; how many are passed on depends on how long it writes"
    assert len(seen.lines()) + sum(each.count for each in seen.of(CommandOutputLost)) == 10_000 * blocks + 1


def test_one_thread_reads_all_commands_and_none_is_there_when_they_are_over() -> None:
    def readers() -> int:
        return sum(each.name == "commands" for each in threading.enumerate())

    children = [WorkerSpec(id=f"m{number}", command=python(SLEEPS)) for number in range(8)]
    with start(SupervisorSpec(id="p", children=children)) as tree:
        pids = [child.pid for child in tree.which_children("p")]
        assert len(set(pids)) == 8
        assert readers() == 1

    assert not any(runs(pid) for pid in pids if pid)
    eventually(lambda: readers() == 0)


def test_it_has_no_mailbox() -> None:
    with (
        running(python(SLEEPS)) as seen,
        pytest.raises(ActorStoppedError, match=r"p/m: .*a command and has no mailbox"),
    ):
        seen.tree.ref("p/m").ask(1, timeout=5)


def test_members_of_a_pool_are_a_process_each() -> None:
    with start(spec_of(python(SLEEPS), pool=3)) as tree:
        assert len({child.pid for child in tree.which_children("p")}) == 3
