"""The JSON schema of a plan: of any plan, or with slots, where a wrong plan cannot be written.

A small model cannot keep a graph in order by itself. With ``slots=3`` it fills in the slots ``s1``, ``s2`` and ``s3``:
each has one of the workers of the catalogue, and needs only slots before it, so there is no unknown worker, no unknown
dependency, no id twice and no cycle, whatever is filled in. A worker whose tools have to be named, or given arguments,
gets no slot: agents call those. Every string and every list is bounded: a model that is
held to the schema ends. Slots that are not needed are null. Pure.

After a failure another plan is made: then slots have names that no subtask has, and may need what is done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard

from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.task import Plan
from actors.tasks.planning.replanning import ReplanFeedback

INSTRUCTION_CHARS: Final = 300
"""Characters of an instruction in a slot, at most."""
MOST_SLOTS: Final = 50
_SLOT: Final = re.compile(r"s[0-9]{1,6}")


def plan_schema(catalogue: Catalogue, slots: int | None = None, feedback: str = "") -> dict[str, Any]:
    """Return the JSON schema that a plan of a model is held to.

    Args:
        catalogue: rows of the workers that a plan may name.
        slots: how many subtasks a plan may have; None: any plan.
        feedback: as the planner got it: after a failure it says which ids are taken, and what is done.
    """
    if slots is None:
        return Plan.model_json_schema()
    names, done = slot_names(slots, feedback), _done(feedback)
    workers = [row.id for row in fit_for_slots(catalogue)]
    properties: dict[str, Any] = {}
    for n, name in enumerate(names):
        slot = _slot(workers, [*done, *names[:n]])
        properties[name] = slot if n == 0 else {"anyOf": [slot, {"type": "null"}]}
    return {
        "title": "plan",
        "type": "object",
        "properties": properties,
        "required": list(names),
        "additionalProperties": False,
    }


def fit_for_slots(catalogue: Catalogue) -> Catalogue:
    """Return the rows of those for whom an instruction is enough: a slot names no tool, and has no inputs."""
    return tuple(row for row in catalogue if _told_by_words(row))


def _told_by_words(row: ExecutableInfo) -> bool:
    if not row.tools:
        return True
    return len(row.tools) == 1 and not (row.tools[0].input_schema or {}).get("required")


def _slot(workers: list[str], earlier: list[str]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "instruction": {"type": "string", "minLength": 1, "maxLength": INSTRUCTION_CHARS},
        "worker": {"type": "string", "enum": workers},
    }
    if earlier:  # a list that is always empty is more than some models can be held to
        items = {"type": "string", "enum": earlier}
        properties["needs"] = {"type": "array", "items": items, "maxItems": len(earlier)}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def slot_names(slots: int, feedback: str = "") -> tuple[str, ...]:
    """Return the names of the slots: ``s1`` to ``sn``, after those that the last plan has used."""
    used = (int(id_[1:]) for id_ in _known(feedback) if _SLOT.fullmatch(id_))
    first = max(used, default=0) + 1
    return tuple(f"s{n}" for n in range(first, first + slots))


def _known(feedback: str) -> Iterable[str]:
    return (*feedback.done, *feedback.failed, *feedback.skipped) if isinstance(feedback, ReplanFeedback) else ()


def _done(feedback: str) -> list[str]:
    return list(feedback.done) if isinstance(feedback, ReplanFeedback) else []


def is_slots(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """True for an answer that has slots: an object of objects, or nulls, by the names of slots."""
    if not isinstance(value, Mapping) or not value:
        return False
    return all(
        _SLOT.fullmatch(str(name)) is not None and (each is None or isinstance(each, Mapping))
        for name, each in value.items()
    )


def plan_of_slots(value: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the plan of slots that were filled in, as data. A slot that is empty is needed by nobody."""
    filled = {str(name): each for name, each in value.items() if each is not None}
    empty = {str(name) for name in value} - set(filled)
    subtasks = []
    for name, slot in filled.items():
        needs = slot.get("needs") or []
        fields = {str(field): each for field, each in slot.items() if field not in {"needs", "id"}}
        if isinstance(needs, (list, tuple)):
            needs = [need for need in dict.fromkeys(map(str, needs)) if need not in empty]
        subtasks.append({**fields, "id": name, "depends_on": needs})
    return {"subtasks": subtasks}
