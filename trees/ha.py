"""One of several processes leads, the others wait: what a user writes (``HA``), and how a candidate stands.

``start(TREE, store=URL, ha=HA(lease_s=10))`` makes a *candidate*. Which one leads is a row in the store that they
share, the *lease* (``trees.store.lease``): who, until when by the store's clock, and the *token*, a number that grows
with every change of hands. ``trees.candidate`` decides what a candidate does; ``trees.keeper`` does it.

The states of a candidate::

    standby --the lease is free, or ran out--> opening --> starting --> leading
       |                                          |           |            |
       |                                          |           |   asked to stop, or no renewal for 1/2 of the lease
       |                                          |           |            v
       |                                          +-----------+-------> stopping --no renewal for 3/4--> killed
       |                                                      |            |                               |
       +--asked to stop--------------------------------------------------> over <-------- all is down -----+

Times, as parts of the lease, counted from *before* the last renewal that succeeded was sent, on a local clock that goes
on while the process or the machine sleeps:

* 1/5: the next renewal is sent; again and again where it fails.
* 1/2: it could not be renewed: the tree is stopped in order, and whatever comes, it is not started again.
* 3/4: nothing is started any more (``actors.tasks.lease``), and what still runs is killed.
* 1: the store lets another one have it. A standby looks every quarter of the lease, at most a second apart, and at the
  moment when the lease that it last saw runs out: so it takes over within the lease and a second.

What is guaranteed, and why:

* **One leads.** A row can be taken only where it is released, or its time is up by the store's one clock, and a standby
  that has watched it also waits until that is so by its own clock (a store whose clock is set forward gives nothing
  away). The leader counts from before it asked, the store from after: the leader's time is up first, by a quarter of
  the lease even if clocks run apart.
* **Nothing is started without the lease.** It is looked at where an attempt is given out, again where it begins, and
  before an undo or a step of a task. A process that was frozen finds its time over at its first look.
* **No old leader writes.** Each transaction of its store looks at the token first, under a lock of the row. One that
  finds another token keeps nothing, and its tree is killed.
* **Effects outside can be told apart.** A thread that Python cannot end may still be in the middle of something. So
  whatever an effect goes to should be told ``context.token`` and refuse one that is smaller than it has seen.
* **Nothing is lost.** Who takes over reads the journals after it has the token, so after the last write of the old
  leader that counts. It says that it leads when what was unfinished has been taken up again.
* **A clean stop hands over**: the lease is released when all is down and the last write is kept. Where a thread was
  left to itself it is not released; it runs out.

What it does not do: a process that is frozen in the middle of a write to SQLite holds the file's lock until it goes on
or dies, and nobody can take over before that.
"""

from __future__ import annotations

import os
import platform
from typing import Annotated

from pydantic import Field

from actors import fields
from actors.words import Words

RENEW_AT, STOP_AT, KILL_AT = 1 / 5, 1 / 2, 3 / 4
"""See above. Renewing at a fifth, and not at a third, leaves a store three tenths of the lease to come back in."""
POLL_AT, LONGEST_POLL_S = 1 / 4, 1.0
REQUEST_AT, SHORTEST_REQUEST_S = 1 / 8, 0.2
"""After how long a request to the store counts as lost, so that the next one can be sent."""
RETRY_AT = 1 / 40
"""How soon a request that failed is sent again."""
FIRST_S = 2.0
"""How long a process that has just been started tries to reach the store before it gives up."""


class HA(Words, frozen=True, kw_only=False):
    """Several processes start the same tree on the same store: one leads, the others wait and take over.

    Raises ``ConfigError`` with every problem of it.
    """

    lease_s: fields.LeaseTime = 10.0
    """Seconds after which a leader that has died is replaced, and a second more. The store must answer within three
    tenths of this at all times, else the leader stops. The same for all candidates."""
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What the others call this process; None: its host and process id."""

    @property
    def holder(self) -> str:
        """What the others call this process."""
        return self.name if self.name is not None else f"{platform.node() or 'localhost'}:{os.getpid()}"

    @property
    def renew_s(self) -> float:
        """Seconds from one renewal to the next."""
        return self.lease_s * RENEW_AT

    @property
    def stop_s(self) -> float:
        """Seconds without a renewal after which the tree is stopped."""
        return self.lease_s * STOP_AT

    @property
    def kill_s(self) -> float:
        """Seconds without a renewal after which nothing is started, and what runs is killed."""
        return self.lease_s * KILL_AT

    @property
    def poll_s(self) -> float:
        """Seconds between two looks of a standby."""
        return min(self.lease_s * POLL_AT, LONGEST_POLL_S)

    @property
    def request_s(self) -> float:
        """Seconds that a request to the store may take."""
        return max(self.lease_s * REQUEST_AT, SHORTEST_REQUEST_S)

    @property
    def retry_s(self) -> float:
        """Seconds until a renewal that failed is sent again."""
        return self.lease_s * RETRY_AT
