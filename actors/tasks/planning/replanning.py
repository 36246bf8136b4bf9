"""Another plan, after a required subtask has failed for good: what the planner is told, and what is kept.

Pure. What is done is kept and does not run again. A planner may name it in ``depends_on``, whether its new plan lists
it or not. A failed subtask that the new plan does not list is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from actors.model.errors import Problem
from actors.tasks.model.task import Plan, Subtask


class ReplanFeedback(str):
    """Feedback of a planner that is to plan what is left: a text, and the same facts by name."""

    __slots__ = ("done", "failed", "skipped")
    done: dict[str, Any]
    """Results of the subtasks that are done, by id."""
    failed: dict[str, str]
    """Errors of the subtasks that failed, by id."""
    skipped: dict[str, str]
    """Reasons of the subtasks that did not run, by id."""


def replan_feedback(
    done: Mapping[str, Any], failed: Mapping[str, str], skipped: Mapping[str, str], refused: str = ""
) -> ReplanFeedback:
    """Tell a planner what became of its last plan; ``refused`` is what was wrong with the one that it made since."""
    lines = ["The last plan could not be carried out. Plan what is left to be done, in another way."]
    lines += [f"Done, and kept: {', '.join(done)}. They do not run again; depends_on may name them."] if done else []
    lines += [f"Failed: {id_}: {error}" for id_, error in failed.items()]
    lines += [f"Did not run: {id_}: {reason}" for id_, reason in skipped.items()]
    lines += [f"Your answer to that was refused: {refused}"] if refused else []
    feedback = ReplanFeedback("\n".join(lines))
    feedback.done, feedback.failed, feedback.skipped = dict(done), dict(failed), dict(skipped)
    return feedback


def new_of(plan: Plan, done: Collection[str]) -> Plan:
    """Return the subtasks of a plan that are not done by now."""
    return Plan([subtask for subtask in plan.subtasks if subtask.id not in done])


def merged(done: Mapping[str, Subtask], plan: Plan) -> Plan:
    """Return the whole plan: what is done, and what is left."""
    return Plan([*done.values(), *plan.subtasks])


def taken_ids(plan: Plan, taken: Collection[str]) -> list[Problem]:
    """Find ids that subtasks have already which others had asked for."""
    return [
        Problem(f"{subtask.id}.id", f"{subtask.id!r} is the id of what a subtask had asked for", "Take another id.")
        for subtask in plan.subtasks
        if subtask.id in taken
    ]
