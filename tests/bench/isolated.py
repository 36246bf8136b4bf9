"""Work for processes of the bench: a process imports this, and nothing else of the bench."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from typing import Any

TURNS = 145_000
"""Turns of a loop that take about 5 ms of one core."""


def do(message: Any) -> Any:
    """Act on ``pid``, a number of turns, or (``bytes``, how many); echo all else."""
    if message == "pid":
        return os.getpid()
    if isinstance(message, int):
        return turn(message)
    if isinstance(message, tuple):
        return bytes(message[1])
    return message


def turn(turns: int) -> int:
    """Keep a core busy."""
    total = 0
    for each in range(turns):
        total += each
    return total


def serve(pipe: Connection) -> None:
    """Answer everything that comes, until there is nothing more: the barest worker."""
    while True:
        try:
            message = pipe.recv()
        except EOFError:
            return
        pipe.send(do(message))
