"""Texts that nobody is to see: tokens, passwords, keys. They are taken out of whatever is told of a server."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

_SHORTEST: Final = 4
"""Characters from which on a text is looked for: a shorter one is part of too many words."""
_PARTS: Final = re.compile(r"[\s=&:;,@?#\"']+")
"""Separators of the parts of a secret: of ``Bearer TOKEN``, ``--key=KEY``, ``scheme://user:PASSWORD@host``."""


class SecretTexts:
    """Secret texts of one server: each, and each part of it that is long enough to be one by itself."""

    def __init__(self, *texts: Iterable[str]) -> None:
        given = [each for group in texts for each in group]
        forms = {form for each in given for form in (each, unquote(each), repr(each)[1:-1])}
        found = {each for each in forms if len(each) >= _SHORTEST}
        words = {word for each in found for word in _PARTS.split(each) if len(word) >= 2 * _SHORTEST}
        self._texts = sorted(found | words, key=len, reverse=True)  # the longest first: it may contain another

    def __repr__(self) -> str:
        return f"<SecretTexts {len(self._texts)}>"

    def removed_from(self, text: str) -> str:
        """Return the text without them."""
        for each in self._texts:
            text = text.replace(each, "***")
        return text

    @contextmanager
    def kept_out_of_logs(self, *names: str) -> Iterator[None]:
        """Take them out of what libraries log under these names, for as long as this lasts."""
        loggers = [logging.getLogger(name) for name in names]
        keeper = _Keeper(self)
        for each in loggers:
            each.addFilter(keeper)
        try:
            yield
        finally:
            for each in loggers:
                each.removeFilter(keeper)


class _Keeper(logging.Filter):
    """Filter that lets all records through, without secrets."""

    def __init__(self, secrets: SecretTexts) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the text of a record that has any."""
        said = record.getMessage()
        told = self._secrets.removed_from(said)
        if told != said:
            record.msg, record.args = told, ()
        return True
