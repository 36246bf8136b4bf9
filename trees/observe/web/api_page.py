"""Description of the API for programs (OpenAPI) and, drawn from it, for readers. No script draws it."""

from __future__ import annotations

import html
import json
from functools import cache
from typing import Any, Final

from trees.observe.source import ACTS, ANSWERS

_PATH: Final = {"name": "path", "in": "query", "required": True, "schema": {"type": "string"}, "description": "Child."}
_ID: Final = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}


def _query(name: str, what: str, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": kind}, "description": what}


def _body(required: list[str], **fields: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": required, "additionalProperties": False}
    return {"content": {"application/json": {"schema": schema}}}


_TEXT: Final = {"type": "string"}
_LOOKS: Final[tuple[tuple[str, str, list[dict[str, Any]]], ...]] = (
    (
        "/api/snapshot",
        "The tree as rows, its health, and what happens now. Large supervisors are folded.",
        [
            _query("open", "Paths to unfold, with commas."),
            _query("q", "Text in paths: what has it is among the rows, also where it is folded."),
            _query("only", "'troubled': what is in trouble is among the rows, also where it is folded."),
            _query("limit", "Rows at most.", "integer"),
        ],
    ),
    ("/api/child", "One child: settings, last exits with frames, restarts, attempts.", [_PATH]),
    ("/api/stack", "Where its code stands now.", [_PATH]),
    (
        "/api/tasks",
        "Tasks, the newest first.",
        [
            _query("status", "Only these."),
            _query("q", "Text in id or goal."),
            _query("limit", "Tasks at most.", "integer"),
        ],
    ),
    ("/api/tasks/{id}", "One task: graph, timeline, usage, reviews, log; also of one that has ended.", [_ID]),
    ("/api/questions", "All that waits for a person, the oldest first.", []),
    ("/events", "Server-sent events: 'change' with an id, and 'lost'. Last-Event-ID is honoured.", []),
    ("/metrics", "Metrics for Prometheus.", []),
    ("/healthz", "200 if the tree is alive, else 503. Needs no token.", []),
    ("/readyz", "200 if the tree is ready, else 503. Needs no token.", []),
)
_DEEDS: Final[tuple[tuple[str, str, list[dict[str, Any]], dict[str, Any]], ...]] = (
    ("/api/tasks/{id}/cancel", "Cancel a task.", [_ID], _body([], reason=_TEXT)),
    (
        "/api/questions/{id}",
        "Answer a question.",
        [_ID],
        _body(["answer"], answer={"enum": list(ANSWERS)}, text=_TEXT, value={}),
    ),
    (
        "/api/children",
        "Restart, terminate or unpark a child.",
        [],
        _body(["path", "act"], path=_TEXT, act={"enum": list(ACTS)}),
    ),
)
_ERRORS: Final = {
    "400": {"description": "The request is wrong; 'error' says why."},
    "401": {"description": "The token is missing, or wrong."},
    "404": {"description": "There is no such child, task or question."},
    "422": {"description": "A value of it is wrong."},
}


@cache
def openapi() -> dict[str, Any]:
    """Return the description as OpenAPI 3.1."""
    done = {"200": {"description": "As described; JSON has a 'version'."}, **_ERRORS}
    paths: dict[str, Any] = {}
    for path, what, parameters in _LOOKS:
        paths.setdefault(path, {})["get"] = {"summary": what, "parameters": parameters, "responses": done}
    for path, what, parameters, body in _DEEDS:
        refused = {**done, "403": {"description": "It comes from another site."}, "409": {"description": "Not now."}}
        deed = {"summary": what, "parameters": parameters, "requestBody": body, "responses": refused}
        paths.setdefault(path, {})["post"] = {**deed, "security": [{"token": []}]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "regrow: a running tree", "version": "1"},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


@cache
def openapi_page() -> str:
    """Return the description as plain HTML."""
    rows = []
    for path, methods in openapi()["paths"].items():
        for method, deed in methods.items():
            fields = ", ".join(each["name"] for each in deed["parameters"])
            body = deed.get("requestBody")
            shape = json.dumps(body["content"]["application/json"]["schema"]["properties"]) if body else ""
            cells = (method.upper(), path, deed["summary"], fields, shape)
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("Method", "Path", "What", "Parameters", "Body"))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>regrow: API</title>'
        '<link rel="stylesheet" href="/static/base.css"></head><body><h1>API of a running tree</h1>'
        "<p>Programs send <code>Authorization: Bearer TOKEN</code>. For machines: "
        '<a href="/openapi.json">openapi.json</a></p>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></body></html>"
    )
