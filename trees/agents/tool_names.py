"""Names of tools and of their parameters, as models and Python take them. Pure.

Models take 1 to 64 letters, digits, ``_`` and ``-`` in the name of a tool: the rule of OpenAI's and Anthropic's APIs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from keyword import iskeyword
from typing import Final

MOST_NAME_CHARS: Final = 64
"""Longest name of a tool that models take."""
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NO_LETTER: Final = re.compile(r"\W")


def for_models(name: str) -> str:
    """Return a name that models take; what they do not take is ``_`` there."""
    return _NO_NAME.sub("_", name)[:MOST_NAME_CHARS]


class UsedNames:
    """Names that are used."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)

    def use(self, name: str) -> str:
        """Use a name, or, where it is used already, the next one like it; returns it."""
        free, number = name, 1
        while free in self._names:
            number += 1
            free = f"{name[: MOST_NAME_CHARS - len(str(number)) - 1]}_{number}"
        self._names.add(free)
        return free


def parameters_for(properties: Iterable[str]) -> dict[str, str]:
    """Return names of parameters, each with the property that it stands for: ``from_`` is ``from``."""
    every = list(properties)
    used = UsedNames(name for name in every if _is_parameter(name))
    return {name if _is_parameter(name) else used.use(_as_parameter(name)): name for name in every}


def _is_parameter(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name)


def _as_parameter(name: str) -> str:
    plain = _NO_LETTER.sub("_", name)
    plain = plain if plain.isidentifier() else f"_{plain}"
    return f"{plain}_" if iskeyword(plain) else plain
