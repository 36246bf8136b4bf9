"""``Tree``: the handle that a host program holds of a tree that ``trees.start`` has started.

It is made of parts: ``trees.host.tree_children`` has the methods that look at children and change them,
``trees.host.task_api`` works with tasks, ``trees.ha.roles`` knows which process leads, and ``trees.host.shutdown`` ends
the tree. Here each method says what its user must know.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from actors.model.events import Event
from actors.runtime.system import System
from actors.tasks.journal.questions import Escalation
from actors.tasks.model.executable import ExecutableInfo
from actors.tasks.model.policy import Answer
from actors.tasks.model.report import Report
from actors.tasks.model.task import Task, TaskStatus
from actors.validation.missing_names import missing_name
from actors.validation.validation_messages import require_callback
from trees.declaration.specs import SupervisorSpec
from trees.ha.roles import Leadership
from trees.host.batch import Batch, ItemT, OnError
from trees.host.batch_targets import target_of
from trees.host.console import Console
from trees.host.shutdown import Shutdown
from trees.host.signals import SIGUSR1, on_signal
from trees.host.task_api import TaskApi
from trees.host.task_handle import TaskHandle
from trees.host.tree_children import TreeChildren
from trees.host.tree_health import TreeHealth
from trees.host.tree_names import MEANT, takes_a_task
from trees.host.tree_page import TreePage
from trees.host.tree_source import TreeSource
from trees.views.capture import capture
from trees.views.selected import selected
from trees.views.snapshot import Only, Role, TreeSnapshot
from trees.views.tree_text import Format, render


class Tree(TreeChildren, TreeHealth, TreePage):
    """A running tree: find workers, look at it, change it, end it. May be used from any thread.

    As a context manager, sync or async, it is stopped on leaving, and a tree that ended by itself cannot be missed:
    leaving raises why (``RestartLimitError``: its root gave up; ``LeaseLostError``: another process has its store)
    unless another exception is under way.
    """

    def __init__(self, spec: SupervisorSpec, system: System, leadership: Leadership, console: Console | None) -> None:
        self.spec = spec
        """The declaration that it was started from."""
        self._system = system
        self._leadership = leadership
        self._tasks = TaskApi(leadership)
        self._pages, self._notifiers = [], []
        self._shutdown = Shutdown(system, console)
        if console is not None:
            source = TreeSource(system, leadership, self._notifiers, content=True)  # for its owner
            console.serve(lambda asked: self.dump(**asked.model_dump()), source)

    def __repr__(self) -> str:
        return f"<Tree {self.spec.id} {'up' if self.is_alive else 'down'}>"

    if not TYPE_CHECKING:  # a type checker that saw these would let anything be called, or awaited

        def __getattr__(self, name: str) -> object:
            raise missing_name(self, name, MEANT)

        def __await__(self) -> object:
            raise TypeError("a Tree is not awaited. Write: tree = await start_async(TREE)")

    # -- tasks, and who leads ------------------------------------------------------------------------------

    @takes_a_task
    def submit(self, task: Task | str, path: str | None = None) -> TaskHandle:
        """Give a task to the supervisor at ``path`` (None: the root); returns when it is in the journal, and kept.

        Never waits for the orchestrator, so workers may call it; waits for the store for milliseconds, at most 10 s.
        On an event loop write ``await tree.asubmit(...)``. An id that is known gives its handle, and starts nothing.

        Raises:
            ConfigError: the task is wrong.
            UnknownPathError: no supervisor of this path is listed now.
            TaskError: it has no ``tasks=``.
            StoreError: the store could not keep it. It was not taken and never runs, unless ``may_be_taken`` is True.
            NotLeaderError: this process is a standby.
            TreeDownError: the whole tree is down.
        """
        return self._tasks.submit(task, path)

    @takes_a_task
    async def asubmit(self, task: Task | str, path: str | None = None) -> TaskHandle:
        """Do this without holding an event loop up. Cancelled, it takes back what is not just being written."""
        return await self._tasks.asubmit(task, path)

    def submit_many(self, tasks: Iterable[Task | str], path: str | None = None) -> list[TaskHandle]:
        """Give many tasks to a supervisor in one commit: all of them are kept, or none; their handles, in order.

        Otherwise as ``submit``. Wrong ones are named by their place: ``tasks[3]: Task.priority: ...``. An id that is
        known gives its handle, and starts nothing; so does a task that stands in the list twice.
        """
        return self._tasks.submit_many(tasks, path)

    async def asubmit_many(self, tasks: Iterable[Task | str], path: str | None = None) -> list[TaskHandle]:
        """Do this on an event loop, without holding it up."""
        return await self._tasks.asubmit_many(tasks, path)

    @takes_a_task
    def run(self, task: Task | str, timeout: float | None = None, path: str | None = None) -> Report:
        """Submit a task and wait for its report; raises what ``TaskHandle.result`` raises.

        Args:
            task: or only its goal.
            timeout: seconds to wait; the task goes on when they are over. None: as long as it takes.
            path: of the supervisor; None: the root.
        """
        return self._tasks.run(task, timeout, path)

    @takes_a_task
    async def arun(self, task: Task | str, path: str | None = None) -> Report:
        """Do this on an event loop, without holding it up."""
        return await self._tasks.arun(task, path)

    def task(self, id: str) -> TaskHandle:
        """The handle of a task that was submitted before. Never waits, and reads nothing.

        Raises:
            UnknownTaskError: the store has no task of this id.
            StoreError: its journal is damaged.
        """
        return self._tasks.task(id)

    def remove_task(self, id: str) -> None:
        """Delete a task that has ended, is damaged, or whose supervisor is gone; returns when the store forgot it.

        Its id may be used again then, and starts a new task. On an event loop of yours write
        ``await tree.aremove_task(id)``.

        Raises:
            UnknownTaskError: the store has no task of this id.
            TaskError: it goes on, or it is a team's part of another one.
            StoreError: that could not be written within 10 seconds.
            NotLeaderError: this process is a standby.
        """
        self._tasks.remove(id)

    async def aremove_task(self, id: str) -> None:
        """Do this on an event loop, without holding it up."""
        await self._tasks.aremove(id)

    def tasks(
        self, status: TaskStatus | str | None = None, *, metadata: Mapping[str, Any] | None = None
    ) -> list[TaskHandle]:
        """The tasks that the store has, of all supervisors, those of earlier processes too.

        First those that have ended and are still kept, the oldest first, then the others; for each supervisor.

        Args:
            status: only those that stand there.
            metadata: only tasks whose metadata has all of these entries, and none of their teams' parts. Those that
                have ended are read from the store: on an event loop, call it with ``asyncio.to_thread``.

        Raises:
            ValueError: there is no such status, or ``metadata`` is no dict.
            ConfigError: nobody can have that for metadata.
            StoreError: they cannot be read.
        """
        return self._tasks.tasks(status, metadata)

    def resumed(self) -> list[TaskHandle]:
        """The tasks that earlier processes had left unfinished and that go on in this one, also where they have ended.

        A team's part of a task is not listed for itself. ``handle.kept`` tells what need not be done again.
        """
        return self._tasks.resumed()

    def registry(self, path: str | None = None) -> list[ExecutableInfo]:
        """List the workers that the supervisor at ``path`` (None: the root) can give work to, as they stand now.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
            TaskError: it has no ``tasks=``.
        """
        return self._tasks.registry(path)

    def escalations(self) -> list[Escalation]:
        """All open questions to people, the oldest first."""
        return self._tasks.escalations()

    def respond(self, id: str, answer: Answer) -> None:
        """Answer one: ``Approve()``, ``Edit(value)``, ``Respond(text)`` or ``Reject(reason)``.

        Raises:
            EscalationError: there is no such open question, it was answered already, or this is no answer.
        """
        self._tasks.respond(id, answer)

    def map(
        self,
        items: Iterable[ItemT] | AsyncIterable[ItemT],
        to: str,
        *,
        timeout_s: float | None = None,
        on_error: OnError = "keep",
        progress: Callable[..., object] | None = None,
        max_in_flight: int | None = None,
    ) -> Batch[ItemT]:
        """Give each item to a worker, and yield ``(item, result or error)`` for each, as they end.

        Iterate with ``for``, in a coroutine with ``async for``. Items are taken as there is room, so they may have no
        end, and memory stays flat. What is left when its loop is left is let go of (``batch.close()`` does the same).

        A worker with ``handle=`` or a class gets each item as a message. A crash over one counts in no restart window,
        and a worker that still handles one whose time is up is replaced. What takes tasks gets one for each item:
        ``str(task)`` is the item as text, ``context.inputs["item"]`` the item (of a dict its keys, too). An item that
        is a ``Task`` is given as it is.

        Args:
            items: any iterable; in a coroutine also an async one.
            to: a path of a worker, a pool or a team; or the id or a capability of a worker that takes tasks.
            timeout_s: seconds that one item may take, of a task one attempt. ``None``: 10 for a message, for a task its
                worker's, else 60. ``math.inf``: no limit.
            on_error: ``"keep"``: the error stands in the place of the result. ``"raise"``: the first one ends it.
            progress: ``progress(done, total)`` after each; ``total`` is None where the items have no length. One that
                raises is not called again (``CallbackRaised``).
            max_in_flight: items given at a time, at most. ``None``: as many as its target works on at once, and of
                tasks four times ``max_parallel``. Messages are never given beyond the members of a pool.

        Raises:
            UnknownPathError: there is no such path, worker or capability.
            TaskError: it is a supervisor without ``tasks=``.
            TypeError, ValueError: an argument is wrong.
            TreeDownError: while iterating, when all that was taken is accounted for: the whole tree is down.
        """
        target = target_of(self._tasks, self._leadership.running, to, timeout_s, max_in_flight)
        return Batch(target, items, on_error, progress)

    @property
    def role(self) -> Role:
        """``"leader"``, ``"standby"`` (another process leads, nothing has been started here) or ``"stopped"``.

        It says leader when all is up and what was unfinished has been taken up again. Without ``ha=`` a tree leads as
        long as it is up.
        """
        return self._leadership.role

    @property
    def holder(self) -> str | None:
        """Leader, as far as this process knows: a name, or host and process id. None: nobody, or without ``ha=``."""
        return self._leadership.holder

    def wait_for_role(self, role: Role, timeout: float | None = None) -> bool:
        """Wait until this process plays a part; True once it does.

        Args:
            role: ``"leader"``, ``"standby"`` or ``"stopped"``.
            timeout: seconds; None: as long as it takes.

        Returns:
            False when the time is up, or where it cannot be any more: a leader never becomes a standby again, and what
            has stopped stays so (``wait`` says why).

        Raises:
            ValueError, BlockingAskError: there is no such role; this is the thread of an event loop of the tree.
        """
        return self._leadership.wait_for(role, timeout)

    # -- looking -------------------------------------------------------------------------------------------

    def subscribe(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        """Have ``callback(event)`` called for everything that happens from now on, in order; returns how to end it.

        It runs on a thread of the tree. One that raises is dropped; one that is too slow loses its oldest events.

        Raises:
            TypeError: it cannot be called, or is async.
        """
        require_callback("subscribe:", callback, "Give a function that takes an event")
        return self._system.bus.subscribe(callback)

    def snapshot(self, path: str | None = None, *, stacks: bool = False) -> TreeSnapshot:
        """The whole tree as it stands now, or the child or pool at ``path`` with what is below it, as plain records.

        It is read from outside, so it never waits: also for a tree that starts, hangs, stops or is down.

        Args:
            path: None: the root.
            stacks: also where the code of busy and of abandoned workers stands.

        Raises:
            UnknownPathError: nothing of this path is listed now.
        """
        return capture(self._system, path, stacks=stacks, leading=self._leadership.facts())

    def dump(
        self,
        path: str | None = None,
        format: Format = "text",
        *,
        stacks: bool = False,
        verbose: bool = False,
        streams: bool = False,
        only: Only | None = None,
        depth: int | None = None,
    ) -> str:
        """Render a snapshot as ``"text"``, ``"json"`` (all there is to know) or ``"mermaid"``.

        The text of a settled tree is always the same: a test may compare it. It folds pools, but one that is asked for.

        Args:
            path: None: the root.
            format: what it becomes.
            stacks: also where the code of busy and of abandoned workers stands.
            verbose: text also tells times: ages, when a backoff ends, what is being handled and for how long.
            streams: also the last line that running subtasks have streamed, which is content.
            only: ``"troubled"``: what does not run and should, has crashed just now, has an open breaker or a task that
                does not get on; and what stands above it. None: everything.
            depth: levels below the top; 0: the top alone. None: all.

        Raises:
            UnknownPathError: nothing of this path is listed now.
            ValueError: there is no such format (``DumpFormatError``), part, or depth.
        """
        fold, facts = format != "json", self._leadership.facts()
        taken = capture(self._system, path, stacks=stacks, fold=fold, streams=streams, leading=facts)
        return render(selected(taken, only=only, depth=depth), format, verbose=verbose)

    def dump_on_signal(self, signum: int = SIGUSR1, file: TextIO | None = None) -> Callable[[], None]:
        """Write a verbose dump with stacks at each such signal (``kill -USR1 PID``); returns how to undo that.

        Args:
            signum: which signal.
            file: where to; None: stderr, as it is at that moment.

        Raises:
            ValueError: not called in the main thread, where Python wants it.
        """
        return on_signal(signum, lambda: self.dump(stacks=True, verbose=True), file)

    @property
    def is_alive(self) -> bool:
        """True until the root has ended."""
        return not self._system.is_down

    # -- ending --------------------------------------------------------------------------------------------

    def stop(self, timeout: float | None = None) -> bool:
        """Stop everything in reverse start order, each with its own limit; fine if it is down already.

        When it returns the store is closed as well, so the tree may be started on it again at once.

        Args:
            timeout: seconds after which what is left is killed; None: as long as the children's own limits take.

        Returns:
            True if all ended in order, False if the rest had to be killed.

        Raises:
            RecursionDetectedError: called in a handler of this tree, which would wait for itself.
            BlockingAskError: called on the thread of a tree's event loop.
            ValueError: this is no timeout. Nothing was stopped.
        """
        return self._shutdown.stop(timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the tree is down; True if it is, False after ``timeout`` seconds.

        Raises:
            RestartLimitError: the root gave up.
            LeaseLostError: another process has its store.
            RecursionDetectedError: called in a handler of this tree, which would wait for itself.
            BlockingAskError: called on the thread of a tree's event loop.
            ValueError: this is no timeout.
        """
        return self._shutdown.wait(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            self._shutdown.raise_cause()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        await self._shutdown.astop()
        if error is None:
            self._shutdown.raise_cause()
