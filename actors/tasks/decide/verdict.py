"""Reviews: what a reviewer returned as a verdict, what is wrong with that, and what runs again. Pure.

What a reviewer returns is read like what a planner returns: a ``Verdict``, a bool, ``(passed, feedback)``, a list of
checks, a dict, or the JSON of one of these, in a fence or with prose around it. A verdict that cannot be read, that
contradicts itself or that sends something back without a word is handed back to the reviewer, once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from actors.model.errors import ConfigError, Problem
from actors.tasks.model.answer_text import json_in
from actors.tasks.model.policy import Check, Verdict
from actors.validation.validation_messages import type_phrase

_HINT: Final = 'Return Verdict(passed, checks=[Check(subtask, passed, feedback)]), or {"passed": ..., "checks": [...]}.'
_PAIR: Final = 2


class InvalidVerdictError(ConfigError, ValueError):
    """The answer of a reviewer is no verdict; ``problems`` and the text say why, in words that a model can be told."""

    def __str__(self) -> str:
        return "this is not a verdict:" + "".join(f"\n  {problem}" for problem in self.problems)


def as_verdict(value: object, subtasks: Collection[str] = ()) -> Verdict:
    """Return a reviewer's verdict, of whatever it returned.

    Args:
        value: what it returned.
        subtasks: ids of the subtasks whose results it has seen: a word on all of them is one on each.

    Raises:
        InvalidVerdictError: it is nothing of the kind.
    """
    if isinstance(value, Verdict):
        return value
    if isinstance(value, (str, bytes, bytearray)):
        value = parsed_answer(value)
    if isinstance(value, bool):
        return Verdict(passed=value)
    if isinstance(value, Mapping):
        return _of_mapping(value, subtasks)
    if isinstance(value, (list, tuple)):
        if len(value) == _PAIR and isinstance(value[0], bool):
            return _of_all(value[0], value[1] or "", subtasks)
        return _of_checks(value, None)
    raise _invalid("verdict", f"a reviewer returned {type_phrase(value)}")


def _invalid(path: str, what: str) -> InvalidVerdictError:
    return InvalidVerdictError((Problem(path, what, _HINT),))


def parsed_answer(text: str | bytes | bytearray) -> object:
    """Return the JSON of a text; raises ``InvalidVerdictError`` where it holds none."""
    try:
        return json_in(text)
    except ValueError:
        raise _invalid("verdict", f"{len(text)} characters that hold no JSON") from None


def _of_mapping(value: Mapping[Any, Any], subtasks: Collection[str]) -> Verdict:
    if "passed" not in value and "checks" not in value:
        known = frozenset(subtasks)
        if value and known.issuperset(value):
            return _of_checks([_named(str(id_), each) for id_, each in value.items()], None)
        raise _invalid("verdict", "has neither 'passed' nor 'checks'")
    passed = value.get("passed")
    if passed is not None and not isinstance(passed, bool):
        raise _invalid("verdict.passed", f"expected true or false, got {type_phrase(passed)}")
    checks = value.get("checks")
    if isinstance(checks, Mapping):
        checks = [_named(str(id_), each) for id_, each in checks.items()]
    if checks is None or (isinstance(checks, (list, tuple)) and not checks):
        if passed is None:
            raise _invalid("verdict", "has no 'passed', and no checks that say it")
        return _of_all(passed, value.get("feedback") or "", subtasks)
    if not isinstance(checks, (list, tuple)):
        raise _invalid("verdict.checks", f"expected a list, got {type_phrase(checks)}")
    return _of_checks(checks, passed)


def _named(id_: str, said: object) -> object:
    """Check of one subtask, by its id: a bool, ``(passed, feedback)``, or a dict."""
    if isinstance(said, bool):
        return {"subtask": id_, "passed": said}
    if isinstance(said, (list, tuple)) and len(said) == _PAIR and isinstance(said[0], bool):
        return {"subtask": id_, "passed": said[0], "feedback": said[1]}
    return {"subtask": id_, **said} if isinstance(said, Mapping) else said


def _of_all(passed: bool, feedback: object, subtasks: Collection[str]) -> Verdict:
    """One word on all results: with feedback each of them is sent back with it."""
    if not isinstance(feedback, str):
        raise _invalid("verdict.feedback", f"expected a text, got {type_phrase(feedback)}")
    if passed or not feedback.strip():
        return Verdict(passed=passed)
    return Verdict(passed=False, checks=[Check(id_, passed=False, feedback=feedback) for id_ in subtasks])


def _of_checks(entries: list[Any] | tuple[Any, ...], passed: bool | None) -> Verdict:
    """Verdict of a list of checks; it has passed where all of them have, unless it says something else."""
    checks, problems = [], list[Problem]()
    for at, entry in enumerate(entries):
        where = f"verdict.checks[{at}]"
        if isinstance(entry, Check):
            checks.append(entry)
        elif not isinstance(entry, Mapping):
            problems.append(Problem(where, f"{type_phrase(entry)} is not a check", _HINT))
        else:
            try:
                checks.append(Check(**{str(name): each for name, each in entry.items() if each is not None}))
            except ConfigError as error:
                problems += [Problem(f"{where}.{one.path}", one.what, one.hint) for one in error.problems]
    if problems:
        raise InvalidVerdictError(tuple(problems))
    return Verdict(passed=all(check.passed for check in checks) if passed is None else passed, checks=checks)


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
