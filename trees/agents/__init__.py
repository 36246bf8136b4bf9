"""Agents, tools and models of frameworks as workers: pydantic-ai, LangChain and LangGraph, OpenAI Agents, MCP servers.

Each is given to ``WorkerSpec(execute=...)`` as it is; the wrappers here add options. Importing this imports no
framework, and neither does a declaration: a module here is loaded when one of its names is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from actors.model.names import missing

_MODULES: Final[dict[str, str]] = {
    "LangChain": "langchain",
    "OpenAIAgent": "openai_agents",
    "MCP": "mcp",
    "PydanticAI": "pydantic_ai",
    "as_tool": "tree_tool",
    "instrument": "telemetry",
    "model_call": "roles",
    "render_prompt": "prompt",
    "toolset": "mcp_toolset",
}
"""Module of each public name."""


__all__ = [
    "MCP",
    "LangChain",
    "OpenAIAgent",
    "PydanticAI",
    "as_tool",
    "instrument",
    "model_call",
    "render_prompt",
    "toolset",
]


def __getattr__(name: str) -> Any:
    """Load the module of a public name when it is asked for."""
    module = _MODULES.get(name)
    if module is None:
        raise missing(__name__, name)
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    """List the public names, also those whose module is not loaded."""
    return sorted({*globals(), *_MODULES})
