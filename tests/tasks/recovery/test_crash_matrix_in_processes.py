"""The column "process" of the crash matrix: every way to fail, and those that only a process survives.

Each row is run with every restart type, and over all rows with every strategy. What is expected is derived by the rules
of ``test_crash_matrix``; ``x`` is a process between two siblings that are none.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actors import ChildExited, ProcessDiedError, StartError, WorkerCrashedError
from actors.dispatch.host.fork_server import SERVERS
from actors.testing import settle
from tests.support.crew import LONG_S, Record, running, shop
from tests.support.hardening import eventually
from tests.tasks.recovery.mortal import Mortal, Stillborn
from tests.tasks.recovery.test_crash_matrix import (
    RESTARTS,
    STRATEGIES,
    Crash,
    assert_dump_shows,
    assert_one_exit_for_each_end,
    expected_hooks,
    expected_states,
)
from trees import Process, Tree, WorkerSpec

MORTAL_S = 2.0
"""What is deaf in the end is killed after this."""
MEMORY_MB = 1_500


@dataclass(frozen=True)
class Death:
    """One row: how ``x`` fails, as the matrix says it, and what one of its hooks does."""

    crash: Crash
    fault: str = ""


def ask(message: object) -> Callable[[Tree, Any], Any]:
    return lambda tree, _: tree.ref("shop/x").ask(message, timeout=LONG_S)


def tell(message: object) -> Callable[[Tree, Any], None]:
    return lambda tree, _: tree.ref("shop/x").tell(message)


def kill(tree: Tree, _: object) -> None:
    os.kill(tree.child("shop/x").pid or 0, signal.SIGKILL)


def kill_the_server_first(tree: Tree, _: object) -> Any:
    servers = [each._server for each in SERVERS._servers.values() if each._server is not None]
    killed = 0
    for each in servers:
        with suppress(ProcessLookupError):  # of other modules, and killed by a row before this one
            os.kill(each.pid, signal.SIGKILL)
            killed += 1
        each.wait(LONG_S)
    assert killed
    return tree.ref("shop/x").ask("segfault", timeout=LONG_S)


def ignore_a_stop(tree: Tree, notes: Path) -> None:
    tree.ref("shop/x").tell("hang")
    assert eventually(lambda: "hangs" in notes.read_text())
    tree.terminate_child("shop/x")


def died(name: str, act: Callable[[Tree, Any], Any]) -> Death:
    """No hook of it runs, and whoever waits is told what it died of."""
    return Death(Crash(name, act, ("crashed",), (), asker_gets=WorkerCrashedError, cause=ProcessDiedError))


FAILED = ("on_failure x",)
ROWS = [
    died("segfault", ask("segfault")),
    died("os._exit", ask("exit")),
    died("SIGKILL in a message", ask("kill")),
    Death(Crash("SIGKILL between messages", kill, ("crashed",), ())),
    Death(Crash("memory limit", ask("eat"), ("crashed",), FAILED, asker_gets=MemoryError)),
    died("killed fork server", kill_the_server_first),
    Death(Crash("handler raises on tell", tell("raise"), ("crashed",), FAILED)),
    Death(Crash("handler raises on ask", ask("raise"), ("crashed",), FAILED, asker_gets=ValueError)),
    *(
        Death(
            Crash(
                f"handler raises {error.__name__}",
                ask(error("out")),
                ("crashed",),
                FAILED,
                asker_gets=WorkerCrashedError,
            )
        )
        for error in (SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit)
    ),
    Death(Crash("on_stop raises", tell("stop"), ("crashed",), ("on_stop x",)), "on_stop raises"),
    Death(Crash("on_stop hangs", tell("stop"), ("killed",), ("on_stop x",)), "on_stop hangs"),
    Death(Crash("stop ignored", ignore_a_stop, ("killed",), (), by_itself=False)),
    Death(Crash("fails again", tell("raise"), ("crashed", "crashed"), FAILED), "second on_start raises"),
]
CELLS = [
    pytest.param(row, restart, STRATEGIES[(number + place) % 3], id=f"{row.crash.name}-{restart}".replace(" ", "_"))
    for number, row in enumerate(ROWS)
    for place, restart in enumerate(RESTARTS)
]


def mortal(id_: str, notes: Path, fault: str = "", **rules: Any) -> WorkerSpec:
    return WorkerSpec(id=id_, actor=Mortal, args=(id_, str(notes), fault), **rules)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "restart", "strategy"), CELLS)
def test_a_process_that_fails_is_treated_as_the_rules_say(
    row: Death, restart: Any, strategy: Any, tmp_path: Path
) -> None:
    process: Any = Process(memory_mb=MEMORY_MB) if row.crash.name == "memory limit" else "process"
    assert_treated(row, restart, strategy, tmp_path / "notes", dispatch=process)


def assert_treated(row: Death, restart: Any, strategy: Any, notes: Path, **place: Any) -> None:
    """Have a worker at this place fail, and compare what follows with the rules."""
    crash = row.crash
    is_deaf = "killed" in crash.exits
    x = mortal("x", notes, row.fault, restart=restart, shutdown=MORTAL_S if is_deaf else LONG_S, **place)
    a, z = (mortal(id_, notes) for id_ in "az")
    with running(shop(a, x, z, strategy=strategy)) as tree:
        record = Record(tree)
        notes.write_text("on_start x\n")
        error = _asker_got(crash, tree, notes)
        assert type(error) is (crash.asker_gets or type(None)), error
        if crash.by_itself:
            record.wait_for(ChildExited, "shop/x")
        settle(tree, place.get("start_timeout_s", LONG_S))
        lines = [each for each in notes.read_text().splitlines()[1:] if each != "hangs"]

        assert_one_exit_for_each_end(record, lines, crash, restart)
        assert lines == expected_hooks(crash, restart, strategy)
        assert_dump_shows(tree, expected_states(crash, restart))
        if crash.cause is ProcessDiedError:
            assert isinstance(error.__cause__ if error is not None else None, ProcessDiedError)
            assert isinstance(record.of(ChildExited, "shop/x")[0].error, ProcessDiedError)


def _asker_got(crash: Crash, tree: Tree, notes: Path) -> BaseException | None:
    try:
        crash.act(tree, notes)  # type: ignore[arg-type]
    except BaseException as error:  # noqa: BLE001 - it must be an Exception, and that is asserted
        return error
    return None


@pytest.mark.parametrize("word", ["segfault", "exit", "kill", "raise"])
def test_a_process_that_dies_while_it_starts_leaves_the_others_alone(word: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    x = WorkerSpec(id="x", actor=Stillborn, args=("x", str(notes), word), dispatch="process")
    with running(shop(*(mortal(id_, notes) for id_ in "az"), strategy="one_for_all")) as tree:
        record = Record(tree)
        notes.write_text("")
        with pytest.raises(StartError):
            tree.start_child("shop", x)
        settle(tree)

        assert record.exits("shop/x") == ["crashed"]
        assert [event.started for event in record.of(ChildExited)] == [False]
        assert notes.read_text().splitlines() == ["on_start x", *(["on_failure x"] if word == "raise" else [])]
        assert_dump_shows(tree, {"a": "running", "z": "running"})
