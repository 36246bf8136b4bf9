"""A worker that ends by itself: how long its last hook may take, and what is said of it when that was too long.

Time is by hand, and a hook that is to be slow hangs until it is released: nothing here depends on how fast it runs.
"""

from __future__ import annotations

import pytest

from actors import StartError
from actors.testing import Fault, Hang
from tests.support.crew import faulty, meanwhile, running, shop


@pytest.mark.parametrize("added", [True, False])
def test_one_that_ignored_its_first_start_stays_listed_when_its_second_is_terminated(added: bool) -> None:
    hang = Hang()
    spec = faulty("x", on_start=Turns("raise Ignore", hang), shutdown="infinity")
    with running(shop(*([] if added else [spec]))) as tree:
        if added:
            tree.start_child("shop", spec)
        with meanwhile(tree.restart_child, "shop/x") as again:
            hang.wait_until_entered()
            tree.terminate_child("shop/x")
            assert isinstance(again.exception(10), StartError)

        assert [(child.id, child.state) for child in tree.which_children("shop")] == [("x", "stopped")]


class Turns(Fault):
    """One fault after the other, then none."""

    def __init__(self, *faults: object) -> None:
        super().__init__(None)
        self._left = list(faults)

    def take(self) -> object:
        return self._left.pop(0) if self._left else None
