"""Settings for several processes that lead one tree in turn, and the times that follow from them.

What they mean, and what they guarantee, is said in ``trees.ha``.
"""

from __future__ import annotations

import os
import platform
from typing import Annotated

from pydantic import Field

from actors.validation import field_types
from actors.validation.spec_model import SpecModel

RENEW_AT, STOP_AT, KILL_AT = 1 / 5, 1 / 2, 3 / 4
"""Parts of the lease: see ``trees.ha``. Renewing at a fifth, not a third, leaves a store three tenths to come back."""
POLL_AT, LONGEST_POLL_S = 1 / 4, 1.0
REQUEST_AT, SHORTEST_REQUEST_S = 1 / 8, 0.2
"""After how long a request to the store counts as lost, so that the next one can be sent."""
RETRY_AT = 1 / 40
"""How soon a request that failed is sent again."""


class HA(SpecModel, frozen=True, kw_only=False):
    """Several processes start the same tree on the same store: one leads, the others wait and take over.

    Raises ``ConfigError`` with every problem of it.
    """

    lease_s: field_types.LeaseTime = 10.0
    """Seconds until a leader that has died is replaced (and a second more). The store must answer within three tenths
    of this at all times, else the leader stops. All candidates must have the same."""
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The name of this process, for the others. ``None``: its host and process id."""

    @property
    def holder(self) -> str:
        """Name of this process for the others."""
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
