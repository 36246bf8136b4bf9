"""The base of what a user writes, for trees and for tasks: frozen records that are right by themselves.

Comes in: arguments. Goes out: a frozen record, or one ``ConfigError`` with every problem of it. Nothing here runs,
imports or inspects the user's code. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticSerializationError

from actors.model.errors import ConfigError, DepthError, Problem
from actors.validation import field_types
from actors.validation.json_form import raise_interrupt
from actors.validation.validation_messages import from_pydantic, type_phrase

CODE_FIELDS = ("output", "undo", "estimate", "lifespan")
"""Fields that hold, or may hold, a user's code, besides those that say what a worker does (``field_types.WORK``)."""
_SECRET = frozenset({"args", "kwargs", "inputs", "metadata", "token"})
"""Fields that no repr shows: secrets travel there."""
_VALUES: Final[Any] = vars(BaseModel)["__dict__"]
_GIVEN: Final[Any] = vars(BaseModel)["__pydantic_fields_set__"]
_EXTRA: Final[Any] = vars(BaseModel)["__pydantic_extra__"]
_PRIVATE: Final[Any] = vars(BaseModel)["__pydantic_private__"]
"""Places of all that a model holds, beside the values of its fields: to read and write them by name is slow."""
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_SHARED_NAMES: Final[dict[frozenset[str], set[str]]] = {}
"""Names of fields that copies were given: nobody changes those of a spec, so all that have the same ones share them."""


