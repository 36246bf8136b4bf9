"""What a test left behind: trees, actors of Pykka's registry, threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pykka

from actors import system
from actors.clock import monotonic

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
    threads, actors = set(threading.enumerate()), set(_actors())
    yield
    left = [f"actor {actor}" for actor in _end_actors(actors)]
    left += [f"thread {thread.name!r}" for thread in _outliving(threads, patience_s)]
    if left:
        message = "left behind: " + "; ".join(left)
        raise AssertionError(message)


def _actors() -> list[pykka.ActorRef[pykka.Actor]]:
    """Every actor that Pykka knows, and so every tree: its root is one of them until all of it is down."""
    return pykka.ActorRegistry.get_all()


def _end_actors(before: set[pykka.ActorRef[pykka.Actor]]) -> list[str]:
    new = [actor for actor in _actors() if actor not in before]
    # A tree that went down by itself is still closing: not left behind, only slow.
    closing = [tree.ended for tree in system.living() if tree.is_down]
    end = monotonic() + PATIENCE_S
    for ended in closing:
        ended.wait(max(0.0, end - monotonic()))
    left = [actor for actor in new if actor in _actors()]
    names = [str(actor) for actor in left]
    for actor in left:
        actor.stop(block=False)
    return names


def _outliving(before: set[threading.Thread], patience_s: float) -> list[threading.Thread]:
    end = monotonic() + patience_s
    new = [thread for thread in threading.enumerate() if thread not in before]
    for thread in new:
        if thread is not threading.current_thread():
            thread.join(max(0.0, end - monotonic()))
    return [thread for thread in new if thread.is_alive()]
