"""The kinds of work that there are: for a spec the one whose field it gives.

A new kind is a file of its own (``trees.declaration.kind`` says what it must say), a line here, and its field in
``trees.declaration.specs.WorkerSpec``.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from actors.model.spec import DispatcherKind
from trees.declaration.kind import WorkKind
from trees.declaration.kind_actor import ActorKind
from trees.declaration.kind_command import CommandKind
from trees.declaration.kind_execute import ExecuteKind
from trees.declaration.kind_handle import HandleKind
from trees.declaration.kind_run import RunKind
from trees.declaration.process import elsewhere, place_of
from trees.declaration.specs import Spec, SupervisorSpec, WorkerSpec

KINDS: Final[Mapping[str, WorkKind]] = MappingProxyType(
    {kind.field: kind for kind in (ActorKind(), RunKind(), HandleKind(), ExecuteKind(), CommandKind())}
)
"""All kinds by their fields, in the order in which these are named."""
_kinds: Final = tuple(KINDS.values())
_work_of: Final = attrgetter(*KINDS)


def kind_of(spec: WorkerSpec) -> tuple[WorkKind, Any]:
    """Return the kind of a worker's work, and the value of its field."""
    for kind, value in zip(_kinds, _work_of(spec), strict=True):
        if value is not None:
            return kind, value
    raise LookupError(f"{spec.id} declares no work of any kind")


def where(spec: WorkerSpec) -> DispatcherKind:
    """Where the worker's code runs, for a spec that the check has passed; where it is elsewhere, where it runs there.

    A resource is entered and left by one thread, which the pool has not.
    """
    kind, value = kind_of(spec)
    found = kind.find(value)
    is_given = place_of(spec) != "auto" and elsewhere(spec) is None
    place = DispatcherKind(place_of(spec)) if is_given else kind.place(found)
    owns = spec.lifespan is not None or kind.owns(found)
    return DispatcherKind.THREAD if owns and place is DispatcherKind.POOL else place


def parks(spec: Spec, *, under_tasks: bool) -> bool:
    """True if it is parked, alone, when its restarts are used up.

    What serves an orchestrator is unless it says otherwise: one poisoned task is not to use up the restarts of all.
    """
    if not under_tasks or isinstance(spec, SupervisorSpec) or "on_exhausted" in spec.model_fields_set:
        return spec.on_exhausted == "park"
    kind, value = kind_of(spec)
    return kind.may_execute and kind.can_execute(kind.find(value))
