"""New, empty databases for programs that are no tests."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.databases import DEBIAN, Cluster, programs

KINDS = ("sqlite", "postgres")


@contextlib.contextmanager
def databases(kind: str) -> Iterator[Callable[[], str]]:
    """Makes the address of a new database of a kind; at the end they are gone."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as place:
            yield lambda: f"sqlite:///{Path(tempfile.mkdtemp(dir=place), 'tasks.db')}"
        return
    found = programs()
    if found is None:
        raise SystemExit(f"needs PostgreSQL: neither PATH nor {DEBIAN} has it. Debian: apt-get install postgresql")
    cluster = Cluster(found)
    try:
        yield cluster.create
    finally:
        cluster.close()
