"""What a walk may begin with: declarations of a root, a nested supervisor and their workers."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.random_walks.model import Decl

RESTARTS = st.sampled_from(["permanent", "permanent", "transient", "temporary"])
STRATEGIES = st.sampled_from(["one_for_one", "one_for_all", "rest_for_one"])
PLACES = st.sampled_from(["pool", "loop", "thread"])
FIRST_DELAYS = {"a": 1.013, "b": 1.127, "c": 1.239, "n": 0.917, "x": 1.331, "y": 1.451, "z": 1.573, "d": 1.679}
"""No two backoffs end at the same moment: what then goes on at once would be in no order."""


@st.composite
def workers(draw: st.DrawFn, id_: str, auto_shutdown: str = "never") -> Decl:
    restart = draw(RESTARTS)
    backoff = (FIRST_DELAYS[id_], draw(st.sampled_from([1.0, 2.0])), 5.0, 7.0) if draw(st.booleans()) else None
    return Decl(
        id_,
        restart=restart,
        park=draw(st.integers(0, 3)) == 0,
        backoff=backoff if draw(st.booleans()) else None,
        significant=auto_shutdown != "never" and restart != "permanent" and draw(st.booleans()),
        place=draw(PLACES),
    )


@st.composite
def supervisors(draw: st.DrawFn, id_: str, ids: str, nested: Decl | None = None) -> Decl:
    auto_shutdown = draw(st.sampled_from(["never", "never", "any_significant", "all_significant"]))
    children = [draw(workers(each, auto_shutdown)) for each in ids]
    if nested is not None:
        children.insert(draw(st.integers(0, len(children))), nested)
    return Decl(
        id_,
        restart=draw(RESTARTS),
        park=draw(st.integers(0, 3)) == 0,
        backoff=(FIRST_DELAYS["n"], 2.0, 5.0, 7.0) if draw(st.integers(0, 3)) == 0 else None,
        children=tuple(children),
        strategy=draw(STRATEGIES),
        max_restarts=draw(st.integers(0, 4)),
        period_s=draw(st.sampled_from([3.0, 10.0])),
        auto_shutdown=auto_shutdown,
    )


def roots() -> st.SearchStrategy[Decl]:
    """A root with a nested supervisor somewhere among its workers."""
    nested = supervisors("n", "xyz")
    return nested.flatmap(lambda each: supervisors("r", "abc", each)).map(
        lambda root: Decl(**(vars(root) | {"restart": "permanent", "park": False, "backoff": None}))
    )
