"""``Process``: a worker whose every incarnation is a process, and how that is set up; and what crosses to it.

What is said here of a process holds for an actor in a cluster as well (``trees.declaration.ray``).
"""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, PlainValidator

from actors.dispatch.host.forked_handle import ForkedPlace
from actors.dispatch.process import ProcessCode
from actors.dispatch.remote import reason
from actors.dispatch.worker.worker_imports import found_by_name
from actors.model.errors import Problem
from actors.model.spec import DispatcherKind
from actors.validation.introspection import type_name
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import type_phrase, validation_error, value_phrase
from trees.declaration.command import Environment, Folder
from trees.declaration.ray import Ray, missing_package

if TYPE_CHECKING:
    from trees.declaration.specs import WorkerSpec

_OF_MAIN: Final = "__main__:"
_IMPORTABLE: Final = 'Give "module:attr", and let it stand at the top of a module that the process can import.'


def _modules(value: object) -> tuple[str, ...]:
    hint = "Write ('numpy', 'shop.models')."
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise validation_error(f"expected names of modules, got {type_phrase(value)}", hint)
    for each in value:
        if not isinstance(each, str) or not all(part.isidentifier() for part in each.split(".")):
            raise validation_error(f"{value_phrase(each)} is the name of no module", hint)
    return tuple(value)


class Process(SpecModel, frozen=True):
    """A process for each incarnation, in a group of its own: what cannot be caught there is one exit here."""

    memory_mb: Annotated[int, Field(ge=1)] | None = None
    """Megabytes of address space that it may have, where the system has such a limit: what exceeds it gets a
    ``MemoryError``, or dies. An interpreter with this library has about 200. ``None``: no limit."""
    preload: Annotated[Sequence[str], PlainValidator(_modules)] = ()
    """Modules that are imported once, before processes are made: then a start costs about 10 ms."""
    env: Environment = None
    """Added to the environment of the host. Shown nowhere."""
    cwd: Folder = None
    """The folder that it runs in. ``None``: that of the host. Shown nowhere."""
    recycle_after: Annotated[int, Field(ge=1)] | None = None
    """Messages, or attempts, after which a fresh process takes its place, between two of them: for code that grows. It
    counts in no restart window. ``None``: never."""

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """Show neither environment nor folder: they may hold secrets."""
        yield "memory_mb", self.memory_mb
        yield "preload", self.preload
        yield "recycle_after", self.recycle_after


_BY_WORD: Final[Mapping[str, Process | Ray]] = MappingProxyType({"process": Process(), "ray": Ray()})


class _Named:
    """Code that is named by an import string: its pickle is the string, and what is unpickled is the code."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return found_by_name, (self._name,)


def place_of(spec: WorkerSpec) -> str:
    """Return where a worker is to run, in one word."""
    if isinstance(spec.dispatch, Process):
        return "process"
    return "ray" if isinstance(spec.dispatch, Ray) else spec.dispatch


def elsewhere(spec: WorkerSpec) -> Process | Ray | None:
    """Return how its incarnations are set up where they are not in this process; None: they are."""
    if isinstance(spec.dispatch, (Process, Ray)):
        return spec.dispatch
    return _BY_WORD.get(spec.dispatch)


def code_of(
    spec: WorkerSpec,
    maker: Callable[..., Any],
    value: object,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    **rules: Any,
) -> ProcessCode:
    """Return the code of a worker as it crosses; ``maker(code, args, kwargs, **rules)`` makes the recipe there."""
    code = partial(maker, _crossing(value), args, kwargs, **{name: _crossing(each) for name, each in rules.items()})
    pickled, is_async = pickle.dumps(code, protocol=5), rules.get("where") is DispatcherKind.LOOP
    there = elsewhere(spec)
    if isinstance(there, Ray):
        return ProcessCode(pickled, there.place(spec.id), is_async)
    process = there or Process()
    return ProcessCode(
        pickled,
        ForkedPlace(("actors.dispatch.worker.worker_runner", maker.__module__, *process.preload)),
        is_async,
        process.memory_mb,
        tuple((process.env or {}).items()),
        process.cwd,
        process.recycle_after,
    )


def _crossing(value: object) -> object:
    return _Named(value) if isinstance(value, str) and ":" in value else value


def problems(spec: WorkerSpec, at: str, field: str, value: object) -> Iterator[Problem]:
    """Yield why a worker cannot run in a process: what it consists of must be found, or rebuilt, there."""
    there = elsewhere(spec)
    missing = missing_package(at) if isinstance(there, Ray) else None
    if missing is not None:
        yield missing
    for name, part in ((field, value), ("lifespan", spec.lifespan)):
        flaw = None if part is None or isinstance(part, str) else _flaw(part)
        if flaw is not None:
            yield Problem(f"{at}.{name}", f"{flaw}, so its process cannot import it", _IMPORTABLE)
        elif _is_typed_in(part):
            yield _typed_in(f"{at}.{name}", part)
    typed_in = next((each for each in spec.expected if _is_typed_in(each)), None)
    if typed_in is not None:
        yield _typed_in(f"{at}.expected", typed_in)
    for name in ("args", "kwargs", "expected"):
        try:
            pickle.dumps(getattr(spec, name), protocol=5)
        except Exception as error:  # noqa: BLE001 - pickling runs the user's code
            what = f"{name} cannot be pickled ({reason(error)}), so they cannot cross to its process"
            yield Problem(f"{at}.{name}", what, "Give plain data, and make what is not in __init__ or on_start.")
    for module in there.preload if isinstance(there, Process) else ():
        if not _is_there(module):
            yield Problem(f"{at}.dispatch.preload", f"no module named {module!r}", "Install it, or leave it out.")


def _is_typed_in(part: object) -> bool:
    """True for what stands in a ``__main__`` without a file, where no other process can find it."""
    is_of_main = part.startswith(_OF_MAIN) if isinstance(part, str) else getattr(part, "__module__", "") == "__main__"
    if not is_of_main:
        return False
    main = sys.modules["__main__"]
    return getattr(main, "__spec__", None) is None and not Path(getattr(main, "__file__", None) or "").is_file()


def _typed_in(at: str, part: object) -> Problem:
    name = part.removeprefix(_OF_MAIN) if isinstance(part, str) else str(getattr(part, "__qualname__", "it"))
    what = f"{name} was typed in, and not into a file, so its process cannot import it"
    return Problem(at, what, f"Write it into a file, shop.py, and type: from shop import {name.partition('.')[0]}")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (Exception, SystemExit):  # noqa: BLE001 - the package around it is imported: it is the user's code
        return False


def _flaw(part: object) -> str | None:
    """Why something cannot be found, or rebuilt, in another process; None: it can."""
    name = getattr(part, "__qualname__", "")
    if isinstance(name, str) and "<lambda>" in name:
        return "is a lambda"
    if isinstance(name, str) and "<locals>" in name:
        return f"{name.rpartition('.')[2]} stands inside of a function"
    try:
        pickle.dumps(part, protocol=5)
    except Exception as error:  # noqa: BLE001 - pickling runs the user's code
        return f"{type_name(type(part))} cannot be pickled ({reason(error)})"
    return None
