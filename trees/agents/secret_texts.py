"""Texts that nobody is to see: tokens, passwords, keys. They are taken out of whatever is told of a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_SHORTEST: Final = 4
"""Characters from which on a text is looked for: a shorter one is part of too many words."""


class SecretTexts:
    """Secret texts of one server."""

    def __init__(self, *texts: Iterable[str]) -> None:
        found = {each for group in texts for each in group if len(each) >= _SHORTEST}
        words = {word for each in found for word in each.split() if len(word) >= 2 * _SHORTEST}
        self._texts = sorted(found | words, key=len, reverse=True)  # the longest first: it may contain another

    def __repr__(self) -> str:
        return f"<SecretTexts {len(self._texts)}>"

    def removed_from(self, text: str) -> str:
        """Return the text without them."""
        for each in self._texts:
            text = text.replace(each, "***")
        return text
