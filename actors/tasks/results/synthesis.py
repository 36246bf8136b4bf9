"""From results to one output. The default keeps every result as it is, under its subtask's id."""

from __future__ import annotations

from typing import Any

from actors.model.errors import Failed
from actors.tasks.execution.packing import GOAL, Part, pack, parts_of, shown_here
from actors.tasks.model.model_call import answer_of, as_call, ask_for_words, name_of_call
from actors.tasks.model.task import Task


class Verbatim:
    """The default: every result, word for word, under its subtask's id."""

    def combine(self, task: Task, results: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - as every synthesizer
        """The results."""
        return dict(results)

    def __repr__(self) -> str:
        return "Verbatim()"


class Last:
    """The result of the last subtask of the plan that has one."""

    def combine(self, task: Task, results: dict[str, Any]) -> Any:  # noqa: ARG002 - as every synthesizer
        """The last result; None where there is none."""
        return next(reversed(results.values()), None)

    def __repr__(self) -> str:
        return "Last()"


class NoAnswerError(Failed):
    """A model has answered nothing."""


class ModelSynthesizer:
    """Has a model write the output.

    Args:
        call: ``call(prompt) -> output``, sync or async; or ``(output, Usage)``. One that takes ``(prompt, schema)``, as
            those of planners and reviewers, is given None as the schema. Or a model: a pydantic-ai model, its name
            (``"openai:gpt-..."``), a pydantic-ai ``Agent``, a chat model of LangChain.
    """

    def __init__(self, call: Any) -> None:
        self.call = as_call(call)

    def __repr__(self) -> str:
        return f"ModelSynthesizer({name_of_call(self.call)})"

    async def combine(self, task: Task, results: dict[str, Any]) -> Any:
        """Return what the model made of the results."""
        return self.read(await answer_of(self.ask(task, results)))

    def ask(self, task: Task, results: dict[str, Any]) -> Any:
        """The first half of ``combine``: the model's answer, or an awaitable of that."""
        return ask_for_words(self.call, self.prompt(task, results))

    @staticmethod
    def read(answer: Any) -> Any:
        """The second half: the answer as it is; raises ``NoAnswerError`` where it is nothing."""
        if answer is None or (isinstance(answer, (str, bytes)) and not answer.strip()):
            raise NoAnswerError("the model has answered nothing")
        return answer

    @staticmethod
    def prompt(task: Task, results: dict[str, Any]) -> str:
        """Return the text that the model is given."""
        shown, goal = shown_here(), Part("Goal", task.goal, GOAL)
        found = parts_of(results, shown.notes)
        pack([goal, *found], shown.tokens)
        rule = "Answer the goal from these results. Use all of them; add nothing that is not there."
        return "\n\n".join([f"Goal: {goal.text}", rule, *(f"## {part.title}\n{part.text}" for part in found)])


def is_inline(synthesizer: object) -> bool:
    """True for those that are pure and quick."""
    return type(synthesizer) in {Verbatim, Last}
