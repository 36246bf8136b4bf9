"""Estimate of what a plan will use up, known before anything of it runs.

Comes in: subtasks, and what workers declare as ``estimate=``: tokens, a ``Budget``, a ``Usage``, a dict of their
fields, or a callable of the subtask that gives one of these. Goes out: budgets, and what is wrong with an estimate.
This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from actors.tasks.model.executable import ExecutableInfo
from actors.tasks.model.task import Budget, Subtask, Usage
from actors.validation.field_types import MAX_SECONDS
from actors.validation.spec_model import copy_with
from actors.validation.validation_messages import listed, type_phrase, value_phrase

UNITS: Final = ("tokens", "cost", "seconds")
MOST: Final = {"tokens": 1e15, "cost": MAX_SECONDS, "seconds": MAX_SECONDS}
"""By unit: no estimate is more."""


class EstimateError(ValueError):
    """A worker's estimate is none; the text says why and shows nothing of the subtask."""


def estimate_of(subtask: Subtask, row: ExecutableInfo | None) -> Budget | None:
    """Return the estimate of a subtask: its own, else that of its worker; None: there is none.

    Raises ``EstimateError`` where the worker's estimate is none, or is a callable that raises.
    """
    if subtask.estimate is not None:
        return subtask.estimate
    if row is None or row.estimate is None:
        return None
    said = row.estimate
    if callable(said):
        try:
            said = said(subtask)
        except BaseException as error:
            raise EstimateError(f"the estimate of {row.id!r} raised {type(error).__name__}") from error
    return _as_budget(said, row.id)


def _as_budget(said: object, worker: str) -> Budget | None:
    if said is None or isinstance(said, Budget):
        return said
    if isinstance(said, Usage):
        return Budget(said.tokens, said.cost, said.seconds)
    if not isinstance(said, Mapping):
        said = {"tokens": said}
    odd = [key for key in said if key not in UNITS]
    if odd:
        raise EstimateError(
            f"the estimate of {worker!r} has {value_phrase(odd[0])}; its units are {listed(UNITS, 'and')}"
        )
    fit: dict[str, Any] = {}
    for unit, amount in said.items():
        if amount is None:
            continue
        if isinstance(amount, bool) or not isinstance(amount, (int, float)):
            raise EstimateError(f"the estimate of {worker!r}: expected a number of {unit}, got {type_phrase(amount)}")
        if not 0 <= amount <= MOST[unit]:
            raise EstimateError(f"the estimate of {worker!r} is {value_phrase(amount)} {unit}, which is out of range")
        fit[unit] = math.ceil(amount) if unit == "tokens" else amount
    return Budget(**fit)


def total_of(estimates: Iterable[Budget]) -> Budget:
    """Add up estimates, unit by unit. A unit that no estimate names has no sum."""
    total: dict[str, Any] = {}
    for estimate in estimates:
        for unit in UNITS:
            if (amount := getattr(estimate, unit)) is not None:
                total[unit] = total.get(unit, 0) + amount
    return copy_with(Budget(), **total)  # each number was checked, and their sum may be more than one of them may be


def exceedances(estimate: Budget, budget: Budget | None) -> list[str]:
    """Everything of which more is estimated than there is: ``estimated tokens 1200, budget 1000``."""
    found = []
    for unit in UNITS:
        wanted, there = getattr(estimate, unit), getattr(budget, unit, None)
        if wanted is not None and there is not None and wanted > there:
            found.append(f"estimated {unit} {wanted:.15g}, budget {there:.15g}")
    return found
