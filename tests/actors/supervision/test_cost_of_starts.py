"""What the start of a child costs, counted in calls of Python code of the runtime: the same on a busy machine."""

import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import actors
from actors import Worker
from tests.support.hardening import tree_of
from trees import WorkerSpec

CODE = str(Path(actors.__file__).parent)
FEW, MORE = 100, 200


class Built(Worker):
    """Runs code of its own when it is made."""

    def __init__(self) -> None:
        self.built = True


class Started(Worker):
    """Runs code of its own when it starts."""

    def on_start(self) -> None:
        self.started = True


def calls_of(spec: dict[str, Any], members: int) -> int:
    """Calls of the runtime, in all threads of a tree, until this pool is up; without the delivery of events."""
    counted = list[str]()

    def count(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code.co_filename
        if event == "call" and code.startswith(CODE) and "/runtime/" not in code:
            counted.append(frame.f_code.co_name)

    threading.setprofile(count)
    try:
        with tree_of(WorkerSpec(id="w", pool=members, **spec)):
            return len(counted)
    finally:
        threading.setprofile(None)


@pytest.mark.parametrize(
    ("spec", "most"), [({"handle": len}, 22), ({"actor": Built}, 62), ({"actor": Started}, 62)], ids=str
)
def test_one_member_more_costs_no_more_than_so_many_calls(spec: dict[str, Any], most: int) -> None:
    each = (calls_of(spec, MORE) - calls_of(spec, FEW)) / (MORE - FEW)

    assert 10 < each <= most
