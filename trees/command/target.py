"""From ``FILE_OR_MODULE[:ATTR]`` on a command line to the ``SupervisorSpec`` that it names.

The file is imported as a module of its own name, with its folder first on the path, so ``if __name__ == "__main__":``
does not run. Everything that can go wrong is a ``TargetError`` or, where the declaration itself is wrong, the
``ConfigError`` of whoever raised it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from actors.model.errors import ActorsError, ConfigError
from actors.validation.validation_messages import PlacedError, listed, nearest, type_phrase
from trees.declaration.specs import SupervisorSpec

DEFAULT = "TREE"


class TargetError(PlacedError):
    """Raised where the command line leads to no tree."""


@dataclass(frozen=True, slots=True)
class Program:
    """A tree to run, and what is to be done with it."""

    spec: SupervisorSpec
    main: Callable[[Any], Any] | None
    """``main(tree)`` of the same module, if it has one; the inputs that it takes are in it."""
    resume: Callable[[Any], Any] | None = None
    """Function like ``main`` for ``resume``, which goes on with what an earlier run left."""


def load(target: str, inputs: Mapping[str, str]) -> Program:
    """Import the target and find its tree.

    An input is given to whoever has a parameter of its name: the function that makes the tree, ``main``, ``resume``.

    Raises:
        TargetError: there is no such file, module, attribute or input, or the import raised.
        ConfigError: the declaration is wrong; raised by a spec while it was constructed.
    """
    place, attribute = _split(target)
    module = _import(place)
    found = _attribute(module, attribute, place) if attribute else _only(module, place)
    main, resume = (call if _takes_a_tree(call := vars(module).get(name)) else None for name in ("main", "resume"))
    maker = None if isinstance(found, SupervisorSpec) else found
    _refuse_strangers(place, inputs, [call for call in (maker, main, resume) if call is not None])
    spec = found if isinstance(found, SupervisorSpec) else _made(found, attribute or DEFAULT, place, inputs)
    return Program(spec, _with(main, inputs), _with(resume, inputs))


def _split(target: str) -> tuple[str, str]:
    place, colon, attribute = target.rpartition(":")
    if not colon:
        return target, ""
    if not place or not all(part.isidentifier() for part in attribute.split(".")):
        raise TargetError(
            target, "is not a target", "Write FILE.py, FILE.py:ATTR, package.module or package.module:ATTR."
        )
    return place, attribute


# -- importing ---------------------------------------------------------------------------------------------


def _import(place: str) -> ModuleType:
    path = Path(place)
    is_file = path.suffix == ".py" or "/" in place or path.is_file()
    try:
        return _import_file(path) if is_file else _import_module(place)
    except ActorsError:
        raise
    except (Exception, SystemExit) as error:  # a script without a main guard exits
        at = _innermost(error, place)
        hint = "The traceback shows where. What only a program does belongs under 'if __name__ == \"__main__\":'."
        raise TargetError(at, f"raised {type(error).__name__} on import", hint) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise TargetError(str(path), what, "Name a Python file, or a module as package.module.")
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_as_target"
    loader = importlib.util.spec_from_file_location(name, path)
    if loader is None or loader.loader is None:
        raise TargetError(str(path), "is not a Python file", "Name one that ends with .py.")
    sys.path.insert(0, str(path.resolve().parent))
    module = sys.modules[name] = importlib.util.module_from_spec(loader)
    loader.loader.exec_module(module)
    return module


def _import_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise TargetError(
            name, "is neither a file nor a module name", "Name a Python file, or a module as package.module."
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            hint = "Correct the name, or start where it can be imported from; for a file write its path with .py."
            raise TargetError(name, f"module {missing!r} not found", hint) from error
        raise


def _innermost(error: BaseException, place: str) -> str:
    """The last line of the target itself that led to the error."""
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ is not None else []
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == Path(place).name]
    return f"{place}:{lines[-1]}" if lines else place


# -- finding the tree --------------------------------------------------------------------------------------


def _attribute(module: ModuleType, attribute: str, place: str) -> Any:
    found: Any = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            hint = nearest(part, dir(found)) + _candidates_hint(module, place)
            raise TargetError(place, f"has no {attribute!r}", hint) from error
    return _tree_or_maker(found, attribute, place)


def _only(module: ModuleType, place: str) -> Any:
    """The tree of a module that names none: its only one, or ``TREE``."""
    trees = {id(value): value for value in vars(module).values() if isinstance(value, SupervisorSpec)}
    if len(trees) == 1:
        return next(iter(trees.values()))
    if DEFAULT in vars(module):
        return _tree_or_maker(vars(module)[DEFAULT], DEFAULT, place)
    makers = _makers(module)
    if not trees and len(makers) == 1:
        return makers[0]
    what = "has several trees and none called TREE" if trees or makers else "has no tree"
    raise TargetError(place, what, _candidates_hint(module, place))


def _tree_or_maker(found: Any, name: str, place: str) -> Any:
    if isinstance(found, SupervisorSpec) or (callable(found) and not isinstance(found, type)):
        return found
    hint = "Name a SupervisorSpec, or a function that makes one."
    raise TargetError(f"{place}:{name}", f"{type_phrase(found)} is not a tree", hint)


def _makers(module: ModuleType) -> list[Callable[..., Any]]:
    """Functions of this very module that say they return a ``SupervisorSpec``."""
    return [
        value
        for value in vars(module).values()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and value.__annotations__.get("return") in (SupervisorSpec, "SupervisorSpec", "trees.SupervisorSpec")
    ]


def _candidates_hint(module: ModuleType, place: str) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, SupervisorSpec)]
    names += [maker.__name__ for maker in _makers(module)]
    if not names:
        return "Declare one: TREE = SupervisorSpec(id=..., children=[...])."
    return f"Write {' or '.join(f'{place}:{name}' for name in names)}."


def _made(maker: Callable[..., Any], name: str, place: str, inputs: Mapping[str, str]) -> SupervisorSpec:
    at = f"{place}:{getattr(maker, '__name__', name)}"
    taken = _taken(maker, inputs)
    try:
        inspect.signature(maker).bind(**taken)
    except TypeError as error:
        raise TargetError(at, str(error), "Give it with --input NAME=VALUE.") from error
    try:
        spec = maker(**taken)
    except ConfigError:
        raise
    except Exception as error:
        raise TargetError(at, f"raised {type(error).__name__}", "The traceback shows where.") from error
    if not isinstance(spec, SupervisorSpec):
        raise TargetError(at, f"returned {type_phrase(spec)}", "It must return a SupervisorSpec.")
    return spec


# -- inputs ------------------------------------------------------------------------------------------------


def _takes_a_tree(main: Any) -> bool:
    """``main(tree, ...)`` is for us; a ``main()`` is the file's own entry and is left alone."""
    return inspect.isfunction(main) and next(iter(inspect.signature(main).parameters), "") == "tree"


