"""The candidate that leads, or waits to: it gets and keeps the lease, and starts and stops the tree accordingly.

One thread lives through the states in ``trees.ha`` from top to bottom (``_main``); from the moment when the lease is
ours another one renews it (``_renew``), until the tree is down. Each request to the store runs on a thread of its own,
with a deadline: it may hang there. What it finds out after its deadline it does not do (``SqlLease`` asks).

Locking: ``_changed`` guards the role that is played; nothing is called while it is held. All other fields are written
by one thread each, but for ``lost`` and ``cause``, of which whichever is first may win.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from actors.concurrency.thread_state import in_background
from actors.messaging.reply import Reply
from actors.model.clock import unstopped
from actors.model.errors import ActorsError, ConfigError, Problem, StartError
from actors.runtime.system import System
from actors.tasks.engine.service import service_of
from actors.tasks.journal.local_lease import LocalLease
from actors.tasks.model import LeaseLostError, StoreBusyError, StoreError
from actors.validation.validation_messages import type_phrase
from trees.declaration.specs import SupervisorSpec
from trees.ha.roles import NotLeaderError, RoleChanged, RoleLost
from trees.ha.settings import HA
from trees.store.journal_file import SUFFIX
from trees.views.snapshot import Role

if TYPE_CHECKING:
    from trees.store.lease import LeaseState, SqlLease

T = TypeVar("T")
Connect: TypeAlias = Callable[[Callable[[StoreError], None]], None]
"""Called with what is to be told when the store is lost."""
FIRST_S: Final = 2.0
"""How long a process that has just been started tries again to reach a store that fails, before it gives up."""
FIRST_ANSWER_S: Final = 10.0
"""How long the first answer of the store may take: until then it is connected to, and its tables are made."""
MOST_HUNG: Final = 3
"""Requests that may hang at a time; then none is sent until one of them comes back."""
WAIT: Final = 0.8
"""Share of the time of a request in which it waits for the locks of others."""
_ORDER: Final[tuple[Role, ...]] = ("standby", "leader", "stopped")


class Leader:
    """One candidate."""

    def __init__(
        self,
        ha: HA,
        system: System,
        leases: SqlLease,
        open_store: Callable[[int], object],
        now: Callable[[], float] = unstopped,
    ) -> None:
        """Make it; ``open_store`` opens the store with our token and brings it and the tree together."""
        self._ha, self._system, self._leases, self._open_store, self._now = ha, system, leases, open_store, now
        self.role: Role = "standby"
        self.row: LeaseState | None = None
        """The lease, as it was last seen."""
        self.token = 0
        """Ours, once we have it."""
        self.sent = -math.inf
        """When the last request was sent that got or renewed the lease: everything counts from here."""
        self.due = math.inf
        """When the lease of another one is over, by our clock."""
        self.lost: str | None = None
        """How the lease was lost, where it was."""
        self.cause: BaseException | None = None
        """Why it ends otherwise, where nobody had asked for that."""
        self.error: BaseException | None = None
        """Error of the last request; None: the store answers."""
        self._changed = threading.Condition()
        self._running: list[None] = []
        """An item for each request that has not come back."""
        self._looking: Reply | None = None
        self._leaving, self._settled, self._down = Reply(), Reply(), Reply()
        self.over = Reply()
        """Completed when the lease is given back, or lost, for good."""
        self._begun = self._killed = False
        self._successor = ""
        self._thread = threading.Thread(target=self._main, name=f"{system.root_path}-keeper", daemon=True)
        self.lease = service_of(system).lease = LocalLease(now, leases.store, system.root_path, self._lapsed)

    # -- what others see -----------------------------------------------------------------------------------

    @property
    def holder(self) -> str | None:
        """Who leads, as far as is known."""
        if self.role == "leader":
            return self._ha.holder
        row = self.row
        return row.holder if self.role == "standby" and not self.token and row is not None and row.token else None

    def facts(self, role: Role) -> dict[str, Any]:
        """For a snapshot."""
        row, reason = self.row, self.lost or (_text(self.error) if self.error is not None else None)
        ends = self.sent + self._ha.lease_s if role == "leader" else self.due
        return {
            "holder": self.holder,
            "token": self.token or (row.token if row is not None else 0),
            "lease_left_s": max(0.0, ends - self._now()) if self.holder is not None else None,
            "role_reason": "is taking over" if role == "standby" and self.token else reason,
        }

    def not_leader(self, path: str) -> NotLeaderError:
        """Why a standby does nothing."""
        row, holder = self.row, self.holder
        return NotLeaderError(path, holder or "", row.token if row is not None and holder is not None else 0)

    def wait_for(self, role: Role, timeout: float | None) -> bool:
        """Wait until this process plays this part, or cannot any more."""
        with self._changed:
            self._changed.wait_for(lambda: _ORDER.index(self.role) >= _ORDER.index(role), timeout)
        return self.role == role

    def _play(self, role: Role) -> None:
        """Play another part, and tell of it; a part that was left is not played again."""
        with self._changed:
            changed = _ORDER.index(role) > _ORDER.index(self.role)
            self.role = role if changed else self.role
        if changed or (role == "standby" and not self._settled.done):
            self._system.publish(self._event(role))
        with self._changed:
            self._changed.notify_all()

    def _event(self, role: Role) -> RoleChanged:
        path, row = self._system.root_path, self.row
        if role == "leader":
            return RoleChanged(path, role, self.token, "it has the lease, and what was unfinished goes on")
        if role == "standby":
            holder, token = (row.holder, row.token) if row is not None else ("nobody", 0)
            return RoleChanged(path, role, token, f"{holder} leads")
        reason = self.lost or (_text(self.cause) if self.cause is not None else None)
        if reason is not None:
            return RoleLost(path, role, self.token, reason)
        return RoleChanged(path, role, self.token, "it was stopped")

    # -- what others say -----------------------------------------------------------------------------------

    def start(self) -> Reply:
        """Begin; completed when it is known whether this process leads or waits, failed where it can do neither."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self.cause = error
            self._finish()
        return self._settled

    def leave(self) -> None:
        """Take the owner's order to end."""
        self._leaving.complete()
        looking = self._looking
        if looking is not None:
            looking.fail(TimeoutError("nobody waits for it any more"))

    def lease_lost(self, error: BaseException) -> None:
        """A write was refused: another one leads."""
        self._successor = getattr(error, "holder", "")
        self._lose_soon(f"a write was refused ({error})")

    def store_failed(self, error: BaseException) -> None:
        """Nothing can be written here any more: the tree ends at once, and somebody else must lead."""
        self.cause = error
        self.lease.end()
        in_background(f"{self._system.root_path}-kill", self._kill)

    def _lapsed(self) -> None:
        """Something was about to be started and found the lease over."""
        self._lose_soon("its time was over before it was renewed (was the process frozen?)")

    def _lose_soon(self, why: str) -> None:
        self.lease.end()
        in_background(f"{self._system.root_path}-kill", partial(self._lose, why))

    def down(self) -> None:
        """The tree is down and its last write kept; returns when the lease is given back."""
        error = self._system.exit.error if self._system.exit is not None else None
        if isinstance(error, StartError) and self.role == "standby":
            self.cause = error
        self._down.complete()
        if threading.current_thread() is not self._thread:
            self.over.wait(self._ha.lease_s)

    # -- its life ------------------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            if self._elect():
                self._lead()
        except BaseException as error:  # noqa: BLE001 - a tree that nobody keeps the lease for must not go on
            self._system.reports.internal_error(error)
            self._lose(f"its keeper died of {_text(error)}")
        finally:
            self._finish()

    def _elect(self) -> bool:
        """Wait until the lease is ours; False: it is left before, or nobody is known to lead."""
        ha, began, known = self._ha, self._now(), None
        while not self._leaving.done:
            try:
                row = self._ask(self._leases.look, is_look=True)
                if known is None or (known.token, known.expires_at) != (row.token, row.expires_at):
                    self.due = self._now() + max(0.0, row.left_s)
                known = self.row = row
                self.error = None
                sent = self._now()
                if row.left_s <= 0 and sent >= self.due:
                    answer = self._ask(self._leases.acquire)
                    if isinstance(answer, int):
                        self.token, self.sent = answer, sent
                        return True
                    continue
                self._settle("standby")
                pause_s = min(ha.poll_s, max(self.due - sent, row.left_s, ha.retry_s))
            except Exception as error:  # noqa: BLE001 - whatever a driver raises, it is no answer
                self.error, pause_s = error, ha.poll_s if self._settled.done else ha.retry_s
                is_late = isinstance(error, StoreBusyError) or self._now() >= began + FIRST_S
                if not self._settled.done and is_late and not self._leaving.done:
                    self.cause = error  # whoever starts it hears of this
                    return False
            self._leaving.wait(pause_s)
        return False

    def _settle(self, role: Role) -> None:
        """It is known which part this process plays."""
        self._play(role)
        self._settled.complete(role)

    def _lead(self) -> None:
        """With the lease: open the store, run the tree, and give the lease back when it is down."""
        self.lease.extend(self.token, self.sent + self._ha.kill_s)
        try:
            threading.Thread(target=self._renew, name=f"{self._system.root_path}-renewals", daemon=True).start()
            self._open_store(self.token)
            if self._is_ready():
                self._run()
        except Exception as error:  # noqa: BLE001 - whatever a driver raises
            self.cause = error
        self._down.complete()
        self._play("stopped")
        self.lease.end()
        if not self._killed and not self._system.strays.incarnations:
            self._give_back()

    def _is_ready(self) -> bool:
        """Wait until no renewal is missing; False: it is lost or left before."""
        while self.lost is None and not self._leaving.done:
            if self._now() - self.sent < 2 * self._ha.renew_s:
                return True
            self._leaving.wait(self._ha.retry_s)
        return False

    def _run(self) -> None:
        """Run the tree until it is down."""
        system = self._system
        system.before_end(self.down)
        self._begun = True
        started = system.start()
        started.when_done(lambda: self._resume(started))
        if self.lost is not None or self.cause is not None:  # since it was looked at
            self._kill()
        elif self._leaving.done:
            system.stop()
        self._down.wait(None)

    def _resume(self, started: Reply) -> None:
        """All is up; it leads when what was unfinished goes on."""
        if started.succeeded:
            resumed = service_of(self._system).resumed()
            resumed.when_done(lambda: self._settle("leader") if resumed.succeeded and self.lost is None else None)

    def _give_back(self) -> None:
        try:
            self._ask(lambda _: self._leases.release(self.token))
        except Exception as error:  # noqa: BLE001 - then it runs out
            self.error = error

    def _finish(self) -> None:
        """The lease is given back or lost: let go of all, and tell everybody."""
        system, error = self._system, self._why()
        self.lease.end()
        self._play("stopped")
        try:
            self._leases.close()
        except Exception as caught:  # noqa: BLE001 - whatever a driver raises, everybody who waits must hear of the end
            system.reports.internal_error(caught)
        if error is not None and system.cause is None:
            system.cause = error
        self.over.complete()
        if not self._begun:
            system.close_unstarted()
        failure = error or StartError(system.root_path, "was stopped while it started")
        system.ended.when_done(lambda: self._settled.fail(failure))

    # -- the lease -----------------------------------------------------------------------------------------

    def _renew(self) -> None:
        """Keep the lease until the tree is down; on a thread of its own."""
        ha, next_at = self._ha, self.sent + self._ha.renew_s
        while not self._down.wait(max(0.0, min(next_at, self._deadline()) - self._now())):
            sent = self._now()
            if sent >= next_at:
                try:
                    left_s = self._deadline() - sent
                    answer = self._ask(partial(self._leases.renew, self.token), left_s if left_s > 0 else math.inf)
                except Exception as error:  # noqa: BLE001 - whatever a driver raises, it is no answer
                    self.error, next_at = error, self._now() + ha.retry_s
                else:
                    if not isinstance(answer, int):
                        self.row = answer
                        self._lose(f"{answer.holder} has taken over with token {answer.token}")
                        return
                    self.sent, self.error, next_at = sent, None, sent + ha.renew_s
                    self.lease.extend(answer, sent + ha.kill_s)
            if self._now() >= self._deadline() and not self._watch():
                return

    def _deadline(self) -> float:
        """When something must be done where no renewal comes."""
        if not self._begun and self._settled.done:
            return math.inf  # a standby that reads the journals has started nothing
        return self.sent + (self._ha.stop_s if self.lost is None and not self._leaving.done else self._ha.kill_s)

    def _watch(self) -> bool:
        """The lease was not renewed in time: first an end in order; then the other one, and False."""
        late = self._now() - self.sent
        said = f" ({_text(self.error)})" if self.error is not None else ""
        why = f"its lease could not be renewed for {late:.3g} of {self._ha.lease_s:.3g} s{said}"
        if late >= self._ha.kill_s:
            self._lose(why)
            return False
        self.lost = self.lost or why
        self._play("stopped")
        error = self._why()
        if self._begun and error is not None:
            self._system.fail(error, self._ha.lease_s)  # it is killed long before that
        return True

    def _lose(self, why: str) -> None:
        """The lease is another one's, or may be: nothing of this tree may go on."""
        self.lost, self._killed = self.lost or why, True
        self.lease.end()
        self._play("stopped")
        self._kill()

    def _kill(self) -> None:
        error = self._why()
        if self._begun:
            if error is not None:
                self._system.fail(error, 0.0)
            self._system.kill()

    def _why(self) -> ActorsError | None:
        """Why it ends, where nobody had asked for that."""
        cause, path = self.cause, self._system.root_path
        if self.lost is not None:
            row = self.row
            holder = row.holder if row is not None and row.token > self.token else self._successor
            why = f"{path!r} is not led by this process any more (its token was {self.token}): {self.lost}"
            return LeaseLostError(self._leases.store, path, holder, why)
        if cause is None or isinstance(cause, ActorsError):
            return cause
        error = StoreError(self._leases.store, f"the lease of {path!r} cannot be had ({_text(cause)})")
        error.__cause__ = cause
        return error

    def _ask(self, ask: Callable[[Callable[[], bool]], T], most_s: float = math.inf, *, is_look: bool = False) -> T:
        """Ask the store, on a thread of its own; ``ask`` is given what says whether the answer is still wanted.

        Raises:
            TimeoutError: there is no answer in time.
            Exception: what it failed with.
        """
        is_first = not self._settled.done and not self.token
        within_s = min(most_s, max(self._ha.request_s, FIRST_ANSWER_S if is_first else 0.0))
        answer = Reply()
        late = TimeoutError(f"no answer within {within_s:.3g} s")
        if len(self._running) >= MOST_HUNG:
            raise late

        def run() -> None:
            try:
                answer.complete(ask(lambda: not answer.done))
            except Exception as error:  # noqa: BLE001 - it is the answer
                answer.fail(error)
            finally:
                self._running.pop()

        self._running.append(None)
        self._looking = answer if is_look else None
        try:
            threading.Thread(target=run, name=f"{self._system.root_path}-lease", daemon=True).start()
        except RuntimeError:  # the machine gives no thread: that is no answer either
            self._running.pop()
            raise
        if not answer.wait(within_s):
            answer.fail(late)
        found: T = answer.get(timeout=0)
        return found


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


# -- putting it together ---------------------------------------------------------------------------------------


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


def candidate(ha: HA, spec: SupervisorSpec, system: System, store: Any, url: str, connect: Connect) -> Leader:
    """The candidate of a tree: it starts the tree as soon as the lease is ours.

    Neither is the system started nor the store, a ``SqlStore``, open. ``connect`` brings them together once it is.
    """
    from trees.store.lease import SqlLease, session_of  # noqa: PLC0415 - only here is what the extra `sql` installs needed

    store.database.hangs_s = min(store.database.hangs_s, ha.stop_s)
    leases = SqlLease(url, spec.id, ha.holder, lease_s=ha.lease_s, wait_s=WAIT * ha.request_s, hangs_s=ha.stop_s)

    def lost(error: StoreError) -> None:
        if isinstance(error, LeaseLostError):
            leader.lease_lost(error)
        else:
            leader.store_failed(error)

    def take_over(token: int) -> None:
        store.database.session = session_of(spec.id, token)
        store.open(token)
        system.before_end(lambda: store.close(ha.lease_s))
        connect(lost)

    leader = Leader(ha, system, leases, take_over)
    system.before_stop, system.role = leader.leave, lambda: leader.role
    return leader
