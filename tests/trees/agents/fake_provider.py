"""A provider with OpenAI's APIs, without a network: what its server answers, by the name of the model.

Each of these names is a way in which real servers answer: see ``_chat`` and ``_responses``.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
from openai import AsyncOpenAI

SAID = "otters sleep on their backs"
TOKENS = 15
_CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": TOKENS}
_USAGE = {
    "input_tokens": 10,
    "output_tokens": 5,
    "total_tokens": TOKENS,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
_CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}


class Provider:
    """One server; ``streamed`` says of each request whether it was for a stream.

    Args:
        cuts: number of the stream that ``cut once`` cuts off.
        refuses: status with which ``strict`` refuses a request.
    """

    def __init__(self, cuts: int = 0, refuses: int = 400) -> None:
        self.streamed: list[bool] = []
        self.refuses = refuses
        self.cuts = cuts

    def client(self) -> AsyncOpenAI:
        """Make a client of it."""
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))
        return AsyncOpenAI(base_url="http://provider.test/v1", api_key="none", max_retries=0, http_client=http)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        asked = json.loads(request.content)
        streams = bool(asked.get("stream"))
        self.streamed.append(streams)
        if asked["model"] == "strict" and "stream_options" in asked:
            return httpx2.Response(self.refuses, json={"error": {"message": "unknown field stream_options"}})
        if asked["model"] == "no stream" and streams:
            return httpx2.Response(200, html="<html>a gateway</html>")
        parts = (_chat if "chat" in request.url.path else _responses)(asked)
        if not streams:
            return httpx2.Response(200, json=parts[-1])
        is_cut = asked["model"] == "cut once" and self.streamed.count(True) == self.cuts
        if is_cut or asked["model"] in {"cut", "telling"}:
            parts = parts[:2]
        text = "".join(f"data: {json.dumps(part)}\n\n" for part in parts[:-1])
        return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})


def _chat(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of an answer, and the answer as a whole.

    ``cut``: the connection is closed in the middle; ``cut once``: of one stream. ``telling``: the same, and each chunk
    has the usage so far. ``endless``: whole streams that do not say why they end. ``silent``: no usage in a stream.
    ``strict``: the same, and no request may ask for that. ``no stream``: what is no stream comes in place of one.
    """
    wants = asked["model"] != "silent" and (asked.get("stream_options") or {}).get("include_usage")
    words = [f"{word} " for word in SAID.split()]
    words[-1] = words[-1].strip()
    deltas = [{"role": "assistant", "content": word} for word in words]
    chunks = [{**_CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if asked["model"] == "telling":
        chunks = [{**chunk, "usage": _CHAT_USAGE} for chunk in chunks]
    if asked["model"] != "endless":
        chunks.append({**_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks += [{**_CHUNK, "choices": [], "usage": _CHAT_USAGE}] if wants else []
    message = {"role": "assistant", "content": SAID}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return [*chunks, {**_CHUNK, "object": "chat.completion", "choices": choices, "usage": _CHAT_USAGE}]


def _responses(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of an answer, and the answer as a whole.

    ``cut``: the connection is closed in the middle. ``failed``, ``incomplete``: it says that it is. ``new``: it has an
    item of a kind that this version of the client does not know.
    """
    status = asked["model"] if asked["model"] in {"failed", "incomplete"} else "completed"
    content = [{"type": "output_text", "text": SAID, "annotations": []}]
    items: list[Any] = [{"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": content}]
    if asked["model"] == "new":
        items.insert(0, {"id": "h", "type": "hologram_call", "status": "completed", "light": 3})
    whole = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "m",
        "output": items,
        "usage": _USAGE,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": {"code": "server_error", "message": "it has burnt down"} if status == "failed" else None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
    }
    begun = {**whole, "output": [], "status": "in_progress", "usage": None, "error": None, "incomplete_details": None}
    delta = {"item_id": "m", "output_index": 0, "content_index": 0, "delta": SAID, "logprobs": []}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    events.append({"type": "response.output_text.delta", **delta})
    events += [
        {"type": "response.output_item.done", "output_index": place, "item": item} for place, item in enumerate(items)
    ]
    events.append({"type": f"response.{status}", "response": whole})
    return [*({**event, "sequence_number": number} for number, event in enumerate(events)), whole]
