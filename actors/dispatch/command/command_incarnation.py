"""Incarnation of a command: a process instead of an object, and its exit is the exit.

It keeps the contract of every incarnation (``actors.execution.incarnation``): one start, one end, reported once. No
code of a user runs in it but ``ready`` and ``on_line``, on the pool. The moments, and what happens at each::

    start --> a thread of the pool starts the process --> [ready] --> UP --> the process ends --> OVER
      |            | cannot be started: StartError                      |
      +-- stop ----+-- stop: stop_signal to the group ------------------+
      +-- kill ----+-- kill: SIGKILL to the group ----------------------+

*An order against the start of the process*: both look under the mailbox's lock. Either the order is found before the
process is started, or the process is known, and signalled, by whoever comes second. *An order against its own end*:
whoever is first; after an order its exit is the order's, whatever the code: many a program answers a TERM with 143.
"""

from __future__ import annotations

import os
import re
import signal
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from actors.concurrency.thread_state import with_users
from actors.concurrency.wakeup import SingleJob
from actors.dispatch.command.command_process import CommandProcess, Stream
from actors.dispatch.command.program import Program
from actors.dispatch.groups.process_group import GuardianError, named_signal
from actors.dispatch.groups.process_reader import READER
from actors.execution.incarnation import Exit, Incarnation, IncarnationPhase, Started
from actors.execution.incarnation_ports import IncarnationHost, IncarnationOwner
from actors.messaging.mailbox import Mailbox
from actors.model.errors import StartError
from actors.model.process_errors import ProcessDiedError
from actors.model.spec import ChildSpec, Reason, WorkerRecipe
from actors.model.worker_events import CommandOutput, CommandOutputLost
from actors.validation.introspection import not_awaited

ASK_S: Final = 0.05
"""Seconds between two questions if it is ready."""
MOST_WAITING: Final = 10_000
"""Lines that wait for ``on_line``; with more the oldest are left out."""


