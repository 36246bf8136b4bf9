"""Results that an attempt is given: a dict, whose error for a missing one says what to write."""

import copy
import json
import pickle

import pytest

from actors.tasks.execution.given_results import GivenResults, MissingResultError
from tests.support.attempts import run
from trees import Subtask, WorkerSpec


def test_given_results_are_a_dict_in_every_other_way() -> None:
    given = GivenResults({"a": 1, "b": [2]})

    assert given == {"a": 1, "b": [2]}
    assert json.loads(json.dumps(given)) == dict(given)
    assert pickle.loads(pickle.dumps(given)) == copy.deepcopy(given) == given  # noqa: S301 - our own
    assert given.get("c", 3) == 3
    assert "c" not in given


def test_a_missing_result_is_a_key_error_that_names_those_that_there_are() -> None:
    with pytest.raises(KeyError) as caught:
        GivenResults({"search": 1, "read": 2})["serch"]

    assert str(caught.value) == (
        "no result of 'serch' is given to this attempt. It has those of 'read' and 'search'. Did you mean 'search'? "
        "An attempt sees what its subtask depends on: Subtask(..., depends_on=[...])."
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own


def test_results_may_be_returned_changed_and_looked_up_twice() -> None:
    def collect(task: Subtask, context: object) -> object:
        results = context.results  # type: ignore[attr-defined]
        results["more"] = 1
        assert context.results["more"] == 1  # type: ignore[attr-defined]
        return results

    plan = (Subtask("a", worker="a"), Subtask("b", worker="b", depends_on=["a"]))
    report = run(plan, WorkerSpec(id="a", execute=lambda task: 7), WorkerSpec(id="b", execute=collect))

    assert report.results == {"a": 7, "b": {"a": 7, "more": 1}}
    assert isinstance(MissingResultError("a", ()), KeyError)
