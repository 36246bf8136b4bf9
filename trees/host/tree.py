"""``Tree``: the handle that a host program holds of a tree that ``trees.start`` has started."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TextIO, overload

from actors.messaging.blocking import require_thread
from actors.messaging.ref import Ref, ref_of
from actors.model.child_state import ChildCounts
from actors.model.events import Event
from actors.model.spec import ChildSpec
from actors.runtime import child_admin
from actors.runtime.system import System
from actors.supervision.child import ChildInfo
from actors.tasks.engine.service import TaskService, service_of
from actors.tasks.journal.fold import has_metadata
from actors.tasks.journal.unit import Escalation
from actors.tasks.model import Answer, ExecutableInfo, Report, StoreError, Task, TaskStatus, UnknownTaskError
from actors.validation.validation_messages import missing_name, require_callback, require_seconds, value_phrase
from trees.declaration.build import build
from trees.declaration.check import require_place, require_spec, require_valid
from trees.declaration.check_tasks import running
from trees.declaration.shared_recipes import child_spec, known
from trees.declaration.specs import Spec, SupervisorSpec, WorkerSpec
from trees.ha.roles import Leadership
from trees.host.answers import open_questions, respond_to
from trees.host.batch import Batch, ItemT, OnError, target_of
from trees.host.console import Console
from trees.host.signals import SIGUSR1, on_signal
from trees.host.submission import STORE_WAIT_S, Submission, own_task, own_tasks, scope_at
from trees.host.task_handle import TaskHandle, remove, until_written
from trees.host.tree_health import health
from trees.host.tree_source import TreeSource
from trees.observe.alert_notifier import AlertNotifier
from trees.observe.alerts import Alert
from trees.observe.health import Health
from trees.observe.operator_events import PageFailed
from trees.observe.web.opening import open_page
from trees.observe.web.web_settings import HOST, PORT, Web
from trees.views.capture import capture
from trees.views.selected import selected
from trees.views.snapshot import Only, Role, TreeSnapshot
from trees.views.tree_text import Format, render

if TYPE_CHECKING:
    from trees.observe.web.web_server import WebServer

_MEANT: Final = {
    **dict.fromkeys(("ask", "tell", "send", "call"), "Write tree.ref('PATH').ask(message), or .tell(message)."),
    **dict.fromkeys(("ask_async", "tell_async"), "Write await tree.ref('PATH').ask_async(message)."),
    **dict.fromkeys(("shutdown", "close", "terminate", "join"), "Write tree.stop(), or: with start(TREE) as tree."),
    **dict.fromkeys(("start", "restart"), "It is started already. Write tree.restart_child('PATH') for one child."),
    **dict.fromkeys(("execute", "invoke"), "Write tree.run('the goal')."),
    **dict.fromkeys(("result", "results"), "Write report = tree.run('the goal'), and report.results."),
}
"""Names that are often tried, and what to write."""
_KILL_S = 30.0
"""How long a kill may take. Cancelled coroutines have a short grace, threads are abandoned at once; a database that
does not answer is given up after 20 s."""


class Tree:
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
        self.page: WebServer | None = None
        """The page that was opened last, with ``start(..., web=)`` or with ``serve``; None: none was."""
        self._notifiers: list[AlertNotifier] = []
        """Each watches some alerts of this tree."""
        self._closing: list[Callable[[], object]] = []
        """Ends of what shows the tree; each may be called again."""
        if console is not None:
            self._closing.append(console.close)
            system.ended.when_done(console.close)
            console.serve(TreeSource(self, content=True))  # for its owner

    def __repr__(self) -> str:
        return f"<Tree {self.spec.id} {'up' if self.is_alive else 'down'}>"

    if not TYPE_CHECKING:  # a type checker that saw these would let anything be called, or awaited

        def __getattr__(self, name: str) -> object:
            raise missing_name(self, name, _MEANT)

    # -- who leads -----------------------------------------------------------------------------------------

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

    # -- its children --------------------------------------------------------------------------------------

    def ref(self, path: str) -> Ref:
        """The address of a worker, a pool or a supervisor; it survives every restart.

        Raises:
            UnknownPathError: no child of this path is listed now.
        """
        return ref_of(self._leadership.running, path)

    def child(self, path: str) -> ChildInfo:
        """One child (or pool, as one) as it stands now; costs the same among ten and a hundred thousand.

        Raises:
            UnknownPathError: no child of this path is listed now.
        """
        return child_admin.child_info(self._leadership.running, path)

    def which_children(self, path: str) -> list[ChildInfo]:
        """The children of a supervisor in start order (OTP's order is the reverse), pool members each.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
        """
        return child_admin.which_children(self._leadership.running, path)

    def count_children(self, path: str) -> ChildCounts:
        """How many children a supervisor has: listed, running now, and listed by kind, dead or alive.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
        """
        return child_admin.count_children(self._leadership.running, path)

    def start_child(self, path: str, spec: Spec) -> Ref:
        """Add a child to the supervisor at ``path`` and start it; returns when it is up.

        The spec is checked here, in the caller. A start that fails keeps nothing. What is added is gone when its
        supervisor is restarted.

        Raises:
            ConfigError: the spec is wrong (``DepthError``: it would stand too deep).
            ChildError: refused; ``.code`` is already_started, already_present or max_children.
            StartError: it did not start.
            UnknownPathError: no supervisor of this path is listed now.
            ActorStoppedError: the supervisor is not running: it is down, or being stopped, or waits to be restarted.
            TreeDownError: the whole tree is down.
        """
        require_spec(spec)
        system = self._leadership.running
        return child_admin.start_child(system, path, _checked(spec, path, system))

    def terminate_child(self, path: str) -> None:
        """Stop a child (or all members of a pool) for good; fine if it is down already. A temporary one is forgotten.

        Raises:
            ChildError: ``.code`` is not_found.
            RecursionDetectedError: called by the child itself, which would wait for its own end.
            ActorStoppedError: its supervisor is not running; see ``start_child``.
            TreeDownError: the whole tree is down.
        """
        child_admin.terminate_child(self._leadership.running, path)

    def restart_child(self, path: str) -> Ref:
        """Start a child that is stopped or parked; returns when it is up. Not tried again where it fails.

        Raises:
            ChildError: ``.code`` is running, restarting or not_found.
            StartError: it did not start, and stays stopped.
            ActorStoppedError: its supervisor is not running; see ``start_child``.
            TreeDownError: the whole tree is down.
        """
        return child_admin.restart_child(self._leadership.running, path)

    def delete_child(self, path: str) -> None:
        """Take a child that is stopped or parked off the list.

        Raises:
            ChildError: ``.code`` is running, restarting or not_found; or owned, for an orchestrator.
            ActorStoppedError: its supervisor is not running; see ``start_child``.
            TreeDownError: the whole tree is down.
        """
        child_admin.delete_child(self._leadership.running, path)

    # -- its tasks -----------------------------------------------------------------------------------------

    @property
    def _service(self) -> TaskService:
        return service_of(self._leadership.running)

    def _submission(self, tasks: list[Task], path: str | None, *, joined: bool = False) -> Submission:
        return Submission(scope_at(self._leadership.running, path), tasks, joined=joined)

    def submit(self, task: Task | str, path: str | None = None) -> TaskHandle:
        """Give a task to the supervisor at ``path`` (None: the root); returns when it is in the journal, and kept.

        Never waits for the orchestrator, so workers may call it; waits for the store for milliseconds, at most 10 s.
        On an event loop write ``await tree.asubmit(...)``. An id that is known gives its handle, and starts nothing:
        ``handle.is_known`` is true then. If the known task has another goal or other inputs, ``TaskKnownOtherwise`` is
        published as well.

        Raises:
            ConfigError: the task is wrong.
            UnknownPathError: no supervisor of this path is listed now.
            TaskError: the supervisor has no ``tasks=``, or the id is in use by another supervisor of this tree.
            StoreError: the store could not keep it. It was not taken and never runs, unless ``may_be_taken`` is True.
            NotLeaderError: this process is a standby.
            TreeDownError: the whole tree is down.
        """
        return _handles(self._submission([own_task(task)], path).run())[0]

    async def asubmit(self, task: Task | str, path: str | None = None) -> TaskHandle:
        """Do this without holding an event loop up. Cancelled, it takes back what is not just being written."""
        return _handles(await self._submission([own_task(task)], path).arun())[0]

    def submit_many(self, tasks: Iterable[Task | str], path: str | None = None) -> list[TaskHandle]:
        """Give many tasks to a supervisor in one commit: all of them are kept, or none; their handles, in order.

        Otherwise as ``submit``. Wrong ones are named by their place: ``tasks[3]: Task.priority: ...``. An id that is
        known gives its handle, and starts nothing; so does a task that stands in the list twice.
        """
        return _handles(self._submission(own_tasks(tasks), path).run())

    async def asubmit_many(self, tasks: Iterable[Task | str], path: str | None = None) -> list[TaskHandle]:
        """Do this on an event loop, without holding it up. Cancelled, it goes on: the tasks may have been taken."""
        return await asyncio.to_thread(self.submit_many, tasks, path)

    def run(self, task: Task | str, timeout: float | None = None, path: str | None = None) -> Report:
        """Submit a task and wait for its report; raises what ``TaskHandle.result`` raises.

        Args:
            task: or only its goal.
            timeout: seconds to wait; the task goes on when they are over. None: as long as it takes.
            path: of the supervisor; None: the root.
        """
        require_thread(self._leadership.running.root_path if path is None else path, "await tree.arun(...)")
        require_seconds("run", timeout)  # before anything of it is begun
        return _handles(self._submission([own_task(task)], path, joined=True).run())[0].result(timeout)

    async def arun(self, task: Task | str, path: str | None = None) -> Report:
        """Do this on an event loop, without holding it up."""
        return await _handles(await self._submission([own_task(task)], path, joined=True).arun())[0]

    def task(self, id: str) -> TaskHandle:
        """The handle of a task that was submitted before. Never waits, and reads nothing.

        Raises:
            UnknownTaskError: the store has no task of this id.
            StoreError: its journal is damaged.
        """
        service = self._service
        standing = service.store.standing(id)
        if standing is None or id in service.unkept:  # that may yet be refused
            raise UnknownTaskError(id)
        if standing.is_ == "damaged":
            service.store.read(id)  # says what is wrong
        return TaskHandle(service.scope_at(standing.owner), id)

    def retry(self, id: str) -> TaskHandle:
        """Try a task again that has failed, or was cancelled; see ``TaskHandle.retry``.

        Raises:
            UnknownTaskError, TaskError, StoreError: as there.
            NotLeaderError: this process is a standby.
        """
        return self.task(id).retry()

    def remove_task(self, id: str) -> None:
        """Delete a task that has ended, is damaged, or whose supervisor is gone; returns when the store forgot it.

        Its id may be used again then, and starts a new task. On an event loop of yours write
        ``await tree.aremove_task(id)``.

        Raises:
            UnknownTaskError: the store has no task of this id.
            TaskError: it goes on.
            StoreError: that could not be written within 10 seconds.
            NotLeaderError: this process is a standby.
        """
        service = self._service
        require_thread(service.system.root_path, "await tree.aremove_task(...)")
        late = f"task {id} is not deleted after {STORE_WAIT_S:g} s. It will be when the store can be written"
        until_written(service, remove(service, id), late)

    async def aremove_task(self, id: str) -> None:
        """Do this on an event loop, without holding it up."""
        await asyncio.to_thread(self.remove_task, id)

    def tasks(
        self, status: TaskStatus | str | None = None, *, metadata: dict[str, Any] | None = None
    ) -> list[TaskHandle]:
        """The tasks that the store has, of all supervisors, those of earlier processes too.

        First those that have ended and are still kept, the oldest first, then the others; for each supervisor.
        What has ended at a supervisor that is not in the tree any more is not listed; ``task(id)`` has it.

        Args:
            status: only those that stand there.
            metadata: only tasks whose metadata has all of these entries, and none of their teams' parts. Those that
                have ended are read from the store: on an event loop, call it with ``asyncio.to_thread``.

        Raises:
            ValueError: there is no such status.
            ConfigError: this cannot be metadata.
            StoreError: they cannot be read.
        """
        if status is not None and status not in list(TaskStatus):
            raise ValueError(f"tasks: there is no status {value_phrase(status)}. Use one of {', '.join(TaskStatus)}")
        labels = None if metadata is None else Task(goal="?", metadata=metadata).metadata
        service, found = self._service, list[TaskHandle]()
        store = service.store
        for owner in dict.fromkeys([*service.scopes, *store.owners().values()]):
            known = list(dict.fromkeys([*store.finished(owner), *store.streams(owner)]))
            if labels is not None:
                known = [id_ for id_, first in store.firsts(known).items() if has_metadata(first, labels)]
            found += [TaskHandle(service.scope_at(owner), id_) for id_ in known]
        return found if status is None else [handle for handle in found if _stands_at(handle, status)]

    def resumed(self) -> list[TaskHandle]:
        """The tasks that earlier processes had left unfinished and that go on in this one, also where they have ended.

        A task that is tried again is one of them, too. ``handle.kept`` tells what need not be done again.
        """
        service = self._service
        firsts = service.store.firsts(list(service.before))
        return [
            TaskHandle(service.scopes[first.path], id_) for id_, first in firsts.items() if first.path in service.scopes
        ]

    def registry(self, path: str | None = None) -> list[ExecutableInfo]:
        """List the workers that the supervisor at ``path`` (None: the root) can give work to, as they stand now.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
            TaskError: it has no ``tasks=``.
        """
        return scope_at(self._leadership.running, path).registry()

    def escalations(self) -> list[Escalation]:
        """All open questions to people, the oldest first."""
        return open_questions(self._service)

    def respond(self, id: str | Escalation, answer: Answer) -> None:
        """Answer one: ``Approve()``, ``Edit(value)``, ``Respond(text)`` or ``Reject(reason)``.

        ``id`` is the question or its id. A question that has an equal answer already is left as it is.

        Raises:
            EscalationError: there is no such open question, it was answered otherwise, or this is no answer.
        """
        respond_to(self._service, id, answer)

    @overload
    def map(
        self,
        items: Iterable[ItemT] | AsyncIterable[ItemT],
        to: str,
        *,
        on_error: Literal["raise"],
        timeout_s: float | None = None,
        progress: Callable[..., object] | None = None,
        max_in_flight: int | None = None,
        key: Callable[[ItemT], str] | None = None,
    ) -> Batch[ItemT, Any]: ...

    @overload
    def map(
        self,
        items: Iterable[ItemT] | AsyncIterable[ItemT],
        to: str,
        *,
        timeout_s: float | None = None,
        on_error: OnError = "keep",
        progress: Callable[..., object] | None = None,
        max_in_flight: int | None = None,
        key: Callable[[ItemT], str] | None = None,
    ) -> Batch[ItemT, Any | Exception]: ...

    def map(
        self,
        items: Iterable[ItemT] | AsyncIterable[ItemT],
        to: str,
        *,
        timeout_s: float | None = None,
        on_error: OnError = "keep",
        progress: Callable[..., object] | None = None,
        max_in_flight: int | None = None,
        key: Callable[[ItemT], str] | None = None,
    ) -> Batch[ItemT, Any]:
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
            timeout_s: seconds that one message may take, with its wait in the mailbox; of a task one attempt. ``None``:
                10 for a message, for a task its worker's, else 60. ``math.inf``: no limit.
            on_error: ``"keep"``: the error stands in the place of the result. ``"raise"``: the first one ends it.
            progress: ``progress(done, total)`` after each; ``total`` is None where the items have no length. One that
                raises is not called again (``CallbackRaised``).
            max_in_flight: items given at a time, at most. ``None``: as many as its target works on at once, and of
                tasks four times ``max_parallel``. Messages are never given beyond the members of a pool.
            key: ``key(item)`` is a text that makes the id of the item's task: an item whose key is known is not done
                again, also after a kill, if the tree has a store. Its result or error is that of then. Equal keys are
                one task. What was given goes on when the loop is left. ``None``: every item is a new task.

        Raises:
            UnknownPathError: there is no such path, worker or capability.
            TaskError: it is a supervisor without ``tasks=``.
            TypeError, ValueError: an argument is wrong; while iterating, a key is no text, or empty (TypeError).
            TreeDownError: while iterating, when all that was taken is accounted for: the whole tree is down.
        """
        return Batch(target_of(self._leadership.running, to, timeout_s, max_in_flight, key), items, on_error, progress)

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
        return self._capture(path, stacks=stacks)

    def _capture(self, path: str | None = None, **how: Any) -> TreeSnapshot:
        """Capture it with who leads; ``how`` is what ``capture`` takes."""
        return capture(self._system, path, leading=self._leadership.facts(), **how)

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
        taken = self._capture(path, stacks=stacks, fold=format != "json", streams=streams)
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

    def health(self) -> Health:
        """Look whether the tree is alive (``ok``) and may be given work (``ready``), and say what is wrong.

        Alive: the root is up, and each supervisor answers within 1 s. Ready: besides, no child is parked, restarting or
        starting, the tree is not being stopped, the store writes, and this process leads. It takes 1 s at
        most: a supervisor that does not answer is one of the ``problems``.

        Raises:
            BlockingAskError: called on the thread of a tree's event loop: ``await asyncio.to_thread(tree.health)``.
        """
        require_thread(self._system.root_path, "await asyncio.to_thread(tree.health)")
        return health(self._system, self._leadership)

    def watch_alerts(self, alerts: Sequence[Alert]) -> AlertNotifier:
        """Watch alerts from now on, until the tree is down; ``start(..., alerts=)`` does it from the beginning."""
        notifier = AlertNotifier(self._system, alerts, lambda tasks: self._capture(fold=True, tasks=tasks))
        self._closing.append(notifier.stop)
        self._system.ended.when_done(notifier.end)
        self._notifiers.append(notifier)
        return notifier

    def serve(
        self,
        port: int = PORT,
        host: str = HOST,
        token: str | None = None,
        content: bool | None = None,
        names: Sequence[str] = (),
    ) -> WebServer:
        """Open the page of this tree; the link to it is ``.url`` of what is returned, and ``.stop()`` closes it.

        It shows the tree, its tasks and its questions, live, and takes the acts of a person: answer, cancel, restart,
        terminate, unpark. Of what was before it was opened it shows the last error of each child, and no other exits
        or restarts: ``start(..., web=)`` opens it before the first child starts. It runs on a thread of its own, which
        the tree does not depend on, and ends with the tree.
        Needs the extra ``web``.

        Args:
            port: 0: any that is free.
            host: only this machine can reach ``127.0.0.1``. With another one whoever looks needs the token, too.
            token: whoever acts needs it. ``None``: a random one.
            content: goals, questions, inputs and results are shown to whoever has the token. ``True``: also to those
                who look without it, at a loopback address. ``False``: to nobody.
            names: further names of hosts under which a proxy or a DNS server leads here. With one, looking needs the
                token as well.

        Raises:
            ConfigError: an argument is wrong, or the extra is not installed.
            WebError: its port is taken, or its address is none of this machine's.
            TreeDownError: the whole tree is down.
        """
        system, settings = self._system, Web(port=port, host=host, token=token, content=content, names=names)
        if system.is_down:
            raise system.down_error(system.root_path)
        source = TreeSource(self, content=content is not False)
        failed = lambda error, again_in_s: system.publish(PageFailed(system.root_path, error, again_in_s))  # noqa: E731
        try:
            page = open_page(source, settings, failed, source.without_content() if content is None else None)
        except BaseException:
            source.close()
            raise
        self.page = page
        self._closing.append(page.stop)
        system.ended.when_done(page.end)
        return page

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
        require_seconds("stop", timeout)
        self._system.refuse_to_wait_for_end()
        ended = self._system.stop()
        in_order = ended.wait(timeout)
        if not in_order:
            self._system.kill().wait(_KILL_S)
        self._close()
        return in_order

    def _close(self) -> None:
        """Close what shows the tree: its console, its pages and its alerts."""
        while self._closing:
            self._closing.pop()()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the tree is down; True if it is, False after ``timeout`` seconds.

        Raises:
            RestartLimitError: the root gave up.
            LeaseLostError: another process has its store.
            RecursionDetectedError: called in a handler of this tree, which would wait for itself.
            BlockingAskError: called on the thread of a tree's event loop.
            ValueError: this is no timeout.
        """
        require_seconds("wait", timeout)
        self._system.refuse_to_wait_for_end("wait")
        ended = self._system.ended.wait(timeout)
        if ended:
            self._raise_cause()
        return ended

    def _raise_cause(self) -> None:
        """Raise why the tree has ended, where nobody had asked for that."""
        if self._system.cause is not None:
            raise self._system.cause

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            self._raise_cause()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self._system.refuse_to_wait_for_end(awaits=True)
        await self._system.stop()
        await asyncio.to_thread(self._close)
        if error is None:
            self._raise_cause()


def _handles(submission: Submission) -> list[TaskHandle]:
    """Return the handles of tasks that are kept, or were known, in the order in which they were given."""
    return [TaskHandle(submission.scope, id_, submission.new.get(id_)) for id_ in submission.ids]


def _checked(spec: Spec, path: str, system: System) -> ChildSpec:
    """Check a spec in its place, and build it. One that is known, but for its place, costs the same at any time."""
    parent = child_admin.supervisor_of(system, path).recipe
    level, has_tasks = path.count("/") + 2, parent.settings is not None
    kin = partial(running, lambda: child_admin.specs_of(system, path), has_tasks=has_tasks)
    if isinstance(spec, WorkerSpec) and (recipe := known(spec)) is not None:
        require_place(spec, path, level, parent.auto_shutdown, kin())
        return child_spec(spec, recipe) or build(spec, under_tasks=has_tasks)
    above = any(one.settings is not None for one in child_admin.recipes_up(system, path))
    require_valid(spec, path, level, parent.auto_shutdown, kin(tasks_above=above), system.boxes)
    return build(spec, under_tasks=has_tasks)


def _stands_at(handle: TaskHandle, wanted: str) -> bool:
    try:
        return handle.status == wanted
    except (StoreError, UnknownTaskError):  # its journal is damaged, or is gone meanwhile: nobody can tell
        return False