class CommandIncarnation(Incarnation):
    """One incarnation of a command."""

    __slots__ = ("_begun", "_listener", "_pattern", "_process", "_program", "_raised")

    def __init__(self, system: IncarnationHost, spec: ChildSpec, mailbox: Mailbox, owner: IncarnationOwner) -> None:
        super().__init__(system, spec, mailbox, owner)
        assert isinstance(spec.recipe, WorkerRecipe)  # noqa: S101 - ours to get right, not a user's mistake
        self._program: Program = spec.recipe.program
        self._process: CommandProcess | None = None
        self._begun = False
        self._raised: BaseException | None = None
        """Error of ``ready`` when it was asked last, the cause of a start that takes too long. One job asks."""
        ready = self._program.ready
        self._pattern = re.compile(ready) if isinstance(ready, str) else None
        on_line = self._program.on_line
        self._listener = None if on_line is None else _Listener(self, on_line)

    @property
    def pid(self) -> int | None:
        """Number of the process; None: it has not begun, or is over."""
        process = self._process
        return None if process is None or self.is_over else process.pid

    # -- its supervisor ------------------------------------------------------------------------------------

    def start(self) -> bool:
        """Begin; ``Started`` or ``Exited`` will be told."""
        self.mailbox.attach(self, idle=False)
        self.wake()
        return False

    def wake(self) -> None:
        """Have the process started, on the pool: that waits until the program is loaded."""
        if not self._begun:
            self.system.pool.submit(self)

    def stop(self) -> None:
        """Order it to end."""
        self._order(Reason.SHUTDOWN)

    def _order(self, reason: Reason) -> bool:
        with self.mailbox.lock:
            if self.phase is IncarnationPhase.OVER or self.order is not None:
                return False
            self.order = reason
            process, stopped = self._process, self._stopped
        if stopped is not None:
            stopped.complete()
        if process is not None:
            process.stop(_number_of(self._program.stop_signal))
        return False

    def kill(self, what: str = "") -> None:  # noqa: ARG002 - its exit says what happened
        """End the whole group; its end is reported when it is gone."""
        with self.mailbox.lock:
            if self.phase is IncarnationPhase.OVER:
                return
            self.order = Reason.KILLED
            process, stopped = self._process, self._stopped
        if stopped is not None:
            stopped.complete()
        if process is not None:
            process.kill()

    def abandon(self, what: str = "") -> Exit | None:
        """Wait no longer for a process that was killed: the system has not got to it yet."""
        raised = self._taken_raised()
        return self._end(Exit(Reason.KILLED, None if self.came_up else raised, what, output=self._output))

    # -- on the pool ---------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Start the process; True never."""
        with self.mailbox.lock:
            begins = not self._begun and self.phase is not IncarnationPhase.OVER
            self._begun, order = True, self.order
        if not begins:
            return False
        if order is not None:
            self._end(Exit(order), tell=True)
            return False
        try:
            process = CommandProcess(self._program, self, looks=self._looks)
        except (OSError, RuntimeError, ValueError) as error:
            self._end(Exit(Reason.CRASHED, self._not_started(error)), tell=True)
            return False
        with self.mailbox.lock:
            self._process, order = process, self.order
            is_over = self.phase is IncarnationPhase.OVER
        if is_over or order is Reason.KILLED:
            process.kill()
        elif order is not None:
            process.stop(_number_of(self._program.stop_signal))
        elif self._program.ready is None:
            self._is_up()  # before it is watched: it may have ended already
        elif self._pattern is None:
            self._ask()
        try:
            process.watch()
        except RuntimeError as error:
            self._end(Exit(Reason.CRASHED, self._not_started(error)), tell=True)
        return False

    def _looks(self) -> bool:
        return self.is_starting and self._pattern is not None

    def _not_started(self, error: Exception) -> StartError:
        program, cwd = self._program.argv[0], self._program.cwd
        what, hint = f"program {program!r} cannot be started: {getattr(error, 'strerror', None) or error}", ""
        if cwd is not None and not os.path.isdir(cwd):  # noqa: PTH112 - what was given, as it is
            what, hint = f"cwd of program {program!r} is not a folder", "Give one that exists, or leave cwd out."
        elif isinstance(error, GuardianError):
            what, hint = str(error), ""
        elif isinstance(error, FileNotFoundError):
            what, hint = f"program {program!r} is not there", "Install it, or give its path."
        elif isinstance(error, PermissionError):
            what, hint = f"program {program!r} is not executable", "Make it executable, or run it by its interpreter."
        failure = StartError(self.mailbox.path, what, hint)
        failure.__cause__ = error
        return failure

    @property
    def is_starting(self) -> bool:
        """True while its start is under way, which an order to stop ends."""
        return self.phase is IncarnationPhase.STARTING and self.order is None

    def _is_up(self) -> None:
        with self.mailbox.lock:
            if not self.is_starting:
                return
            self._comes_up()
        self.owner.post(Started(self))

    def _ask(self) -> None:
        """Ask if it is ready, on the pool; again and again, while it starts."""
        if self.is_starting:
            self.system.run_apart(_Question(self))

    def answered(self, *, ready: bool, raised: BaseException | None = None) -> None:
        """Take the answer: the last one counts, also where its time was up while it was asked."""
        with self.mailbox.lock:
            if self.phase is not IncarnationPhase.OVER:
                self._raised = raised
        if ready:
            self._is_up()
        else:
            READER.call(lambda: READER.later(ASK_S, self._ask))

    @property
    def question(self) -> Callable[[], object]:
        """``ready`` of the program, where it is to be called."""
        ready = self._program.ready
        return ready if callable(ready) else lambda: True

    # -- on the reader's thread ----------------------------------------------------------------------------

    def wrote(self, stream: Stream, lines: list[str]) -> None:
        """Pass lines on."""
        at, path, publish = self.system.epoch + self.system.now(), self.mailbox.path, self.system.publish
        for line in lines:
            publish(CommandOutput(path, at, stream, line))
        if self._listener is not None:
            self._listener.hear(lines)

    def said(self, lines: list[str]) -> None:
        """Find out if it is ready."""
        if self._pattern is not None and self.is_starting and any(map(self._pattern.search, lines)):
            self._is_up()

    def lost(self, count: int) -> None:
        """Tell how many lines were not passed on."""
        self.system.publish(CommandOutputLost(self.mailbox.path, count))

    def ended(self, returncode: int) -> None:
        """Report the end."""
        with self.mailbox.lock:
            order, was_up = self.order, self.came_up
        raised, output = self._taken_raised(), self._output
        code, number = (returncode, None) if returncode >= 0 else (None, named_signal(-returncode))
        path = self.mailbox.path
        if order is not None:
            exit_ = Exit(order, raised if order is Reason.KILLED and not was_up else None, output=output)
        elif not was_up and returncode in self._program.ok_codes and self._program.ready is not None:
            why = StartError(path, f"ended with exit code {returncode} before it was ready")
            why.__cause__ = raised
            exit_ = Exit(Reason.CRASHED, why, output=output)
        elif returncode in self._program.ok_codes:
            exit_ = Exit(Reason.NORMAL, output=output)
        else:
            died = ProcessDiedError(path, code, number, None if self._process is None else self._process.pid)
            exit_ = Exit(Reason.CRASHED, died, output=output)
        self._end(exit_, tell=True)

    def _taken_raised(self) -> BaseException | None:
        with self.mailbox.lock:
            raised, self._raised = self._raised, None
        return raised

    @property
    def _output(self) -> tuple[str, ...]:
        process = self._process
        return process.tail.texts() if process is not None else ()


class _Question:
    """Job: is it ready? What it raises means that it is not: a server that is not there yet refuses connections.

    What it returns is a user's object as well, so it is tested for truth here.
    """

    urgent = False

    def __init__(self, incarnation: CommandIncarnation) -> None:
        self._incarnation = incarnation

    def run(self) -> bool:
        """Ask once."""
        try:
            ready, raised = with_users(lambda: bool(not_awaited(self._incarnation.question()))), None
        except BaseException as error:  # noqa: BLE001 - see above, also of SystemExit; what lasts is the start's time limit
            ready, raised = False, error
        self._incarnation.answered(ready=ready, raised=raised)
        del raised  # it holds this frame
        return False


class _Listener(SingleJob):
    """Calls ``on_line`` with each line, one after the other, on the pool."""

    urgent = False

    def __init__(self, incarnation: CommandIncarnation, on_line: Callable[[str], Any]) -> None:
        super().__init__(lambda: incarnation.system.run_apart(self))
        self._incarnation = incarnation
        self._on_line = on_line
        self._lines: deque[str] = deque(maxlen=MOST_WAITING)

    def hear(self, lines: list[str]) -> None:
        """Queue lines; the oldest go where there are too many."""
        self._lines.extend(lines)
        self.rouse()

    def run(self) -> bool:
        """Call it with all that waits; True never: it looks again by itself."""
        while self.enter():
            while self._lines:
                self._call(self._lines.popleft())
            self.leave()
            if not self._lines:
                break
        return False

    def _call(self, line: str) -> None:
        try:
            not_awaited(with_users(self._on_line, line))
        except BaseException as error:  # noqa: BLE001 - it is the code of a user: the command goes on
            self._incarnation.system.reports.callback_raised(self._incarnation.mailbox.path, error)


def _number_of(name: str) -> int:
    return int(signal.Signals[f"SIG{name.removeprefix('SIG')}"])
