"""What is said of a name that a package does not have: where it is, or which names are like it."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Final

_ROOMS: Final = ("trees", "actors", "trees.agents", "trees.store", "actors.testing")


def missing(package: str, name: str) -> Exception:
    """The error for a name that a package does not have; called by the ``__getattr__`` of that package.

    ``from package import name`` shows nothing of an AttributeError. It gets an ImportError, unless the name is a module
    of the package, which is imported after an AttributeError.
    """
    plain = f"module {package!r} has no attribute {name!r}"
    importing = sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap"  # noqa: SLF001 - who asks
    if name.startswith("_") or (importing and find_spec(f"{package}.{name}") is not None):
        return AttributeError(plain, name=name)
    found = [room for room in _ROOMS if name in import_module(room).__all__]
    if found:
        said = f"{name} is in {found[0]}: from {found[0]} import {name}"
    elif close := get_close_matches(name, sys.modules[package].__all__, cutoff=0.75):
        said = f"{plain}. Did you mean {' or '.join(close)}?"
    else:
        said = plain
    return ImportError(said, name=package) if importing else AttributeError(said, name=name)
