"""Checks that what is to be recorded can be written, and read back as it was: before it has any effect.

Comes in: a record that is about to be applied. Goes out: the same, or a ``TypeError`` that names the field. A reader
refuses a field that is not of the type that is declared for it (``actors.tasks.journal.codec``), and then the whole
journal is damaged; so the same declarations are asked before. What a field without a type holds (results, answers) has
its form and its size from where it comes from (``actors.validation.json_form``). What every record is given where it is
made (``OF_RECORDING``) is not looked at.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import is_dataclass
from operator import attrgetter
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from actors.model.event_dict import kept_fields
from actors.model.events import Event, require_journalled

E = TypeVar("E", bound=Event)
_ATOMS: Final = frozenset({str, int, float, bool, type(None)})
OF_RECORDING: Final = frozenset({"path", "task", "seq", "queued_s", "ran_s"})
"""Fields that ``Recording.emit`` fills in, with ids that were checked, numbers of its own, and parts of ``at``."""
_Check = Callable[[Any], bool]
_Fields = list[tuple[str, object, _Check]]


def checked(record: E) -> E:
    """Return the record; it can be written, and read back.

    Raises:
        TypeError: it cannot, because of a bug: names the kind, or the field, and not what is in it.
    """
    try:
        form = _FORMS[type(record)]
    except KeyError:
        require_journalled(record)
        form = _FORMS[type(record)] = _Form(type(record))
    kinds = tuple(map(type, form.atoms(record)))
    if kinds not in form.known:
        _require(record, form.of_atoms)
        if _ATOMS.issuperset(kinds):
            form.known.add(kinds)
    for name, default, check in form.others:
        value = getattr(record, name)
        if value is not default and not check(value):
            raise _unreadable(record, name)
    return record


def _require(record: Event, fields_of: _Fields) -> None:
    for name, default, check in fields_of:
        value = getattr(record, name)
        if value is not default and not check(value):
            raise _unreadable(record, name)


def _unreadable(record: Event, name: str) -> TypeError:
    kind = type(getattr(record, name)).__name__
    return TypeError(f"{type(record).__name__}.{name} is a {kind}, which could not be read back")


class _Form:
    """Types that the fields of a type of records may hold.

    Of most fields the type of the value alone decides, and records of a type have the same few types in them: once
    these have passed together they are ``known``, and only the other fields are looked at.
    """

    __slots__ = ("atoms", "known", "of_atoms", "others")

    def __init__(self, cls: type[Any]) -> None:
        hints, form = get_type_hints(cls), [each for each in _form(cls) if each[0] not in OF_RECORDING]
        of_atoms = [each for each in form if _is_atom(hints[each[0]])]
        self.of_atoms = of_atoms if len(of_atoms) > 1 else []  # of one name an attrgetter makes no tuple
        self.others = [each for each in form if each not in self.of_atoms]
        self.atoms: Callable[[Any], tuple[Any, ...]] = (
            attrgetter(*[name for name, _, _ in of_atoms]) if self.of_atoms else lambda _: ()
        )
        self.known: set[tuple[type, ...]] = set()
        """Types of all atoms, in order. As only ``_ATOMS`` get here, there are few."""


_FORMS: Final[dict[type[Any], _Form]] = {}


def _is_atom(hint: Any) -> bool:
    """True where a value of exactly one of ``_ATOMS`` is of this type, or is not, whatever it is."""
    return hint in _ATOMS or (get_origin(hint) in {Union, types.UnionType} and _ATOMS.issuperset(get_args(hint)))


def _form(cls: type[Any]) -> _Fields:
    hints = get_type_hints(cls)
    checks = [(each.name, each.default, _check(hints[each.name])) for each in kept_fields(cls)]
    return [(name, default, check) for name, default, check in checks if check is not _anything]


def _anything(_: object) -> bool:
    return True


def _check(hint: Any) -> _Check:
    """True where a value is of this type, as ``actors.tasks.journal.codec`` reads it."""
    if hint is Any:
        return _anything
    origin, parts = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        (other,) = [part for part in parts if part is not type(None)]
        inner = _check(other)
        return lambda value: value is None or inner(value)
    if origin is tuple:
        each = _check(parts[0])
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    if origin is dict:
        of_key, of_value = _check(parts[0]), _check(parts[1])
        return lambda value: isinstance(value, dict) and all(of_key(k) and of_value(v) for k, v in value.items())
    if is_dataclass(hint) and isinstance(hint, type):
        form = _form(hint)
        return lambda value: isinstance(value, hint) and all(check(getattr(value, name)) for name, _, check in form)
    kind = (float, int) if hint is float else hint
    return lambda value: isinstance(value, kind)
