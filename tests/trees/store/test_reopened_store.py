"""What outlives its process: what a durable store holds when it is opened again, and whose it is."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import update

from tests.trees.store.stores import (
    OWNER,
    PATIENCE_S,
    Heard,
    Opens,
    counted,
    ended,
    kept,
    opens,
    queued,
    submitted,
    succeeded,
)
from trees import LeaseLostError, StoreBusyError, StoreError, Task, TaskSubmitted
from trees.store import SqlStore
from trees.store.batches import Batch
from trees.store.database import Database
from trees.store.schema import leases, take_token, tokens

__all__ = ["opens"]


def test_everything_is_as_it_was_when_the_store_is_opened_again(opens: Opens) -> None:
    before = opens()
    for name in ("b", "a", "done"):
        before.create(name, OWNER, submitted(name))
        before.append(name, queued(name))
    before.append("a", succeeded("a", {"x": [1, None, "é"]}))
    before.finish("done")
    before.replace("@breaker:p/w", OWNER, counted(1))
    before.replace("@breaker:p/w", OWNER, counted(2))
    before.close()

    after = opens()

    assert after.streams(OWNER) == ["b", "a"]
    assert after.finished(OWNER) == ["done"]
    assert list(after.read("a")) == [submitted("a"), queued("a"), succeeded("a", {"x": [1, None, "é"]})]
    assert list(after.read("done")) == [submitted("done"), queued("done")]
    assert after.last("done") == queued("done")
    assert list(after.read("@breaker:p/w")) == [counted(2)]
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
    assert [task.id for task in store.all_tasks()] == ["t", "done"]
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
    assert [task.root for task in one.all_tasks()] == ["one"]


# -- what is at hand --------------------------------------------------------------------------------------------


def at_hand(store: SqlStore) -> set[str]:
    return set(store._index.journals)


def test_what_is_finished_is_not_held_once_that_is_kept(opens: Opens) -> None:
    store = opens()
    for name in ("t", "done"):
        store.create(name, OWNER, submitted(name))
    store.finish("done")
    kept(store)

    assert at_hand(store) == {"t"}
    assert list(store.read("done")) == [submitted("done")]


def team(part: str) -> TaskSubmitted:
    return TaskSubmitted("p/team", part, 1.0, Task(goal="a part"), None, parent="t/team#1.1")


@pytest.mark.parametrize("again", [False, True], ids=["in one life", "after a restart"])
def test_a_part_of_a_task_stays_at_hand_until_the_task_is_finished(opens: Opens, *, again: bool) -> None:
    store = opens()
    store.create("t", OWNER, submitted("t"))
    for part in ("t@team:1.1", "t@team:1.1:inner:1.1", "t@late:1.1"):
        store.create(part, "p/team", team(part))
    for part in ("t@team:1.1:inner:1.1", "t@team:1.1"):
        store.append(part, ended(part))
        store.finish(part)
    kept(store)
    if again:
        store.close()
        store = opens()
    assert at_hand(store) == {"t", "t@team:1.1", "t@team:1.1:inner:1.1", "t@late:1.1"}
    assert list(store.read("t@team:1.1")) == [team("t@team:1.1"), ended("t@team:1.1")]
    assert store.streams("p/team") == ["t@late:1.1"]

    store.finish("t")
    kept(store)

    assert at_hand(store) == {"t@late:1.1"}
    store.finish("t@late:1.1")
    kept(store)
    assert at_hand(store) == set()
    assert list(store.read("t@team:1.1")) == [team("t@team:1.1"), ended("t@team:1.1")]


def test_an_id_with_a_colon_is_a_part_of_nothing_where_there_is_no_such_task(opens: Opens) -> None:
    store = opens()
    store.create("order:7", OWNER, submitted("order:7"))
    store.finish("order:7")
    kept(store)

    assert at_hand(store) == set()


# -- taking back -------------------------------------------------------------------------------------------------


def test_what_is_taken_back_was_never_there(opens: Opens, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opens()
    store.create("first", OWNER, submitted("first"))
    kept(store)
    write, begun = store._session.write, threading.Event()

    def watched(batch: Batch) -> None:
        begun.set()
        write(batch)

    monkeypatch.setattr(store._session, "write", watched)
    with Database(store_url).transaction() as connection:  # nobody else writes meanwhile
        connection.execute(update(tokens).values(token=tokens.c.token))
        store.append("first", queued("first"))
        waits = store.flush()
        assert begun.wait(PATIENCE_S)
        store.create("t", OWNER, submitted("t"))
        store.create("kept", OWNER, submitted("kept"))
        assert store.withdraw("t")
        assert not store.withdraw("t")
        assert not store.withdraw("first")
        assert waits is not None
        assert not waits.done
    kept(store)

    assert not store.withdraw("kept")
    assert store.streams(OWNER) == ["first", "kept"]
    assert list(store.read("t")) == []
    store.close()
    assert [task.id for task in store.all_tasks()] == ["first", "kept"]


# -- one at a time -----------------------------------------------------------------------------------------------


def test_each_start_has_a_larger_token(opens: Opens) -> None:
    tokens = []
    for _ in range(3):
        store = opens()
        tokens.append(store.token)
        store.close()

    assert tokens == sorted(set(tokens))
    other = opens("other")
    assert other.token == 1


def test_a_second_one_is_refused_while_the_first_has_it_open(opens: Opens) -> None:
    first = opens()

    with pytest.raises(StoreBusyError, match=r"'p' is in use by .*process \d+"):
        opens()
    first.create("t", OWNER, submitted("t"))
    kept(first)
    opens("other")
    first.close()
    assert opens().streams(OWNER) == ["t"]


def taken_over(store_url: str, holder: str = "somebody else") -> int:
    """What another process does that takes the root over."""
    database = Database(store_url)
    with database.transaction() as connection:
        return take_token(connection, OWNER, holder)


def test_who_was_replaced_writes_nothing_any_more_and_says_so_for_good(opens: Opens, store_url: str) -> None:
    store = opens()
    store.listener = heard = Heard()
    store.create("t", OWNER, submitted("t"))
    kept(store)

    taken_over(store_url)
    store.append("t", queued("t"))

    for _ in range(2):
        with pytest.raises(LeaseLostError, match="somebody else has taken over 'p'"):
            kept(store)
    heard.wait(lambda: len(heard.losses) == 1)
    assert heard.losses[0].holder == "somebody else"
    store.close()
    assert [task.id for task in store.all_tasks()] == ["t"]
    assert list(opens().read("t")) == [submitted("t")]


def test_who_has_nothing_to_write_finds_out_too(opens: Opens, store_url: str) -> None:
    store = opens()
    store.listener = heard = Heard()

    taken_over(store_url)

    heard.wait(lambda: len(heard.losses) == 1)


def test_a_token_that_was_taken_before_opens_it_and_an_old_one_does_not(store_url: str) -> None:
    store = SqlStore(store_url, root=OWNER)
    store.open()
    store.close()
    old, new = taken_over(store_url), taken_over(store_url)

    store = SqlStore(store_url, root=OWNER)
    with pytest.raises(LeaseLostError):
        store.open(old)
    store.open(new)
    store.create("t", OWNER, submitted("t"))
    kept(store)

    assert store.token == new == old + 1
    store.close()


def test_while_a_lease_is_running_nobody_opens_it_without_one(opens: Opens, store_url: str) -> None:
    opens().close()
    taken_over(store_url, "the leader")
    database = Database(store_url)
    with database.transaction() as connection:
        until = database.now(connection) + 1000
        connection.execute(update(leases).values(expires_at=until))

    with pytest.raises(StoreBusyError, match="the leader"):
        opens()
    with database.transaction() as connection:
        connection.execute(update(leases).values(expires_at=until - 2000))
    assert opens().token > 0


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
