"""Callbacks of LangChain in an attempt: what its models use up, and what they and their tools say while they run.

Usage is told to the attempt at once, so that it counts however that ends. Counted is every answer of a model, and every
message with ``usage_metadata`` that a node or a chain returns and that no model's answer has shown before: by the
message's id, or the object itself where it has none yet. Usage that the pieces of a streamed answer have told counts,
too, where the answer never ends.

A model that can stream does, as in LangGraph's stream mode "messages", and its pieces are shown as they come; of any
other the answer is shown when it is there. ``disable_streaming=True`` of the model turns that off. LangChain's own fake
is not streamed: it loses usage and calls of tools when it is.

Threads: LangChain calls a handler on the thread on which a thing happens, several at once where nodes run side by side.
``_lock`` guards the tables of this object; nothing is called while it is held. It is re-entrant, for a finalizer
that runs under it and calls a model: each answer has entries of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import LLMResult
from pydantic_core import to_json

_DEPTH = 3
"""How deep in the output of a node messages are looked for."""
_LOSES_WHEN_STREAMED = "generic-fake-chat-model"
_TAPS = ("tap_output_aiter", "tap_output_iter")
"""Methods by which LangChain knows a handler for which models are to stream (``_StreamingCallbackHandler``)."""


class AttemptEvents(BaseCallbackHandler):
    """Handler of one attempt."""

    run_inline = True
    """Called where the thing happens: what it does takes no time to speak of."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._lock = threading.RLock()
        self._ids: set[str] = set()
        """Messages that are counted."""
        self._objects: dict[int, BaseMessage] = {}
        """Messages that were counted before they had an id, by that of the object; kept, so that it stays theirs."""
        self._partial: dict[UUID, int] = {}
        """Tokens that the pieces of answers have told that have not ended."""
        self._shown: set[UUID] = set()
        """Answers whose pieces were shown."""
        self._tools: dict[UUID, str] = {}
        """Names of the tools that run."""
        self.told = 0
        """How often usage was told so far."""

    def knows(self, values: Any) -> None:
        """Note the messages in a state that an attempt before this one has left: that has counted them."""
        with self._lock:
            for message in _messages(values, _DEPTH):
                self._note(message)

    # -- models -----------------------------------------------------------------------------------------------

    def on_chat_model_start(self, serialized: Any, messages: Any, **told: Any) -> None:  # noqa: ARG002 - its signature
        """Have the model stream, where it can without a loss. LangChain asks right after this."""
        kind = (told.get("invocation_params") or {}).get("_type")
        for name in _TAPS:
            if kind == _LOSES_WHEN_STREAMED:
                self.__dict__.pop(name, None)
            else:
                self.__dict__[name] = _untouched

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **_: Any) -> None:
        """Show a piece of an answer, and note the usage that it tells."""
        tokens = _tokens(getattr(chunk, "message", None))
        with self._lock:
            self._shown.add(run_id)
            if tokens:
                self._partial[run_id] = self._partial.get(run_id, 0) + tokens
        self._show(_text(token))

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
            was_shown = run_id in self._shown
            self._shown.discard(run_id)
            for message in messages:
                self._note(message)
        self._use(tokens or partial)
        for message in messages if not was_shown else ():
            self._show(_text(message.content))

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

    # -- tools ------------------------------------------------------------------------------------------------

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, inputs: Any = None, **_: Any) -> None:
        """Show a call of a tool."""
        name = str((serialized or {}).get("name", "tool"))
        self._tools[run_id] = name
        given = input_str if inputs is None else to_json(inputs, fallback=repr).decode(errors="replace")
        self._show(f"{name}({given})", "tool_call")

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Show the result of a tool."""
        content = getattr(output, "content", output)
        self._show(f"{self._tools.pop(run_id, 'tool')}: {content}", "tool_result")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Show that a tool has failed."""
        self._show(f"{self._tools.pop(run_id, 'tool')}: {type(error).__name__}", "tool_result")

    def _show(self, text: str, kind: str = "text") -> None:
        if text:
            self._context.stream(text, kind)

    # -- the end ----------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Count what answers have cost that were cut off when the attempt ended."""
        with self._lock:
            left, self._partial = self._partial, {}
        self._use(sum(left.values()))

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
            with self._lock:
                self.told += 1


def _untouched(_run_id: UUID, output: Any) -> Any:
    """Return what a runnable gives piece by piece as it is."""
    return output


def _text(content: Any) -> str:
    """Return the words of a message's content, which may be a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(str(each.get("text", "")) if isinstance(each, Mapping) else str(each) for each in blocks)


def _messages(value: Any, depth: int) -> Iterator[AIMessage]:
    """Yield answers of models in the output of a node or a chain."""
    kind = type(value)
    if isinstance(value, BaseMessage) or kind is str:
        if isinstance(value, AIMessage):
            yield value
    elif depth and isinstance(value, (list, tuple)):
        for each in value:
            yield from _messages(each, depth - 1)
    elif depth and (kind is dict or isinstance(value, Mapping)):
        for each in value.values():
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
