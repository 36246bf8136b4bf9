"""Lines that the code of a worker logs in its process: they go to the log of the host, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loguru import logger


def log_to_host(send: Callable[..., object]) -> None:
    """In the process: have each line sent, in place of whatever sinks there were."""

    def sink(message: Any) -> None:
        record = message.record
        send(record["level"].name, record["level"].no, str(message).rstrip("\n"), record["name"], record["line"])

    logger.remove()
    logger.add(sink, level=0, format="{message}")


def log_here(path: str, level: str, number: int, text: str, name: str | None, line: int) -> None:
    """In the host: write a line of the process of the worker at ``path``."""

    def born(record: Any) -> None:
        record.update(name=name, line=line)

    known: str | int = level
    try:
        logger.level(level)
    except ValueError:
        known = number
    logger.bind(worker=path).patch(born).log(known, "{}", f"{path}: {text}")
