"""Frozen dataclasses with slots that are quickly made: events are, by the million.

The ``__init__`` of a frozen dataclass looks each field up in its class before it writes it. The one that is made here
lets the new object be of a class that is not frozen while it writes the fields, as any code writes attributes: that
takes a third of the time. That class has the same slots, so an object of the one can become one of the other.

Records are copied and pickled with all of their slots, also those that are no field, such as the time at which an event
was published. Of a traceback None is left: it is of its process, and of its frames.

All else is as ``dataclass`` makes it: the fields, their defaults, the signature, equality, and that nothing is changed
afterwards. An object of a class that is derived without ``record`` is made as usual.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter, signature
from types import TracebackType
from typing import Any, Final, TypeVar, dataclass_transform

_MARK: Final = "_is_being_made"
_turn_into: Final = vars(object)["__class__"].__set__
ClassT = TypeVar("ClassT", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: ClassT) -> ClassT:
    """Make a dataclass of a class, frozen and with slots, as ``dataclass(frozen=True, slots=True)`` does."""
    made: Any = dataclass(frozen=True, slots=True)(cls)
    made.__init__ = _quick(made)
    made.__getstate__, made.__setstate__ = _state, _restore
    return made  # type: ignore[no-any-return]


def _state(of: Any) -> dict[str, Any]:
    """Return all that an object holds, by name."""
    names = [name for kind in type(of).__mro__ for name in getattr(kind, "__slots__", ())]
    held = {name: getattr(of, name) for name in names if hasattr(of, name)} | getattr(of, "__dict__", {})
    return {name: None if isinstance(value, TracebackType) else value for name, value in held.items()}


def _restore(of: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        object.__setattr__(of, name, value)


def _quick(cls: type[Any]) -> Any:
    """Make the ``__init__`` that writes slots; the one that there is where a field is not just an argument."""
    usual: Any = cls.__init__
    own = fields(cls)
    if hasattr(cls, "__post_init__") or any(not each.init or each.default_factory is not MISSING for each in own):
        return usual
    takes = list(signature(usual).parameters.values())
    by_name = [each.name for each in takes if each.kind is Parameter.KEYWORD_ONLY]
    arguments = [each.name for each in takes if each.kind is not Parameter.KEYWORD_ONLY]
    head = ", ".join([*arguments, *(["*", *by_name] if by_name else [])])
    given = ", ".join([*arguments, *(f"{name}={name}" for name in by_name)])
    body = "".join(f"\n    self.{each.name} = {each.name}" for each in own)
    source = f"""def __init__({head}) -> None:
    if _type(self) is not _record:
        return _usual({given})
    _turn_into(self, _unfrozen){body}
    self.__class__ = _record"""
    own_names = {"_type": type, "_record": cls, "_unfrozen": _unfrozen(cls), "_usual": usual, "_turn_into": _turn_into}
    exec(source, own_names)  # noqa: S102 - as dataclass itself does; names are identifiers
    init: Any = own_names["__init__"]
    init.__defaults__, init.__kwdefaults__ = usual.__defaults__, usual.__kwdefaults__
    init.__annotations__, init.__qualname__, init.__module__ = usual.__annotations__, usual.__qualname__, cls.__module__
    return init


def _unfrozen(cls: type[Any]) -> type[Any]:
    """Make the class of the same slots whose objects can be written to."""
    able = {"__slots__": (), _MARK: True, "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    return type(cls.__name__, (cls,), able)


def is_unfrozen(cls: type[Any]) -> bool:
    """True of the class of a record that is being made: no kind of its own."""
    return _MARK in vars(cls)


__all__ = ["is_unfrozen", "record"]
