"""What an agent is told: one text of a task and its context, in a fixed order."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from actors.tasks.execution.prompt import prompt_of, render_prompt
from actors.tasks.model.policy import Approve, Respond
from actors.tasks.model.task import Subtask
from actors.tasks.results.tokens import estimate_tokens

SUBTASK = Subtask(id="write", instruction="Write a summary")


def context(**facts: Any) -> Any:
    empty = {"goal": "", "inputs": {}, "results": {}, "feedback": "", "previous": None, "answers": []}
    return SimpleNamespace(**{**empty, "context_tokens": 100_000, "is_light": True, **facts})


def test_all_of_it_in_order() -> None:
    told = render_prompt(
        SUBTASK,
        context(
            goal="A report",
            inputs={"audience": "CTO", "pages": 2},
            results={"search": "pgvector", "count": {"rows": [1, 2]}},
            feedback="Revision 2: Too short: add numbers.",
            previous={"title": "Drafts"},
        ),
    )

    assert told == (
        "Write a summary\n\n"
        "# Goal of the whole task\n\nA report\n\n"
        "# Inputs\n\n## audience\n\nCTO\n\n## pages\n\n2\n\n"
        '# Results\n\n## count\n\n{"rows": [1, 2]}\n\n## search\n\npgvector\n\n'
        "# Feedback\n\nYour last answer was not accepted: Too short: add numbers.\n\n"
        '# Your last answer\n\n{"title": "Drafts"}'
    )


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, "Write a summary"),
        ({"goal": "Write a summary"}, "Write a summary"),
        ({"goal": "More"}, "Write a summary\n\n# Goal of the whole task\n\nMore"),
        ({"inputs": {"a": None}}, "Write a summary\n\n# Inputs\n\n## a\n\nnull"),
        ({"results": {"a": "Zürich"}}, "Write a summary\n\n# Results\n\n## a\n\nZürich"),
        ({"results": {"a": ["Zürich"]}}, 'Write a summary\n\n# Results\n\n## a\n\n["Zürich"]'),
        ({"previous": "draft"}, "Write a summary\n\n# Your last answer\n\ndraft"),
        ({"previous": ""}, "Write a summary\n\n# Your last answer\n\n"),
        (
            {"feedback": "Yes", "answers": [Approve(), Respond(text="Yes")]},
            "Write a summary\n\n# Answer of a person\n\nYes",
        ),
        (
            {"feedback": "No", "answers": [Respond(text="Yes")]},
            "Write a summary\n\n# Feedback\n\nYour last answer was not accepted: No",
        ),
    ],
)
def test_what_there_is_not_has_no_heading(facts: dict[str, Any], told: str) -> None:
    assert render_prompt(SUBTASK, context(**facts)) == told


def test_it_does_not_depend_on_the_order_in_which_things_came() -> None:
    results = {"b": 1, "a": 2, "c": 3}
    turned = dict(reversed(results.items()))

    assert render_prompt(SUBTASK, context(results=results)) == render_prompt(SUBTASK, context(results=turned))


def test_results_that_are_too_much_are_cut_to_the_same_share_with_a_note_and_small_ones_are_whole() -> None:
    large = {"a": "alpha beta gamma " * 2_000, "b": [f"row {n}" for n in range(4_000)]}
    told = render_prompt(SUBTASK, context(context_tokens=1_000, results={**large, "c": "short"}))

    assert "## c\n\nshort" in told
    assert told.count("[cut: ") == 2
    assert f"of {len(large['a']):,} characters are shown]" in told
    assert f"of {len(json.dumps(large['b'])):,} characters are shown]" in told
    assert 700 < estimate_tokens(told) < 1_500


def test_inputs_and_the_last_answer_share_with_the_results() -> None:
    text = "word " * 10_000
    told = render_prompt(
        SUBTASK, context(context_tokens=900, inputs={"i": text}, results={"r": text}, previous=text, feedback="More")
    )

    assert told.count("[cut: 1,478 of 50,000 characters are shown]") == 3
    assert "Your last answer was not accepted: More" in told


@pytest.mark.parametrize("most", [1, 2, 10])
def test_no_limit_is_too_small(most: int) -> None:
    told = render_prompt(SUBTASK, context(context_tokens=most, results={"a": "x" * 10_000, "b": {}}))

    assert told.startswith("Write a summary")
    assert len(told) < 500


def test_text_of_nothing_but_pictures_is_cut_too() -> None:
    told = render_prompt(SUBTASK, context(context_tokens=100, results={"a": "🌍" * 300}))

    assert "[cut: " in told


async def _async_prompt(task: Any, _context: Any) -> str:
    return f"async {task}"


@pytest.mark.parametrize(
    ("render", "told"),
    [
        (render_prompt, "Write a summary"),
        (lambda task, _context: f"plain {task}", "plain Write a summary"),
        (_async_prompt, "async Write a summary"),
    ],
)
def test_a_prompt_is_made_by_what_the_user_gives(render: Any, told: str) -> None:
    assert asyncio.run(prompt_of(SUBTASK, context(), render)) == told
