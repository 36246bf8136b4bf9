"""State machine of ``trees.ha``: what a candidate does next, with the time passed in.

Comes in: what was heard (of the store, of the tree, of the owner), each with the local time. Goes out: ``step``, what
is to be done now, each thing once, and ``wake_at``, when to ask again at the latest. It knows no threads, no clock and
no store; ``trees.ha.lease_keeper`` has them.

One request to the store is under way at a time. One that takes too long counts as failed and is not waited for; should
its answer come after all, it is heard like any other: that a lease was renewed, or taken, stays true.

A standby that takes over starts nothing while it reads the journals. So a store that is slow just then (it may have
come back a moment ago) ends nothing: the renewals go on, and the tree is started when the journals are read *and* the
lease is fresh. Only another one who has it meanwhile is the end. A process that has just been started is no standby
yet: its owner waits for ``start``, and hears that the store does not answer.
"""

from __future__ import annotations

import math
from enum import Enum, auto

from trees.ha.ha_settings import FIRST_ANSWER_S, FIRST_S, HA
from trees.store.lease_store import LeaseState

MOST_HUNG = 3
"""Requests that may hang at a time; then none is sent until one of them comes back."""


class CandidatePhase(Enum):
    """Where a candidate stands."""

    STANDBY = auto()
    OPENING = auto()
    """Holds the lease and reads the journals."""
    STARTING = auto()
    """Starts the tree, which takes up what was unfinished."""
    LEADING = auto()
    STOPPING = auto()
    """Ends the tree in order; the lease is still renewed."""
    KILLED = auto()
    """Ends the tree at once."""
    RELEASING = auto()
    """All is down: the lease is given back."""
    OVER = auto()


class Action(Enum):
    """One thing to do."""

    LOOK = auto()
    ACQUIRE = auto()
    RENEW = auto()
    RELEASE = auto()
    OPEN = auto()
    """Read the journals."""
    START = auto()
    """Start the tree."""
    STOP = auto()
    """End the tree in order."""
    KILL = auto()
    """End it at once."""


HOLDING = frozenset({CandidatePhase.OPENING, CandidatePhase.STARTING, CandidatePhase.LEADING, CandidatePhase.STOPPING})
"""The lease is ours and has to be renewed."""


