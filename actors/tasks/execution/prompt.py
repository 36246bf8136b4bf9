"""The prompt of a worker: a task and its context as one text, packed into ``context_tokens``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.tasks.execution.off_loop import called
from actors.tasks.execution.packing import GOAL, PLAN, Part, pack, parts_of, text_of


def render_prompt(task: Any, context: Any) -> str:
    """Render what an agent is told: a task and its context as one text, the same for the same facts.

    In this order: the instruction; the goal of the whole task, and in a team its part of that, where they are others;
    inputs; results by id; what was said about the last answer; the last answer. Each has a heading, but for the
    instruction. All together is packed into ``context_tokens``.
    """
    told, goals = Part("", str(task), GOAL), _goals(str(task), context)
    inputs = [Part(name, text_of(value)) for name, value in sorted(context.inputs.items())]
    results = parts_of(dict(sorted(context.results.items())), getattr(context, "_regrow_notes", {}))
    said = [Part("", context.feedback, PLAN)] if context.feedback else []  # of a review, or of a person
    previous = context.previous
    last = [] if previous is None else [Part("", text_of(previous))]
    pack([told, *goals, *inputs, *results, *said, *last], context.context_tokens)
    sections = [told.text, *(f"# {part.title}\n\n{part.text}" for part in goals)]
    sections += [*_section("Inputs", inputs), *_section("Results", results)]
    sections += [*_section("Feedback", said), *_section("Your last answer", last)]
    return "\n\n".join(sections)


async def prompt_of(task: Any, context: Any, render: Callable[[Any, Any], Any] = render_prompt) -> Any:
    """Render a prompt in a coroutine. Sync code does it off the loop: there may be much to copy."""
    return await called(render, task, context)


def _goals(instruction: str, context: Any) -> list[Part]:
    goals = [("Goal of the whole task", context.goal), ("Your team's part of it", getattr(context, "part", ""))]
    return [Part(title, goal, GOAL) for title, goal in goals if goal and goal != instruction]


def _section(heading: str, parts: list[Part]) -> list[str]:
    if not parts:
        return []
    return [f"# {heading}", *(f"## {part.title}\n\n{part.text}" if part.title else part.text for part in parts)]
