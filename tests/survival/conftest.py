"""Trees and processes with the scene in them, on whatever a column of the table stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.survival.cells import MEMORY, POSTGRES
from tests.survival.processes import Notes, Process
from tests.survival.scene import Scene
from trees import Tree, start


@pytest.fixture
def notes() -> Iterator[Notes]:
    """What is done outside."""
    made = Notes()
    yield made
    made.close()


@pytest.fixture
def url_of(request: pytest.FixtureRequest) -> Callable[[str], str | None]:
    """A new database: of the kind that a column is called after, else a file."""

    def url(column: str) -> str | None:
        kind = "postgres_url" if column == POSTGRES else "sqlite_url"
        return None if column == MEMORY else str(request.getfixturevalue(kind))

    return url


@pytest.fixture
def begin() -> Iterator[Callable[..., Tree]]:
    """Starts trees in this process; all of them are stopped at the end."""
    with ExitStack() as stack:

        def make(scene: Scene, store: str | None, **options: Any) -> Tree:
            tree = start(scene.spec(), store=store, clock=scene.clock, **options)
            stack.callback(tree.stop)
            return tree

        yield make


@pytest.fixture
def process(notes: Notes) -> Iterator[Callable[[], Process]]:
    """Starts processes; nothing of them is left at the end."""
    with ExitStack() as stack:

        def make() -> Process:
            made = Process(notes)
            stack.callback(made.close)
            return made

        yield make
