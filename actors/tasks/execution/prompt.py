"""Prompt of an agent: a task and its context as one text, the same for the same facts.

In this order: the instruction; the goal of the whole task, where it is another one; inputs; results of what it depends
on; what was said about the last answer; the last answer itself. Each part has a heading, but for the instruction: alone
it is the whole prompt. A text stands there as it is, anything else as JSON. Inputs, results and the last answer share
``context_tokens``: small ones are whole, of the others each is cut to the same share, and a note says how much.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from actors.tasks.execution.off_loop import called_beside, off_loop
from actors.tasks.model.policy import Respond
from actors.tasks.results.tokens import estimate_tokens

_CHARS_A_TOKEN: Final = 0.5
"""Fewest characters that are worth a token: emoji take two tokens each. So short texts need no count."""


@dataclass(slots=True)
class _Part:
    """One value of a section."""

    title: str
    text: str


def render_prompt(task: Any, context: Any) -> str:
    """Render what an agent is told: instruction, goal, inputs, results by id, feedback, and its last answer."""
    instruction = str(task)
    inputs = _parts(context.inputs)
    results = _parts(context.results)
    previous = context.previous
    last = [] if previous is None else [_Part("", _text(previous))]
    _cut([*inputs, *results, *last], context.context_tokens)
    sections = [instruction]
    if context.goal and context.goal != instruction:
        sections.append(f"# Goal of the whole task\n\n{context.goal}")
    sections += _section("Inputs", inputs)
    sections += _section("Results", results)
    feedback = context.feedback
    if feedback and _is_answer(feedback, context.answers):
        sections.append(f"# Answer of a person\n\n{feedback}")
    elif feedback:
        sections.append(f"# Feedback\n\nYour last answer was not accepted: {feedback}")
    sections += _section("Your last answer", last)
    return "\n\n".join(sections)


async def prompt_of(task: Any, context: Any, render: Callable[[Any, Any], Any] = render_prompt) -> Any:
    """Render a prompt in a coroutine: where there is much to copy, or the user's code does it, off the loop."""
    if render is render_prompt:
        return render(task, context) if context.is_light else await off_loop(partial(render, task, context))
    return await called_beside(context, "prompt=", render, task, context)


def _parts(values: Mapping[str, Any]) -> list[_Part]:
    return [_Part(name, _text(values[name])) for name in sorted(values)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def _section(heading: str, parts: list[_Part]) -> list[str]:
    if not parts:
        return []
    return [f"# {heading}", *(f"## {part.title}\n\n{part.text}" if part.title else part.text for part in parts)]


def _is_answer(feedback: str, answers: list[Any]) -> bool:
    """True where the feedback is what a person has responded, and not that of a review."""
    return bool(answers) and isinstance(answers[-1], Respond) and answers[-1].text == feedback


def _cut(parts: list[_Part], most: int) -> None:
    """Cut the largest parts, each to the same share, until all of them together are worth ``most`` tokens."""
    if sum(len(part.text) for part in parts) <= most * _CHARS_A_TOKEN:
        return
    sized = sorted(((estimate_tokens(part.text), part) for part in parts), key=lambda each: each[0])
    left = most
    for place, (tokens, part) in enumerate(sized):
        share = left // (len(sized) - place)
        if tokens > share:
            kept = len(part.text) * share // tokens
            part.text = f"{part.text[:kept]}\n[cut: {kept:,} of {len(part.text):,} characters are shown]"
        left -= min(tokens, share)
