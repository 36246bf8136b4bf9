"""Specs of workers that differ in their id only: they share a recipe, and one look at their code is enough for all.

``known`` finds the recipe of a worker that runs, so that ``start_child`` of one more worker of its kind checks only its
place, and builds nothing: the same spec with another id was found right before. A recipe has its ``Origin``, and is
found as long as somebody holds it, which its workers do: nothing of a user is kept here.

Known are specs of a function, or of a class for ``actor=``, with the same other fields, and without a lifespan or a
place outside of this process: others are looked at each time. No code of a user runs for that. A class that is changed
while workers of it run is known as it was. Functions of the same code (a ``def`` inside of another one), and specs with
as many args and kwargs of the same names, pass the check with one of them: each has a recipe of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import is_, itemgetter
from types import FunctionType
from typing import Any, Final, TypeAlias

from actors.model.spec import ChildSpec, RefTo, WorkerRecipe
from actors.model.weak_tables import WeakValues
from actors.worker import Worker
from trees.declaration.specs import Backoff, Mailbox, WorkerSpec

_Key: TypeAlias = tuple[int, str, frozenset[str], int, frozenset[str]]

_OWN: Final = frozenset({"id", "args", "kwargs", "handle", "run", "actor"})
_compared: Final = itemgetter(*[name for name in WorkerSpec.model_fields if name not in _OWN])
"""Values of all other fields."""
_others: Final = itemgetter(*[name for name in WorkerSpec.model_fields if name not in {"id", "args", "kwargs"}])
_COMMON: Final = tuple(each.name for each in fields(ChildSpec) if each.name not in {"id", "recipe", "owned"})
_PLAIN: Final = frozenset({str, int, float, frozenset, Mailbox, Backoff})
"""Types of values that are compared by ``==``, which runs no code of a user there."""
_KNOWN: Final[WeakValues[_Key, WorkerRecipe]] = WeakValues()
"""The newest recipe by the identity of its code, which it keeps alive, by the field of that, by the fields given, and
by the number of its args and the names of its kwargs. No lock: each change is one step of C, and a spec whose recipe
was overwritten is only looked at once more."""


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Declaration and code that recipes were made of. Not the spec itself, which is large."""

    key: _Key
    """Key in ``_KNOWN``."""
    fields: tuple[object, ...]
    """Fields of the spec, but for those in ``_OWN``."""
    code: tuple[object, ...]
    """Code as it was then: see ``_code_of``."""
    common: tuple[object, ...]
    """Fields of the ``ChildSpec`` besides its id and recipe."""


def work_of(spec: WorkerSpec) -> Any:
    """Return the function or class of a worker that may be like others; None where others are never like it."""
    value = spec.handle
    if value is None:
        value = spec.actor if spec.run is None else spec.run
    if not (type(value) is FunctionType or type(value) is type(Worker)):
        return None
    if any(type(each) is RefTo for each in (*spec.args, *spec.kwargs.values())):
        return None  # each path is looked at
    here = type(spec.dispatch) is str and spec.dispatch not in {"process", "ray"}
    return value if here and spec.lifespan is None else None


def looks(spec: WorkerSpec) -> tuple[object, ...] | None:
    """Return all that is checked of a worker, its function or class first; None: as ``work_of``."""
    work = work_of(spec)
    names = frozenset(spec.kwargs) if spec.kwargs else None
    return None if work is None else (work, len(spec.args), names, *_others(spec.__dict__))


def alike(mine: tuple[object, ...], its: tuple[object, ...] | None) -> bool:
    """True where two workers look the same. No code of a user runs for that."""
    return its is not None and (all(map(is_, mine, its)) or all(map(_same, mine, its)))


def known(spec: WorkerSpec) -> WorkerRecipe | None:
    """Return a recipe of a spec like this one, which was checked when that was made; None: there is none."""
    work = work_of(spec)
    code = None if work is None else _code_of(work)
    return None if code is None else _found(spec, code)


def origin_of(spec: WorkerSpec, common: dict[str, Any]) -> Origin | None:
    """Return the origin of a recipe that is made of this spec; None where no other spec may share it."""
    work = None if common["registration"] is not None else work_of(spec)
    code = None if work is None else _code_of(work)
    if code is None:
        return None
    recipe = _found(spec, code)
    if recipe is not None:
        origin: Origin = recipe.origin
        return origin
    return Origin(_key(code, spec), _compared(spec.__dict__), code, tuple(common[name] for name in _COMMON))


def remember(recipe: WorkerRecipe) -> None:
    """Have the recipe found by specs like its own, as long as somebody holds it."""
    if recipe.origin is not None:
        _KNOWN.put(recipe.origin.key, recipe)


def child_spec(spec: WorkerSpec, recipe: WorkerRecipe) -> ChildSpec | None:
    """The ``ChildSpec`` of a worker whose recipe is known; None where it has to have another one."""
    if recipe.work is not work_of(spec) or spec.args or spec.kwargs:
        return None
    return ChildSpec(id=spec.id, recipe=recipe, **dict(zip(_COMMON, recipe.origin.common, strict=True)))


def _found(spec: WorkerSpec, code: tuple[object, ...]) -> WorkerRecipe | None:
    recipe = _KNOWN.get(_key(code, spec))
    if recipe is None:
        return None
    before = recipe.origin.code
    same = len(code) == len(before) and all(map(is_, code, before))
    return recipe if same and alike(_compared(spec.__dict__), recipe.origin.fields) else None


def _key(code: tuple[object, ...], spec: WorkerSpec) -> _Key:
    field = "actor" if spec.handle is None and spec.run is None else "run" if spec.handle is None else "handle"
    return id(code[0]), field, frozenset(spec.model_fields_set), len(spec.args), frozenset(spec.kwargs)


def _same(mine: object, its: object) -> bool:
    if mine is its:
        return True
    if type(mine) is tuple and type(its) is tuple:
        return len(mine) == len(its) and all(map(is_, mine, its))
    return type(mine) is type(its) and type(mine) in _PLAIN and mine == its


def _code_of(work: Any) -> tuple[object, ...] | None:
    """Return what is known of it, compared by identity; None: a function that may stand for another one."""
    if type(work) is not FunctionType:
        return (work,)
    if work.__dict__:
        return None
    return work.__code__, len(work.__defaults__ or ()), *(work.__kwdefaults__ or ())
