"""Why a stream of Chat Completions has ended, as its server has said it: the SDK keeps that for servers of OpenAI only.

Of any other server the SDK takes a stream for whole whose connection was closed in the middle. So the chunks are looked
at on their way from the client to the SDK. That is done in a copy of the model, made for one request, and only for the
SDK's own class: a model of the user's own may have a state, and does what it wants.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import OpenAIChatCompletionsModel


class _Chunks:
    """The chunks of one stream, as they are, and whether one of them says why it ends."""

    def __init__(self, stream: Any, model: _EndingModel) -> None:
        self._stream = stream
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for chunk in self._stream:
            if any(choice.finish_reason for choice in chunk.choices or ()):
                self._model.has_ended = True
            yield chunk


class _EndingModel(OpenAIChatCompletionsModel):
    """A copy of a model of the SDK, for one request."""

    def __init__(self, model: OpenAIChatCompletionsModel) -> None:  # its own would look at what is looked at already
        own: Any = self
        vars(own).update(vars(model))
        self.has_ended: bool | None = None
        """True once the server has said why the stream ends; None: that cannot be seen in this version of the SDK."""

    async def _fetch_response(self, *args: Any, **kwargs: Any) -> Any:
        found: Any = await super()._fetch_response(*args, **kwargs)
        if not isinstance(found, tuple):
            return found
        self.has_ended = False
        response, stream = found
        return response, _Chunks(stream, self)


def ending(model: Any) -> Any:
    """Return a copy of a model of the SDK for one request: ``has_ended`` says what its stream has said. Else itself."""
    return _EndingModel(model) if type(model) is OpenAIChatCompletionsModel else model