def _with(call: Callable[..., Any] | None, inputs: Mapping[str, str]) -> Callable[[Any], Any] | None:
    return None if call is None else functools.partial(call, **_taken(call, inputs))


def _taken(call: Callable[..., Any], inputs: Mapping[str, str]) -> dict[str, Any]:
    """The inputs that a function has parameters for, each as its annotation says, else as the type of its default.

    What is no text, but a list or an object of JSON, is read as that.

    Raises:
        TargetError: a text does not fit.
    """
    parameters = inspect.signature(call).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    kinds = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    named = {name: each.default for name, each in parameters.items() if each.kind in kinds and name != "tree"}
    try:
        hints = get_type_hints(call)
    except Exception:  # noqa: BLE001 - an annotation may name what is there for type checkers only
        hints = {}
    taken: dict[str, Any] = {}
    for name, value in inputs.items():
        if name in named:
            default = named[name]
            hint = hints.get(name, type(default) if isinstance(default, (int, float, Path)) else str)
            taken[name] = _as(hint, name, value)
        elif takes_all:
            taken[name] = value
    return taken


def _as(hint: Any, name: str, text: str) -> Any:
    try:
        kind = TypeAdapter(hint)
        try:
            return kind.validate_strings(text)
        except ValidationError:
            if text.lstrip()[:1] not in {"[", "{"}:
                raise
            return kind.validate_json(text)
    except PydanticUserError:  # a type of which pydantic knows nothing
        return text
    except ValidationError as error:
        what = f"{text!r} does not fit: {error.errors()[0]['msg']}"
        raise TargetError(f"--input {name}", what, f"Its type is {inspect.formatannotation(hint)}.") from None


def require_inputs(target: str, call: Callable[[Any], Any] | None) -> None:
    """Refuse to begin what lacks an input: of ``main`` and ``resume`` this shows only once it is known which is called.

    Raises:
        TargetError: a parameter without a default was given no input.
    """
    parameters = {} if call is None else inspect.signature(call).parameters
    named = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    missing = [
        name
        for name, each in parameters.items()
        if name != "tree" and each.default is each.empty and each.kind in named
    ]
    if missing:
        given = " ".join(f"--input {name}=VALUE" for name in missing)
        raise TargetError(target, f"needs the input {listed(missing, 'and')}", f"Add {given}.")


def _refuse_strangers(place: str, inputs: Mapping[str, str], calls: list[Callable[..., Any]]) -> None:
    taken = set().union(*(_taken(call, inputs) for call in calls))
    strange = [name for name in inputs if name not in taken]
    if not strange:
        return
    known = [name for call in calls for name in inspect.signature(call).parameters if name != "tree"]
    hint = f"Its inputs are {', '.join(dict.fromkeys(known))}." if known else "It takes none."
    raise TargetError(place, f"takes no input {strange[0]!r}", nearest(strange[0], known) + hint)
