"""Search for what a test left behind: trees, actors of Pykka's registry, threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pykka

from actors.concurrency.thread_state import join_thread
from actors.dispatch.groups.process_reader import READER
from actors.execution.pool import Pool
from actors.execution.pool_thread import PoolThread
from actors.model.clock import monotonic

PATIENCE_S = 5.0
"""How long threads that are just ending are waited for."""


@contextmanager
def leaving_nothing_behind(patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Raise if the block leaves a tree, an actor or a thread behind that was not there before it.

    Trees and actors that were left are ended, so that they do not disturb the next test.

    Args:
        patience_s: how many seconds threads that are just ending may take.

    Raises:
        AssertionError: with one line for each thing that was left. Not raised where the block itself raises.
    """
    threads, actors = set(threading.enumerate()), _actors()
    yield
    left = _end_actors(actors)
    left += [f"thread {thread.name!r}" for thread in _outliving(threads, patience_s)]
    if left:
        message = "left behind: " + "; ".join(left)
        raise AssertionError(message)


def _actors() -> set[pykka.ActorRef[pykka.Actor]]:
    """Every actor that Pykka knows and that runs: so every tree, whose root is one of them."""
    return {actor for actor in pykka.ActorRegistry.get_all() if actor.is_alive()}


def _end_actors(before: set[pykka.ActorRef[pykka.Actor]]) -> list[str]:
    left = _actors() - before
    for actor in left:
        actor.stop(block=False)
    return sorted(str(actor) for actor in left)


def _is_growth(thread: threading.Thread, pools: set[Pool]) -> bool:
    """A tree that was there before may need a thread more; and one reads for all processes of the host."""
    if thread is READER.thread:
        return True
    return (isinstance(thread, PoolThread) and thread.pool in pools) or any(thread is pool.ticker for pool in pools)


def _outliving(before: set[threading.Thread], patience_s: float) -> list[threading.Thread]:
    end = monotonic() + patience_s
    pools = {thread.pool for thread in before if isinstance(thread, PoolThread)}
    new = [thread for thread in threading.enumerate() if thread not in before and not _is_growth(thread, pools)]
    for thread in new:
        join_thread(thread, end - monotonic())
    return [thread for thread in new if thread.is_alive()]
