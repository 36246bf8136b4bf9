"""A field of a worker is checked where it is declared, and is known where the worker runs."""

from __future__ import annotations

from typing import Any

import pytest

from actors import ConfigError
from actors.testing import settle
from trees import SupervisorSpec, WorkerSpec, start


def divide(number: int) -> float:
    return 1 / number


given: dict[str, Any] = {"unshakable": True}
calm, nervous = WorkerSpec(id="calm", handle=divide, **given), WorkerSpec(id="nervous", handle=divide)
with start(SupervisorSpec(id="p", children=[calm, nervous])) as tree:
    for name in ("calm", "nervous"):
        with pytest.raises(ZeroDivisionError):
            tree.ref(f"p/{name}").ask(0)
        settle(tree)
    assert tree.child("p/calm").incarnation == 1
    assert tree.child("p/nervous").incarnation == 2
assert "unshakable=True" in repr(calm)
given["unshakable"] = "very"
with pytest.raises(ConfigError, match=r"w\.unshakable"):
    WorkerSpec(id="w", handle=divide, **given)
print("works")
