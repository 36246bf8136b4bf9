"""Executables of a declaration: specs in, ``Executable`` out, for each worker or team that can be given work.

Comes in: specs that ``trees.declaration.check`` has found right. Nothing of the user's is called; its annotations are
read, and odd ones say nothing. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple, TypeAlias

from pydantic import TypeAdapter

from actors.model.spec import ChildSpec
from actors.tasks.execution.adapters import entry_of, first_hint, hints_of, is_unbound
from actors.tasks.model import Done, Executable, MemberInfo, Subtask, Task, Type, Work
from trees.agents.wrapper import AgentWrapper
from trees.declaration.resolve import resolve
from trees.declaration.specs import SupervisorSpec, WorkerSpec

Schema: TypeAlias = dict[str, Any]


class CodeFacts(NamedTuple):
    """Facts that the code of a worker tells of itself."""

    input_schema: Schema | None = None
    """Schema of what it takes."""
    output_schema: Schema | None = None
    """Schema of what it gives."""
    description: str = ""
    capabilities: frozenset[str] = frozenset()
    type: Type | None = None
    """None: it says nothing."""


_TELLS_NOTHING = (Done, Subtask, Task, Work, str, Any, object, None, type(None), inspect.Parameter.empty)


def of_worker(spec: WorkerSpec, facts: CodeFacts) -> Executable:
    """Describe an executable worker; ``facts`` are those of its code, and count where the spec says nothing."""
    type_ = "workflow" if spec.type == "skill" else spec.type
    return Executable(
        type=type_ if facts.type is None or "type" in spec.model_fields_set else facts.type,
        output=spec.output,
        input_schema=facts.input_schema,
        output_schema=facts.output_schema if spec.output is None else schema_of(spec.output),
        description=spec.description or facts.description,
        capabilities=frozenset(spec.capabilities) or facts.capabilities,
        consumes=frozenset(spec.consumes),
        produces=frozenset(spec.produces),
        expected=tuple(spec.expected),
        **_rules(spec),
    )


def of_team(spec: SupervisorSpec, members: tuple[ChildSpec, ...]) -> Executable:
    """Describe a nested supervisor with an orchestrator; without capabilities it has its members'."""
    able = [(member.id, member.registration) for member in members if member.registration is not None]
    produced = frozenset[str]().union(*(each.produces for _, each in able))
    consumed = frozenset[str]().union(*(each.consumes for _, each in able)) - produced
    return Executable(
        type="team",
        description=spec.description or ", ".join(name for name, _ in able),
        capabilities=frozenset(spec.capabilities) or frozenset[str]().union(*(each.capabilities for _, each in able)),
        consumes=frozenset(spec.consumes) or consumed,
        produces=frozenset(spec.produces) or produced,
        members=tuple(MemberInfo(name, each.description, each.capabilities) for name, each in able),
        **_rules(spec),
    )


def _rules(spec: WorkerSpec | SupervisorSpec) -> dict[str, Any]:
    rules = {name: getattr(spec, name) for name in ("timeout_s", "idle_timeout_s", "breaker", "backup", "estimate")}
    undo = resolve(spec.undo) if isinstance(spec.undo, str) and ":" in spec.undo else spec.undo  # an id has no colon
    return rules | {"on_failure": None if spec.on_failure is None else tuple(spec.on_failure), "undo": undo}


# -- facts of the code --------------------------------------------------------------------------------------


def facts_of(target: object) -> CodeFacts:
    """Facts that an agent tells of itself; of other code the JSON schemas of what it says that it takes and gives."""
    if isinstance(target, AgentWrapper):
        schemas = target.input_schema, target.output_schema
        return CodeFacts(*schemas, target.description, frozenset(target.capabilities), target.type)
    entry = entry_of(target)
    if entry is None or entry.method:
        return CodeFacts()
    return CodeFacts(
        schema_of(first_hint(entry.code, is_unbound(target))), schema_of(hints_of(entry.code).get("return"))
    )


def schema_of(annotation: Any) -> Schema | None:
    """The JSON schema of a type, or None where there is none. Never raises."""
    try:
        if annotation in _TELLS_NOTHING:
            return None
        return TypeAdapter(annotation).json_schema()
    except Exception:  # noqa: BLE001 - pydantic, and whatever an odd annotation does, may raise anything
        return None
