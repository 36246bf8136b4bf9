"""Values that an attempt is given by name; the error of a name that is not there says what to write.

This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from actors.validation.validation_messages import listed, nearest


class MissingResultError(KeyError):
    """An attempt looked up the result of a subtask that it does not depend on, or an input that does not exist."""

    def __init__(self, name: object, results: Iterable[str], inputs: Iterable[str] = ()) -> None:
        super().__init__(name, tuple(sorted(results)), tuple(sorted(inputs)))

    def __str__(self) -> str:
        name, results, inputs = self.args
        there = f"It has those of {listed(results, 'and')}" if results else "It has none"
        if inputs:
            there = f"{there}, and the inputs {listed(inputs, 'and')}"
        hint = nearest(name, (*results, *inputs)) if isinstance(name, str) else ""
        what = f"no result of {name!r} is given to this attempt"
        return f"{what}. {there}. {hint}An attempt sees what its subtask depends on: Subtask(..., depends_on=[...])."


class GivenResults(dict[str, Any]):
    """Results by id: a dict like any other, but for the error of a missing one."""

    def __missing__(self, id_: str) -> Any:
        raise MissingResultError(id_, self)


class GivenValues(Mapping[str, Any]):
    """Base of contexts: a read-only mapping of the results of dependencies, then the inputs. It is always true."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> Any:
        results, inputs = self._both()
        for values in (results, inputs):
            if name in values:
                return values[name]
        raise MissingResultError(name, results, inputs)

    def __iter__(self) -> Iterator[str]:
        results, inputs = self._both()
        return iter({**results, **inputs})

    def __len__(self) -> int:
        results, inputs = self._both()
        return len(results.keys() | inputs.keys())

    def __bool__(self) -> bool:
        return True

    def _both(self) -> tuple[dict[str, Any], dict[str, Any]]:
        context: Any = self
        return context.results, context.inputs