class Candidate:
    """One process that leads or would lead."""

    def __init__(self, ha: HA, now: float) -> None:
        self._ha = ha
        self.phase = CandidatePhase.STANDBY
        self.row: LeaseState | None = None
        """Row of the lease, as it was last seen."""
        self.token = 0
        """Ours, once we have it."""
        self.cause: BaseException | None = None
        """Why it is not merely stopping, or could not begin."""
        self.lost: str | None = None
        """How the lease was lost, where it was."""
        self.settled = False
        """True once it is known whether this process leads or waits."""
        self.sent = -math.inf
        """When the last request was sent that got or renewed the lease: everything counts from here."""
        self.due = math.inf
        """When the lease of another is over, by our clock."""
        self._began = self._next = now
        """The latter: when the next request is due."""
        self._asked: tuple[Action, float] | None = None
        """The request that is waited for, and when it was sent."""
        self._hung = 0
        self.error: BaseException | None = None
        """Error of the last request; None: the store answers."""
        self._leaving = False
        """True once it is to end."""
        self._has_read = False
        """True once the journals are read."""
        self._todo: list[Action] = []

    def __repr__(self) -> str:
        return f"<Candidate {self.phase.name} token {self.token}>"

    # -- deciding ------------------------------------------------------------------------------------------

    def step(self, now: float) -> list[Action]:
        """Return the actions due now, in this order. Each is given once."""
        if self._must_renew:
            self._watch(now)
        if self._asked is not None and now >= self._asked[1] + self._limit:
            self._hung += 1
            self.failed(self._asked[1], TimeoutError(f"no answer within {self._limit:.3g} s"), now)
        if self.phase is CandidatePhase.RELEASING and self._asked is None and self._hung >= MOST_HUNG:
            self._end()  # nobody answers: it runs out
        request = self._request(now)
        if request is not None:
            self._asked = (request, now)
            self._todo.append(request)
        todo, self._todo = self._todo, []
        return todo

    def wake_at(self) -> float:
        """When ``step`` has something to say at the latest, if nothing is heard before."""
        ends = [self.sent + self._ha.kill_s] if self._must_renew else []
        if self._must_renew and self.lost is None and not self._leaving:
            ends.append(self.sent + self._ha.stop_s)
        if self._asked is not None:
            ends.append(self._asked[1] + self._limit)
        elif self.phase in HOLDING or self.phase is CandidatePhase.STANDBY:
            ends.append(self._next if self._hung < MOST_HUNG else math.inf)
        return min(ends, default=math.inf)

    @property
    def _must_renew(self) -> bool:
        """True where it ends if the lease is not renewed in time: something runs, or somebody waits for its start."""
        return self.phase in HOLDING and not (self.phase is CandidatePhase.OPENING and self.settled)

    @property
    def _limit(self) -> float:
        """How long a request may take."""
        is_first = not self.settled and self.phase not in HOLDING and not self._leaving
        return max(self._ha.request_s, FIRST_ANSWER_S) if is_first else self._ha.request_s

    def _watch(self, now: float) -> None:
        """A lease that was not renewed in time: first an end in order, then the other one."""
        late = now - self.sent
        if late >= self._ha.kill_s:
            self._lose(self._not_renewed(late))
        elif late >= self._ha.stop_s and self.phase is not CandidatePhase.STOPPING:
            self.lost = self.lost or self._not_renewed(late)
            self._stop()

    def _not_renewed(self, late: float) -> str:
        said = f" ({type(self.error).__name__}: {self.error})" if self.error is not None else ""
        return f"its lease could not be renewed for {late:.3g} of {self._ha.lease_s:.3g} s{said}"

    def _request(self, now: float) -> Action | None:
        if self._asked is not None or now < self._next or self._hung >= MOST_HUNG:
            return None
        if self.phase in HOLDING:
            return Action.RENEW
        if self.phase is CandidatePhase.RELEASING:
            self._next = math.inf
            return Action.RELEASE
        if self.phase is not CandidatePhase.STANDBY:
            return None
        free = self.row is not None and self.row.left_s <= 0 and now >= self.due
        return Action.ACQUIRE if free else Action.LOOK

    # -- hearing of the store ------------------------------------------------------------------------------

    def _answered(self, sent: float) -> Action | None:
        """Which request that was; None for one that was not waited for any longer."""
        if self._asked is None or self._asked[1] != sent:
            self._hung = max(0, self._hung - 1)
            return None
        request, self._asked = self._asked[0], None
        return request

    def seen(self, sent: float, row: LeaseState, now: float) -> None:
        """The lease is like this, and it is not ours."""
        request = self._answered(sent)
        if self.phase in HOLDING:
            if request is Action.RENEW or row.token > self.token:
                self.row = row
                self._lose(f"{row.holder} has taken over with token {row.token}")
        elif self.phase is CandidatePhase.RELEASING and request is Action.RELEASE:
            self._end()
        elif self.phase is CandidatePhase.STANDBY:
            self._look_at(row, now)

    def _look_at(self, row: LeaseState, now: float) -> None:
        """Decide if the lease can be had, and else when to look again."""
        if self._leaving:
            self._end()
            return
        before, self.row, self.error = self.row, row, None
        if before is None or (before.token, before.expires_at) != (row.token, row.expires_at):
            self.due = now + max(0.0, row.left_s)
        if row.left_s <= 0 and now >= self.due:
            self._next = now
        else:
            self.settled = True
            self._next = min(now + self._ha.poll_s, max(self.due, now + max(row.left_s, self._ha.retry_s)))

    def granted(self, sent: float, token: int, now: float) -> None:
        """The lease is ours, from ``sent`` on at the latest."""
        self._answered(sent)
        if self.phase is CandidatePhase.STANDBY and token > self.token:
            self.token = token
            self.phase = CandidatePhase.OPENING
            self._todo.append(Action.OPEN)
            if self._leaving:
                self._release(now)
        if token == self.token and sent > self.sent:
            self.sent = sent
            self.error = None
            if self.phase in HOLDING:
                self._next = sent + self._ha.renew_s
            self._start_if_fresh(now)

    def failed(self, sent: float, error: BaseException, now: float, *, final: bool = False) -> None:
        """A request was not answered, or with an error; ``final`` where there is no point in asking again soon."""
        request = self._answered(sent)
        self.error = error
        if self.phase in HOLDING:
            self._next = now + self._ha.retry_s
        elif self.phase is CandidatePhase.STANDBY and not self._leaving and self.settled:
            self._next = now + self._ha.poll_s
        elif self.phase is CandidatePhase.STANDBY and not self._leaving and not final and now < self._began + FIRST_S:
            self._next = now + self._ha.retry_s
        elif self.phase is CandidatePhase.STANDBY:
            self.cause = None if self._leaving else error  # it never knew who leads: whoever starts it hears of this
            self._end()
        elif self.phase is CandidatePhase.RELEASING and request is Action.RELEASE:
            self._end()  # then it runs out

    def released(self, sent: float) -> None:
        """The lease is given back."""
        self._answered(sent)
        if self.phase is CandidatePhase.RELEASING:
            self._end()

    # -- hearing of the tree -------------------------------------------------------------------------------

    def opened(self, now: float) -> None:
        """The journals are read."""
        self._has_read = True
        self._start_if_fresh(now)

    def _start_if_fresh(self, now: float) -> None:
        """Start the tree, if the journals are read and no renewal is missing; else the next renewal looks again."""
        is_fresh = now - self.sent < 2 * self._ha.renew_s
        if self.phase is CandidatePhase.OPENING and self._has_read and is_fresh:
            self.phase = CandidatePhase.STARTING
            self._todo.append(Action.START)

    def broke(self, error: BaseException, now: float) -> None:
        """Note that the journals could not be read, or the tree did not start; no failure if it was told to end."""
        if self.phase in {CandidatePhase.OPENING, CandidatePhase.STARTING}:
            self.cause = error
        if self.phase is CandidatePhase.OPENING:
            self._release(now)
        elif self.phase is CandidatePhase.STARTING:
            self.phase = CandidatePhase.STOPPING  # it ends by itself; ``down`` will be heard

    def up(self) -> None:
        """The tree is up, and what was unfinished goes on."""
        if self.phase is CandidatePhase.STARTING:
            self.phase = CandidatePhase.LEADING
            self.settled = True

    def lease_lost(self, why: str) -> None:
        """A write was refused, or something found the lease over: another one leads, or may."""
        if self.phase in HOLDING:
            self._lose(why)

    def store_failed(self, error: BaseException) -> None:
        """Nothing can be written any more: the tree ends at once, and the lease is given back when it is down."""
        self.cause = error
        if self.phase is CandidatePhase.OPENING:
            self._end()
        elif self.phase in HOLDING:
            self.phase = CandidatePhase.STOPPING
            self._todo.append(Action.KILL)

    def down(self, now: float, *, clean: bool) -> None:
        """All of the tree is down and its last write is kept; ``clean`` where nothing was left to itself."""
        if self.phase in HOLDING and clean:
            self._release(now)
        else:
            self._end()

    # -- hearing of its owner ------------------------------------------------------------------------------

    def leave(self, now: float) -> None:
        """Begin to end."""
        if self._leaving:
            return
        self._leaving = True
        if self.phase is CandidatePhase.STANDBY:
            if self._asked is None or self._asked[0] is not Action.ACQUIRE:
                self._end()  # else it may be ours in a moment, and would be nobody's for a whole lease
        elif self.phase is CandidatePhase.OPENING:
            self._release(now)
        elif self.phase in HOLDING:
            self._stop()

    # -- what follows --------------------------------------------------------------------------------------

    def _stop(self) -> None:
        if self.phase is CandidatePhase.OPENING:
            self._end()
        elif self.phase is not CandidatePhase.STOPPING:
            self.phase = CandidatePhase.STOPPING
            self._todo.append(Action.STOP)

    def _lose(self, why: str) -> None:
        self.lost = self.lost or why
        if self.phase is CandidatePhase.OPENING:
            self._end()
        else:
            self.phase = CandidatePhase.KILLED
            self._todo.append(Action.KILL)

    def _release(self, now: float) -> None:
        self.phase = CandidatePhase.RELEASING
        self._todo = [each for each in self._todo if each is not Action.OPEN]
        self._next = now

    def _end(self) -> None:
        self.phase = CandidatePhase.OVER
        self._todo.clear()
