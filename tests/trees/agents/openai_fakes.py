"""Models of the OpenAI Agents SDK that do what a script says, offline."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from agents import Model, ModelResponse, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


def says(text: str, tokens: int = 10) -> ModelResponse:
    """An answer in words."""
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    message = ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")
    return ModelResponse(output=[message], usage=used(tokens), response_id=None)


def calls(*named: tuple[str, dict[str, Any]], tokens: int = 10, id_: str = "c") -> ModelResponse:
    """An answer that calls tools."""
    output = [
        ResponseFunctionToolCall(
            call_id=f"{id_}{place}", name=name, arguments=json.dumps(arguments), type="function_call"
        )
        for place, (name, arguments) in enumerate(named)
    ]
    return ModelResponse(output=list(output), usage=used(tokens), response_id=None)


def used(tokens: int) -> Usage:
    return Usage(requests=1, input_tokens=max(0, tokens - 1), output_tokens=min(tokens, 1), total_tokens=tokens)


class Scripted(Model):
    """Gives these answers, one after the other; an exception is raised, a function is called with the input."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.told: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002
        self.told.append(input)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Callable):  # type: ignore[arg-type]
            answer = answer(input)
        return await answer if hasattr(answer, "__await__") else answer

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
