"""Reviews: what a reviewer returned as a verdict, what is wrong with that, and what runs again. Pure.

What a reviewer returns is read like what a planner returns: a ``Verdict``, a bool, ``(passed, feedback)``, a list of
checks, a dict, or the JSON of one of these, in a fence or with prose around it. A verdict that cannot be read, that
contradicts itself or that sends something back without a word is handed back to the reviewer, once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from actors.model.errors import ConfigError, Problem
from actors.tasks.model.answer_text import InvalidAnswerError, answer_data
from actors.tasks.model.policy import Check, Verdict
from actors.validation.validation_messages import type_phrase

HINT: Final = 'Return Verdict(passed, checks=[Check(subtask, passed, feedback)]), or {"passed": ..., "checks": [...]}.'
_PAIR: Final = 2


def as_verdict(value: object, subtasks: Collection[str] = ()) -> Verdict:
    """Return a reviewer's verdict, of whatever it returned.

    Args:
        value: what it returned.
        subtasks: ids of the subtasks whose results it has seen: a word on all of them is one on each.

    Raises:
        InvalidAnswerError: it is nothing of the kind.
    """
    if isinstance(value, Verdict):
        return value
    said = as_fields(answer_data(value, "verdict", HINT))
    if isinstance(said, (list, tuple)) or (isinstance(said, Mapping) and said and set(subtasks).issuperset(said)):
        said = {"checks": said}
    if not isinstance(said, Mapping):
        raise _invalid("verdict", f"a reviewer returned {type_phrase(said)}")
    passed, checks, feedback = said.get("passed"), said.get("checks") or [], said.get("feedback")
    if isinstance(checks, Mapping):
        checks = [_of_subtask(id_, each) for id_, each in checks.items()]
    if not isinstance(checks, (list, tuple)):
        raise _invalid("verdict.checks", f"expected a list, got {type_phrase(checks)}")
    if passed is None and not checks:
        raise _invalid("verdict", "has neither 'passed' nor checks that say it")
    if not isinstance(passed, (bool, type(None))):
        raise _invalid("verdict.passed", f"expected true or false, got {type_phrase(passed)}")
    if passed is False and feedback and not checks:
        checks = [{"subtask": id_, "passed": False, "feedback": feedback} for id_ in subtasks]
    read = _checks(checks)
    return Verdict(passed=all(check.passed for check in read) if passed is None else passed, checks=read)


def as_fields(said: object) -> object:
    """Return a bool, or ``(passed, feedback)``, as the fields of a verdict or a check; anything else as it is."""
    if isinstance(said, bool):
        return {"passed": said}
    if isinstance(said, (list, tuple)) and len(said) == _PAIR and isinstance(said[0], bool):
        return {"passed": said[0], "feedback": said[1]}
    return said


def _of_subtask(id_: object, said: object) -> object:
    fields = as_fields(said)
    return {"subtask": str(id_), **fields} if isinstance(fields, Mapping) else said


def _invalid(path: str, what: str) -> InvalidAnswerError:
    return InvalidAnswerError((Problem(path, what, HINT),))


def _checks(entries: Collection[Any]) -> list[Check]:
    checks, problems = [], list[Problem]()
    for at, entry in enumerate(entries):
        where = f"verdict.checks[{at}]"
        if isinstance(entry, Check):
            checks.append(entry)
        elif not isinstance(entry, Mapping):
            problems.append(Problem(where, f"{type_phrase(entry)} is not a check", HINT))
        else:
            try:
                checks.append(Check(**{str(name): each for name, each in entry.items() if each is not None}))
            except ConfigError as error:
                problems += [Problem(f"{where}.{one.path}", one.what, one.hint) for one in error.problems]
    if problems:
        raise InvalidAnswerError(tuple(problems))
    return checks


# -- what follows from one -----------------------------------------------------------------------------------


class Findings(NamedTuple):
    """Subtasks that have not passed, and what the reviewer says of each."""

    passed: bool
    failed: dict[str, str]


def findings(verdict: Verdict) -> Findings:
    """Return which subtasks have not passed; of two checks of one subtask both are told."""
    failed: dict[str, str] = {}
    for check in verdict.checks:
        if not check.passed:
            before = failed.get(check.subtask, "")
            said = ": ".join(text for text in (check.criterion.strip(), check.feedback.strip()) if text)
            failed[check.subtask] = "\n".join(text for text in (before, said) if text)
    return Findings(verdict.passed and not failed, failed)


def problems_of(
    verdict: Verdict, known: Collection[str], again: Collection[str], planned: Collection[str] = ()
) -> tuple[Problem, ...]:
    """Find what a reviewer has to be told about its verdict.

    Args:
        verdict: as it was read.
        known: subtasks whose results it has seen.
        again: subtasks that would run again because of it.
        planned: subtasks of the task. That one of them has passed may be said again, or before its time: nothing
            follows from it. A reviewer may have a word on each that it was ever asked about.
    """
    failed = findings(verdict).failed
    problems = []
    idle = {check.subtask for check in verdict.checks if check.subtask in planned} - failed.keys()
    strange = sorted({check.subtask for check in verdict.checks} - idle - set(known))
    if strange:
        what = f"the verdict speaks of {', '.join(strange)}, which have no result here"
        problems.append(Problem("verdict.checks", what, f"Speak of {', '.join(known) or 'nothing'} only."))
    if verdict.passed and failed:
        what = f"passed is true, and {', '.join(failed)} did not pass"
        problems.append(Problem("verdict", what, "Say passed=false, or let all checks pass."))
    if not verdict.passed and verdict.checks and not failed:
        what = "passed is false, and all checks have passed"
        problems.append(Problem("verdict", what, "Say which subtask did not pass, and what is to be better."))
    problems += [
        Problem(f"verdict.checks of {id_}", "has not passed, and has no feedback", "Say what is to be better.")
        for id_, text in failed.items()
        if not text and id_ in again
    ]
    return tuple(problems)


def problems_of_person(verdict: Verdict, known: Collection[str]) -> tuple[Problem, ...]:
    """Find what a person has to be told about a verdict: a no is never taken for a yes."""
    problems = problems_of(verdict, known, known)
    if not verdict.passed and not verdict.checks:
        hint = "Say which subtask did not pass, and what is to be better; or answer Respond(text), or Reject(reason)."
        problems += (Problem("verdict", "passed is false, and nothing is to run again", hint),)
    return problems


def told(failed: Mapping[str, str]) -> str:
    """Say in a line what has not passed, and why."""
    return "; ".join(f"{id_}: {text}" if text else id_ for id_, text in failed.items())
