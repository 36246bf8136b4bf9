"""``Tree``: the handle that a host program holds of a tree that ``trees.start`` has started.

It is made of parts: ``trees.host.tree_children`` has the methods that look at children and change them,
``trees.host.tree_tasks`` those for tasks, ``trees.host.tree_page`` opens its page, ``trees.host.tree_health`` says how
it is, and ``trees.ha.roles`` knows which process leads.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

from actors.concurrency.thread_state import in_background
from actors.messaging.reply import Reply
from actors.model.events import Event
from actors.runtime.system import System
from actors.validation.validation_messages import missing_name, require_callback, require_seconds
from trees.declaration.specs import SupervisorSpec
from trees.ha.roles import Leadership
from trees.host.console import Console
from trees.host.signals import SIGUSR1, on_signal
from trees.host.task_api import TaskApi
from trees.host.tree_children import TreeChildren
from trees.host.tree_health import TreeHealth
from trees.host.tree_page import TreePage
from trees.host.tree_source import TreeSource
from trees.host.tree_tasks import TreeTasks
from trees.views.capture import capture
from trees.views.selected import selected
from trees.views.snapshot import Only, Role, TreeSnapshot
from trees.views.tree_text import Format, render

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


class Tree(TreeChildren, TreeTasks, TreeHealth, TreePage):
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
        self._closing = []
        """Ends of what shows the tree; each may be called again."""
        if console is not None:
            self._closing.append(console.close)
            system.ended.when_done(console.close)
            source = TreeSource(system, leadership, self._notifiers, content=True)  # for its owner
            console.serve(self.dump, source)

    def __repr__(self) -> str:
        return f"<Tree {self.spec.id} {'up' if self.is_alive else 'down'}>"

    if not TYPE_CHECKING:  # a type checker that saw these would let anything be called, or awaited

        def __getattr__(self, name: str) -> object:
            raise missing_name(self, name, _MEANT)

        def __await__(self) -> object:
            raise TypeError("a Tree is not awaited. Write: tree = await start_async(TREE)")

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
        self._system.refuse_to_wait_for_end()
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
        closed = Reply()

        def close() -> None:
            self._close()
            closed.complete()

        in_background(f"{self._system.root_path}-close", close)
        await closed
        if error is None:
            self._raise_cause()
