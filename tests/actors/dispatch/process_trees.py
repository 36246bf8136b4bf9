"""Trees of workers in processes, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors import ChildExited
from tests.actors.dispatch import process_workers as there
from tests.support.hardening import LONG_S, eventually
from trees import SupervisorSpec, Tree, WorkerSpec, start


def spec_of(*children: WorkerSpec, **rules: Any) -> SupervisorSpec:
    return SupervisorSpec(id="p", children=children, max_restarts=1000, **rules)


def worker(id_: str = "w", **rules: Any) -> WorkerSpec:
    work = {} if rules.keys() & {"actor", "run", "handle"} else {"handle": there.do}
    return WorkerSpec(id=id_, **{"dispatch": "process", **work, **rules})


@contextmanager
def running(*children: WorkerSpec) -> Iterator[tuple[Tree, Callable[..., Any]]]:
    """A tree of these, and how to ask its first worker."""
    with start(spec_of(*children)) as tree:
        yield tree, tree.ref(f"p/{children[0].id}").ask


class Exits:
    """Exits of children."""

    def __init__(self, tree: Tree) -> None:
        self.all: list[ChildExited] = []
        tree.subscribe(lambda event: self.all.append(event) if isinstance(event, ChildExited) else None)

    def one(self, within_s: float = LONG_S) -> ChildExited:
        """The first, and only, exit."""
        eventually(lambda: self.all, within_s=within_s)
        assert len(self.all) == 1
        return self.all[0]


def runs(pid: int) -> bool:
    """True if the process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in {b"Z", b"X"}
