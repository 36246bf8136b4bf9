"""Runs the tests of one collection side by side, each process a fork of the one that has collected them.

pytest-xdist starts new interpreters, and each one imports and collects everything: with this suite that is a tenth of
all work, and what makes more processes than cores dear. Here nothing is collected twice, so there may be as many
processes as the waits of the tests leave room for. Its rules are those of pytest-xdist: a process that dies fails the
test that it ran, and another one goes on in its place; tests that are one unit run in one process, in their order.

``Run`` is the parent. It runs no test and has one thread, so it can fork at any time. ``_Child`` is a process. Between
them is a pipe each, for pickled tuples:

* child to parent: ``("starts", place)``, ``("report", data)``, ``("warning", ...)``, ``("next",)``, ``("leaves",)``,
  ``("broke", text)``;
* parent to child: the place of the next test in the collection, or None: none is left.

The end of a pipe does not tell the end of its child: what a test has forked may still hold it. So the parent looks now
and then which children are still there.

A child asks for its next test when the call of the last one is over, since what is torn down then depends on it.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import io
import os
import signal
import sys
import tempfile
import threading
import traceback
import types
import warnings
from collections.abc import Iterable, Sequence
from multiprocessing import util
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest
from _pytest._io import TerminalWriter  # plugins have it from the reporter alone, which is not there in a child

DIED = "died while it ran this test"
LOOK_S = 0.5
"""Seconds between two looks for children that have died."""
NUMBER = pytest.StashKey[int]()
"""In the config of a child: it is the first, second, ... one; in that of the parent there is none."""


class _Following:
    """The test that follows in this process: it is asked for once somebody wants to know."""

    def __init__(self, items: Sequence[pytest.Item], parent: Connection) -> None:
        self._items = items
        self._parent = parent

    @functools.cached_property
    def place(self) -> int | None:
        """Place of it in the collection; None: none is left."""
        self._parent.send(("next",))
        found: int | None = self._parent.recv()
        return found

    def __bool__(self) -> bool:
        return self.place is not None

    def listchain(self) -> list[Any]:
        """Return its collectors and itself."""
        return [] if self.place is None else self._items[self.place].listchain()


class _Silent:
    """Stands for the reporter of the terminal in a process that reports to its parent."""

    def __init__(self) -> None:
        self._tw = TerminalWriter(sys.stderr)
        """Where plugins write the stacks of a test that takes too long."""


def _capture_apart(manager: Any) -> None:
    """Have what is captured gather in files of this process.

    The objects stay, ``sys.stderr`` too: a module that was imported during the collection may hold it.
    """
    captured = getattr(manager, "_global_capturing", None)
    for stream in (captured.out, captured.err) if captured is not None else ():
        file = getattr(stream, "tmpfile", None)
        with contextlib.suppress(io.UnsupportedOperation):  # it is captured in memory, which a fork has for itself
            if file is not None:
                with tempfile.TemporaryFile(buffering=0) as own:
                    os.dup2(own.fileno(), file.fileno())


class _Child:
    """A process that runs tests."""

    def __init__(self, session: pytest.Session, number: int, parent: Connection) -> None:
        self._session = session
        self._number = number
        self._parent = parent

    def main(self) -> None:
        """Run tests until none is left; does not return."""
        code = 1
        try:
            self._settle_in()
            self._run_all()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent tells it
            self._parent.send(("broke", traceback.format_exc()))
        finally:
            self._leave(code)

    def _settle_in(self) -> None:
        """Have what belongs to one process alone: the capture of output, a folder for files, who is told of reports."""
        config: Any = self._session.config
        plugins = config.pluginmanager
        _capture_apart(plugins.get_plugin("capturemanager"))
        for plugin in plugins.get_plugins():
            if type(plugin).__module__ in {"_pytest.terminal", "_pytest.terminalprogress"}:
                plugins.unregister(plugin)
        plugins.register(_Silent(), "terminalreporter")
        plugins.register(self)
        folders = config._tmp_path_factory
        folders._basetemp = folders.getbasetemp() / f"process{self._number}"
        folders._basetemp.mkdir(mode=0o700)
        config.stash[NUMBER] = self._number
        sys.modules["__main__"] = types.ModuleType("__main__")  # else each process that a test spawns imports pytest

    def _run_all(self) -> None:
        items = self._session.items
        place = _Following(items, self._parent).place
        while place is not None:
            self._parent.send(("starts", place))
            following: Any = _Following(items, self._parent)
            items[place].config.hook.pytest_runtest_protocol(item=items[place], nextitem=following)
            place = following.place

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hand a report on."""
        config = self._session.config
        self._parent.send(("report", config.hook.pytest_report_to_serializable(config=config, report=report)))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Hand a warning on, as text: its arguments may be anything."""
        told = (str(warning_message.message), warning_message.filename, warning_message.lineno)
        self._parent.send(("warning", told, when, nodeid, location))

    def _leave(self, code: int) -> None:
        """End as an interpreter does that ends by itself, but for what only the parent may clear away."""
        try:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            util._exit_function()
            sys.stdout.flush()
            sys.stderr.flush()
            self._parent.send(("leaves",))
        finally:
            os._exit(code)


class _Process:
    """A child, as the parent knows it."""

    def __init__(self, pid: int, pipe: Connection, number: int) -> None:
        self.pid = pid
        self.pipe = pipe
        self.begins_at_end = bool(number % 2)
        """True for every second one: it takes the last of what is left, and the others the first."""
        self.unit: collections.deque[int] = collections.deque()
        """Places of tests that nobody else may run."""
        self.running: int | None = None
        """Place of the test that it runs."""
        self.failed = False
        """True where it has told of its own failure."""
        self.status: int | None = None
        """How it ended; None: nobody has looked, or it is there."""

    def has_ended(self, how: int = os.WNOHANG) -> bool:
        """Look whether it has ended; ``how`` 0: wait for that."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, how)
            self.status = status if pid else None
        return self.status is not None


