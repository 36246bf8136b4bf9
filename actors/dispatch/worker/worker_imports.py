"""Imports of a process: what its fork server imports before, and code that is named by an import string."""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias

Imported: TypeAlias = Literal["script", "module"]
"""Script of the host, or the module of a worker's code, or one that is preloaded."""


class Imports:
    """Knows what of the user's this process imports just now, to find the code of a worker: no such code runs yet."""

    def __init__(self) -> None:
        self.what: Imported | None = None
        self.environment: Mapping[str, str] = {}
        """Environment that this process, if it is a fork server or one of its processes, had before any of them."""

    @contextmanager
    def of(self, what: Imported) -> Iterator[None]:
        """Mark an import."""
        before, self.what = self.what, what
        try:
            yield
        finally:
            self.what = before


IMPORTS: Final = Imports()
"""Imports of this process."""


def preload(modules: tuple[str, ...]) -> None:
    """Note the environment, and import modules.

    One that cannot be imported is told on stderr, and is no reason to fork nothing.
    """
    IMPORTS.environment = dict(os.environ)
    for each in modules:
        try:
            with IMPORTS.of("module"):
                importlib.import_module(each)
        except BaseException:  # noqa: BLE001 - it is the user's code; who needs it gets the error again
            traceback.print_exc()


def found_by_name(name: str) -> Any:
    """Return what ``"module:attr"`` names. The host has found it there before."""
    module, _, attribute = name.partition(":")
    return attrgetter(attribute)(importlib.import_module(module))
