"""How long a store keeps what is finished."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from actors import fields
from actors.words import Words

_DAY_S: Final = 24 * 3600.0


class Keep(Words, frozen=True):
    """Retention of finished tasks: how many and how long; older ones go, with all that belongs to them.

    A task that is not finished is kept whatever is said here. Raises ``ConfigError`` with every problem of it.
    """

    age_s: fields.StartTimeout = 30 * _DAY_S
    """Seconds after its end. ``None``: no limit."""
    count: Annotated[int, Field(ge=0)] | None = 10_000
    """Finished tasks, the newest ones. ``None``: no limit."""
