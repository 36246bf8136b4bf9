"""JSON in the text of an answer: what is found, what is not, and how long it takes to look."""

from __future__ import annotations

import json
from timeit import timeit

import pytest

from actors.tasks.model.answer_text import json_in
from actors.tasks.results.review import InvalidVerdictError, as_verdict

CHECKS = '{"subtask": "a", "passed": true}, {"subtask": "b", "passed": true}'
BROKEN = {
    "cut off in a check": f'{{"passed": false, "checks": [{CHECKS}, {{"subtask": "c", "pas',
    "cut off after a check": f'{{"passed": false, "checks": [{CHECKS}',
    "a comma too many": f'{{"passed": false, "checks": [{CHECKS}],}}',
    "a word that is no JSON": f'{{"checks": [{CHECKS}, {{"subtask": "c", "passed": False}}, {CHECKS}]}}',
    "a comment": f'{{"passed": false, // sorry\n"checks": [{CHECKS}]}}',
    "brackets in its texts": f'{{"passed": false, "note": "]}}\\"", "checks": [{CHECKS}],}}',
}


@pytest.mark.parametrize("frame", ["{}", "I have looked at it: {}", "```json\n{}\n```"], ids=["bare", "prose", "fence"])
@pytest.mark.parametrize("text", BROKEN.values(), ids=list(BROKEN))
def test_a_no_that_is_broken_json_is_never_read_as_the_yes_of_its_checks(text: str, frame: str) -> None:
    with pytest.raises(InvalidVerdictError, match="hold no JSON"):
        as_verdict(frame.format(text), ("a", "b"))


@pytest.mark.parametrize(
    "text",
    [
        'use {"name"} as in VALUE',
        "see {it}, [note: VALUE]",
        "[ as follows: VALUE ]",
        '{"a": 1,} is wrong, VALUE is right',
        "VALUE, but not {",
        "VALUE, but not [1, 2",
    ],
)
def test_what_is_whole_is_found_beside_what_is_broken(text: str) -> None:
    assert json_in(text.replace("VALUE", '{"passed": true}')) == {"passed": True}


@pytest.mark.parametrize(
    "text",
    ["```" + "\n" * 200_000, "```" + " \n" * 100_000, "```json\n" * 20_000, '["' * 100_000, '{"a": [' * 50_000],
    ids=["lines", "blank lines", "fences", "strings", "depth"],
)
def test_no_answer_takes_more_than_linear_time(text: str) -> None:
    def look() -> None:
        with pytest.raises((ValueError, json.JSONDecodeError)):
            json_in(text)

    assert timeit(look, number=1) < 5
