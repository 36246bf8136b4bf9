"""How many crashes it takes until a root gives up."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import ManualClock
from tests.support.crew import crash, doomed, faulty, running, shop
from trees import SupervisorSpec
from trees.views.worst_case import crashes_to_give_up, share_of


def _sub(max_restarts: int, **words: Any) -> SupervisorSpec:
    return SupervisorSpec(id="sub", max_restarts=max_restarts, children=[faulty("w")], **words)


@pytest.mark.parametrize(
    ("spec", "crashes"),
    [
        (shop(faulty("w")), 4),
        (shop(faulty("w"), max_restarts=0), 1),
        (shop(faulty("w"), _sub(2)), 12),
        (shop(faulty("w"), _sub(2, restart="transient")), 4),
        (shop(_sub(2, on_exhausted="park")), None),
        (shop(faulty("w", restart="temporary")), None),
        (shop(faulty("w", on_exhausted="park")), None),
        (shop(), None),
    ],
)
def test_the_worst_case_is_the_product_over_the_levels_that_count(spec: SupervisorSpec, crashes: int | None) -> None:
    with running(spec) as tree:
        assert tree.snapshot().crashes_to_give_up == crashes


def test_the_worst_case_is_what_really_happens() -> None:
    clock = ManualClock()
    spec = shop(_sub(1), max_restarts=2)
    made = 0
    with doomed(spec, clock=clock) as tree:
        promised = tree.snapshot().crashes_to_give_up
        while tree.is_alive and made < 100:
            crash(tree, "shop/sub/w")
            made += 1

    assert made == promised == 6


def test_a_child_that_never_counts_has_no_share() -> None:
    assert share_of("temporary", 1, parks=False, supervisor=False) is None
    assert share_of("permanent", 1, parks=True, supervisor=False) is None
    assert share_of("transient", 3, parks=False, supervisor=True) is None
    assert share_of("permanent", None, parks=False, supervisor=True) is None
    assert crashes_to_give_up(3, [None, 2, 5]) == 20
