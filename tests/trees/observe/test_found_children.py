"""A child is found by a part of its path wherever it stands, also among 100,000 that are folded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from actors.testing import settle
from trees import Backoff, SupervisorSpec, Tree, WorkerSpec, start
from trees.host.tree_source import TreeSource
from trees.observe.tree_shapes import found_by

CROWD = [f"shop/team/w{number}" for number in range(1000)]


def handle(message: Any) -> Any:
    if message == "crash":
        raise ValueError(message)
    return message


BREAKS = WorkerSpec(id="breaks", handle=handle, backoff=Backoff(initial_s=1000.0, max_s=1000.0))


@contextmanager
def looked_at() -> Iterator[tuple[Tree, TreeSource]]:
    """A tree of 1,000 workers, which are folded, and a pool."""
    crowd = [WorkerSpec(id=path.rpartition("/")[2], handle=handle) for path in CROWD]
    team = SupervisorSpec(id="team", children=[*crowd, WorkerSpec(id="parse", handle=handle, pool=3)])
    spec = SupervisorSpec(id="shop", children=[WorkerSpec(id="Ledger", handle=handle), team])
    with start(spec) as tree, closing(TreeSource(tree)) as source:
        yield tree, source


def paths(shape: dict[str, Any]) -> list[str]:
    return [row["path"] for row in shape["rows"]]


def test_what_is_folded_is_among_the_rows_where_it_is_looked_for_and_all_others_stay_folded() -> None:
    with looked_at() as (_, source):
        before, found = source.snapshot(), source.snapshot(text="W777")
        assert paths(before) == ["shop", "shop/Ledger", "shop/team"]
        assert paths(found) == ["shop", "shop/Ledger", "shop/team", "shop/team/w777"]
        assert (before["total"], before["found"]) == (1004, None)
        assert (found["total"], found["found"], found["cut"]) == (1004, 1, True)
        team, child = found["rows"][-2:]
        assert (team["size"], team["folded"]) == (1001, True)
        assert (child["id"], child["depth"], child["state"]) == ("w777", 2, "running")


def test_what_is_in_trouble_is_among_the_rows_though_it_is_folded_and_nothing_else_is_looked_for() -> None:
    with looked_at() as (tree, source):
        assert source.snapshot(troubled=True)["found"] == 0
        tree.start_child("shop/team", BREAKS)
        tree.start_child("shop/team", BREAKS.model_copy(update={"id": "other"}))
        tree.ref("shop/team/breaks").tell("crash")
        tree.ref("shop/team/other").tell("crash")
        settle(tree)

        found, one = source.snapshot(troubled=True), source.snapshot(text="oth", troubled=True)
        assert paths(found)[2:] == ["shop/team", "shop/team/breaks", "shop/team/other"]
        assert [row["state"] for row in found["rows"][3:]] == ["restarting", "restarting"]
        assert found["found"] == 2
        assert paths(one)[-1] == "shop/team/other"
        assert one["found"] == 1


def test_one_that_was_added_is_found_and_one_that_is_gone_is_not() -> None:
    with looked_at() as (tree, source):
        tree.start_child("shop/team", WorkerSpec(id="late", handle=handle))
        assert "shop/team/late" in paths(source.snapshot(text="late"))
        tree.terminate_child("shop/team/late")
        tree.delete_child("shop/team/late")
        assert source.snapshot(text="late")["found"] == 0


def test_nothing_is_found_by_what_no_path_has() -> None:
    assert found_by(CROWD, "nobody", 10) == (frozenset(), 0)
    assert found_by([], "w", 10) == (frozenset(), 0)
