"""Consequences of a verdict. Pure: no threads, no clock, no Pykka."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from actors.tasks.model.policy import Check, Verdict


def as_verdict(value: object) -> Verdict:
    """Return a reviewer's verdict, of what it returned: a ``Verdict``, a bool, or JSON of a verdict.

    Raises:
        TypeError: it is something else.
        ConfigError: it is JSON of something else.
    """
    if isinstance(value, Verdict):
        return value
    if isinstance(value, bool):
        return Verdict(passed=value)
    if isinstance(value, (str, bytes)):
        value = json.loads(value)
    if isinstance(value, Mapping):
        checks = [each if isinstance(each, Check) else Check(**each) for each in value.get("checks", [])]
        return Verdict(**{**value, "checks": checks})
    raise TypeError(f"a reviewer returns a Verdict; this one returned a {type(value).__name__}")


def rerun_of(verdict: Verdict, done: Collection[str], revision: int) -> dict[str, str]:
    """The subtasks that are to run again, each with its own feedback.

    Raises:
        ValueError: it speaks of subtasks that have no result.
    """
    known = set(done)
    strange = sorted({check.subtask for check in verdict.checks} - known)
    if strange:
        raise ValueError(f"the verdict speaks of {', '.join(strange)}, which have no result here")
    return {
        check.subtask: f"Revision {revision}: {check.feedback}".rstrip(": ")
        for check in verdict.checks
        if not check.passed
    }
