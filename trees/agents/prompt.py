"""Prompt of an agent: what every wrapper here tells the agent behind it, unless it is given ``prompt=``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from actors.tasks.execution.packing import render_prompt

__all__ = ["Prompt", "render_prompt"]

Prompt: TypeAlias = Callable[[Any, Any], Any]
"""``(task, context) -> str``, sync or async."""
