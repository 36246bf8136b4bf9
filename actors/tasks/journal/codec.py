"""How a record is written down: its kind, and JSON in ASCII. Nothing is ever pickled.

Comes in: a record of ``actors.tasks.model.task_events``. Goes out: text that any database takes, and from it the same
record again. What JSON itself has no words for survives, because Python's own reader knows what its writer writes: NaN
and the infinities, NUL, half a character (a lone surrogate), integers of any size. One thing does not: two halves that
stand side by side are read as the one character that they make.

A value of any size is made text in parts (``texts``): the encoder of the standard library is one call of C, which no
other thread interrupts. One such call over hundreds of megabytes would hold up the renewal of a lease, and every loop.

The texts of records are not checked by pydantic, which refuses half a character; each field is still of the type that
is declared for it. Tasks and plans are checked by their own classes.
"""

from __future__ import annotations

import functools
import json
import marshal
import types
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from json.encoder import JSONEncoder, encode_basestring_ascii
from operator import attrgetter
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from actors.model.errors import ConfigError
from actors.model.event_dict import kept_fields
from actors.model.events import Event, journalled_kind, require_journalled
from actors.tasks.model import task_events as _kinds  # noqa: F401 - the kinds that a journal holds are known once this is loaded
from actors.tasks.model.shared_values import SMALL_CHARS, is_small
from actors.tasks.model.task import Plan
from actors.tasks.model.task_errors import StoreError

_FieldReader: TypeAlias = Callable[[Any], Any]
_DIGITS: Final = 600
"""Python makes text of integers of so many digits whatever limit is set (``sys.set_int_max_str_digits``)."""


# -- records -------------------------------------------------------------------------------------------------


def encode(record: Event) -> tuple[str, str]:
    """A record as the name of its kind and JSON.

    Raises:
        TypeError: it could not be read back by the name of its kind: a bug.
    """
    kind, body, large = encode_apart(record)
    return kind, body if large is None else joined(record, body, "".join(large))


def encode_apart(record: Event) -> tuple[str, str, Iterable[str] | None]:
    """Kind and JSON, and by itself the JSON of the one field that may be large, in parts; None where it has none."""
    cls = type(record)
    form = _RECORDS.get(cls) or _record_form(record)
    kept = zip(form.names, form.values(record), form.defaults, strict=True)
    values = {name: value for name, value, default in kept if value is not default}
    large = values.pop(form.large, MISSING)
    return cls.__name__, to_json(values), None if large is MISSING else texts(large)


def joined(record: Event, body: str, large: str) -> str:
    """The JSON of a record, with that of its large field in it."""
    return f'{body[:-1]},"{_form(type(record)).large}":{large}}}'


def decode(kind: str, body: str) -> Event:
    """The record that was encoded.

    Raises:
        StoreError: it is none of ours.
    """
    cls = journalled_kind(kind)
    if cls is None:
        raise StoreError("journal", f"holds a record of the unknown kind {kind!r}. It was written by a newer version")
    try:
        record: Event = _form(cls).build(from_json(body))
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError, ConfigError) as error:
        # Without what it was: a record holds what is nobody's business.
        what = f"holds a {kind} that is none ({type(error).__name__}). It is damaged, or was written by a newer version"
        raise StoreError("journal", what) from None
    return record


_RECORDS: Final[dict[type[Any], _Form]] = {}
"""How the kinds that were written so far are taken apart."""


def _record_form(record: Event) -> _Form:
    require_journalled(record)
    form = _RECORDS[type(record)] = _form(type(record))
    return form


# -- JSON ----------------------------------------------------------------------------------------------------


def to_json(value: object) -> str:
    """JSON in ASCII; records and models as dicts."""
    try:
        return _ENCODE(value)
    except ValueError:
        return _with_large_numbers(value)


def texts(value: object, depth: int = 0) -> Iterable[str]:
    """The JSON of a value, as ``to_json`` makes it, in parts: each is made in a moment, however large the value is."""
    if isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)):
        value = _plain(value)
    return (to_json(value),) if depth >= _DEPTH or is_small(value) else _parts(value, depth)


