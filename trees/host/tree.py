"""``Tree``: the handle that a host program holds of a tree that ``trees.start`` has started.

Comes in: paths, specs of children, callbacks. Goes out: refs, what stands where, dumps, and the end of the tree. What
it can do with tasks is in ``trees.host.task_methods``, which process leads in ``trees.ha.roles``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self, TextIO

from actors.messaging.mailbox import Refusal
from actors.messaging.pool_address import PoolAddress
from actors.messaging.ref import Ref, ref_of
from actors.messaging.reply import Reply, require_thread
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.model.child_state import ChildCounts
from actors.model.errors import ChildError, UnknownPathError
from actors.model.events import Event
from actors.runtime.system import System
from actors.supervision.child import Child, ChildInfo
from actors.supervision.child_calls import DeleteChild, RestartChild, StartChild, TerminateChild
from actors.validation.validation_messages import require_seconds, type_phrase
from trees.declaration.build import build
from trees.declaration.check import require_spec, require_valid
from trees.declaration.check_tasks import running
from trees.declaration.specs import Spec, SupervisorSpec
from trees.ha.lease_keeper import LeaseKeeper
from trees.host.console import Console
from trees.host.signals import SIGUSR1, on_signal
from trees.host.task_methods import TaskMethods
from trees.views.capture import capture
from trees.views.snapshot import TreeSnapshot
from trees.views.tree_text import Format, render


class Tree(TaskMethods):
    """A running tree: find workers, look at it, change it, end it. May be used from any thread.

    As a context manager, sync or async, it is stopped on leaving, and a tree that ended by itself cannot be missed:
    leaving raises why (``RestartLimitError``: its root gave up; ``LeaseLostError``: another process has its store)
    unless another exception is under way.
    """

    def __init__(self, spec: SupervisorSpec, system: System, keeper: LeaseKeeper | None = None) -> None:
        self.spec = spec
        """The declaration that it was started from."""
        self._system = system
        self._keeper = keeper
        self._close_console: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<Tree {self.spec.id} {'up' if self.is_alive else 'down'}>"

    # -- finding -------------------------------------------------------------------------------------------

    def ref(self, path: str) -> Ref:
        """The address of a worker, a pool or a supervisor; it survives every restart.

        Raises:
            UnknownPathError: no child of this path is listed now.
        """
        return ref_of(self._up, path)

    def child(self, path: str) -> ChildInfo:
        """One child (or pool, as one) as it stands now; costs the same among ten and a hundred thousand.

        Raises:
            UnknownPathError: no child of this path is listed now.
        """
        child = self._up.children.get(path)
        if child is not None:
            return child.info(self._up)
        box = self._up.boxes.get(path)
        if not isinstance(box, PoolAddress):
            raise UnknownPathError(path, self._up.near(path))
        found = [self._up.children.get(member.path) for member in list(box.members)]
        return _pool_info(box, [member.info(self._up) for member in found if member is not None], self._up)

    def which_children(self, path: str) -> list[ChildInfo]:
        """The children of a supervisor in start order (OTP's order is the reverse), pool members each.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
        """
        return [child.info(self._up) for child in self._children(path)]

    def count_children(self, path: str) -> ChildCounts:
        """How many children a supervisor has: listed, running now, and listed by kind, dead or alive.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
        """
        children = self._children(path)
        supervisors = sum(child.spec.is_supervisor for child in children)
        active = sum(child.state == "running" for child in children)
        return ChildCounts(len(children), active, supervisors, len(children) - supervisors)

    def _children(self, path: str) -> list[Child]:
        supervisor = self._up.supervisors.get(path)
        if supervisor is None:
            raise self._up.no_supervisor(path)
        return list(supervisor.table.children.values())

    # -- changing ------------------------------------------------------------------------------------------

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
        supervisor = self._up.supervisors.get(path)
        if supervisor is None:
            raise self._up.no_supervisor(path)
        level = path.count("/") + 2
        has_tasks = supervisor.recipe.settings is not None
        siblings = running(lambda: [child.spec for child in self._children(path)], has_tasks=has_tasks)
        require_valid(spec, path, level, str(supervisor.recipe.auto_shutdown), siblings)
        self._call(path, StartChild(build(spec, under_tasks=has_tasks)))
        box = self._up.boxes.get(f"{path}/{spec.id}")
        return Ref(self._up, box if box is not None else supervisor.table.closed_mailbox(spec.id))

    def terminate_child(self, path: str) -> None:
        """Stop a child (or all members of a pool) for good; fine if it is down already. A temporary one is forgotten.

        Raises:
            ChildError: ``.code`` is not_found.
            RecursionDetectedError: called by the child itself, which would wait for its own end.
            ActorStoppedError: its supervisor is not running; see ``start_child``.
            TreeDownError: the whole tree is down.
        """
        self._up.refuse_own_end(path)
        self._child_call(path, TerminateChild)

    def restart_child(self, path: str) -> Ref:
        """Start a child that is stopped or parked; returns when it is up. Not tried again where it fails.

        Raises:
            ChildError: ``.code`` is running, restarting or not_found.
            StartError: it did not start, and stays stopped.
            ActorStoppedError: its supervisor is not running; see ``start_child``.
            TreeDownError: the whole tree is down.
        """
        self._child_call(path, RestartChild)
        return self.ref(path)

    def delete_child(self, path: str) -> None:
        """Take a child that is stopped or parked off the list.

        Raises:
            ChildError: ``.code`` is running, restarting or not_found.
            ActorStoppedError: its supervisor is not running; see ``start_child``.
            TreeDownError: the whole tree is down.
        """
        self._child_call(path, DeleteChild)

    def _child_call(self, path: str, call: type[TerminateChild | RestartChild | DeleteChild]) -> None:
        parent, _, id_ = path.rpartition("/")
        if not self._up.is_down and not isinstance(self._up.boxes.get(parent), SupervisorMailbox):
            raise ChildError(path, "not_found")
        self._call(parent, call(id_))

    def _call(self, path: str, message: StartChild | TerminateChild | RestartChild | DeleteChild) -> None:
        system = self._up
        if system.is_down:
            raise system.down_error(path or self.spec.id)
        require_thread(path, "await asyncio.to_thread(tree.start_child, ...)")
        reply = Reply()
        box = system.boxes.get(path)
        refusal = box.call(message, reply) if isinstance(box, SupervisorMailbox) else Refusal.FORGOTTEN
        if refusal is not None:
            raise system.stopped_error(path, refusal)
        reply.get()

    # -- looking -------------------------------------------------------------------------------------------

    def subscribe(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        """Have ``callback(event)`` called for everything that happens from now on, in order; returns how to end it.

        It runs on a thread of the tree. One that raises is dropped; one that is too slow loses its oldest events.

        Raises:
            TypeError: it cannot be called.
        """
        if not callable(callback):
            raise TypeError(f"subscribe: {type_phrase(callback)} cannot be called. Give a function that takes an event")
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
        return capture(self._system, path, stacks=stacks, leading=self._role_facts())

    def dump(
        self, path: str | None = None, format: Format = "text", *, stacks: bool = False, verbose: bool = False
    ) -> str:
        """Render a snapshot as ``"text"``, ``"json"`` (all there is to know) or ``"mermaid"``.

        The text of a tree that has settled is always the same, so a test may compare it. It folds pools, unless one is
        asked for by its path.

        Args:
            path: None: the root.
            format: what it becomes.
            stacks: also where the code of busy and of abandoned workers stands.
            verbose: text also tells times: ages, when a backoff ends, what is being handled and for how long.

        Raises:
            UnknownPathError: nothing of this path is listed now.
            DumpFormatError: no such format.
        """
        taken = capture(self._system, path, stacks=stacks, fold=format != "json", leading=self._role_facts())
        return render(taken, format, verbose=verbose)

    def dump_on_signal(self, signum: int = SIGUSR1, file: TextIO | None = None) -> Callable[[], None]:
        """Write a verbose dump with stacks at each such signal (``kill -USR1 PID``); returns how to undo that.

        Args:
            signum: which signal.
            file: where to; None: stderr, as it is at that moment.

        Raises:
            ValueError: not called in the main thread, where Python wants it.
        """
        return on_signal(signum, lambda: self.dump(stacks=True, verbose=True), file)

    def _open(self, console: Console) -> None:
        """Show this tree through a console, until it ends."""
        self._close_console = console.close
        self._system.ended.when_done(console.close)
        console.serve(lambda asked: self.dump(asked.path, asked.format, stacks=asked.stacks, verbose=asked.verbose))

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
        require_seconds("stop", timeout)
        self._system.refuse_to_wait_for_end()
        ended = self._system.stop()
        in_order = ended.wait(timeout)
        if not in_order:
            self._system.kill().wait(_KILL_S)
        self._shut_console()
        return in_order

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
        self._system.refuse_to_wait_for_end()
        ended = self._system.ended.wait(timeout)
        if ended and self._system.cause is not None:
            raise self._system.cause
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.stop()
        self._raise_cause(error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self._system.refuse_to_wait_for_end(awaits=True)
        await self._system.stop()
        self._shut_console()
        self._raise_cause(error)

    def _raise_cause(self, error: BaseException | None) -> None:
        if error is None and self._system.cause is not None:
            raise self._system.cause

    def _shut_console(self) -> None:
        close, self._close_console = self._close_console, None
        if close is not None:
            close()


_KILL_S = 30.0
"""How long a kill may take. Cancelled coroutines have a short grace, threads are abandoned at once; a database that
does not answer is given up after 20 s."""


def _pool_info(box: PoolAddress, members: list[ChildInfo], system: System) -> ChildInfo:
    """A pool as one child: the state that most says what is wrong, sums, and the newest exit."""
    order: tuple[Literal["parked", "stopped", "restarting", "running"], ...] = (
        "parked",
        "stopped",
        "restarting",
        "running",
    )
    states = {member.state for member in members}
    exits = [member.last_exit for member in members if member.last_exit is not None]
    return ChildInfo(
        id=box.path.rpartition("/")[2],
        path=box.path,
        kind="worker",
        state=next((state for state in order if state in states), "stopped"),
        incarnation=max((member.incarnation for member in members), default=0),
        restarts=sum(member.restarts for member in members),
        restart=members[0].restart if members else "permanent",
        last_exit=max(exits, key=lambda exit_: exit_.at, default=None),
        ref=Ref(system, box),
    )
