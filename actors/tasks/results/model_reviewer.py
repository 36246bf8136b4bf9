"""The reviewer that asks a model: every result is held against every criterion, each by itself.

The answer has a field for each subtask and in it one for each criterion, ``{"draft": {"c1": {"feedback": "", "passed":
true}}}``; its schema has the same, so that a model that is held to it says something of all. The verdict has a check
for each, and the feedback of a subtask names the criteria that it has not met.

A grader that fails is no "not good enough". A model that raises, hangs, answers no JSON, or says nothing of a criterion
is asked again: as ``Tasks(step_retry=...)`` says, or at once with what was wrong with its answer. Then
``on_step_failure`` decides. No subtask runs again because of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from actors.model.errors import ConfigError, Problem
from actors.tasks.decide.verdict import HINT, as_fields, as_verdict
from actors.tasks.execution.packing import GOAL, NO_NOTE, PLAN, Part, pack, parts_of
from actors.tasks.execution.role_call import asked, shown_here
from actors.tasks.model import Check, InvalidAnswerError, Plan, Task, Verdict, answer_data, as_call, ask
from actors.tasks.planning.model_planner import object_schema

DEFAULT_CRITERION: Final = "It does what its instruction asks for, and it serves the goal."
FEEDBACK_CHARS: Final = 500
"""Characters of a feedback, at most."""
_SUMMARY_CHARS: Final = 200
"""Characters that are shown of a result without a summary which has passed before."""
_MOST_CRITERIA: Final = 50
_MOST_PROBLEMS: Final = 20

_RULES: Final = """Judge every result by every criterion, each by itself. Answer with the JSON alone: for each subtask
and each criterion first feedback, which says what is to be better, then passed, true or false. Where it has passed,
feedback is empty."""


class ModelReviewer:
    """Has a model judge the results, by criteria.

    Args:
        call: ``call(prompt, schema) -> JSON``, sync or async: text, bytes or a dict, or ``(answer, Usage)``. ``schema``
            is the JSON schema of its answer (``review_schema``). Or a model: a pydantic-ai model, its name
            (``"openai:gpt-..."``), a pydantic-ai ``Agent``, a chat model of LangChain.
        criteria: sentences that hold for every good result. None: one, that it does what its instruction asks for.
    """

    def __init__(self, call: Any, criteria: Iterable[str] | None = None) -> None:
        self.call = as_call(call)
        given: Any = [DEFAULT_CRITERION] if criteria is None else criteria
        given = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else []
        if not 1 <= len(given) <= _MOST_CRITERIA or not all(isinstance(each, str) and each.strip() for each in given):
            hint = "Write criteria=['It names its source.', 'It is at most one page.']."
            raise ConfigError((Problem("ModelReviewer.criteria", f"expected 1 to {_MOST_CRITERIA} texts", hint),))
        self.criteria = tuple(each.strip() for each in given)

    async def review(self, task: Task, plan: Plan, results: dict[str, Any], feedback: str = "") -> Verdict:
        """Return the model's verdict; raises ``InvalidAnswerError`` where it is none."""

        def read(answer: object) -> Verdict:
            answer = answer_data(answer, "verdict", HINT)
            if isinstance(answer, Mapping) and answer and all(str(name) in results for name in answer):
                return _verdict(answer, results, self.criteria)
            return as_verdict(answer, results)

        return await asked(partial(self._ask, task, plan, results, feedback), read)

    def _ask(self, task: Task, plan: Plan, results: dict[str, Any], feedback: str) -> Any:
        """Call the model, and return its answer or an awaitable of it."""
        said = {subtask.id: subtask.instruction or task.goal for subtask in plan.subtasks}
        (tokens, notes), goal = shown_here(), Part("Goal", task.goal, GOAL)
        told = {id_: Part(id_, said.get(id_, ""), PLAN) for id_ in results}
        found = parts_of(results, notes)
        for part in found:
            if notes.get(part.title, NO_NOTE).passed and (part.summary or len(part.text) > _SUMMARY_CHARS):
                part.text = part.summary or f"{' '.join(part.text[:_SUMMARY_CHARS].split())} ..."
        pack([goal, *told.values(), *found], tokens)
        parts = [
            f"Goal:\n{goal.text}",
            "Criteria:\n" + "\n".join(f"{name}: {text}" for name, text in _named(self.criteria).items()),
            _RULES,
            *(f"## Subtask {part.title}\nInstruction: {told[part.title].text}\nResult:\n{part.text}" for part in found),
            f"Your last answer was refused. Correct all of this:\n{feedback}" if feedback else "",
        ]
        return ask(self.call, "\n\n".join(filter(None, parts)), review_schema(results, self.criteria))


def review_schema(subtasks: Iterable[str], criteria: Iterable[str] = (DEFAULT_CRITERION,)) -> dict[str, Any]:
    """Return the JSON schema that a review of these subtasks is held to: each has each criterion."""
    said = {"feedback": {"type": "string", "maxLength": FEEDBACK_CHARS}, "passed": {"type": "boolean"}}
    checks = {name: {"description": text, **object_schema(said)} for name, text in _named(criteria).items()}
    return {"title": "review", **object_schema({id_: object_schema(checks) for id_ in subtasks})}


def _named(criteria: Iterable[str]) -> dict[str, str]:
    """Criteria by the short names that the model calls them by."""
    return {f"c{n}": text for n, text in enumerate(criteria, 1)}


# -- the answer --------------------------------------------------------------------------------------------------


def _verdict(answer: Mapping[Any, Any], subtasks: Collection[str], criteria: tuple[str, ...]) -> Verdict:
    """Return the verdict of an answer by subtask and criterion.

    Raises:
        InvalidAnswerError: it says nothing of one, or no clear yes or no.
    """
    checks, problems = [], list[Problem]()
    named = _named(criteria)
    for id_ in subtasks:
        for name, text in named.items():
            said = answer.get(id_)
            if isinstance(said, Mapping) and "passed" not in said:
                said = said.get(name, said.get(text))  # some models answer with the text of the criterion
            elif len(named) > 1:
                said = None
            fields: Any = as_fields(said)
            passed = fields.get("passed") if isinstance(fields, Mapping) else None
            if not isinstance(passed, bool):
                hint = f'Write "{name}": {{"feedback": "...", "passed": true or false}}.'
                problems.append(Problem(f"verdict.{id_}.{name}", "says neither true nor false of this criterion", hint))
                continue
            feedback = "" if passed else str(fields.get("feedback") or "").strip()
            criterion = "" if feedback and text == DEFAULT_CRITERION else text
            checks.append(Check(id_, passed=passed, feedback=feedback, criterion=criterion))
    if problems:
        raise InvalidAnswerError(tuple(problems[:_MOST_PROBLEMS]))
    return Verdict(passed=all(check.passed for check in checks), checks=checks)
