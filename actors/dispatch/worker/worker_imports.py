"""Imports of a process: what its fork server imports before, and code that is named by an import string."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Final


class Imports:
    """Knows if this process imports the script of its host just now."""

    def __init__(self) -> None:
        self.is_script = False

    @contextmanager
    def script(self) -> Iterator[None]:
        """Mark the import of the script."""
        self.is_script = True
        try:
            yield
        finally:
            self.is_script = False


IMPORTS: Final = Imports()
"""Imports of this process."""


def preload(modules: tuple[str, ...]) -> None:
    """Import modules. One that cannot be imported is told on stderr, and is no reason to fork nothing."""
    for each in modules:
        try:
            importlib.import_module(each)
        except BaseException:  # noqa: BLE001 - it is the user's code; who needs it gets the error again
            traceback.print_exc()


def found_by_name(name: str) -> Any:
    """Return what ``"module:attr"`` names. The host has found it there before."""
    module, _, attribute = name.partition(":")
    return attrgetter(attribute)(importlib.import_module(module))
