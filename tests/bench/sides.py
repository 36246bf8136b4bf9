"""The two sides: what ours and raw Pykka run."""

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any, Literal

import pykka
from loguru import logger

from actors import Worker
from trees import SupervisorSpec, Tree, WorkerSpec, start

CRASH = "crash"
ENDLESS = 10**9
"""A restart limit that is never used up."""


def echo(message: Any) -> Any:
    return message


def fragile(message: Any) -> Any:
    if message == CRASH:
        raise ValueError
    return message


class Started(Worker):
    """A worker of ours that runs code of its own when it starts."""

    def on_start(self) -> None:
        self.started = True

    def on_receive(self, message: Any) -> Any:
        return message


class Built(Worker):
    """A worker of ours that runs code of its own when it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.built = True

    def on_receive(self, message: Any) -> Any:
        return message


class Raw(pykka.ThreadingActor):
    """Its counterpart."""

    def on_start(self) -> None:
        self.started = True

    def on_receive(self, message: Any) -> Any:
        return message


@contextlib.contextmanager
def raw_actor() -> Iterator[pykka.ActorRef[Raw]]:
    """A raw actor that runs."""
    ref = Raw.start()
    try:
        yield ref
    finally:
        ref.stop()


def tree_of(
    *children: WorkerSpec, strategy: Literal["one_for_one", "one_for_all"] = "one_for_one"
) -> contextlib.AbstractContextManager[Tree]:
    """A tree of these children that restarts them for ever."""
    return start(SupervisorSpec(id="bench", strategy=strategy, max_restarts=ENDLESS, children=children))


@contextlib.contextmanager
def logs_to_nowhere() -> Iterator[None]:
    """Both sides write every log line that they write by default, into the void."""
    with open(os.devnull, "w", encoding="utf-8") as void:  # noqa: PTH123 - a device, not a path of ours
        logger.remove()
        sink = logger.add(void)
        handler = logging.StreamHandler(void)
        logging.getLogger("pykka").addHandler(handler)
        logging.getLogger("pykka").propagate = False
        try:
            yield
        finally:
            logger.remove(sink)
            logging.getLogger("pykka").removeHandler(handler)
