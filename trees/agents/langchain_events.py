"""Callbacks of LangChain in an attempt: what its models use up, and what they and their tools say while they run.

Usage is told to the attempt at once, so that it counts however that ends. Counted is every answer of a model, and every
message with ``usage_metadata`` that a node or a chain returns and that no model's answer has shown before: by the
message's id, or the object itself where it has none yet. Usage that the pieces of a streamed answer have told counts,
too, where the answer never ends.

Threads: LangChain calls a handler on the thread on which a thing happens, several at once where nodes run side by side.
``_lock`` guards the tables of this object; nothing is called while it is held.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import LLMResult

_DEPTH = 3
"""How deep in the output of a node messages are looked for."""


class AttemptEvents(BaseCallbackHandler):
    """Handler of one attempt.

    Args:
        context: of the attempt.
    """

    run_inline = True
    """Called where the thing happens: what it does takes no time to speak of."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._ids: set[str] = set()
        """Messages that are counted."""
        self._objects: dict[int, BaseMessage] = {}
        """Messages that were counted before they had an id, by that of the object; kept, so that it stays theirs."""
        self._partial: dict[UUID, int] = {}
        """Tokens that the pieces of answers have told that have not ended."""

    def knows(self, values: Any) -> None:
        """Note the messages in a state that an attempt before this one has left: that has counted them."""
        with self._lock:
            for message in _messages(values, _DEPTH):
                self._note(message)

    # -- models -----------------------------------------------------------------------------------------------

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **_: Any) -> None:  # noqa: ARG002 - its signature
        """Note the usage that a piece of an answer tells."""
        tokens = _tokens(getattr(chunk, "message", None))
        if tokens:
            with self._lock:
                self._partial[run_id] = self._partial.get(run_id, 0) + tokens

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Count an answer of a model."""
        messages = [
            generation.message
            for generations in response.generations
            for generation in generations
            if hasattr(generation, "message")
        ]
        tokens = sum(_tokens(message) for message in messages) or _told(response.llm_output)
        with self._lock:
            partial = self._partial.pop(run_id, 0)
            for message in messages:
                self._note(message)
        self._use(tokens or partial)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002 - its signature
        """Count what an answer has cost that broke off."""
        with self._lock:
            partial = self._partial.pop(run_id, 0)
        self._use(partial)

    def on_chain_end(self, outputs: Any, **_: Any) -> None:
        """Count messages of a node, or of a chain, that come from no model that was seen."""
        tokens = 0
        for message in _messages(outputs, _DEPTH):
            with self._lock:
                if self._note(message):
                    tokens += _tokens(message)
        self._use(tokens)

    def end(self) -> None:
        """Count what answers have cost that were cut off when the attempt ended."""
        with self._lock:
            partial, self._partial = sum(self._partial.values()), {}
        self._use(partial)

    def _note(self, message: BaseMessage) -> bool:
        """Note that a message is counted; False where it was before. The lock is held."""
        id_, key = message.id, id(message)
        is_new = key not in self._objects and (not id_ or id_ not in self._ids)
        if id_:
            self._ids.add(id_)
        if is_new:
            self._objects[key] = message
        return is_new

    def _use(self, tokens: int) -> None:
        if tokens:
            self._context.use(tokens=tokens)


def _messages(value: Any, depth: int) -> Iterator[AIMessage]:
    """Yield answers of models in the output of a node or a chain."""
    if isinstance(value, AIMessage):
        yield value
    elif depth and isinstance(value, Mapping):
        for each in value.values():
            yield from _messages(each, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for each in value:
            yield from _messages(each, depth - 1)


def _tokens(message: Any) -> int:
    """Tokens that a message says that it took."""
    usage = getattr(message, "usage_metadata", None)
    if not isinstance(usage, Mapping):
        return 0
    total = _count(usage.get("total_tokens"))
    return total or _count(usage.get("input_tokens")) + _count(usage.get("output_tokens"))


def _told(output: Any) -> int:
    """Tokens that a provider told beside its answer, as models that are no chat models do."""
    usage = output.get("token_usage") if isinstance(output, Mapping) else None
    return _count(usage.get("total_tokens")) if isinstance(usage, Mapping) else 0


def _count(found: Any) -> int:
    return found if isinstance(found, int) and found > 0 else 0
