"""The lease in a database: who gets it, who keeps it, and what a store that does not answer costs."""

from __future__ import annotations

import concurrent.futures
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from tests.support.crew import LONG_S
from tests.support.databases import Cluster
from tests.support.load import beside_others
from trees import LeaseLostError, StoreBusyError, StoreError
from trees.store import open_store
from trees.store.database import Database
from trees.store.lease_store import LeaseState
from trees.store.sql_lease import SqlLease, session_of

LEASE_S = 30.0
WAIT_S = 0.3
MakeRow = Callable[..., SqlLease]


def made(url: str, holder: str, *, lease_s: float = LEASE_S, root: str = "shop") -> SqlLease:
    return SqlLease(url, root, holder, lease_s=lease_s, wait_s=WAIT_S, hangs_s=5.0)


def taken(lease: SqlLease) -> int | LeaseState:
    """What a lease gets that is asked for again where the store does not answer in time, as a candidate does it.

    The server ends a session whenever that has its turn.
    """
    end = monotonic() + LONG_S
    while True:
        try:
            return lease.acquire()
        except StoreError:
            if monotonic() > end:
                raise


@pytest.fixture
def lease(store_url: str) -> Iterator[MakeRow]:
    """Makes candidates for the lease of one root."""
    with ExitStack() as stack:

        def make(holder: str = "a", *, lease_s: float = LEASE_S, root: str = "shop") -> SqlLease:
            row = made(store_url, holder, lease_s=lease_s, root=root)
            stack.callback(row.close)
            return row

        yield make


def has_it(row: LeaseState) -> tuple[int, str]:
    return row.token, row.holder


def test_a_root_that_nobody_has_led_is_free(lease: MakeRow) -> None:
    assert lease().look() == LeaseState(0, "", None, 0.0)


def test_who_asks_first_gets_it_and_the_others_see_who_that_is_and_until_when(lease: MakeRow) -> None:
    a, b = lease("a"), lease("b")
    a.look()

    assert a.acquire() == 1

    refused = b.acquire()
    assert isinstance(refused, LeaseState)
    assert has_it(refused) == has_it(b.look()) == (1, "a")
    assert LEASE_S - 5 < b.look().left_s <= LEASE_S


def test_it_is_free_again_when_its_time_is_over_and_each_change_of_hands_is_a_new_token(lease: MakeRow) -> None:
    a, b = lease("a", lease_s=0.0), lease("b", lease_s=0.0)
    a.look()

    assert [a.acquire(), b.acquire(), a.acquire()] == [1, 2, 3]


def test_a_renewal_counts_from_now_and_only_for_who_has_it(lease: MakeRow) -> None:
    a, b, same_name = lease("a", lease_s=0.0), lease("b"), lease("a")
    a.look()
    assert a.acquire() == 1
    assert same_name.renew(1) == 1
    assert a.look().left_s > LEASE_S - 5
    assert a.renew(1) == 1
    assert b.acquire() == 2

    late = a.renew(1)

    assert isinstance(late, LeaseState)
    assert has_it(late) == (2, "b")
    assert isinstance(a.renew(2), LeaseState), "the token alone is not enough"
    assert b.renew(2) == 2


def test_what_is_given_back_is_free_at_once_and_only_who_has_it_can_give_it_back(lease: MakeRow) -> None:
    a, b = lease("a"), lease("b")
    a.look()
    a.acquire()

    lease("c").release(1)
    lease("a").release(7)
    assert isinstance(b.acquire(), LeaseState)
    a.release(1)
    assert b.look().left_s <= 0
    assert b.acquire() == 2


def test_of_many_who_ask_at_once_one_gets_it(lease: MakeRow) -> None:
    rows = [lease(f"c{number}") for number in range(8)]
    gate = threading.Barrier(len(rows))

    def ask(row: SqlLease) -> int | LeaseState:
        gate.wait()
        while True:
            try:
                row.look()  # all of them find a store without tables
                return row.acquire()
            except StoreError:
                continue  # the others had it locked for too long

    with concurrent.futures.ThreadPoolExecutor(len(rows)) as pool:
        answers = list(pool.map(ask, rows))

    assert [answer for answer in answers if isinstance(answer, int)] == [1]
    assert {answer.token for answer in answers if isinstance(answer, LeaseState)} == {1}


def test_roots_have_a_lease_each(lease: MakeRow) -> None:
    a, b = lease("a"), lease("a", root="other")
    a.look()

    assert (a.acquire(), b.acquire()) == (1, 1)


def test_a_process_without_ha_that_is_alive_is_not_replaced(lease: MakeRow, store_url: str) -> None:
    store: Any = open_store(store_url, root="shop")
    with pytest.raises(StoreBusyError, match="'shop' is in use by"):
        lease("b").acquire()
    store.close()

    assert lease("b").acquire() == 2


