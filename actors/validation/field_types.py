"""Types of the fields of a declaration, where pydantic's own would accept too much or say too little.

Comes in: whatever a user wrote. Goes out: the value in the form in which a spec keeps it, or a refusal in our words.
No text shows an argument of a worker. This module must never import the specs themselves.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, PlainValidator

from actors.validation.validation_messages import (
    TASK_ID,
    type_phrase,
    validation_error,
    validation_errors,
    value_phrase,
)

MAX_SECONDS = 1e9
"""Thirty years: the longest duration, because the platform's own waits overflow not far beyond it."""

MAX_AMOUNT = 1e300
"""Largest sum of what is only counted and added up; it is a legal amount itself."""

_ID = re.compile(r"[A-Za-z0-9_.-]+")


def is_id(value: object) -> bool:
    """True for a str that may be an id: letters, digits, ``_``, ``.`` and ``-``, at least one."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _number(value: object, fits: Callable[[float], bool], unit: str, hint: str) -> float:
    """A number that fits, as a float. A bool is none, and nan fits nowhere."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise validation_error(f"expected a number{unit}, got {value_phrase(value)}", hint)
    if not fits(value):
        raise validation_error(f"{value_phrase(value)} is out of range", hint)
    return float(value)


def _at_least(low: float, high: float = MAX_SECONDS) -> PlainValidator:
    """A number from ``low`` to ``high``, bounds included."""
    hint = f"Use a number from {low:g} to {high:,.0f}."
    return PlainValidator(lambda value: _number(value, lambda number: low <= number <= high, "", hint))


def _amount(value: object) -> float:
    hint = f"Use a finite number from 0 to {MAX_AMOUNT:g}."
    return _number(value, lambda number: 0 <= number <= MAX_AMOUNT, "", hint)


def _positive_seconds(value: object) -> float:
    hint = f"Use more than 0 and at most {MAX_SECONDS:,.0f} seconds."
    return _number(value, lambda number: 0 < number <= MAX_SECONDS, " of seconds", hint)


def _start_timeout(value: object) -> float | None:
    if value is None:
        return None
    hint = f"Use more than 0 and at most {MAX_SECONDS:,.0f} seconds, or None for no limit."
    return _number(value, lambda number: 0 < number <= MAX_SECONDS, " of seconds", hint)


def _shutdown(value: object) -> float | str:
    hint = f"Use 0 to {MAX_SECONDS:,.0f} seconds, 'brutal_kill', or 'infinity' for no limit."
    if isinstance(value, str) and value in {"brutal_kill", "infinity"}:
        return str(value)
    return _number(value, lambda number: 0 <= number <= MAX_SECONDS, " of seconds", hint)


def _an_actor(value: object) -> object:
    if value is None or isinstance(value, (str, type)):
        return value
    hint = "Give the class itself, or 'module:attr': each restart makes a new object."
    raise validation_error(f"expected a class, got {type_phrase(value)}", hint)


def _some_code(value: object) -> object:
    if value is None or isinstance(value, str) or callable(value):
        return value
    called = inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)
    hint = "Give the function itself, without calling it." if called else "Give a function, or 'module:attr'."
    if any(callable(getattr(type(value), each, None)) for each in ("execute", "run", "invoke", "ainvoke")):
        hint = "Write execute= for an agent, or for any object that is given tasks."
    raise validation_error(f"{type_phrase(value)} cannot be called", hint)


def _a_lifespan(value: object) -> object:
    if value is None or isinstance(value, str) or callable(value):
        return value
    hint = "Give the function itself, without calling it: each start enters a new context manager."
    raise validation_error(f"expected a factory of context managers, got {type_phrase(value)}", hint)


def _args(value: object) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise validation_error(f"expected a tuple, got {type_phrase(value)}", "Write (value,) or [value].")
    return tuple(value)


def _kwargs(value: object) -> dict[str, Any]:
    hint = "Write {'parameter': value}."
    if not isinstance(value, dict):
        raise validation_error(f"expected a dict, got {type_phrase(value)}", hint)
    odd = next((key for key in value if not isinstance(key, str)), None)
    if odd is not None:
        raise validation_error(f"{type_phrase(odd)} is the name of no parameter", hint)
    return dict(value)


def exception_types(value: object) -> tuple[type[Exception], ...]:
    """Return one exception type, or several, as a tuple."""
    types = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    hint = "Give exception types; SystemExit and its like always crash."
    wrong = [each for each in types if not (isinstance(each, type) and issubclass(each, Exception))]
    if wrong:
        what = "expected a subclass of Exception, got"
        raise validation_errors([("", f"{what} {type_phrase(each)}", hint) for each in wrong])
    return types


def specs(value: object, accepted: tuple[type[Any], ...]) -> tuple[Any, ...]:
    """A list or tuple of instances of these classes, kept as they are: an isinstance each, and no copy."""
    wanted = " or ".join(f"{cls.__name__}(...)" for cls in accepted)
    if not isinstance(value, (list, tuple)):
        raise validation_error(f"expected a list, got {type_phrase(value)}", f"Write [{wanted}, ...].")
    wrong = [n for n, each in enumerate(value) if not isinstance(each, accepted)]
    if wrong:
        got = [(f"[{n}]", f"expected a spec, got {type_phrase(value[n])}") for n in wrong]
        raise validation_errors([(at, what, f"Write {wanted}.") for at, what in got])
    return tuple(value)


Id: TypeAlias = Annotated[str, Field(pattern=f"^{_ID.pattern}$")]
"""Unique among siblings; the last part of the path."""

TaskId: TypeAlias = Annotated[str, Field(pattern=TASK_ID)]
"""Id of a task. Only ids that the library makes have an @ (``task_ids``); a task with one is refused."""

Count: TypeAlias = Annotated[int, Field(ge=0)]
Share: TypeAlias = Annotated[float, _at_least(0, 1)]
Factor: TypeAlias = Annotated[float, _at_least(1)]
Delay: TypeAlias = Annotated[float, _at_least(0)]
Amount: TypeAlias = Annotated[float, PlainValidator(_amount)]
Period: TypeAlias = Annotated[float, PlainValidator(_positive_seconds)]
LeaseTime: TypeAlias = Annotated[float, _at_least(0.5, 3600)]
"""Seconds; less would be over between two looks of a busy machine."""
StartTimeout: TypeAlias = Annotated[float | None, PlainValidator(_start_timeout)]
"""Seconds, or None for no limit."""
Shutdown: TypeAlias = Annotated[float | Literal["brutal_kill", "infinity"], PlainValidator(_shutdown)]

WORK: Final = "the work of a worker"
"""Mark of a field that says what a worker does, in its annotation: a worker gives exactly one of these fields."""
ActorTarget: TypeAlias = Annotated[type[Any] | str | None, PlainValidator(_an_actor), WORK]
CodeTarget: TypeAlias = Annotated[Callable[..., Any] | str | None, PlainValidator(_some_code), WORK]
LifespanTarget: TypeAlias = Annotated[Callable[[], Any] | str | None, PlainValidator(_a_lifespan)]
Args: TypeAlias = Annotated[tuple[Any, ...], PlainValidator(_args)]
Kwargs: TypeAlias = Annotated[dict[str, Any], PlainValidator(_kwargs)]
Expected: TypeAlias = Annotated[Sequence[type[Exception]], PlainValidator(exception_types)]

RestartWord: TypeAlias = Literal["permanent", "transient", "temporary"]
ExhaustedWord: TypeAlias = Literal["escalate", "park"]
