"""Beside the process that has a store open: who looks at it, who leaves an order there, and what damage does."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from tests.trees.store.stores import OWNER, Heard, Opens, counted, kept, opens, queued, submitted
from trees import JournalDamaged, StoreError
from trees.store import SqlStore
from trees.store.database import Database
from trees.store.remote_commands import post, waiting
from trees.store.schema import records

__all__ = ["opens"]

# -- for those who look ------------------------------------------------------------------------------------------


def test_who_looks_sees_what_is_kept_while_it_is_in_use(opens: Opens, store_url: str) -> None:
    one, other = opens("one"), opens("other")
    one.create("t", "one", submitted("t"))
    one.create("u", "one", submitted("u"))
    one.finish("t")
    one.replace("@breaker:one/w", "one", counted(1))
    other.create("t", "other", submitted("t"))
    kept(one)
    kept(other)

    looking = SqlStore.look(store_url)

    seen = [(task.root, task.id, task.owner, task.finished_at is None) for task in looking.all_tasks()]
    assert seen == [("one", "t", "one", False), ("one", "u", "one", True), ("other", "t", "other", True)]
    assert [task.id for task in looking.all_tasks("one")] == ["t", "u"]
    assert list(looking.read("u")) == [submitted("u")]
    assert list(looking.read("t", root="other")) == [submitted("t")]
    assert list(looking.read("ghost")) == []
    with pytest.raises(StoreError, match="in each of one, other"):
        looking.read("t")
    looking.close()


def test_an_order_is_heard_once_and_again_after_a_restart_until_it_is_done(opens: Opens, store_url: str) -> None:
    store = opens()
    store.listener = heard = Heard()
    looking = SqlStore.look(store_url)
    store.create("t", OWNER, submitted("t"))
    kept(store)
    with Database(store_url).transaction() as connection:
        post(connection, "other", "t", "cancel", {}, 1.0)
    looking.post_command(OWNER, "t", "cancel", {"reason": "no need: é \udc80"})
    heard.wait(lambda: len(heard.orders) == 1)
    looking.post_command(OWNER, "t", "respond", {})
    heard.wait(lambda: len(heard.orders) == 2)
    first, second = heard.orders
    store.order_done(second)
    kept(store)
    store.close()

    again = opens()
    again.listener = heard = Heard()
    heard.wait(lambda: len(heard.orders) == 1)
    looking.close()

    assert (first.task, first.kind, first.body) == ("t", "cancel", {"reason": "no need: é \udc80"})
    assert heard.orders == [first]
    again.order_done(heard.orders[0])
    kept(again)
    with Database(store_url).transaction() as connection:
        assert waiting(connection, OWNER, ()) == []


# -- damage ------------------------------------------------------------------------------------------------------


def damage(store_url: str, **changes: Any) -> None:
    with Database(store_url).transaction() as connection:
        connection.execute(update(records).where(records.c.stream == "bad", records.c.n == 1).values(**changes))


@pytest.mark.parametrize("changes", [{"kind": "TaskTeleported"}, {"body": "{"}, {"n": 7}], ids=str)
def test_one_journal_that_is_damaged_does_not_stop_the_others(
    opens: Opens, store_url: str, changes: dict[str, Any]
) -> None:
    store = opens()
    for name in ("good", "bad"):
        store.create(name, OWNER, submitted(name))
        store.append(name, queued(name))
    store.close()
    damage(store_url, **changes)

    store = opens()
    store.listener = heard = Heard()

    assert store.streams(OWNER) == ["good"]
    assert store.owners() == {"good": OWNER}
    assert len(store.read("good")) == 2
    for use in (lambda: store.read("bad"), lambda: store.append("bad", queued("bad"))):
        with pytest.raises(StoreError, match=r"journal of 'bad': .*(damaged|newer version)"):
            use()
    assert not store.create("bad", OWNER, submitted("bad"))
    assert not store.withdraw("bad")
    store.finish("bad")
    store.append("good", queued("good"))
    kept(store)
    found = heard.wait_for(JournalDamaged)
    assert (found.path, found.task) == (OWNER, "bad")
    assert [task.id for task in store.all_tasks() if task.finished_at is None] == ["good", "bad"]