def _parts(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield '"'
        for at in range(0, len(value), SMALL_CHARS):
            yield to_json(value[at : at + SMALL_CHARS])[1:-1]
        yield '"'
    elif isinstance(value, dict) and value:
        yield from _gathered("{", value.items(), lambda entry: _entry(entry, depth + 1), "}")
    elif isinstance(value, (list, tuple)) and value:
        yield from _gathered("[", value, lambda each: texts(each, depth + 1), "]")
    else:
        yield to_json(value)


def _entry(entry: tuple[object, object], depth: int) -> Iterator[str]:
    key, value = entry
    yield to_json({key: None})[1:-5]  # as JSON writes keys that are no text
    yield from texts(value, depth)


def _gathered(begin: str, inner: Iterable[Any], parts: Callable[[Any], Iterable[str]], end: str) -> Iterator[str]:
    """Short parts are made one: a list of a million numbers is no million texts."""
    gathered, length = [begin], 0
    for number, each in enumerate(inner):
        if number:
            gathered.append(",")
        for part in parts(each):
            gathered.append(part)
            length += len(part)
            if length >= SMALL_CHARS:
                yield "".join(gathered)
                gathered, length = [], 0
    gathered.append(end)
    yield "".join(gathered)


_DEPTH: Final = 50
"""Depth to which a value is taken apart: what lies deeper is made text by one call."""


_SCAN: Final[Callable[[str, int], tuple[Any, int]]] = vars(json.JSONDecoder())["scan_once"]
"""Function that ``json.loads`` calls after it has looked for spaces around."""


def from_json(text: str) -> Any:
    """Return the value that was written."""
    value, end = None, -1
    try:
        value, end = _SCAN(text, 0)
    except (StopIteration, TypeError, ValueError):
        end = -1  # the slow way says what is wrong, or reads it
    if end == len(text):  # nothing stands around it, as we write it
        return value
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # more digits than Python reads at once
        return json.loads(text, parse_int=_number)


def _plain(value: object) -> object:
    """Convert what JSON has no form for: models and records, as dicts."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    message = f"a {type(value).__name__} is nothing that JSON can be made of"
    raise TypeError(message)


def _encoder() -> Callable[[object], str]:
    """Return what makes JSON: ``JSONEncoder.encode``, without the making of a new encoder for each value.

    What is written has been made JSON, so nothing is in itself, and that is not looked for.
    """
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without this part in C
        return JSONEncoder(default=_plain, separators=(",", ":")).encode
    chunks = make(None, _plain, encode_basestring_ascii, None, ":", ",", False, False, True)  # noqa: FBT003 - by position only
    return lambda value: "".join(chunks(value, 0))


_ENCODE: Final = _encoder()


def _with_large_numbers(value: object) -> str:
    """Encode a value in which an integer has more digits than Python makes text of: each is put in by hand."""
    mark, numbers = uuid.uuid4().hex, list[int]()

    def marked(part: object) -> object:
        if isinstance(part, int) and abs(part) >= 10**_DIGITS:
            numbers.append(part)
            return f"{mark}{len(numbers) - 1}."
        if isinstance(part, dict):
            return {key: marked(each) for key, each in part.items()}
        if isinstance(part, (list, tuple)):
            return [marked(each) for each in part]
        return marked(_plain(part)) if isinstance(part, BaseModel) or is_dataclass(part) else part

    text = _ENCODE(marked(value))
    for at, number in enumerate(numbers):
        text = text.replace(f'"{mark}{at}."', ("-" if number < 0 else "") + _text(abs(number)))
    return text


def _text(number: int) -> str:
    """The digits of a number of any size."""
    if number < 10**_DIGITS:
        return str(number)
    size = max(_DIGITS, number.bit_length() * 3 // 20)  # about half of its digits
    upper, lower = divmod(number, 10**size)
    return _text(upper) + _text(lower).zfill(size) if upper else _text(lower)


def _number(digits: str) -> int:
    """The number of any count of digits."""
    if len(digits) <= _DIGITS:
        return int(digits)
    if digits[0] == "-":
        return -_number(digits[1:])
    size = len(digits) // 2
    shift: int = 10**size
    return _number(digits[:-size]) * shift + _number(digits[-size:])


# -- what a record is made of --------------------------------------------------------------------------------


class _Form:
    """How a class of records is taken apart, and put together again."""

    def __init__(self, cls: type[Any]) -> None:
        self._cls = cls
        self.large: str = cls.large if issubclass(cls, Event) else ""
        hints = get_type_hints(cls)
        self.names = names = [each.name for each in kept_fields(cls)]
        self.values: Callable[[Any], tuple[Any, ...]] = (
            attrgetter(*names) if len(names) > 1 else lambda record: tuple(getattr(record, name) for name in names)
        )
        """Returns the values of these fields."""
        self.defaults = [each.default for each in kept_fields(cls)]
        """Defaults of its fields: a value like its default is not written."""
        self._readers = {each.name: _reader(hints[each.name]) for each in kept_fields(cls)}
        self._makers = [(name, read) for name, read in self._readers.items() if not _only_checks(read)]
        """Readers that make something else of a value."""
        self._known: set[tuple[object, ...]] = set()
        """Names and types of all values, as they came before: where the type decides, they are right."""

    def build(self, data: dict[str, Any]) -> Any:
        shape = (*data, *map(type, data.values()))
        if shape in self._known:
            for name, read in self._makers:
                if name in data:
                    data[name] = read(data[name])
            return self._cls(**data)
        readers = self._readers
        made = self._cls(**{name: readers[name](value) for name, value in data.items()})
        self._known.add(shape)
        return made


_FORMS: Final[dict[type[Any], _Form]] = {}


def _form(cls: type[Any]) -> _Form:
    form = _FORMS.get(cls)
    if form is None:
        form = _FORMS[cls] = _Form(cls)
    return form


def _reader(hint: Any) -> _FieldReader:  # noqa: PLR0911 - a table
    """How a field of this type is made of JSON."""
    if hint is Any:
        return _as_it_is
    origin, parts = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        (other,) = [part for part in parts if part is not type(None)]
        read = _reader(other)
        if isinstance(read, functools.partial):
            return functools.partial(_of, (*_kinds_of(read), type(None)))
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        each = _reader(parts[0])
        return lambda value: tuple(map(each, _of(list, value)))
    if origin is dict:
        return functools.partial(_of, dict)
    if hint is float:
        return functools.partial(_of, (float, int))
    kind: type[Any] = hint
    if issubclass(kind, Enum):
        return kind
    if issubclass(kind, BaseModel):
        return _plan if kind is Plan else lambda value: kind(**value)
    if is_dataclass(kind):
        return lambda value: _form(kind).build(value)
    return functools.partial(_of, kind)


_LONGEST_PLAN: Final = 8 * 1024
"""Bytes of a plan up to which it is looked for among those that were read before."""


def _plan(value: Any) -> Plan:
    """A plan; the very same one where one of the last that were read says the same.

    Most tasks of a supervisor have the plan of one planner, and to check it takes longer than all else of its record. A
    plan is frozen, and a planner gives one to all its tasks as well. What is the same is decided by bytes that tell
    ``1``, ``1.0`` and ``True`` apart.
    """
    try:
        text = marshal.dumps(value, _NO_REFERENCES)
    except ValueError:  # too deep for it
        return Plan(**value)
    return _plan_of(text) if len(text) <= _LONGEST_PLAN else Plan(**value)


_NO_REFERENCES: Final = 2
"""Form in which equal values give equal bytes, whoever else holds a part of them."""


@functools.lru_cache(maxsize=64)
def _plan_of(text: bytes) -> Plan:
    return Plan(**marshal.loads(text))  # noqa: S302 - made a moment ago, here


def _only_checks(read: _FieldReader) -> bool:
    """True where the reader gives back the value itself, or refuses it because of its type."""
    return read is _as_it_is or isinstance(read, functools.partial)


def _kinds_of(read: functools.partial[Any]) -> tuple[type[Any], ...]:
    wanted = read.args[0]
    return wanted if isinstance(wanted, tuple) else (wanted,)


def _as_it_is(value: object) -> object:
    return value


def _of(wanted: type[Any] | tuple[type[Any], ...], value: object) -> Any:
    if not isinstance(value, wanted):
        raise TypeError
    return value
