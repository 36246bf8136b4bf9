"""From results to one output. The default keeps every result as it is, under its subtask's id."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import to_jsonable_python

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


class ModelSynthesizer:
    """Has a model write the output: ``call(prompt)`` is any callable, sync or async, that returns it."""

    def __init__(self, call: Callable[[str], Any]) -> None:
        self.call = call

    def __repr__(self) -> str:
        return f"ModelSynthesizer({getattr(self.call, '__qualname__', type(self.call).__qualname__)})"

    async def combine(self, task: Task, results: dict[str, Any]) -> Any:
        """Return what the model made of the results."""
        answer = self.ask(task, results)
        return self.read(await answer if inspect.isawaitable(answer) else answer)

    def ask(self, task: Task, results: dict[str, Any]) -> Any:
        """The first half of ``combine``: the model's answer, or an awaitable of that."""
        return self.call(self.prompt(task, results))

    @staticmethod
    def read(answer: Any) -> Any:
        """The second half: the answer as it is."""
        return answer

    @staticmethod
    def prompt(task: Task, results: dict[str, Any]) -> str:
        """Return the text that the model is given."""
        parts = [
            f"Goal: {task.goal}",
            "Answer the goal from these results. Use all of them; add nothing that is not there.",
        ]
        parts += [
            f"## {id_}\n{value if isinstance(value, str) else json.dumps(value)}" for id_, value in results.items()
        ]
        return "\n\n".join(parts)


_SHIPPED: Final = frozenset({Verbatim, Last})


def is_inline(synthesizer: object) -> bool:
    """True for those that are pure and quick."""
    return type(synthesizer) in _SHIPPED


def json_form(value: object) -> Any:
    """The output as it is kept.

    Raises:
        PydanticSerializationError: it is nothing that JSON can be made of.
    """
    return to_jsonable_python(value)
