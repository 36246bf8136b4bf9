"""How a tree with ``ha=`` is put together: its store, not opened; the lease in it; and the keeper of both.

Comes in: a tree that is not started. Goes out: its ``LeaseKeeper``, which has yet to begin. What needs a database is
imported here, when a tree wants one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from actors.model.errors import ConfigError, Problem
from actors.runtime.system import System
from actors.tasks.model.task_errors import LeaseLostError, StoreError
from actors.validation.validation_messages import type_phrase
from trees.declaration.specs import SupervisorSpec
from trees.ha.ha_settings import HA
from trees.ha.lease_keeper import LeaseKeeper
from trees.store.journal_file import SUFFIX

Connect: TypeAlias = Callable[[Callable[[StoreError], None]], None]
"""Called with what is to be told when the store is lost."""

WAIT = 0.8
"""Share of the time of a request in which it waits for the locks of others."""


def require_shared(spec: SupervisorSpec, ha: object, store: object) -> None:
    """Candidates need a store that several processes can reach.

    Raises:
        ConfigError: this is none.
    """
    if not isinstance(ha, HA):
        what = f"{type_phrase(ha)} says nothing about a lease"
        raise ConfigError((Problem(f"{spec.id}.ha", what, "Write ha=HA(lease_s=10)."),))
    if not isinstance(store, str) or store.endswith(SUFFIX):
        what = "with ha= several processes share one store, and this one is of one process only"
        hint = "Give store='postgresql://user@host/database' or, on one machine, store='sqlite:///tasks.db'."
        raise ConfigError((Problem(f"{spec.id}.store", what, hint),))


def candidate(ha: HA, spec: SupervisorSpec, system: System, store: Any, url: str, connect: Connect) -> LeaseKeeper:
    """The keeper of a tree: it starts the tree as soon as the lease is ours.

    Neither is the system started nor the store, a ``SqlStore``, open. ``connect`` brings them together once it is.
    """
    from trees.store.sql_lease import SqlLease, session_of  # noqa: PLC0415 - only here is what the extra `sql` installs needed

    store.database.hangs_s = min(store.database.hangs_s, ha.stop_s)
    wait_s = WAIT * ha.request_s
    leases = SqlLease(url, spec.id, ha.holder, lease_s=ha.lease_s, wait_s=wait_s, hangs_s=ha.stop_s)

    def lost(error: StoreError) -> None:
        """Another process has taken over, or nothing can be written any more: nothing of this one may go on."""
        if isinstance(error, LeaseLostError):
            keeper.lease_lost(error)
        else:
            keeper.store_failed(error)

    def take_over(token: int) -> None:
        store.database.session = session_of(spec.id, token)
        store.open(token)
        if keeper.over.done:
            store.close(ha.lease_s)
            return
        try:
            connect(lost)
        except BaseException:
            store.close(ha.lease_s)
            raise
        system.before_end(lambda: store.close(ha.lease_s))

    keeper = LeaseKeeper(ha, system, leases, take_over)
    system.before_stop, system.role = keeper.leave, lambda: keeper.role
    return keeper
