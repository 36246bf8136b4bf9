"""Who is restarted: the pure functions, for every list of children that hypothesis thinks of."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.model.spec import AutoShutdown, Reason, Restart, Strategy
from actors.model.strategy import ExitAction, decide, ends_supervisor, scope, stop_batches


@dataclass(frozen=True)
class Kid:
    id: str
    pool: str | None = None


@st.composite
def families(draw: st.DrawFn) -> list[Kid]:
    """Children in start order; the members of a pool stand together, as they are listed."""
    kids: list[Kid] = []
    for n, size in enumerate(draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))):
        kids += [Kid(f"k{n}")] if size == 1 else [Kid(f"k{n}#{m}", f"k{n}") for m in range(size)]
    return kids


@pytest.mark.parametrize(
    ("restart", "clean", "abnormal"),
    [
        (Restart.PERMANENT, ExitAction.RESTART, ExitAction.RESTART),
        (Restart.TRANSIENT, ExitAction.KEEP, ExitAction.RESTART),
        (Restart.TEMPORARY, ExitAction.FORGET, ExitAction.FORGET),
    ],
)
def test_what_becomes_of_a_child_is_the_table_of_the_semantics(
    restart: Restart, clean: ExitAction, abnormal: ExitAction
) -> None:
    assert {decide(restart, reason) for reason in (Reason.NORMAL, Reason.SHUTDOWN)} == {clean}
    assert {decide(restart, reason) for reason in (Reason.CRASHED, Reason.KILLED)} == {abnormal}


@given(families(), st.data())
def test_one_for_one_touches_the_culprit_alone(kids: list[Kid], data: st.DataObject) -> None:
    culprit = data.draw(st.sampled_from(kids))

    assert scope(Strategy.ONE_FOR_ONE, reversed(kids), culprit) == [culprit]


@given(families(), st.data())
def test_one_for_all_touches_all_in_start_order(kids: list[Kid], data: st.DataObject) -> None:
    assert scope(Strategy.ONE_FOR_ALL, reversed(kids), data.draw(st.sampled_from(kids))) == kids


@given(families(), st.data())
def test_rest_for_one_touches_the_culprit_and_what_follows_its_position(kids: list[Kid], data: st.DataObject) -> None:
    culprit = data.draw(st.sampled_from(kids))
    last = max(n for n, kid in enumerate(kids) if kid is culprit or (kid.pool and kid.pool == culprit.pool))

    assert scope(Strategy.REST_FOR_ONE, reversed(kids), culprit) == [culprit, *kids[last + 1 :]]


@given(families(), st.booleans())
def test_batches_hold_each_child_once_in_order_and_only_pools_or_a_parallel_stop_share_one(
    kids: list[Kid], parallel: bool
) -> None:
    batches = stop_batches(kids, parallel=parallel)

    assert [kid for batch in batches for kid in batch] == kids
    assert len(batches) == (1 if parallel else len({kid.pool or kid.id for kid in kids}))


@pytest.mark.parametrize(
    ("rule", "significant", "alive", "ends"),
    [
        (AutoShutdown.NEVER, True, 0, False),
        (AutoShutdown.ANY_SIGNIFICANT, True, 5, True),
        (AutoShutdown.ANY_SIGNIFICANT, False, 0, False),
        (AutoShutdown.ALL_SIGNIFICANT, True, 1, False),
        (AutoShutdown.ALL_SIGNIFICANT, True, 0, True),
        (AutoShutdown.ALL_SIGNIFICANT, False, 0, False),
    ],
)
def test_the_end_of_a_significant_child_ends_its_supervisor_as_the_rule_says(
    rule: AutoShutdown, significant: bool, alive: int, ends: bool
) -> None:
    assert ends_supervisor(rule, significant=significant, significant_alive=alive) is ends
