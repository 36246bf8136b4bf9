"""``start`` and ``start_async``: from a declaration to a running tree.

Comes in: a ``SupervisorSpec``. The whole declaration is checked, its store opened, the tree built and started; out goes
a ``Tree`` when every ``on_start`` has succeeded, or an exception, and then nothing is left running or open.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias, get_args

from pydantic import Field, InstanceOf, PlainValidator

from actors.concurrency.thread_state import in_background
from actors.dispatch.host.fork_server import refuse_while_importing
from actors.messaging.blocking import require_thread
from actors.messaging.reply import Reply
from actors.model.clock import Clock
from actors.runtime import living_trees
from actors.runtime.event_log import ErrorsInLog
from actors.runtime.system import System
from actors.tasks.engine.service import attach, service_of
from actors.tasks.journal.store import Store
from actors.validation import field_types
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import type_phrase, validation_error
from trees.declaration.build import build
from trees.declaration.check import require_root
from trees.declaration.specs import SupervisorSpec
from trees.ha.leader import candidate, require_shared
from trees.ha.roles import Leadership
from trees.ha.settings import HA
from trees.host.console import Console
from trees.host.store_binding import bind
from trees.host.submission import came
from trees.host.tree import Tree
from trees.observe.alerts import Alert
from trees.observe.web.web_settings import Web
from trees.store import Keep, open_store
from trees.store.retention import Durability

OPEN_S: Final = 5.0
"""Seconds that a start which is interrupted waits for its store to open; later the tree ends as soon as that has. And
seconds that a start waits for tasks of earlier processes to be taken up: one that gives up takes none."""
DURABILITIES: Final[tuple[Durability, ...]] = get_args(Durability)
LoopOwner: TypeAlias = Literal["tree", "host"]
"""Owner of the event loop on which async workers run."""


def _a_clock(value: object) -> object:
    if value is not None and not hasattr(value, "wall"):
        hint = "Leave it out, or give a ManualClock() in a test."
        raise validation_error(f"expected a clock, got {type_phrase(value)}", hint)
    return value


def _a_store(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if value is not None and not isinstance(value, str) and not hasattr(value, "create_all"):
        hint = "Write 'tasks.jsonl', 'sqlite:///tasks.db' or 'postgresql://user@host/database'; without it: memory."
        raise validation_error(f"expected a store, got {type_phrase(value)}", hint)
    return value


class Options(SpecModel, frozen=True):
    """Options of ``start`` beside the spec; each is explained there."""

    _called: ClassVar[str] = "start(...)"

    clock: Annotated[Any, PlainValidator(_a_clock)]
    seed: int | None
    max_threads: Annotated[int, Field(ge=1)]
    max_hops: field_types.Count
    refuse_tells: bool
    console: bool
    store: Annotated[Any, PlainValidator(_a_store)]
    durability: Durability
    keep: InstanceOf[Keep] | None
    log_errors: ErrorsInLog
    ha: Any
    """Looked at by ``trees.ha``, together with the store."""
    loop: LoopOwner = "tree"
    loop_stall_s: field_types.StartTimeout = 10.0
    web: InstanceOf[Web] | None = None
    alerts: Sequence[InstanceOf[Alert]] = ()


def start(
    spec: SupervisorSpec | str,
    *,
    clock: Clock | None = None,
    seed: int | None = None,
    max_threads: int = 4096,
    max_hops: int = 64,
    refuse_tells: bool = False,
    console: bool = False,
    store: str | Path | Store | None = None,
    durability: Durability = "process",
    keep: Keep | None = None,
    ha: HA | None = None,
    log_errors: ErrorsInLog = "text",
    loop_stall_s: float | None = 10.0,
    web: Web | None = None,
    alerts: Sequence[Alert] = (),
) -> Tree:
    """Start a tree; returns when all of it is up.

    Args:
        spec: the root, or ``"module:attr"`` of one.
        clock: the source of time; a ``ManualClock`` in tests. ``None``: the system's.
        seed: seed of everything that is random (jitter). ``None``: a new one.
        max_threads: threads of the pool for sync handlers, at most.
        max_hops: tells that may lead to each other in a row. With so many, and at each doubling, a
            ``RecursionSuspected`` says who tells whom; an ask or a task after more of them is refused.
        refuse_tells: ``True``: one tell more than ``max_hops`` is a dead letter, too.
        console: ``True`` opens a socket, for the owner of the process only, by which ``regrow dump``, ``top`` and
            ``observe`` show and operate the tree, with what its tasks are about.
        store: where the journals of its tasks are: a file ``"tasks.jsonl"`` (also as a ``Path``),
            ``"sqlite:///tasks.db"`` (relative; four slashes before an absolute path),
            ``"postgresql://user@host/database"``, or a store of your own, of one tree at a time, never closed.
            ``None``: in memory. Unfinished tasks of the store go on. One process at a time may start a root on a store.
        durability: ``"process"``: accepted tasks survive this process. ``"power"``: the machine, with a sync per write.
        keep: how long finished tasks stay in the store. ``None``: ``Keep()``.
        ha: an ``HA``: several processes start this tree on this store, and one leads.
        log_errors: ``"text"``: log lines show the texts of errors. ``"type"``: only their types and where they were
            raised, because a text may hold private data. Of the command: ``regrow run --log-errors type``.
        loop_stall_s: seconds without a turn after which the event loop of the tree is given up: all that ran on it goes
            on, on a fresh one, and the worker whose code blocks it has crashed. ``None``: never.
        web: a ``Web``: its page is open from the beginning; the link (``tree.page.url``) is printed to stderr.
        alerts: each an ``Alert``: what is watched, and who is told.

    Raises:
        ConfigError: the declaration is wrong; ``.problems`` has every mistake, and nothing has run.
        ConsoleError, StoreError, WebError: that could not be opened, or another process has it; nothing has run.
        StartError: a child did not start; its cause chain names each level. Nothing is left running.
    """
    given = locals().copy()
    require_thread("start(...)", "async with start_async(...) as tree")
    return start_async(**given).run()


def start_async(
    spec: SupervisorSpec | str,
    *,
    clock: Clock | None = None,
    seed: int | None = None,
    max_threads: int = 4096,
    max_hops: int = 64,
    refuse_tells: bool = False,
    console: bool = False,
    store: str | Path | Store | None = None,
    durability: Durability = "process",
    keep: Keep | None = None,
    ha: HA | None = None,
    log_errors: ErrorsInLog = "text",
    loop: LoopOwner = "tree",
    loop_stall_s: float | None = 10.0,
    web: Web | None = None,
    alerts: Sequence[Alert] = (),
) -> Starting:
    """As ``start``, without holding up the event loop: ``await`` it, or use it with ``async with``.

    A start that is cancelled, also by Ctrl-C in ``asyncio.run``, stops what is up, and ends when that has.

    The arguments are those of ``start``, and ``loop``: ``"tree"``: async workers run on an event loop of the tree, on a
    thread of its own. ``"host"``: they run on the loop that runs here, for clients and queues that belong to it. End
    the tree before that loop ends; with ``loop_stall_s`` a loop of the host is only reported.
    """
    given = locals().copy()
    return Starting(given.pop("spec"), Options(**given))


class Starting:
    """A tree that is being started: await it for the ``Tree``, or enter it with ``async with``.

    Its console is open before the first child starts: it shows what a start waits for. The store is opened on a thread
    of its own, which neither Ctrl-C nor a cancel interrupts: a store that is half open stays locked.
    """

    begin: Callable[[], Reply]
    """Starts the tree, or its keeper; completed when it is up, or is a standby. Failed when nothing is left of it."""

    def __init__(self, declared: SupervisorSpec | str, options: Options) -> None:
        spec = require_root(declared)
        if options.ha is not None:
            require_shared(spec, options.ha, options.store)
        self._spec = spec
        self._built = build(spec)  # here: it may look into a module that is just being imported on this thread
        refuse_while_importing(spec.id)  # before a store or a port, which the tree of the host has, is asked for
        self._options = options
        self._system: System | None = None
        self._tree: Tree | None = None
        self._has_begun = False
        self._opened = Reply()

    def run(self) -> Tree:
        """Start the tree, and wait until it is up."""
        try:
            tree = self._make(self._open().get())
            self.begin().get()
            service_of(tree._system).resumed().wait(OPEN_S)  # noqa: SLF001 - of the same room
        except BaseException:
            self._opened.wait(OPEN_S)
            self._undo().wait(None)
            raise
        return tree

    async def arun(self) -> Tree:
        """Do this on an event loop, without holding it up."""
        try:
            tree = self._make(await self._open())
            await self.begin()
            await came(service_of(tree._system).resumed(), OPEN_S)  # noqa: SLF001 - of the same room
        except BaseException:
            # A host that ends its program now would cut off what is still being stopped. Cancelled once more, nobody
            # waits, and the stop goes on.
            await self._undo()
            raise
        return tree

    def __await__(self) -> Generator[Any, None, Tree]:
        return self.arun().__await__()

    if not TYPE_CHECKING:  # a type checker that saw these would let it be entered

        def __enter__(self) -> object:
            raise TypeError("write: async with start_async(TREE) as tree, or: with start(TREE) as tree")

        def __exit__(self, *_: object) -> None:
            """Never called: it was not entered."""

    async def __aenter__(self) -> Tree:
        return await self.arun()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if self._tree is not None:
            await self._tree.__aexit__(kind, error, frames)

    def _open(self) -> Reply:
        """Have the store opened; completed with it."""
        opened, options, root = self._opened, self._options, self._spec.id

        def run() -> None:
            try:
                store = open_store(
                    options.store,
                    root=root,
                    durability=options.durability,
                    keep=options.keep,
                    opened=options.ha is None,
                )
            except BaseException as error:  # noqa: BLE001 - it is raised to who waits
                opened.fail(error)
            else:
                opened.complete(store)

        in_background(f"{root}-store", run)
        return opened

    def _make(self, store: Store) -> Tree:
        """Build the tree on an open store; once it has begun its end closes the store."""
        options = self._options
        system = self._system = System(
            self._built,
            clock=options.clock,
            seed=options.seed,
            max_threads=options.max_threads,
            max_hops=options.max_hops,
            refuse_tells=options.refuse_tells,
            log_errors=options.log_errors,
            on_host_loop=options.loop == "host",
            loop_stall_s=options.loop_stall_s,
        )
        attach(system, store)
        console = Console(self._spec.id) if options.console else None
        tree = self._tree = Tree(self._spec, system, self._leadership(system, store), console)
        if options.web is not None:
            page = tree.serve(**dict(options.web))
            print(f"{self._spec.id}: its page is at {page.url}", file=sys.stderr)  # noqa: T201
        if options.alerts:
            tree.watch_alerts(options.alerts)
        self._has_begun = True
        return tree

    def _undo(self) -> Reply:
        """Leave nothing of a start that has failed, or was interrupted; completed when nothing of it runs any more."""
        undone, system = Reply(), self._system
        if self._tree is not None:
            self._tree._close()  # noqa: SLF001 - of the same room
        if not self._has_begun:
            if system is not None:
                living_trees.LIVING.discard(system)
            self._opened.when_done(self._close)
        elif system is not None:
            return system.stop()
        undone.complete()
        return undone

    def _close(self) -> None:
        """Let go of the store: there will be no tree."""
        if self._opened.succeeded and isinstance(self._options.store, str):
            self._opened.get().close()

    def _leadership(self, system: System, store: Store) -> Leadership:
        """Bring system and store together: at once, or once this process leads."""
        options = self._options
        if options.ha is None:
            self.begin = system.start
            bind(system, store, close=isinstance(options.store, str))
            return Leadership(system, None)
        keeper = candidate(options.ha, self._spec, system, store, str(options.store), partial(bind, system, store))
        self.begin = keeper.start
        return Leadership(system, keeper)