class Run:
    """One run of the tests of a session.

    Args:
        session: with its tests collected.
        units: places of tests in the collection. Each unit runs in one process, in this order. They are taken from
            both ends: where those that wait, or those that work, stand beside each other, half of the processes are
            elsewhere.
        count: most processes at a time.
    """

    def __init__(self, session: pytest.Session, units: Iterable[Sequence[int]], count: int) -> None:
        self._session = session
        self._units = collections.deque(collections.deque(unit) for unit in units)
        self._count = min(count, len(self._units))
        self._forked = 0
        self._processes: dict[Connection, _Process] = {}

    def run(self) -> None:
        """Run them all.

        Raises:
            Session.Failed: as many have failed as may.
            Session.Interrupted: somebody asked it to stop.
        """
        for _ in range(self._count):
            self._fork()
        try:
            while self._processes:
                heard = wait(list(self._processes), LOOK_S)
                for pipe in heard:
                    self._hear(self._processes[pipe])  # type: ignore[index]
                if not heard:
                    self._look()
        except BaseException:
            self._kill()
            raise
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _fork(self) -> None:
        here, there = Pipe()
        number, self._forked = self._forked, self._forked + 1
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            for other in (here, *self._processes):
                other.close()
            _Child(self._session, number, there).main()
        there.close()
        self._processes[here] = _Process(pid, here, number)

    def _hear(self, process: _Process) -> None:
        try:
            kind, *told = process.pipe.recv()
        except (EOFError, OSError):
            self._end(process)
            return
        getattr(self, f"_on_{kind}")(process, *told)

    def _on_starts(self, process: _Process, place: int) -> None:
        process.running = place

    def _on_report(self, _: _Process, data: dict[str, Any]) -> None:
        hook = self._session.config.hook
        hook.pytest_runtest_logreport(
            report=hook.pytest_report_from_serializable(config=self._session.config, data=data)
        )

    def _on_warning(self, _: _Process, told: tuple[str, str, int], when: Any, nodeid: str, location: Any) -> None:
        text, file, line = told
        message = warnings.WarningMessage(UserWarning(text), UserWarning, file, line)
        self._session.config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": message, "when": when, "nodeid": nodeid, "location": location}
        )

    def _on_next(self, process: _Process) -> None:
        if not process.unit and self._units:
            process.unit = self._units.pop() if process.begins_at_end else self._units.popleft()
        is_over = self._session.shouldfail or self._session.shouldstop
        process.pipe.send(None if is_over or not process.unit else process.unit.popleft())

    def _on_broke(self, process: _Process, text: str) -> None:
        process.failed = True
        self._fail(process, text)

    def _on_leaves(self, process: _Process) -> None:
        self._end(process)

    def _look(self) -> None:
        for process in [*self._processes.values()]:
            if process.has_ended() and not process.pipe.poll():
                self._end(process)

    def _fail(self, process: _Process, text: str) -> None:
        """Report that a test failed with its process, or, where it ran none, the run."""
        if process.running is None:
            self._session.config.hook.pytest_internalerror(excrepr=text, excinfo=None)
            self._session.shouldfail = text
            return
        item = self._session.items[process.running]
        location = (str(item.path), None, text)
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", (location, text), "call", [])  # type: ignore[arg-type]
        report.longrepr = text
        self._session.config.hook.pytest_runtest_logreport(report=report)

    def _end(self, process: _Process) -> None:
        """Let go of a process that ends; one that died is replaced, for what it was to run."""
        del self._processes[process.pipe]
        process.pipe.close()
        process.has_ended(0)
        assert process.status is not None
        code = os.waitstatus_to_exitcode(process.status)
        if not code:
            return
        if not process.failed:
            self._fail(process, f"process {process.pid} {DIED} (exit code {code})")
        if process.unit:
            self._units.appendleft(process.unit)
        if self._units:
            self._fork()

    def _kill(self) -> None:
        for process in self._processes.values():
            if not process.has_ended():
                os.kill(process.pid, signal.SIGKILL)
                process.has_ended(0)
