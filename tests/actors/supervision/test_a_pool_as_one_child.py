"""``tree.child`` of a pool: what its members have been through, added up."""

from __future__ import annotations

from actors.testing import settle
from trees import SupervisorSpec, WorkerSpec, start


def test_the_restarts_of_a_pool_are_those_of_all_its_members() -> None:
    def crash(_: object) -> None:
        raise OSError("no")

    spec = SupervisorSpec(id="t", max_restarts=10, children=[WorkerSpec(id="w", handle=crash, pool=3)])
    with start(spec) as tree:
        for member in ("t/w#0", "t/w#1", "t/w#1"):
            tree.ref(member).tell("crash")
            settle(tree)

        assert [tree.child(f"t/w#{n}").restarts for n in range(3)] == [1, 2, 0]
        assert tree.child("t/w").restarts == 3
