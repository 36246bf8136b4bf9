"""From results to one output. The default keeps every result as it is, under its subtask's id."""

from __future__ import annotations

from functools import partial
from typing import Any

from actors.model.errors import Failed
from actors.tasks.execution.packing import GOAL, Part, pack, parts_of
from actors.tasks.execution.role_call import asked, shown_here
from actors.tasks.model import Task, as_call, ask_for_words


class Verbatim:
    """The default: every result, word for word, under its subtask's id."""

    def combine(self, task: Task, results: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - as every synthesizer
        """The results."""
        return dict(results)


class Last:
    """The result of the last subtask of the plan that has one."""

    def combine(self, task: Task, results: dict[str, Any]) -> Any:  # noqa: ARG002 - as every synthesizer
        """The last result; None where there is none."""
        return next(reversed(results.values()), None)


class ModelSynthesizer:
    """Has a model write the output.

    Args:
        call: ``call(prompt) -> output``, sync or async; or ``(output, Usage)``. One that takes ``(prompt, schema)``, as
            those of planners and reviewers, is given None as the schema. Or a model: a pydantic-ai model, its name
            (``"openai:gpt-..."``), a pydantic-ai ``Agent``, a chat model of LangChain.
    """

    def __init__(self, call: Any) -> None:
        self.call = as_call(call)

    async def combine(self, task: Task, results: dict[str, Any]) -> Any:
        """Return what the model made of the results."""
        return await asked(partial(self._ask, task, results), _read)

    def _ask(self, task: Task, results: dict[str, Any]) -> Any:
        """Call the model, and return its answer or an awaitable of it."""
        (tokens, notes), goal = shown_here(), Part("Goal", task.goal, GOAL)
        found = parts_of(results, notes)
        pack([goal, *found], tokens)
        rule = "Answer the goal from these results. Use all of them; add nothing that is not there."
        prompt = "\n\n".join([f"Goal: {goal.text}", rule, *(f"## {part.title}\n{part.text}" for part in found)])
        return ask_for_words(self.call, prompt)


def _read(answer: Any) -> Any:
    if answer is None or (isinstance(answer, (str, bytes)) and not answer.strip()):
        raise Failed("the model has answered nothing")
    return answer
