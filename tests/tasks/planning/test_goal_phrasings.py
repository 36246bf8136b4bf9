"""The same few requests in every wording that people use, after every way to begin: who has what, and after whom."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

import pytest

from actors.tasks.model.task import Task
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.keyword_planner import KeywordPlanner
from tests.tasks.planning.test_goal_evidence import rows


class Work(NamedTuple):
    """Forms of a request for the work of one worker."""

    verb: str
    gerund: str
    participle: str
    noun: str

    @property
    def asked(self) -> str:
        return f"{self.verb} {self.noun}"

    @property
    def doing(self) -> str:
        return f"{self.gerund} {self.noun}"

    @property
    def done(self) -> str:
        return f"{self.noun} is {self.participle}"


STAFF: Final = {
    "a": "Writes code",
    "b": "Reviews contracts",
    "c": "Translates letters",
    "d": "Deploys services",
    "e": "Measures temperatures",
    "f": "Sends invoices",
}
WORK: Final = {
    "a": Work("write", "writing", "written", "code"),
    "b": Work("review", "reviewing", "reviewed", "the contract"),
    "c": Work("translate", "translating", "translated", "the letter"),
    "d": Work("deploy", "deploying", "deployed", "the service"),
    "e": Work("measure", "measuring", "measured", "the temperature"),
    "f": Work("send", "sending", "sent", "the invoice"),
}
BEGINNINGS: Final = (
    *("", "Please ", "Could you ", "Can you please ", "I want you to ", "We need to ", "Your task is to ", "Let's "),
    *("You should ", "Go ahead and ", "Make sure to ", "I'd like you to ", "Your job: ", "TODO: ", "Hi, please "),
    *("Hello! ", "As soon as possible, ", "For our customer, ", "Carefully ", "Quickly ", "Now ", "Just ", "Help me "),
    *("Help me to ", "Try to ", "It is time to ", "Kindly ", "Today, ", "By Friday, ", "We would like to "),
    *("You are to ", "Don't hesitate to ", "Feel free to ", "Remember to ", "Be sure to ", "The goal is to "),
)
ALONE: Final = "x"
APART: Final = "x y"
ALL_APART: Final = "x y z"
IN_ORDER: Final = "x y<x"
PHRASINGS: Final = {
    "{x.asked}": ALONE,
    "{x.asked}, {y.asked} and {z.asked}": ALL_APART,
    "{x.asked} as well as {y.asked}": APART,
    "{x.asked} / {y.asked}": APART,
    "{x.asked}... {y.asked}": APART,
    "{x.asked} while {y.doing}": APART,
    "both {x.asked} and {y.asked}": APART,
    "{x.asked}, then {y.asked}, then {z.asked}": "x y<x z<y",
    "{x.asked}, {y.asked}, and finally {z.asked}": "x y z<xy",
    "{x.asked} and then {y.asked}": IN_ORDER,
    "{x.asked} before {y.doing}": IN_ORDER,
    "{x.asked} before you {y.asked}": IN_ORDER,
    "{x.asked} before we {y.asked}": IN_ORDER,
    "first {x.asked}, second {y.asked}": IN_ORDER,
    "{x.asked}; afterwards {y.asked}": IN_ORDER,
    "{x.asked}, later {y.asked}": IN_ORDER,
    "{x.asked}, next {y.asked}": IN_ORDER,
    "{x.asked}, and after that {y.asked}": IN_ORDER,
    "{x.asked}, followed by {y.doing}": IN_ORDER,
    "{x.asked}, and once that is done, {y.asked}": IN_ORDER,
    "{x.asked}; when {x.done}, {y.asked}": IN_ORDER,
    "{x.asked} | {y.asked}": IN_ORDER,
    "{x.asked} after {y.doing}": "x<y y",
    "{x.asked} after you have {y.participle} {y.noun}": "x<y y",
    "{x.asked} only after we have {y.participle} {y.noun}": "x<y y",
    "{x.asked} after {y.done}": "x<y y",
    "{x.asked} once {y.done}": "x<y y",
    "{x.asked} as soon as {y.done}": "x<y y",
    "{x.asked} but first {y.asked}": "x<y y",
    "{x.asked} when {y.done}": "x<y y",
    "{x.asked} following {y.doing}": "x<y y",
    "{x.asked} prior to {y.doing}": IN_ORDER,
    "not only {x.asked} but also {y.asked}": APART,
    "skip {y.doing} and {x.asked}": ALONE,
    "stop {y.doing} and {x.asked}": ALONE,
    "{x.asked}, having {y.participle} {y.noun} first": "x<y y",
    "{x.asked}; this requires {y.doing} first": "x<y y",
    "{x.asked}, but do not {y.asked}": ALONE,
    "{x.asked}. Do not {y.asked}. Then {z.asked}": "x z<x",
    "{x.asked} without {y.doing}": ALONE,
    "only {x.asked}": ALONE,
    "{x.asked} and nothing else": ALONE,
    "{x.asked} but skip {y.doing}": ALONE,
    "avoid {y.doing}; {x.asked}": ALONE,
    "{x.asked} instead of {y.doing}": ALONE,
    "{x.asked} and never {y.asked}": ALONE,
    "{x.asked}, but under no circumstances {y.asked}": ALONE,
    "{x.asked} rather than {y.doing}, and {z.asked}": "x z",
    "{x.asked}, except that you must not {y.asked}": ALONE,
    "{x.asked} only; {y.noun} is not to be {y.participle}": ALONE,
    "{x.asked}. {y.doing} is not needed": ALONE,
    "{x.asked}. There is no need to {y.asked}": ALONE,
    "{x.asked}. You need not {y.asked}": ALONE,
    "{x.asked}, no {y.doing} please": ALONE,
    "{x.asked} (but do not {y.asked})": ALONE,
    "{x.asked}, not {y.asked}": ALONE,
    "{x.asked}; make sure not to {y.asked}": ALONE,
    "{x.asked} and ensure that you do not {y.asked}": ALONE,
    "{x.asked} so that we can {y.asked}": ALONE,
    "{x.asked} in order to {y.asked}": ALONE,
    "not {y.asked} but {x.asked}": ALONE,
}
"""Wording -> who has something to do, and after whom: ``y<x`` waits for x."""


def expected(shape: str, names: dict[str, str]) -> dict[str, set[str]]:
    found = {}
    for part in shape.split():
        who, _, after = part.partition("<")
        found[names[who]] = {names[each] for each in after}
    return found


def planned(goal: str) -> dict[str, set[str]]:
    """Return who has something to do, with those that they wait for."""
    try:
        subtasks = KeywordPlanner().plan(Task(goal), rows(STAFF), "").subtasks
    except NoCapableWorkerError:
        return {}
    workers = {one.id: str(one.worker) for one in subtasks}
    found: dict[str, set[str]] = {}
    for one in subtasks:
        found.setdefault(str(one.worker), set()).update(workers[name] for name in one.depends_on)
    return found


@pytest.mark.parametrize("phrasing", PHRASINGS)
def test_a_request_means_the_same_after_every_way_to_begin_it(phrasing: str) -> None:
    dice = random.Random(phrasing)  # noqa: S311 - a choice that is the same in every run
    wrong = []
    for beginning in BEGINNINGS:
        names = dict(zip("xyz", dice.sample(sorted(WORK), 3), strict=True))
        goal = beginning + phrasing.format(**{name: WORK[worker] for name, worker in names.items()})
        found = planned(goal)
        if found != expected(PHRASINGS[phrasing], names):
            wrong.append((goal, found))

    assert wrong == []


def test_start_by_and_finish_by_say_nothing_of_the_work() -> None:
    assert planned("Start by reviewing the contract, then write code and finish by deploying the service") == {
        "b": set(),
        "a": {"b"},
        "d": {"a"},
    }


def test_while_and_how_something_is_done_is_no_work() -> None:
    assert planned("Write code while keeping the temperature low") == {"a": set()}


def test_a_verb_that_ends_like_an_adverb_is_a_verb() -> None:
    found = KeywordPlanner().plan(Task("apply the patch to the code"), rows({**STAFF, "g": "Applies patches"}), "")

    assert [one.worker for one in found.subtasks] == ["g"]
