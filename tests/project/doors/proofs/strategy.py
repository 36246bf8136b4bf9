"""A crash restarts the first sibling, too, and no other one; the strategy is checked, shown and in the snapshot."""

from __future__ import annotations

from typing import Any

import pytest

from actors import ConfigError
from actors.testing import settle
from trees import SupervisorSpec, WorkerSpec, start


def divide(number: int) -> float:
    return 1 / number


CHILDREN = [WorkerSpec(id=name, handle=divide) for name in ("a", "b", "c", "d")]
words: dict[str, Any] = {"strategy": "first_for_one"}


def incarnations() -> list[int]:
    settle(tree)
    return [tree.child(f"p/{name}").incarnation for name in ("a", "b", "c", "d")]


with start(SupervisorSpec(id="p", children=CHILDREN, **words)) as tree:
    tree.ref("p/c").tell(0)
    assert incarnations() == [2, 1, 2, 1], incarnations()
    tree.ref("p/a").tell(0)
    assert incarnations() == [3, 1, 2, 1], incarnations()
    top: Any = tree.snapshot().top
    assert top.strategy == "first_for_one"
    assert "first_for_one" in tree.dump()
    assert tree.ref("p/c").ask(2) == 0.5
words["strategy"] = "last_for_one"
with pytest.raises(ConfigError, match="first_for_one"):
    SupervisorSpec(id="p", **words)
print("works")
