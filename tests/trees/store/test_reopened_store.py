"""What outlives its process: what a durable store holds when it is opened again, and whose it is."""

from __future__ import annotations

import pytest

from tests.trees.store.stores import (
    OWNER,
    Opens,
    kept,
    opens,
    queued,
    submitted,
    succeeded,
)
from trees import StoreBusyError, StoreError
from trees.store import SqlStore

__all__ = ["opens"]


def test_everything_is_as_it_was_when_the_store_is_opened_again(opens: Opens) -> None:
    before = opens()
    for name in ("b", "a", "done"):
        before.create(name, OWNER, submitted(name))
        before.append(name, queued(name))
    before.append("a", succeeded("a", {"x": [1, None, "é"]}))
    before.finish("done")
    before.close()

    after = opens()

    assert after.streams(OWNER) == ["b", "a"]
    assert after.finished(OWNER) == ["done"]
    assert list(after.read("a")) == [submitted("a"), queued("a"), succeeded("a", {"x": [1, None, "é"]})]
    assert list(after.read("done")) == [submitted("done"), queued("done")]
    assert after.last("done") == queued("done")
    assert after.owners() == {"b": OWNER, "a": OWNER}


def test_it_goes_on_where_it_was(opens: Opens) -> None:
    before = opens()
    before.create("t", OWNER, submitted("t"))
    before.create("done", OWNER, submitted("done"))
    before.finish("done")
    before.close()
    between = opens()
    between.append("t", queued("t", 1))
    between.append("done", queued("done", 1))
    assert not between.create("t", OWNER, submitted("t"))
    between.create("t2", OWNER, submitted("t2"))
    between.close()

    after = opens()

    assert after.streams(OWNER) == ["t", "done", "t2"]
    assert list(after.read("t")) == [submitted("t"), queued("t", 1)]
    assert list(after.read("done")) == [submitted("done"), queued("done", 1)]


def test_what_nobody_waited_for_is_kept_by_the_end_of_the_store(opens: Opens) -> None:
    before = opens()
    before.create("t", OWNER, submitted("t"))
    for number in range(2_000):
        before.append("t", queued("t", number))
    before.close()

    assert len(opens().read("t")) == 2_001


def test_a_closed_store_can_be_read_and_not_written(opens: Opens) -> None:
    store = opens()
    for name in ("t", "done"):
        store.create(name, OWNER, submitted(name))
    store.finish("done")
    store.close()
    store.close()

    assert list(store.read("t")) == [submitted("t")]
    assert list(store.read("done")) == [submitted("done")]
    store.append("t", queued("t"))
    reply = store.flush()
    assert reply is not None
    with pytest.raises(StoreError, match="is closed"):
        reply.get(timeout=0)
    assert list(opens().read("t")) == [submitted("t")]


def test_a_store_must_be_opened_once(store_url: str) -> None:
    store = SqlStore(store_url, root=OWNER)
    with pytest.raises(StoreError, match="not open"):
        store.create("t", OWNER, submitted("t"))
    store.close()
    store = SqlStore(store_url, root=OWNER)
    store.open()
    with pytest.raises(StoreError, match="opened before"):
        store.open()
    store.close()


def test_two_trees_may_use_one_database_with_the_same_names(opens: Opens) -> None:
    one, other = opens("one"), opens("other")
    for store, value in ((one, 1), (other, 2)):
        assert store.create("t", "x", submitted("t"))
        store.append("t", succeeded("t", [value] * 10_000))
        store.finish("t")
        kept(store)

    assert one.read("t", 1)[0] == succeeded("t", [1] * 10_000)
    assert other.read("t", 1)[0] == succeeded("t", [2] * 10_000)
    assert one.finished("x") == ["t"]


# -- one at a time -----------------------------------------------------------------------------------------------


def test_a_second_one_is_refused_while_the_first_has_it_open(opens: Opens) -> None:
    first = opens()

    with pytest.raises(StoreBusyError, match=r"'p' is in use by .*process \d+"):
        opens()
    first.create("t", OWNER, submitted("t"))
    kept(first)
    opens("other")
    first.close()
    assert opens().streams(OWNER) == ["t"]


def test_candidates_of_one_tree_and_a_process_on_its_own_keep_each_other_out(store_url: str) -> None:
    SqlStore(store_url, root=OWNER).database.create()
    alone = SqlStore(store_url, root=OWNER)
    alone.open()
    candidate = SqlStore(store_url, root=OWNER)
    with pytest.raises(StoreBusyError):
        candidate.open(alone.token)
    alone.close()
    candidate = SqlStore(store_url, root=OWNER)
    candidate.open(alone.token)
    another = SqlStore(store_url, root=OWNER)
    another.open(alone.token)
    with pytest.raises(StoreBusyError):
        SqlStore(store_url, root=OWNER).open()
    candidate.close()
    another.close()
