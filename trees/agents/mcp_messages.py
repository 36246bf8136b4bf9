"""Messages of an MCP server on its stdout, and of a client of ours on our stdin: one a line. Pure.

What is no message at all is rubbish, such as a greeting. An answer is never passed over: whoever waits for it would
wait for ever. So one that cannot be read is an error with the id of its request. Half of a surrogate pair in a text,
which servers write that cut texts, is a question mark.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import mcp_types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

_ID: Final = rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")'
_FIRST: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_LAST: Final = re.compile(_ID + rb"\s*\}\s*$")
_END: Final = 200
"""Bytes at the end of a line in which its id may stand."""
_MOST_FLAWS: Final = 3


def message_of(line: bytes) -> SessionMessage | None:
    """Read a line; None: it is rubbish."""
    found = _read(line)
    if found is not None or not line.lstrip().startswith(b"{"):
        return found
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        id_ = _id_in(line)
    else:
        found = _read(json.dumps(content, ensure_ascii=False).encode(errors="replace"))
        id_ = None if "method" in content else content.get("id")
    if found is None and isinstance(id_, (int, str)) and not isinstance(id_, bool):
        return _unreadable(id_)
    return found


def readable(line: bytes) -> bytes | int | str | None:
    """Return a message of a client as one that can be read; the id of a request that cannot be; None: neither."""
    if _read(line) is not None:
        return line
    try:
        content = json.loads(line)
        mended = json.dumps(content, ensure_ascii=False).encode(errors="replace")
    except (ValueError, RecursionError):
        return _id_in(line) if b'"method"' in line else None
    if _read(mended) is not None:
        return mended
    id_ = content.get("id") if isinstance(content, dict) and "method" in content else None
    return id_ if isinstance(id_, (int, str)) and not isinstance(id_, bool) else None


def sendable(value: Any) -> Any:
    """Return a value of JSON with a question mark for each half of a pair of surrogates: no message can have one."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {sendable(key): sendable(each) for key, each in value.items()}
    return [sendable(each) for each in value] if isinstance(value, list) else value


def flaws_of(error: ValidationError) -> str:
    """Say what is wrong with an answer, without what stands in it."""
    flaws = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, flaw['loc']))}: {flaw['msg']}".removeprefix(": ") for flaw in flaws[:_MOST_FLAWS]]
    return "; ".join(told)


def _read(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


def _id_in(line: bytes) -> int | str | None:
    """Return the id in a line that is no JSON; None: there is none at its beginning or end."""
    found = _FIRST.match(line) or _LAST.search(line[-_END:])
    if found is None:
        return None
    id_: int | str = json.loads(found[1])
    return id_


def _unreadable(id_: int | str) -> SessionMessage:
    error = mcp_types.ErrorData(
        code=mcp_types.PARSE_ERROR, message="its answer cannot be read: it is no message of MCP"
    )
    return SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=id_, error=error))
