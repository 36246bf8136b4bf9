"""Facts of one incarnation of an orchestrator, and the few acts that all its parts share. It knows none of the parts.

Facts: its tasks, its workers, the attempts that run, its port, the tree's runtime, the clock. Acts: have something done
once what is recorded is kept (``act``), at a time (``at``), or behind all that is wanted by now (``after_orders``). The
parts are made on top of it, each of those that it needs (``actors.tasks.orchestration.parts``). Only the
orchestrator's own message handling touches it, so there is no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from actors.tasks.orchestration.attempt_table import AttemptTable
from actors.tasks.orchestration.messages import TimerFired
from actors.tasks.planning.settings import Tasks, ladder_of_teams
from actors.tasks.recovery.retries import Facts
from actors.tasks.scheduling.suspects import Suspects
from actors.tasks.scheduling.worker_registry import WorkerRegistry

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation
    from actors.execution.timers import Timer
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.journal.subtask_state import SubtaskState
    from actors.tasks.journal.task_state import TaskState
    from actors.tasks.orchestration.delegation_calls import OpenDelegation
    from actors.tasks.orchestration.fetching import Effect
    from actors.tasks.orchestration.task_runtime import TaskRuntime


FIRST_PAUSE_S: Final = 0.05
"""How soon something begins once more that was cut off."""
MOST_PAUSE_S: Final = 1.0


class OrchestratorCore:
    """State of one incarnation that its parts read, and what they may ask for.

    Timers and orders of an older incarnation say nothing here.
    """

    def __init__(self, incarnation: Incarnation, runtime: TaskRuntime, settings: Tasks) -> None:
        self.incarnation = incarnation
        self.runtime, self.system, self.store = runtime, runtime.system, runtime.store
        self.settings = settings
        self.path = incarnation.mailbox.path.rpartition("/")[0]
        """Path of the supervisor: of the team."""
        self.port = runtime.port(self.path, settings)
        self.states: dict[str, TaskState] = {}
        """Tasks that are not finished, by id. Once this begins, ``port.states`` shows the same dict to others."""
        self.workers, self.attempts = WorkerRegistry(), AttemptTable()
        self.suspects: Suspects[Attempt] = Suspects(settings.max_losses, self.attempts.is_busy)
        self.priorities: set[int] = set()
        """Priorities of all tasks so far: where there is only one, nothing gives way to anything. (What has waited is
        sooner, and gives way later; but it interrupts nothing that it would not have interrupted at first.)"""
        self.begun = False
        """True once it has taken up its tasks."""
        self.is_open = False
        """True once all is carried out that was wanted before it began: nothing new begins before. See ``open``."""
        self._when_open: list[tuple[str, Callable[[], object]]] = []
        self.closing = False
        """True once all is being stopped: nothing new begins."""
        self.left: set[str] = set()
        """Tasks of which something was broken off while the tree ends: the next process goes on with them."""
        self._pauses: dict[object, float] = {}
        """By what was cut off once or more in a row, the last pause after that, in seconds."""
        self.task: str | None = None
        """Task that the present message is about, as far as that is known."""
        self.effects: dict[str | None, list[Effect]] = {}
        """By task, what is to be done when it is kept, and was not handed over yet."""

    @property
    def is_ending(self) -> bool:
        """True once all beside it, or the tree, is being stopped: helpers may be down."""
        return self.closing or self.system.is_ending

    def is_broken_off(self, task: str) -> None:
        """Something of a task was broken off. While the tree ends it would be again, so nothing more of it begins.

        Other tasks go on until all beside this is stopped: what is stopped before may wait for them.
        """
        if self.system.is_ending:
            self.left.add(task)

    def begins_nothing_of(self, task: str) -> bool:
        """True if nothing more of a task begins here.

        Nothing begins from the moment on when the supervisor begins to stop, also before that is heard of: commands may
        overtake the news, and what a child submits as it is stopped must not begin beside it.
        """
        return self.closing or task in self.left or self.port.closing is self.incarnation

    def pause_s(self, of: object) -> float:
        """Seconds until what was cut off begins once more: longer each time, as whom it needs may be down for long."""
        pause = self._pauses[of] = min(2 * self._pauses.get(of, FIRST_PAUSE_S / 2), MOST_PAUSE_S)
        return pause

    def goes_on(self, of: object) -> None:
        """Note that something was not cut off this time."""
        self._pauses.pop(of, None)

    def time(self) -> float:
        """Seconds since 1970, by the tree's clock."""
        return self.runtime.epoch + self.system.now()

    def facts(self) -> Facts:
        """Return the facts that a decision needs beside the state of the task."""
        settings = self.settings
        ladder, of_teams = tuple(settings.on_failure), ladder_of_teams(settings)
        return Facts(self.workers, ladder, self.time(), self.system.random, of_teams)

    def due_of(self, state: TaskState, ask: OpenDelegation | None) -> float | None:
        """When the time of a subtask is up, on the tree's clock: its task's time, or that of whoever asked for it."""
        ends = [state.deadline and state.deadline - self.runtime.epoch, ask and ask.due]
        return min((end for end in ends if end is not None), default=None)

    def is_idle(self, node: SubtaskState) -> bool:
        """True if it was asked for and nobody waits for it now: it is not begun before somebody does again."""
        return node.ask is not None and node.ask not in self.runtime.asks

    def act(self, task: str | None, function: Callable[..., object], *args: Any) -> None:
        """Do something that others see, once everything is kept that is recorded by the end of this message.

        Args:
            task: whose records it follows from: it waits for those only. None: for those of all tasks, and behind all
                that is yet to be done.
            function: what is called.
            args: with what.
        """
        its = self.effects.get(task)
        if its is None:
            self.effects[task] = [(function, args)]
        else:
            its.append((function, args))

    def at(self, due: float, then: Callable[[], None]) -> Timer:
        """Have something done at a time, in seconds since 1970, unless this incarnation is over by then."""
        message = TimerFired(self.incarnation, then, self.task)
        return self.system.timers.call_at(due - self.runtime.epoch, lambda: self.port.post(message))

    def flush(self) -> None:
        """Have done what follows from the records that were made, once they are kept."""
        effects, self.effects = self.effects, {}
        for task, its in effects.items():
            self.port.effects.after(self.runtime.flush(task), its, task)

    def after_orders(self, then: Callable[[], None], task: str | None = None) -> None:
        """Have something done behind all that lies at the port, or in the store, by now.

        Args:
            then: is called unless this incarnation is over by then. What an order of another process leads to lies at
                the port behind it.
            task: the one that it is about.
        """
        message, runtime, started = TimerFired(self.incarnation, then, task), self.runtime, self.system.started
        heard = runtime.heard_orders()
        if heard is None:
            self.port.tell(message)
            return
        runtime.hearing.add(heard)

        def tell() -> None:
            if heard.succeeded:
                self.port.tell(message)
            runtime.hearing.discard(heard)

        # Orders of other processes are passed on once the tree is up, in the order in which they were heard.
        heard.when_done(lambda: started.when_done(tell))

    def open(self) -> None:
        """Let new things begin, once all is carried out that was wanted before.

        What was wanted while nobody was there (a cancel that an earlier process left, or ``regrow tasks``) came before
        what would begin now. So it counts first: else a task that was cancelled an hour ago pays once more.
        """
        if self.runtime.durable is None and not self.port.orders:
            self._open()
        else:
            self.after_orders(self._open_last)

    def when_open(self, task: str, act: Callable[[], object]) -> None:
        """Have something about a task begin once new things may."""
        self._when_open.append((task, act))

    def _open_last(self) -> None:
        """An order of another process puts what it wants behind all that lies at the port: so this goes there again."""
        self.port.tell(TimerFired(self.incarnation, self._open, None))

    def _open(self) -> None:
        self.is_open, waiting, self._when_open = True, self._when_open, []
        for self.task, act in waiting:
            act()
