"""Packages of the extras: whether one is installed, in a version that will do. Nothing is imported to find that out."""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata
from typing import Final, TypeAlias

from actors.model.errors import ConfigError, Problem

Package: TypeAlias = tuple[str, str, str]
"""A package, the extra that installs it, and the oldest version that will do: the arguments of ``require``."""
LANGCHAIN: Final[Package] = ("langchain-core", "langchain", "1.0")
LANGGRAPH: Final[Package] = ("langgraph", "langchain", "1.2.17")
MCP: Final[Package] = ("mcp", "mcp", "2.3")
OPENAI_AGENTS: Final[Package] = ("openai-agents", "openai-agents", "0.23.1")
OPENTELEMETRY: Final[Package] = ("opentelemetry-api", "otel", "1.30")
PYDANTIC_AI: Final[Package] = ("pydantic-ai-slim", "pydantic-ai", "2.64")


def require(package: str, extra: str, at_least: str) -> None:
    """Require a package of an extra.

    Args:
        package: its name as it is installed, such as ``pydantic-ai-slim``.
        extra: the extra of this library that installs it.
        at_least: the oldest version that will do.

    Raises:
        ConfigError: it is not installed, or too old; the text names the extra and the version.
    """
    flaw = package_flaw(package, extra, at_least)
    if flaw is not None:
        raise ConfigError((Problem(package, *flaw),))


def install(extra: str) -> str:
    """How to install an extra of this library, which is on no package index."""
    return f"Install the extra {extra!r}: in a clone of regrow, pip install '.[{extra}]'"


@cache
def package_flaw(package: str, extra: str, at_least: str) -> tuple[str, str] | None:
    """Say what is wrong with a package, as (what, hint); None: it will do."""
    hint = install(extra)
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        return f"{package} {at_least} or newer is needed, and is not installed", f"{hint}."
    if _numbers(found) >= _numbers(at_least):
        return None
    return f"{package} {found} is installed, and {at_least} or newer is needed", f"{hint} --upgrade."


def _numbers(version: str) -> tuple[int, ...]:
    """Numbers of a version, as far as it has only numbers and without zeros at the end: ``2.68.0rc1`` gives (2, 68)."""
    found = []
    for part in version.split("."):
        if re.fullmatch(r"\d+", part) is None:
            break
        found.append(int(part))
    while found and not found[-1]:
        found.pop()
    return tuple(found)