def test_a_process_without_ha_cannot_start_while_somebody_has_the_lease(lease: MakeRow, store_url: str) -> None:
    a = lease("a")
    a.look()
    a.acquire()

    with pytest.raises(StoreBusyError, match="in use by a"):
        open_store(store_url, root="shop")


def test_who_has_the_lease_opens_the_store_with_its_token_and_who_had_it_writes_nothing_more(
    lease: MakeRow, store_url: str
) -> None:
    a, b = lease("a", lease_s=0.0), lease("b")
    a.look()
    token = a.acquire()
    old, late = _unopened(store_url), _unopened(store_url)
    old.open(token)
    assert b.acquire() == 2

    with pytest.raises(LeaseLostError, match="b has taken over"):
        late.open(token)
    assert old.token == 1
    old.close()


def _unopened(url: str) -> Any:

    return open_store(url, root="shop", opened=False)


def test_a_locked_file_costs_a_request_no_more_than_its_time_but_everybody_can_look(
    tmp_path: Path,
) -> None:
    row = made(f"sqlite:///{tmp_path / 'tasks.db'}", "a")
    row.look()
    token = row.acquire()
    assert isinstance(token, int)
    other = sqlite3.connect(tmp_path / "tasks.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    took = []
    for _ in range(3):  # the first on the connection that is kept, the others on new ones
        began = monotonic()
        with pytest.raises(StoreError, match="locked by another process"):
            row.renew(token)
        took.append(monotonic() - began)
    seen = row.look()
    other.execute("COMMIT")
    other.close()

    assert max(took) < beside_others(3 * WAIT_S)
    assert has_it(seen) == (1, "a")
    assert row.renew(token) == token
    row.close()


def test_a_locked_row_costs_a_request_no_more_than_its_time(postgres: Cluster, postgres_url: str) -> None:
    row = made(postgres_url, "a")
    row.look()
    token = row.acquire()
    assert isinstance(token, int)
    other: Any = Database(postgres_url).writing()
    other.begin()
    other.exec_driver_sql("SELECT * FROM regrow_leases FOR UPDATE")

    with pytest.raises(StoreError, match="locked by another session"):
        row.renew(token)
    other.close()

    assert row.renew(token) == token
    row.close()


def test_a_connection_that_was_cut_is_made_again(postgres: Cluster, postgres_url: str) -> None:
    row = made(postgres_url, "a")
    row.look()
    token = row.acquire()
    assert isinstance(token, int)
    assert postgres.end_sessions(postgres_url) >= 1

    with pytest.raises(StoreError):
        row.renew(token)

    assert row.renew(token) == token
    row.close()


def test_a_request_that_has_hung_until_after_the_lease_was_given_back_does_not_take_it_again(
    lease: MakeRow,
) -> None:
    a, b = lease("a"), lease("b")
    a.look()
    token = a.acquire()
    assert isinstance(token, int)
    a.release(token)

    with pytest.raises(StoreError, match="nobody wants any more"):
        a.renew(token)
    with pytest.raises(StoreError, match="nobody wants any more"):
        a.acquire()

    assert b.acquire() == token + 1


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    row = made(f"sqlite:///{tmp_path / 'tasks.db'}", "a")
    row.look()
    row.acquire()

    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    row.close()

    assert set(modes.values()) == {0o600}, modes


def test_an_old_leader_that_hangs_in_the_middle_of_a_write_keeps_nobody_out(
    postgres: Cluster, postgres_url: str
) -> None:
    a = made(postgres_url, "a", lease_s=0.0)
    b = made(postgres_url, "b")
    a.look()
    token = a.acquire()
    assert isinstance(token, int)
    old = Database(postgres_url)
    old.session = session_of("shop", token)
    writing: Any = old.writing()
    writing.begin()
    writing.exec_driver_sql("SELECT * FROM regrow_leases FOR SHARE")

    assert taken(b) == token + 1

    with pytest.raises(DBAPIError):
        writing.exec_driver_sql("SELECT 1")
    for each in (a, b, writing):
        each.close()


def test_one_that_is_in_the_middle_of_a_write_while_it_leads_is_left_alone(
    postgres: Cluster, postgres_url: str
) -> None:
    a = made(postgres_url, "a")
    b = made(postgres_url, "b")
    a.look()
    token = a.acquire()
    assert isinstance(token, int)
    leader = Database(postgres_url)
    leader.session = session_of("shop", token)
    writing: Any = leader.writing()
    writing.begin()
    writing.exec_driver_sql("SELECT * FROM regrow_leases FOR SHARE")

    with pytest.raises(StoreError, match="locked by another session"):
        b.acquire()

    assert writing.exec_driver_sql("SELECT 1").scalar() == 1
    for each in (a, b, writing):
        each.close()