class SpecModel(BaseModel, frozen=True):
    """The base of what a user writes: no unknown words, frozen, and one error type for every mistake.

    A spec keeps the objects it was given; children, functions and arguments are never copied. It cannot be changed:
    ``model_copy(update={...})`` makes another one and checks it. A repr never shows ``args`` or ``kwargs``.
    """

    # Frozen is said at each class, because only there a type checker sees it.
    model_config = ConfigDict(extra="forbid", strict=True)

    _in_order: ClassVar[bool] = False
    """True where its fields may be given in their order, without their names."""
    _called: ClassVar[str] = ""
    """Name that users know, where that is not the name of the class."""

    def __init_subclass__(cls, *, kw_only: bool = True, **config: Any) -> None:
        # What dataclass_transform, which type checkers know pydantic by, calls it.
        super().__init_subclass__(**config)
        cls._in_order = not kw_only

    def __init__(self, /, *values: Any, **data: Any) -> None:
        if values:
            data = self._named(values, data)
        problems: list[Problem] = []
        try:
            super().__init__(**data)
        except ValidationError as error:
            known = {cls._title(): list(cls.model_fields) for cls in [*SpecModel.__subclasses__(), type(self)]}
            problems = from_pydantic(error, self._owner(data), self._title(), known)
        # Raised outside of the except block: pydantic's error holds the values and would travel as the context.
        problems += self._cross_field_problems(data)
        deep = self._depth_problems(data)
        if problems or deep:
            raise (ConfigError if problems else DepthError)((*problems, *deep))

    @classmethod
    def _named(cls, values: tuple[Any, ...], data: dict[str, Any]) -> dict[str, Any]:
        """Values that were given in order, under the names of their fields."""
        names = list(cls.model_fields) if cls._in_order else []
        given = dict(zip(names, values, strict=False))
        twice = given.keys() & data.keys()
        if not cls.model_fields:
            raise ConfigError((Problem(cls.__name__, "takes no values", cls._form()),))
        if len(values) > len(names) or twice:
            what = f"got {min(twice)!r} twice" if twice else f"takes {len(names)} values without names at most"
            named = "" if names else f"Write {cls.__name__}({next(iter(cls.model_fields))}=...). "
            raise ConfigError((Problem(cls.__name__, what, f"{named}Its fields are {', '.join(cls.model_fields)}."),))
        return given | data

    @classmethod
    def _owner(cls, data: Mapping[str, Any]) -> str:
        """Beginning of the paths of its problems."""
        name: object = data.get("id")
        return str(name) if field_types.is_id(name) else cls._title()

    @classmethod
    def _title(cls) -> str:
        return cls._called or cls.__name__

    @classmethod
    def _cross_field_problems(cls, data: Mapping[str, Any]) -> list[Problem]:  # noqa: ARG003 - for the specs that have a rule
        """Fields that do not go together. ``data`` is what the user gave, unchecked."""
        return []

    @classmethod
    def _depth_problems(cls, data: Mapping[str, Any]) -> list[Problem]:  # noqa: ARG003 - the same
        """Return what stands too deep. ``data`` is what the user gave, unchecked."""
        return []

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Make one of a dict of its fields, as pydantic does; every mistake is a ``ConfigError``."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError:  # not of a field: those are refused by ``__init__``
            got = type_phrase(obj)
        raise ConfigError((Problem(cls._title(), f"expected a dict of its fields, got {got}", cls._form()),))

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Make one of a JSON object with its fields, as pydantic does; every mistake is a ``ConfigError``."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            is_json = error.errors(include_input=False)[0]["type"] != "json_invalid"
        what = "expected a JSON object of its fields" if is_json else "the text is no JSON"
        raise ConfigError((Problem(cls._title(), what, cls._form()),))

    @classmethod
    def _form(cls) -> str:
        given = f"{next(iter(cls.model_fields))}=..." if cls.model_fields else ""
        return f"Write {cls._title()}({given})."

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the spec, with ``update`` changed, and check it like any new one, which pydantic's own does not."""
        if not update:
            return super().model_copy(deep=deep)
        return type(self)(**{name: getattr(self, name) for name in self.model_fields_set} | dict(update))

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return its fields as pydantic does; a Ctrl-C meanwhile is that, and no error of pydantic's."""
        try:
            return super().model_dump(**options)
        except PydanticSerializationError as error:
            raise_interrupt(error)
            raise

    if not TYPE_CHECKING:  # a type checker that saw these two would let any attribute be set

        def __setattr__(self, name: str, value: object) -> None:
            raise ConfigError((self._frozen(name),))

        def __delattr__(self, name: str) -> None:
            raise ConfigError((self._frozen(name),))

    def _frozen(self, name: str) -> Problem:
        at = f"{self._owner(self.__dict__)}.{name}"
        return Problem(at, "a spec cannot be changed", f"Make another one: model_copy(update={{{name!r}: ...}}).")

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """Show what was given, of code only its name, but no arguments of a worker: secrets travel there."""
        for name in type(self).model_fields:
            if name in self.model_fields_set and name not in _SECRET:
                is_code = name in CODE_FIELDS or field_types.WORK in type(self).model_fields[name].metadata
                yield name, _brief(name, getattr(self, name), is_code=is_code)


def _brief(name: str, value: Any, *, is_code: bool) -> object:
    """A field's value for a repr. Only a name of code: a partial or a bound method would show what is bound."""
    if name == "children":
        return f"{len(value)} declared"
    if not is_code or value is None or isinstance(value, (str, int, float, SpecModel)):
        return value
    return f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', type(value).__qualname__)}"


ModelT = TypeVar("ModelT", bound=SpecModel)


def copy_with(model: ModelT, unsaid: Mapping[str, Any] = _NOTHING, /, **values: Any) -> ModelT:
    """Copy a model, with other values that need no check; for what is done for each task and each attempt.

    ``model_copy`` checks all of it again, and ``copy`` copies what nobody changes.

    Args:
        model: to copy.
        unsaid: values that do not count as given: they stand for those of the model that do not.
        values: those that do.
    """
    cls = type(model)
    copy, all_values = cls.__new__(cls), model.__dict__.copy()
    if unsaid:
        all_values.update(unsaid)
    all_values.update(values)
    _VALUES.__set__(copy, all_values)
    given = _GIVEN.__get__(model)
    if not given.issuperset(values):
        given = given.union(values)
        given = _SHARED_NAMES.setdefault(frozenset(given), given)
    _GIVEN.__set__(copy, given)
    _EXTRA.__set__(copy, model.__pydantic_extra__)
    _PRIVATE.__set__(copy, model.__pydantic_private__)
    return copy
