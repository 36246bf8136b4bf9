"""``regrow run``: a tree from its start to its end, in the foreground."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TextIO

from actors.concurrency.thread_state import in_background
from actors.messaging.reply import Reply
from actors.model.errors import ActorsError, RestartLimitError
from actors.model.events import (
    ChildAbandoned,
    ChildExited,
    ChildParked,
    ChildRestarting,
    ChildStopAbnormal,
    Event,
    SupervisorGaveUp,
)
from actors.runtime.event_log import ErrorsInLog
from actors.runtime.handle import system_of
from actors.tasks.model import (
    BreakerOpened,
    EscalationRaised,
    JournalDamaged,
    Planned,
    Replanning,
    StoreError,
    StorePaused,
    StoreResumed,
    SubtaskFailed,
    SubtaskRetrying,
    TaskEvent,
    TaskFinished,
    TaskStranded,
)
from trees.command.live_view import LiveView
from trees.command.resume import StoreChoice, announce, finish
from trees.command.target import Program
from trees.host.start import start
from trees.host.tree import Tree
from trees.observe.web.web_settings import Web
from trees.views.capture import children_by_state

OK, NOT_STARTED, GAVE_UP, MAIN_RAISED, STORE_LOST, KILLED = 0, 1, 3, 4, 5, 130
FLUSH_S = 1.0
"""How long the end waits for the last lines of the events."""


class Runner:
    """Runs one program once.

    With ``resume`` it goes on with what an earlier run has left, and submits nothing anew.
    """

    def __init__(
        self,
        program: Program,
        keeping: StoreChoice,
        *,
        resume: bool = False,
        log_errors: ErrorsInLog = "text",
        web: Web | None = None,
    ) -> None:
        self._program = program
        self._keeping = keeping
        self._resume = resume
        self._log_errors = log_errors
        self._web = web
        self._interruptible = False

    def run(self) -> int:
        """Start it, show it, end it, print its dump; the exit code."""
        # SIGTERM is what a service manager sends: the same clean end as Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            tree = start(
                self._program.spec,
                console=hasattr(os, "getuid"),
                store=self._keeping.url,
                durability=self._keeping.durability,
                log_errors=self._log_errors,
                web=self._web,
            )
        except ActorsError as error:
            if error.__cause__ is not None and not isinstance(error, StoreError):
                traceback.print_exception(error.__cause__)
            _say(str(error), sys.stderr)
            return NOT_STARTED
        except KeyboardInterrupt:
            _say(f"{self._program.spec.id}: interrupted while it started; what was up is stopped.")
            return OK
        try:
            tree.dump_on_signal()
            system_of(tree).ended.when_done(lambda: self._gave_up(tree))
            with _showing(tree, self._keeping.said):
                if not self._resume:
                    announce(tree, _say)
                code = self._main(tree)
        except KeyboardInterrupt:
            code = OK
        return self._end(tree, code)

    def _end(self, tree: Tree, code: int) -> int:
        """Stop what still runs, and print what there was."""
        try:
            if tree.is_alive:
                _say(f"{tree.spec.id}: stopping")
            # Not in this thread: Ctrl-C may interrupt it anywhere, so also half-way through waking a supervisor.
            stopped = Reply()
            in_background(f"{tree.spec.id}-stop", lambda: (tree.stop(), stopped.complete()))
            stopped.wait(None)
        except KeyboardInterrupt:
            tree.stop(timeout=0.0)
            code = KILLED
        _say(f"\n{tree.dump()}")
        cause = system_of(tree).cause
        return code if cause is None else GAVE_UP if isinstance(cause, RestartLimitError) else STORE_LOST

    def _main(self, tree: Tree) -> int:
        """Do what is to be done with the tree, or wait for its end."""
        main = self._program.resume if self._resume else self._program.main
        if main is None and not self._resume:
            try:
                tree.wait()
            except ActorsError as error:
                _say(str(error), sys.stderr)
            return OK
        self._interruptible = True
        try:
            if main is None:
                return OK if finish(tree, _say) else MAIN_RAISED
            outcome = main(tree)
            if inspect.iscoroutine(outcome):
                _run(outcome)
        except KeyboardInterrupt:
            raise
        except SystemExit as error:
            if error.code is None or isinstance(error.code, int):
                return error.code or OK
            _say(str(error.code), sys.stderr)  # the reason, which an interpreter would have printed
            return MAIN_RAISED
        except BaseException:  # noqa: BLE001 - whatever it is, the tree is ended in order and its dump printed
            traceback.print_exc()
            return MAIN_RAISED
        finally:
            self._interruptible = False
        return OK

    def _gave_up(self, tree: Tree) -> None:
        """A main that waits for something else would not notice that its tree is gone."""
        if self._interruptible and system_of(tree).cause is not None:
            _say(str(system_of(tree).cause), sys.stderr)
            os.kill(os.getpid(), signal.SIGTERM)  # not SIGINT: a job in the background of a shell is deaf to it


def _run(main: Coroutine[Any, Any, Any]) -> None:
    """Run an async main. A signal that comes while its loop is made, of which half would be left, waits for that."""
    noted: list[object] = []
    runner = asyncio.Runner()
    try:
        heard = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
        before = [(each, signal.signal(each, lambda *_: noted.append(1))) for each in heard]
        try:
            runner.get_loop()
        finally:
            for each, handler in before:
                signal.signal(each, handler)
        with runner:
            if noted:
                raise KeyboardInterrupt
            runner.run(main)
    finally:
        main.close()  # it may not have begun


@contextmanager
def _showing(tree: Tree, said: str) -> Iterator[None]:
    """A live view on a terminal; plain lines anywhere else."""
    children = sum(children_by_state(system_of(tree)).values())
    _say(f"{tree.spec.id}: up, {children} children. Ctrl-C ends it; 'regrow dump --pid {os.getpid()}' looks at it.")
    if said:
        _say(said)
    live = sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"
    view: AbstractContextManager[object] = LiveView(tree) if live else nullcontext()
    unsubscribe = tree.subscribe(_tell) if not live else None
    try:
        with view:
            yield
    finally:
        if unsubscribe is not None:
            system_of(tree).bus.flush(FLUSH_S)
            unsubscribe()


def _tell(event: Event) -> None:
    """One line for what somebody should know."""
    if isinstance(event, ChildExited) and not event.reason.clean:
        how = type(event.error).__name__ if event.error is not None else event.detail
        _say(f"{event.path}: {event.reason} {how}".rstrip())
    elif isinstance(event, ChildRestarting):
        delay = f" in {event.delay_s:.1f} s" if event.delay_s else ""
        _say(f"{event.path}: restart {event.attempt} in a row{delay}")
    elif isinstance(event, (ChildStopAbnormal, ChildParked, ChildAbandoned, SupervisorGaveUp)):
        _say(f"{event.path}: {_WORDS[type(event)]}")
    elif isinstance(event, StorePaused):
        _say(f"{event.path}: paused, nothing new begins: {event.error}")
    elif isinstance(event, StoreResumed):
        _say(f"{event.path}: goes on, its store can be written again, after {event.after_s:.1f} s")
    elif isinstance(event, TaskStranded):
        _say(f"{event.path}: is not in this tree; task {event.task} waits until it is")
    elif isinstance(event, JournalDamaged):
        _say(f"{event.path}: the journal of task {event.task} cannot be read; nothing of it happens")
    elif isinstance(event, BreakerOpened):
        _say(f"{event.path}: its breaker has opened, it gets no work")
    elif isinstance(event, TaskEvent) and (said := _said_of_task(event)):
        _say(f"{event.path}: task {event.task}{said}")


def _said_of_task(event: TaskEvent) -> str:
    """Text of a line on it; none where no one need know. Ids only: the rest may be private."""
    said = _SAID.get(type(event))
    return said(event) if said is not None else ""


def _wait_of(event: Any) -> str:
    return f"next in {max(0.0, event.due - event.at):.1f} s"


def _place_of(event: Any) -> str:
    """What of the task it is about: a subtask, its undo, or the planner, reviewer or synthesizer of a team."""
    if event.role == "work":
        return f"subtask {event.subtask}"
    if event.role == "undo":
        return f"undo of {event.subtask}"
    return f"{event.subtask}: {event.role}" if event.subtask else str(event.role)


_SAID: dict[type[TaskEvent], Callable[[Any], str]] = {
    Planned: lambda event: f": planned, subtasks {len(event.plan.subtasks)}",
    Replanning: lambda event: f": plans again, failed: {', '.join(event.failed)}",
    SubtaskRetrying: lambda event: f", {_place_of(event)}: attempt {event.attempt}: {event.kind}, {_wait_of(event)}",
    SubtaskFailed: lambda event: f", {_place_of(event)}: failed ({event.kind})",
    EscalationRaised: lambda event: f", {_place_of(event)}: asks a person, escalation {event.escalation}",
    TaskFinished: lambda event: f": {event.status}" + (", best effort" if event.best_effort else ""),
}


_WORDS: dict[type[Event], str] = {
    ChildStopAbnormal: "did not stop as it should",
    ChildParked: "parked",
    ChildAbandoned: "abandoned: it did not stop in time",
    SupervisorGaveUp: "gave up",
}


def _say(text: str, file: TextIO | None = None) -> None:
    # In one piece, else what the program prints at the same time could come before the end of the line.
    print(f"{text}\n", end="", file=file, flush=True)
