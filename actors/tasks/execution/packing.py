"""Packing: what prompts of workers, planners, reviewers and synthesizers show of what is known, by importance. Pure.

The prompt of a worker is made here as well (``render_prompt``).

``pack`` is the one function that decides what is shortened. Prompts are made of parts; each has an importance: goal and
plan come first, then results that the subtask depends on, then the rest (inputs, a last answer). ``Done(value,
summary=..., importance=...)`` changes both for its result.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Final, NamedTuple, TypeAlias

GOAL: Final = 1.0
"""Importance of the goal, and of the instruction."""
PLAN: Final = 0.9
"""Importance of the plan, the catalogue, and of what was said about the last answer."""
RESULT: Final = 0.7
"""Importance of a result, where its ``Done`` says nothing else."""
REST: Final = 0.3

CONTEXT_TOKENS: Final = 100_000
"""Tokens of a prompt that is made outside of a tree."""
_CHARS_A_TOKEN: Final = 0.5
"""Fewest characters that are worth a token: emoji take two tokens each. So short texts need no count."""
_LEAST_TOKENS: Final = 50
"""Tokens that each part keeps, however important others are, as long as half of what is left suffices for that."""


@dataclass(slots=True)
class Part:
    """One part of a prompt. ``pack`` may shorten its text."""

    title: str
    text: str
    importance: float = REST
    summary: str = ""
    """Stands in its place where the whole text has no room; empty: its beginning does."""


class Note(NamedTuple):
    """What is known of a result beside its value."""

    summary: str = ""
    """As its ``Done`` has it."""
    importance: float | None = None
    """From 0 to 1; None: that of any result."""
    passed: bool = False
    """True if a review has let it pass."""


Notes: TypeAlias = Mapping[str, Note]
NO_NOTE: Final = Note()
NO_NOTES: Final[Notes] = {}


# -- packing -----------------------------------------------------------------------------------------------------


def pack(parts: Iterable[Part], most_tokens: int) -> None:
    """Shorten texts until all of them together are worth at most ``most_tokens``. Headings and notes come on top.

    The most important parts are kept whole as far as they fit; a few tokens are kept for each of the others. Of parts
    that are equally important, small ones are whole, and the others get an equal share. A part without room for its
    text is its summary, or its beginning; a note says how much that is.
    """
    ranked = sorted(parts, key=lambda part: -part.importance)
    if sum(len(part.text) for part in ranked) <= most_tokens * _CHARS_A_TOKEN:
        return
    sized = [(estimate_tokens(part.text), part) for part in ranked]
    left, below = most_tokens, sum(min(tokens, _LEAST_TOKENS) for tokens, _ in sized)
    for _, equals in groupby(sized, key=lambda each: each[1].importance):
        group = sorted(equals, key=lambda each: each[0])
        below -= sum(min(tokens, _LEAST_TOKENS) for tokens, _ in group)
        kept = min(below, left // 2)  # for the parts that are less important
        for place, (tokens, part) in enumerate(group):
            share = (left - kept) // (len(group) - place)
            left -= tokens if tokens <= share else _shorten(part, tokens, share)


def _shorten(part: Part, tokens: int, share: int) -> int:
    """Make a text worth at most ``share`` tokens; how many it is worth then."""
    whole = len(part.text)
    if part.summary and (short := estimate_tokens(part.summary)) <= share:
        part.text = f"{part.summary}\n[summary: the whole text has {whole:,} characters]"
        return short
    kept = whole * share // tokens
    part.text = f"{part.text[:kept]}\n[cut: {kept:,} of {whole:,} characters are shown]"
    return share


def text_of(value: object) -> str:
    """Return a value as it stands in a prompt: a text as it is, anything else as JSON."""
    return str.__str__(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def parts_of(results: Mapping[str, Any], notes: Notes) -> list[Part]:
    """Return a part for each result; in order."""
    found = []
    for id_, value in results.items():
        note = notes.get(id_, NO_NOTE)
        found.append(Part(id_, text_of(value), RESULT if note.importance is None else note.importance, note.summary))
    return found


_BYTES_A_TOKEN: Final = 3.5
"""Prose has about four, code and most other scripts about three."""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text is worth; 0 only for no text."""
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_A_TOKEN)


# -- the prompt of a worker ----------------------------------------------------------------------------------------


def render_prompt(task: Any, context: Any) -> str:
    """Render what an agent is told: a task and its context as one text, the same for the same facts.

    In this order: the instruction; the goal of the whole task, and in a team its part of that, where they are others;
    inputs; results by id; what was said about the last answer; the last answer. Each has a heading, but for the
    instruction. All together is packed into ``context_tokens``.
    """
    told = Part("", str(task), GOAL)
    goals = {"Goal of the whole task": context.goal, "Your team's part of it": getattr(context, "part", "")}
    sections = {heading: [Part("", goal, GOAL)] for heading, goal in goals.items() if goal and goal != told.text}
    sections["Inputs"] = [Part(name, text_of(value)) for name, value in sorted(context.inputs.items())]
    sections["Results"] = parts_of(dict(sorted(context.results.items())), getattr(context, "_regrow_notes", {}))
    sections["Feedback"] = [Part("", context.feedback, PLAN)] if context.feedback else []  # of a review, or of a person
    previous = context.previous
    sections["Your last answer"] = [] if previous is None else [Part("", text_of(previous))]
    pack([told, *chain(*sections.values())], context.context_tokens)
    texts = [told.text]
    for heading, parts in sections.items():
        texts += [f"# {heading}"] if parts else []
        texts += [f"## {part.title}\n\n{part.text}" if part.title else part.text for part in parts]
    return "\n\n".join(texts)
