"""Calls of tools that wait for a person: from the output of a run to a question, from the answer to the next run.

A run ends with the calls that need somebody (``DeferredToolRequests``): of a tool with ``requires_approval=True``, one
that raises ``ApprovalRequired`` or ``CallDeferred``, one that raises our own ``Escalated``. Each call is one question,
the next one comes when the last is answered, and once all are, the run goes on with its messages. No model is called in
between.

What is kept between two attempts (``context.state``, JSON): the messages by pydantic-ai's own adapter, the calls, the
results so far, and how many answers there were when it was asked: so an answer counts for one call only.

========  ====================================  ======================
answer    a call that needs approval            a call done elsewhere
========  ====================================  ======================
Approve   is made                               gave ``"approved"``
Edit      is made with these arguments (dict)   gave this value
Respond   is not made; the model gets the text  gave this text
Reject    is not made; the model gets why       failed; why
========  ====================================  ======================
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied, ToolFailed
from pydantic_ai.messages import ModelMessagesTypeAdapter

from actors.model.errors import Escalated
from actors.tasks.model import Answer, Approve, Edit, Reject, Respond
from trees.agents.wrapper import question_state

QUESTION: Final = "question"
"""Name under which the metadata of a call has the question that its tool has asked."""
MOST_CHARS: Final = 2_000
"""Most characters of a call's arguments in a question."""
_REQUESTS: Final = TypeAdapter(DeferredToolRequests)
_RESULTS: Final = TypeAdapter(DeferredToolResults)


class Resumed(NamedTuple):
    """Beginning of a run that goes on."""

    messages: list[Any]
    results: DeferredToolResults


def question_of(requests: DeferredToolRequests, messages: list[Any], context: Any) -> Escalated:
    """Return the question about the first call of those that wait."""
    return _asked(requests, ModelMessagesTypeAdapter.dump_python(messages, mode="json"), DeferredToolResults(), context)


def resumed(context: Any) -> Resumed | None:
    """Return what an attempt goes on from; None: it begins.

    Raises:
        Escalated: the last question has no answer, or another call waits for one.
    """
    state = question_state(context)
    if state is None or "requests" not in state:
        return None
    requests = _REQUESTS.validate_python(state["requests"])
    results = _RESULTS.validate_python(state["results"])
    if context.answer is not None:
        call = _next(requests, results)
        if call.tool_call_id in requests.metadata:
            results.metadata[call.tool_call_id] = requests.metadata[call.tool_call_id]
        if any(each.tool_call_id == call.tool_call_id for each in requests.approvals):
            results.approvals[call.tool_call_id] = _approval(context.answer)
        else:
            results.calls[call.tool_call_id] = _result(context.answer)
    if requests.remaining(results) is not None:
        raise _asked(requests, state["messages"], results, context)
    return Resumed(ModelMessagesTypeAdapter.validate_python(state["messages"]), results)


def question_number(context: Any) -> int:
    """Return the number of the question whose answer a run goes on with: in every attempt after that the same.

    It counts the answers that the subtask had before. 0: the run asks by other means, or has not asked.
    """
    state = question_state(context)
    return int(state["answers"]) if state is not None and "requests" in state else 0


def _asked(requests: DeferredToolRequests, messages: Any, results: DeferredToolResults, context: Any) -> Escalated:
    call = _next(requests, results)
    state = {
        "messages": messages,
        "requests": _REQUESTS.dump_python(requests, mode="json"),
        "results": _RESULTS.dump_python(results, mode="json"),
        "answers": len(context.answers),
    }
    return Escalated(_text(call, requests.metadata.get(call.tool_call_id)), state=state, resumes=True)


def _next(requests: DeferredToolRequests, results: DeferredToolResults) -> Any:
    left = requests.remaining(results) or requests
    return [*left.approvals, *left.calls][0]


def _text(call: Any, metadata: dict[str, Any] | None) -> str:
    arguments = json.dumps(call.args_as_dict(), ensure_ascii=False, default=repr)
    if len(arguments) > MOST_CHARS:
        arguments = f"{arguments[:MOST_CHARS]} ... ({len(arguments):,} characters)"
    asked = (metadata or {}).get(QUESTION)
    return f"{asked or 'May the agent call this tool?'} {call.tool_name}({arguments})"


def _approval(answer: Answer) -> ToolApproved | ToolDenied:
    if isinstance(answer, Approve):
        return ToolApproved()
    if isinstance(answer, Edit):
        if isinstance(answer.value, dict):
            return ToolApproved(override_args=answer.value)
        return ToolDenied(f"The tool was not called. A person has answered: {_said(answer.value)}")
    if isinstance(answer, Respond):
        return ToolDenied(answer.text)
    return ToolDenied(answer.reason or "The tool call was denied by a person.")


def _result(answer: Answer) -> Any:
    if isinstance(answer, Reject):
        return ToolFailed(answer.reason or "A person has refused it.")
    if isinstance(answer, Edit):
        return answer.value
    return answer.text if isinstance(answer, Respond) else "approved"


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
