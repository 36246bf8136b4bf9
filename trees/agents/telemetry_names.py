"""Names and attributes of spans: the GenAI conventions of OpenTelemetry, and ours where those have none.

Comes in: an attempt, a report. Goes out: names and plain attributes. No content, but for the functions that say so.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from actors.model.errors import Escalated, Later, Rejected

if TYPE_CHECKING:
    from actors.tasks.journal.view import Attempt
    from actors.tasks.model import Report, Usage

SCOPE: Final = "regrow"
"""Instrumentation scope of all spans and metrics."""
MOST_CHARS: Final = 16_384
"""Characters of one attribute with content."""

OPERATION: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
TOOL_NAME: Final = "gen_ai.tool.name"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
ERROR_TYPE: Final = "error.type"
PATH: Final = "regrow.path"
ATTEMPT: Final = "regrow.attempt"
RESTART: Final = "regrow.restart"
TASK: Final = "regrow.task"
SUBTASK: Final = "regrow.subtask"
STATUS: Final = "regrow.status"
TOKENS: Final = "regrow.usage.tokens"
COST: Final = "regrow.usage.cost"

_BY_TYPE: Final = {
    "agent": ("invoke_agent", AGENT_NAME),
    "tool": ("execute_tool", TOOL_NAME),
    "workflow": ("invoke_workflow", WORKFLOW_NAME),
    "team": ("invoke_workflow", WORKFLOW_NAME),
}
BY_ROLE: Final = {"plan": "plan", "review": "review", "combine": "synthesis", "undo": "undo"}
_ENDED_WELL: Final = (Escalated, Later, Rejected)
"""Signals of a worker that are no error."""
_FAILING_ENDS: Final = frozenset({"timeout", "idle", "step"})
"""Ends from outside that are an error of the attempt; by any other it was only in the way."""


def of_attempt(attempt: Attempt) -> tuple[str, dict[str, Any]]:
    """Return name and attributes of the span of an attempt."""
    spec, subtask = attempt.spec, attempt.subtask.id
    facts = {PATH: spec.path, TASK: spec.task, ATTEMPT: spec.values.number}
    role = BY_ROLE.get(spec.role)
    if role is not None:
        if role == "undo":
            return f"undo {spec.worker}", {**facts, OPERATION: role, SUBTASK: subtask}
        return role, {**facts, OPERATION: role}
    workers = getattr(attempt.owner, "workers", None)
    entry = workers.get(spec.worker) if workers is not None else None
    operation, named = _BY_TYPE[str(entry.executable.type) if entry is not None else "tool"]
    return f"{operation} {spec.worker}", {**facts, OPERATION: operation, named: spec.worker, SUBTASK: subtask}


def of_end(end: Attempt) -> tuple[str, BaseException | None, str]:
    """Return how an attempt has ended, its error, and the type of that; no type where the end is no error."""
    caught = end.caught
    if end.error is None:
        return "succeeded", None, ""
    if end.ended_by is not None:
        return end.ended_by, None, end.ended_by if end.ended_by in _FAILING_ENDS else ""
    if caught is None:
        return "stopped", None, ""  # its worker was stopped, or ended for others: nobody's failure
    if isinstance(caught, _ENDED_WELL):
        return type(caught).__name__.lower(), None, ""
    return "crashed" if getattr(end.said, "kind", "") == "crashed" else "failed", caught, type(caught).__name__


def of_usage(usage: Usage) -> dict[str, Any]:
    """Return what was used up, where that is anything."""
    found: dict[str, Any] = {}
    if usage.tokens:
        found[TOKENS] = usage.tokens
    if usage.cost:
        found[COST] = usage.cost
    return found


def content_of_attempt(end: Attempt, operation: str) -> dict[str, Any]:
    """Return instruction and result: content."""
    instruction, done = str(end.subtask), end.value
    result = getattr(done, "value", None)
    if operation == "execute_tool":
        given = {"instruction": instruction, "inputs": end.spec.values.inputs}
        return {TOOL_ARGUMENTS: _json(given), **({TOOL_RESULT: _json(result)} if done is not None else {})}
    return {
        INPUT_MESSAGES: _message("user", instruction),
        **({OUTPUT_MESSAGES: _message("assistant", result)} if done is not None else {}),
    }


def content_of_task(report: Report) -> dict[str, Any]:
    """Return goal and output: content."""
    return {INPUT_MESSAGES: _message("user", report.goal), OUTPUT_MESSAGES: _message("assistant", report.output)}


def _message(role: str, said: Any) -> str:
    text = said if isinstance(said, str) else _json(said)
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text[:MOST_CHARS]}]}])


def _json(value: Any) -> str:
    return json.dumps(value, default=lambda each: f"<{type(each).__name__}>")[:MOST_CHARS]
