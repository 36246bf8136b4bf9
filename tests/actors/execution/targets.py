"""Actors and functions of every kind, for the tests that look at what stands behind a declaration. None is run."""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pykka

from actors import Worker

A_TEXT = "no code"


class Plain(Worker):
    def __init__(self, path: str = "", *, timeout_s: float = 1.0) -> None:
        super().__init__()

    def on_receive(self, message: Any) -> Any: ...

    def total(self) -> int:
        return 0


class Bare(Worker):
    """Takes everything that Pykka's own ``__init__`` takes."""


class Asynchronous(Worker):
    async def on_receive(self, message: Any) -> Any: ...


class Stock(pykka.ThreadingActor):
    def __init__(self, path: str = "") -> None:
        super().__init__()

    async def fetch(self) -> None: ...


class Abstract(Worker, abc.ABC):
    @abc.abstractmethod
    def total(self) -> int: ...


class OtherRuntime(pykka.Actor):
    pass


class Machine:
    def __call__(self, message: Any) -> None: ...

    async def method(self, message: Any) -> None: ...


def body() -> None: ...


def body_of(path: str, *, every_s: float) -> None: ...


async def async_body() -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def handler(message: Any) -> None: ...


def handler_of(message: Any, path: str, *, every_s: float = 1.0) -> None: ...
