"""Compiles the files of the tests once, where several processes begin to collect them at the same moment.

pytest rewrites the asserts of a file when it is first imported, and keeps the outcome beside it. In a fresh copy that
takes more work than all the rest of a collection, and processes that start together would each do all of it. Here each
of them imports its share of the files first, and none goes on before all have. What one has imported it need not
import again.
"""

from __future__ import annotations

import contextlib
import importlib
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 60.0
"""Seconds after which a process goes on alone: another one may have died."""
LOOK_S = 0.02


def import_share(root: Path, folders: Iterable[Path], place: Path, number: int, count: int) -> None:
    """Import every ``count``-th file of the tests, beginning with one, and wait for the others.

    Args:
        root: folder that module names are counted from.
        folders: where the tests stand.
        place: folder that all processes of the run share; each notes there that it is done.
        number: of this process, from 0.
        count: how many processes there are.
    """
    for path in sorted(_files(folders))[number::count]:
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        # Where it raises, skips or warns, the collection imports it again, and tells.
        with contextlib.suppress(Exception, pytest.skip.Exception), warnings.catch_warnings():
            warnings.simplefilter("error")
            importlib.import_module(name)
    (place / f"imported.{number}").touch()
    until = time.monotonic() + PATIENCE_S
    while len(list(place.glob("imported.*"))) < count and time.monotonic() < until:
        time.sleep(LOOK_S)


def share_of(config: Any) -> tuple[int, int] | None:
    """Return the number of this process, and how many there are; nothing where it is alone."""
    given = getattr(config, "workerinput", {})
    if "workercount" not in given:
        return None
    return int(str(given["workerid"]).removeprefix("gw")), int(given["workercount"])


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from folder.rglob("test_*.py")
