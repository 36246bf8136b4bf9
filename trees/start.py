"""``start`` and ``start_async``: from a declaration to a running tree.

Comes in: a ``SupervisorSpec``. The whole declaration is checked, built and started; out goes a ``Tree`` when every
``on_start`` has succeeded, or an exception, and then nothing is left running.
"""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Any

from actors.clock import Clock
from actors.errors import ActorsError
from actors.system import System
from actors.tasks.journal import Store
from trees.build import build
from trees.check import require_valid
from trees.config import SupervisorSpec
from trees.console import Console
from trees.store import MemoryStore
from trees.tree import Tree


def start(
    spec: SupervisorSpec,
    *,
    clock: Clock | None = None,
    seed: int | None = None,
    max_threads: int = 4096,
    max_hops: int = 64,
    console: bool = False,
    store: Store | None = None,
) -> Tree:
    """Start a tree; returns when all of it is up.

    Args:
        spec: the root.
        clock: what time is; a ``ManualClock`` in tests.
        seed: of everything random (jitter, the choice of pool members); None: different each time.
        max_threads: how many threads the pool may have.
        max_hops: how many tells may follow from one another.
        console: open a socket through which ``regrow dump`` shows this tree; for the owner of the process only.
        store: where the journals of its tasks are; None: in memory, as long as the tree. What is unfinished there goes
            on.

    Raises:
        ConfigError: the declaration is wrong; ``.problems`` has every mistake, and nothing has run.
        ConsoleError: its console could not be opened; nothing has run.
        StartError: a child did not start; its cause chain names each level. Nothing is left running.
    """
    tree = _prepare(spec, clock, seed, max_threads, max_hops, console=console, store=store)
    try:
        tree._system.start().get()  # noqa: SLF001 - its own module
    except ActorsError:
        tree._shut_console()  # noqa: SLF001
        raise
    except BaseException:  # Ctrl-C while it starts
        tree.stop()
        raise
    return tree


def start_async(
    spec: SupervisorSpec,
    *,
    clock: Clock | None = None,
    seed: int | None = None,
    max_threads: int = 4096,
    max_hops: int = 64,
    console: bool = False,
    store: Store | None = None,
) -> Starting:
    """As ``start``, without holding up the event loop: ``await`` it, or use it with ``async with``."""
    return Starting(
        spec,
        {
            "clock": clock,
            "seed": seed,
            "max_threads": max_threads,
            "max_hops": max_hops,
            "console": console,
            "store": store,
        },
    )


def _prepare(
    spec: SupervisorSpec,
    clock: Clock | None,
    seed: int | None,
    max_threads: int,
    max_hops: int,
    *,
    console: bool,
    store: Store | None,
) -> Tree:
    """A tree that is not started. Its console is open already: it shows what a start waits for."""
    require_valid(spec)
    opened = Console(spec.id) if console else None
    kept_in = MemoryStore() if store is None else store
    system = System(build(spec), clock=clock, seed=seed, max_threads=max_threads, max_hops=max_hops, store=kept_in)
    tree = Tree(spec, system)
    if opened is not None:
        tree._open(opened)  # noqa: SLF001
    return tree


class Starting:
    """A tree that is being started: await it for the ``Tree``, or enter it with ``async with``."""

    def __init__(self, spec: SupervisorSpec, options: dict[str, Any]) -> None:
        self._spec = spec
        self._options = options
        self._tree: Tree | None = None

    def __await__(self) -> Generator[Any, None, Tree]:
        return self._start().__await__()

    async def __aenter__(self) -> Tree:
        self._tree = await self._start()
        return self._tree

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if self._tree is not None:
            await self._tree.__aexit__(kind, error, frames)

    async def _start(self) -> Tree:
        tree = _prepare(self._spec, **self._options)
        try:
            await tree._system.start()  # noqa: SLF001 - its own module
        except ActorsError:
            tree._shut_console()  # noqa: SLF001
            raise
        except BaseException:  # cancelled while it starts
            tree._system.stop()  # noqa: SLF001
            raise
        return tree
