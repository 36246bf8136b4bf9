"""Reviews: what a reviewer returned as a verdict, what is wrong with that, and what runs again. Pure.

What a reviewer returns is read like what a planner returns: a ``Verdict``, a bool, ``(passed, feedback)``, a list of
checks, a dict, or the JSON of one of these, in a fence or with prose around it. A verdict that cannot be read, that
contradicts itself or that sends something back without a word is handed back to the reviewer, once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from actors.model.errors import ConfigError, Problem
from actors.tasks.model import InvalidAnswerError, Verdict, answer_data
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
    if passed is None and not checks:
        raise _invalid("verdict", "has neither 'passed' nor checks that say it")
    if passed is False and feedback and not checks:
        checks = [{"subtask": id_, "passed": False, "feedback": feedback} for id_ in subtasks]
    if isinstance(checks, (list, tuple)):
        checks = [_given(each) if isinstance(each, Mapping) else each for each in checks]
    try:
        read = Verdict(passed=True if passed is None else passed, checks=checks)
    except ConfigError as error:
        raise InvalidAnswerError(error.problems) from None
    return Verdict(passed=read.passed and (passed is not None or not not_passed(read)), checks=read.checks)


def _given(fields: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): each for name, each in fields.items() if each is not None}


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


# -- what follows from one -----------------------------------------------------------------------------------


def not_passed(verdict: Verdict) -> dict[str, str]:
    """Return the subtasks that have not passed, with what is said of each; of two checks of one both are told."""
    failed: dict[str, str] = {}
    for check in verdict.checks:
        if not check.passed:
            before = failed.get(check.subtask, "")
            said = ": ".join(text for text in (check.criterion.strip(), check.feedback.strip()) if text)
            failed[check.subtask] = "\n".join(text for text in (before, said) if text)
    return failed


def problems_of(verdict: Verdict, known: Collection[str], again: Collection[str]) -> tuple[Problem, ...]:
    """Find what a reviewer has to be told about its verdict.

    That something has passed which it was not shown means nothing.

    Args:
        verdict: as it was read.
        known: subtasks whose results it has seen.
        again: subtasks that would run again because of it.
    """
    failed, problems = not_passed(verdict), []
    strange = sorted(failed.keys() - set(known))
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
