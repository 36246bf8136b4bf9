"""Retention of a store: how safe each commit is, and how long finished tasks stay."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from actors.validation import field_types
from actors.validation.spec_model import SpecModel

_DAY_S: Final = 24 * 3600.0
Durability: TypeAlias = Literal["process", "power"]
"""End that a commit survives: that of the process, or a power cut as well."""


class Keep(SpecModel, frozen=True, kw_only=False):
    """Retention of finished tasks: how many and how long; older ones go, with all that belongs to them.

    A task that is not finished is kept whatever is said here. Raises ``ConfigError`` with every problem of it.
    """

    age_s: field_types.StartTimeout = 30 * _DAY_S
    """Seconds after its end. ``None``: no limit."""
    count: Annotated[int, Field(ge=0)] | None = 10_000
    """Finished tasks, the newest ones. ``None``: no limit."""
