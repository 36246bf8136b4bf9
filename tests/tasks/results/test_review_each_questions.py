"""review="each" and people: what is asked about one result holds up nothing else, and an answer is never lost."""

from __future__ import annotations

import threading
from typing import Any

from actors.testing import ScriptedExecutable, settle
from tests.support.attempts import LONG_S
from tests.tasks.results.test_review_each import PIPELINE, Reviewer, each
from trees import EscalationRaised, Subtask, SubtaskSucceeded, TaskStatus


class Gated(Reviewer):
    """A reviewer that takes its time over some."""

    def __init__(self, slow: str, then: Any = None, **wrong: int) -> None:
        super().__init__(**wrong)
        self.slow, self.then = slow, then
        self.begun, self.gate = threading.Event(), threading.Event()

    def review(self, task: Any, plan: Any, results: dict[str, Any]) -> Any:
        verdict = super().review(task, plan, results)
        if self.slow in results and not self.begun.is_set():
            self.begun.set()
            assert self.gate.wait(LONG_S)
            if self.then is not None:
                raise self.then
        return verdict


class SlowDocs(ScriptedExecutable):
    """A worker that does not write the docs before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()

    def execute(self, task: Any, context: Any) -> Any:
        if task.id == "docs":
            assert self.may.wait(LONG_S)
        return super().execute(task, context)


ASKS: dict[str, Any] = {"on_rejected": "escalate", "max_iterations": 1}


def test_a_task_waits_for_a_person_only_when_its_reviewer_has_nothing_to_do() -> None:
    reviewer, script = Gated("docs", code=1), SlowDocs()
    with each(reviewer, script, **ASKS) as it:
        it.begin()
        it.until(EscalationRaised)
        script.may.set()
        assert reviewer.begun.wait(LONG_S)
        it.pass_()
        assert it.handle.status is TaskStatus.RUNNING
        reviewer.gate.set()
        settle(it.tree)
        assert it.handle.status is TaskStatus.WAITING
        it.handle.cancel()


def test_what_has_a_result_is_reviewed_and_goes_on_though_a_person_is_asked_about_another_one() -> None:
    plan = [*PIPELINE, Subtask("site", worker="w", depends_on=["docs"])]
    reviewer, script = Gated("code", code=1), SlowDocs()
    with each(reviewer, script, plan, **ASKS) as it:
        it.begin()
        assert reviewer.begun.wait(LONG_S)
        script.may.set()
        it.until(SubtaskSucceeded, 2)  # the docs come while the reviewer looks at the code
        reviewer.gate.set()
        settle(it.tree)
        assert [question.subtask for question in it.handle.escalations] == ["code"]
        assert it.status("site") == "succeeded"
        assert it.handle.status is TaskStatus.WAITING
        it.handle.cancel()
