"""The keeper: sees to it that one process of several leads, and that one that may not lead any more is down in time.

Comes in: a tree that is not started, its store, not opened, and the lease in that store. Goes out: the tree, started as
soon as the lease is ours, stopped when it cannot be kept. What to do is decided in ``trees.ha.candidate``; the times
and the guarantees are in ``trees.ha``.

It has one thread, which never waits for anything but its wake-up: every request to the store runs on a thread of its
own and may hang there. What others have to say (an answer, the end of the tree, an order to stop) is put on a list, and
the thread wakes; so all decisions are made one after the other, in one place.

There is no lock: an order to stop comes from a signal handler, too, and a finalizer may find the lease over. What is
heard is appended before the thread is woken, and taken after it has slept. ``Candidate`` is touched by the keeper's
thread only; others read single attributes of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from actors.concurrency.wakeup import Wakeup
from actors.messaging.reply import Reply
from actors.model.clock import unstopped
from actors.model.errors import ActorsError, StartError
from actors.runtime.system import System
from actors.tasks.journal.local_lease import LocalLease
from actors.tasks.model.task_errors import LeaseLostError, StoreBusyError, StoreError
from actors.tasks.orchestration.task_runtime import task_runtime_of
from trees.ha.candidate import Action, Candidate, CandidatePhase
from trees.ha.ha_settings import HA
from trees.ha.played_role import PlayedRole
from trees.ha.roles import NotLeaderError, RoleChanged, RoleLost
from trees.store.lease_store import LeaseState
from trees.views.snapshot import Role

if TYPE_CHECKING:
    from trees.store.sql_lease import SqlLease

LONGEST_S: Final = 3600.0
"""One wait of the thread."""
_ROLES: Final[dict[CandidatePhase, Role]] = {
    CandidatePhase.STANDBY: "standby",
    CandidatePhase.OPENING: "standby",
    CandidatePhase.STARTING: "standby",
    CandidatePhase.LEADING: "leader",
    CandidatePhase.KILLED: "stopped",
    CandidatePhase.RELEASING: "stopped",
    CandidatePhase.OVER: "stopped",
}
"""Where a candidate that stops plays the part that it had."""


class LeaseKeeper:
    """Runs one candidate."""

    def __init__(
        self,
        ha: HA,
        system: System,
        leases: SqlLease,
        open_store: Callable[[int], object],
        now: Callable[[], float] = unstopped,
    ) -> None:
        self._ha = ha
        self._system = system
        self._leases = leases
        self._open_store = open_store
        """Opens the store with our token and brings it and the tree together; may take long."""
        self._now = now
        self._candidate = Candidate(ha, now())
        self._wakeup = Wakeup()
        self._heard: deque[Callable[[float], None]] = deque()
        self._played = PlayedRole()
        self._thread = threading.Thread(target=self._main, name=f"{system.root_path}-keeper", daemon=True)
        self._opening = Reply()
        self._begun = False
        self._successor = ""
        """Process that is known to have taken over."""
        self._settled = Reply()
        self.over = Reply()
        """Completed when the lease is given back, or lost, for good."""
        self.lease = task_runtime_of(system).lease = LocalLease(now, leases.store, system.root_path, self._lapsed)
        self._acts: dict[Action, Callable[[float], None]] = {
            Action.LOOK: self._look,
            Action.ACQUIRE: self._acquire,
            Action.RENEW: self._renew,
            Action.RELEASE: self._release,
            Action.OPEN: self._open,
            Action.START: self._start,
            Action.STOP: self._stop,
            Action.KILL: self._kill,
        }

    def __repr__(self) -> str:
        return f"<LeaseKeeper of {self._system.root_path} {self._candidate!r}>"

    # -- what others see -----------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """Which part this process plays."""
        return self._played.role

    @property
    def holder(self) -> str | None:
        """Leader, as far as is known."""
        if self.role == "leader":
            return self._ha.holder
        row = self._candidate.row
        knows = self.role == "standby" and not self._candidate.token and row is not None and row.token
        return row.holder if row is not None and knows else None

    def facts(self, role: Role) -> dict[str, Any]:
        """For a snapshot."""
        candidate = self._candidate
        row = candidate.row
        ends = candidate.sent + self._ha.lease_s if role == "leader" else candidate.due
        known = self.holder is not None
        return {
            "holder": self.holder,
            "token": candidate.token or (row.token if row is not None else 0),
            "lease_left_s": max(0.0, ends - self._now()) if known else None,
            "role_reason": self._reason(role),
        }

    def _reason(self, role: Role) -> str | None:
        candidate = self._candidate
        if role == "standby" and candidate.token:
            return "is taking over"
        return candidate.lost or (_text(candidate.error) if candidate.error is not None else None)

    def not_leader(self, path: str) -> NotLeaderError:
        """Why a standby does nothing."""
        row, holder = self._candidate.row, self.holder
        return NotLeaderError(path, holder or "", row.token if row is not None and holder is not None else 0)

    def wait_for(self, role: Role, timeout: float | None) -> bool:
        """Wait until this process plays this part, or cannot any more."""
        return self._played.wait_for(role, timeout)

    # -- what others say -----------------------------------------------------------------------------------

    def start(self) -> Reply:
        """Begin; completed when it is known whether this process leads or waits, failed where it can do neither."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._candidate.cause = error
            self._finish()
        return self._settled

    def leave(self) -> None:
        """Take the owner's order to end."""
        self._hear(self._candidate.leave)

    def lease_lost(self, error: BaseException) -> None:
        """A write was refused: another one leads."""
        self.lease.end()
        self._successor = getattr(error, "holder", "")
        self._hear(lambda _: self._candidate.lease_lost(f"a write was refused ({error})"))

    def store_failed(self, error: BaseException) -> None:
        """Nothing can be written here any more: somebody else must lead."""
        self.lease.end()
        self._hear(lambda _: self._candidate.store_failed(error))

    def _lapsed(self) -> None:
        """Something was about to be started and found the lease over."""
        self._hear(
            lambda _: self._candidate.lease_lost("its time was over before it was renewed (was the process frozen?)")
        )

    def down(self) -> None:
        """The tree is down and its last write kept; returns when the lease is given back."""
        system = self._system
        error = system.exit.error if system.exit is not None else None
        clean = not system.strays.incarnations

        def heard(now: float) -> None:
            if isinstance(error, StartError):
                self._candidate.broke(error, now)
            self._candidate.down(now, clean=clean)

        self._hear(heard)
        if threading.current_thread() is not self._thread:
            self.over.wait(self._ha.lease_s)

    def _hear(self, fact: Callable[[float], None]) -> None:
        self._heard.append(fact)
        self._wakeup.give()

    # -- its thread ----------------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            while not self.over.done:
                for fact in self._next():
                    fact(self._now())
                now = self._now()
                for do in self._candidate.step(now):
                    self._acts[do](now)
                self._show()
                if self._candidate.phase is CandidatePhase.OVER:
                    self._finish()
        except BaseException as error:  # noqa: BLE001 - a tree that nobody keeps the lease for must not go on
            self._system.reports.internal_error(error)
            self._candidate.phase, self._candidate.lost = CandidatePhase.OVER, f"its keeper died of {_text(error)}"
            with ExitStack() as ending:  # whatever one of these raises, the others are done
                ending.callback(self._finish)
                ending.callback(self._show)
                ending.callback(self._kill, self._now())

    def _next(self) -> list[Callable[[float], None]]:
        """Wait for something to be heard, or for the time to look again."""
        left = self._candidate.wake_at() - self._now()
        if not self._heard and left > 0:
            self._wakeup.sleep(min(left, LONGEST_S))
        return [self._heard.popleft() for _ in range(len(self._heard))]

    def _show(self) -> None:
        """Tell of a new role, and whoever waits for the first one."""
        candidate = self._candidate
        role = "stopped" if candidate.lost is not None else _ROLES.get(candidate.phase, self.role)
        changed = role != self.role
        if changed or (candidate.settled and not self._settled.done):
            self._system.publish(self._event(role))
        if changed:
            self._played.change(role)
        if candidate.settled and candidate.phase is not CandidatePhase.OVER:
            self._settled.complete(role)

    def _event(self, role: Role) -> RoleChanged:
        candidate, path = self._candidate, self._system.root_path
        if role == "leader":
            return RoleChanged(path, role, candidate.token, "it has the lease, and what was unfinished goes on")
        row = candidate.row
        if role == "standby":
            holder = row.holder if row is not None else "nobody"
            return RoleChanged(path, role, row.token if row is not None else 0, f"{holder} leads")
        if candidate.lost is not None:
            return RoleLost(path, role, candidate.token, candidate.lost)
        if candidate.cause is not None:
            return RoleLost(path, role, candidate.token, _text(candidate.cause))
        return RoleChanged(path, role, candidate.token, "it was stopped")

    # -- what is to be done --------------------------------------------------------------------------------

    def _request(self, sent: float, ask: Callable[[], Any], answered: Callable[[float, Any, float], None]) -> None:
        """Ask the store, on a thread of its own: it may hang."""

        def run() -> None:
            try:
                answer = ask()
            except Exception as caught:  # noqa: BLE001 - whatever a driver raises, it is no answer
                self._failed(sent, caught)
            else:
                self._hear(lambda now: answered(sent, answer, now))

        try:
            threading.Thread(target=run, name=f"{self._system.root_path}-lease", daemon=True).start()
        except RuntimeError as refused:  # the machine gives no thread: that is no answer either
            self._failed(sent, refused)

    def _failed(self, sent: float, error: BaseException) -> None:
        final = isinstance(error, StoreBusyError)
        self._hear(lambda now: self._candidate.failed(sent, error, now, final=final))

    def _look(self, sent: float) -> None:
        self._request(sent, self._leases.look, self._candidate.seen)

    def _acquire(self, sent: float) -> None:
        self._request(sent, self._leases.acquire, self._answered)

    def _renew(self, sent: float) -> None:
        token = self._candidate.token
        self._request(sent, lambda: self._leases.renew(token), self._answered)

    def _answered(self, sent: float, answer: int | LeaseState, now: float) -> None:
        """The lease was taken or renewed, or is another one's."""
        if isinstance(answer, LeaseState):
            self._candidate.seen(sent, answer, now)
        else:
            self._candidate.granted(sent, answer, now)
            if answer == self._candidate.token:
                self.lease.extend(answer, sent + self._ha.kill_s)

    def _release(self, sent: float) -> None:
        self.lease.end()
        token = self._candidate.token
        self._request(sent, lambda: self._leases.release(token), lambda at, _, __: self._candidate.released(at))

    def _open(self, _: float) -> None:
        token = self._candidate.token

        def run() -> None:
            try:
                self._open_store(token)
            except Exception as caught:  # noqa: BLE001 - as above
                error = caught
                self._hear(lambda now: self._candidate.broke(error, now))
            else:
                self._hear(self._candidate.opened)
            finally:
                self._opening.complete()

        try:
            threading.Thread(target=run, name=f"{self._system.root_path}-takeover", daemon=True).start()
        except RuntimeError as refused:
            self._opening.complete()
            self._candidate.broke(refused, self._now())

    def _start(self, _: float) -> None:
        system = self._system
        self._begun = True
        system.before_end(self.down)
        started = system.start()
        started.when_done(lambda: self._started(started))

    def _started(self, started: Reply) -> None:
        """All is up; the role changes when what was unfinished goes on. Where it is not, its end will be heard."""

        def look() -> None:
            if resumed.succeeded:
                self._hear(lambda _: self._candidate.up())

        if started.succeeded:
            resumed = task_runtime_of(self._system).resumed()
            resumed.when_done(look)

    def _stop(self, _: float) -> None:
        error = self._why()
        if isinstance(error, LeaseLostError):
            self._system.fail(error, self._ha.lease_s)  # the candidate has it killed long before that
        else:
            self._system.stop()

    def _kill(self, _: float) -> None:
        self.lease.end()
        error = self._why()
        if error is not None:
            self._system.fail(error, 0.0)
        self._system.kill()

    def _why(self) -> ActorsError | None:
        """Why it ends, where nobody had asked for that."""
        candidate, path = self._candidate, self._system.root_path
        if candidate.lost is not None:
            row = candidate.row
            holder = row.holder if row is not None and row.token > candidate.token else self._successor
            why = f"{path!r} is not led by this process any more (its token was {candidate.token}): {candidate.lost}"
            return LeaseLostError(self._leases.store, path, holder, why)
        cause = candidate.cause
        if cause is None or isinstance(cause, ActorsError):
            return cause
        error = StoreError(self._leases.store, f"the lease of {path!r} cannot be had ({_text(cause)})")
        error.__cause__ = cause
        return error

    def _finish(self) -> None:
        """The lease is given back or lost, and everybody was told: let go of all."""
        system, error = self._system, self._why()
        self.lease.end()
        try:
            self._leases.close()
        except Exception as caught:  # noqa: BLE001 - whatever a driver raises, everybody who waits must hear of the end
            system.reports.internal_error(caught)
        if error is not None and system.cause is None:
            system.cause = error
        self.over.complete()
        if not self._begun:
            self._opening_ended()
            system.close_unstarted()
        failure = error or StartError(system.root_path, "was stopped while it started")
        system.ended.when_done(lambda: self._settled.fail(failure))

    def _opening_ended(self) -> None:
        """Close what was opened while the journals were read, which cannot be interrupted."""
        if self._candidate.token:
            self._opening.wait(self._ha.lease_s)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
