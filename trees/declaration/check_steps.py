"""The rules of ``tasks=``: what its planner, reviewer and synthesizer must take, and whom a fixed plan names.

Comes in: a supervisor with ``tasks``, and its children. Goes out: ``Problem``s. What a plan that is the same for every
task gets wrong is known before the first task: it is compared with the tree by the very rules that a plan is checked by
when it is made. Nothing of the user's is called, and no estimate is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from actors.model.errors import Problem
from actors.tasks.model import Catalogue, ExecutableInfo, recognised_model, takes_schema_by_name
from actors.tasks.planning.capability import CapabilityPlanner
from actors.tasks.planning.check import PlanCheck, check_plan
from actors.tasks.planning.keyword import KeywordPlanner
from actors.tasks.planning.model_planner import ModelPlanner
from actors.tasks.planning.planners import StaticPlan
from actors.tasks.planning.settings import Tasks
from actors.tasks.results.model_reviewer import ModelReviewer
from actors.tasks.results.synthesis import ModelSynthesizer
from actors.validation.introspection import binds, names_of, signature_of
from actors.validation.validation_messages import nearest, type_phrase
from trees.declaration.check_tasks import SiblingInfo
from trees.declaration.resolve import ResolveError, resolve
from trees.declaration.specs import Spec, SupervisorSpec, WorkerSpec

_SOME = object()
"""Stands for an argument when signatures are tried."""


class _Step(NamedTuple):
    """A field of ``Tasks`` with code of the user's, and how that is called."""

    field: str
    verb: str
    """Method by which an object is called."""
    takes: tuple[str, ...]
    gives: str


_STEPS: Final = (
    _Step("planner", "plan", ("task", "catalogue", "feedback"), "Plan([...])"),
    _Step("reviewer", "review", ("task", "plan", "results"), "Verdict(...)"),
    _Step("synthesizer", "combine", ("task", "results"), "output"),
)
_INNER: Final[tuple[tuple[type[Any], str, tuple[str, ...]], ...]] = (
    (ModelPlanner, "call", ("prompt", "schema")),
    (ModelReviewer, "call", ("prompt", "schema")),
    (ModelSynthesizer, "call", ("prompt",)),
    (CapabilityPlanner, "needs", ("task",)),
)
"""Callables of the planners and synthesizers that are shipped."""


def steps(spec: SupervisorSpec, at: str, kin: Mapping[str, SiblingInfo]) -> Iterator[Problem]:
    """Yield what is wrong with the ``tasks`` of a supervisor; ``kin`` are its children."""
    tasks = spec.tasks
    if tasks is None:
        return
    for step in _STEPS:
        yield from _step(step, getattr(tasks, step.field), f"{at}.tasks.{step.field}")
    planner = tasks.planner
    if isinstance(planner, StaticPlan):
        yield from _fixed(planner, tasks, f"{at}.tasks.planner", spec, kin)
    elif isinstance(planner, KeywordPlanner):
        yield from _named(planner, f"{at}.tasks.planner", kin)


def _step(step: _Step, code: Any, at: str) -> Iterator[Problem]:
    model = recognised_model(code)
    if model is not None:
        yield from _flaw(model, at)
    if code is None or model is not None:
        return
    method = getattr(code, step.verb, None)
    called = method if callable(method) and not inspect.isfunction(code) else code
    for kind, field, takes in _INNER:
        if isinstance(code, kind):
            yield from _callable(getattr(code, field), takes, f"{at}.{field}")
    signature = signature_of(called) if callable(called) else None
    is_bare = isinstance(code, type) and inspect.isfunction(inspect.getattr_static(code, step.verb, None))
    if signature is None or (not is_bare and binds(signature, *[_SOME] * len(step.takes))):
        return  # of a bare class the task would be its self
    form = f"({', '.join(step.takes)})"
    hint = f"It takes {names_of(signature)}. Write def {step.verb}{form}"
    if isinstance(code, type):
        hint = f"It is a class: give an object of it, {code.__name__}(...), with a method {step.verb}{form}"
    yield Problem(at, f"it cannot be called with {form}", f"{hint} -> {step.gives}.")


def _flaw(call: object, at: str) -> Iterator[Problem]:
    """Yield why a model, or an agent, cannot be asked: its package is not there, or too old."""
    flaw = getattr(call, "flaw", None)
    found = flaw() if callable(flaw) else None
    if found is not None:
        yield Problem(at, *found)


def _callable(code: Any, takes: tuple[str, ...], at: str) -> Iterator[Problem]:
    form = f"({', '.join(takes)})"
    if code is None and at.endswith(".needs"):
        return
    if not callable(code):
        yield Problem(at, f"expected a function of {form}, got {type_phrase(code)}", f"Give a function of {form}.")
        return
    yield from _flaw(code, at)
    signature = signature_of(code)
    is_model = takes[0] == "prompt"
    if (
        signature is not None
        and not binds(signature, *[_SOME] * len(takes))
        and not (is_model and (binds(signature, _SOME, _SOME) or takes_schema_by_name(code)))
    ):
        hint = f"It takes {names_of(signature)}. Write a function of {form}."
        yield Problem(at, f"it cannot be called with {form}", hint)


# -- whom it names -------------------------------------------------------------------------------------------


def _fixed(
    planner: StaticPlan, tasks: Tasks, at: str, spec: SupervisorSpec, kin: Mapping[str, SiblingInfo]
) -> Iterator[Problem]:
    """Compare a plan with the workers that are declared. Where none is, they are yet to be added."""
    rows = rows_of(spec, kin)
    learns = any(isinstance(child, WorkerSpec) and _has_tools(child.execute) for child in spec.children)
    facts = PlanCheck(rows=rows, at=at, max_subtasks=tasks.max_subtasks)
    for problem in check_plan(planner.fixed, facts).problems:
        if learns and problem.path.endswith(".capability"):
            continue  # perhaps it is a tool of a server, which is known when that is up
        if rows or problem.path.endswith((".id", ".depends_on", at)):
            yield problem


def _has_tools(execute: object) -> bool:
    """Say if it has tools that are known when it is up."""
    try:
        return bool(getattr(resolve(execute), "has_tools", False))
    except ResolveError:
        return False


def rows_of(spec: SupervisorSpec, kin: Mapping[str, SiblingInfo]) -> Catalogue:
    """Return the rows that the registry will have, as far as the declaration says; without estimates."""
    return tuple(
        ExecutableInfo(
            id=child.id,
            path=f"{spec.id}/{child.id}",
            type="team" if isinstance(child, SupervisorSpec) else "tool",
            description=child.description,
            capabilities=_capabilities(child),
            input_schema=None,
            output_schema=None,
            state="running",
            breaker=None,
            load=0,
            size=1 if isinstance(child, SupervisorSpec) else child.pool,
            backup=child.backup,
        )
        for child in spec.children
        if child.id in kin and kin[child.id].can_execute
    )


def _capabilities(spec: Spec) -> frozenset[str]:
    own = frozenset(spec.capabilities)
    if own or not isinstance(spec, SupervisorSpec):
        return own
    return frozenset[str]().union(*(child.capabilities for child in spec.children))


def _named(planner: KeywordPlanner, at: str, kin: Mapping[str, SiblingInfo]) -> Iterator[Problem]:
    named = (
        {} if planner.keywords is None else {worker: f"keywords[{word!r}]" for word, worker in planner.keywords.items()}
    )
    if planner.default is not None:
        named[planner.default] = "default"
    able = [name for name, each in kin.items() if each.can_execute]
    for worker, part in named.items():
        if worker not in able:
            hint = nearest(worker, able).strip() or "Name a child of the same supervisor that can be given work."
            yield Problem(f"{at}.{part}", f"there is no worker {worker!r}", hint)
