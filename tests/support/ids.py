"""Names of the rows of parametrised tests: equal in every run.

The text of a function or of a plain object holds its address in memory, which differs in every process: a test of that
name could not be run again by its name.
"""

from __future__ import annotations

import re

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def stable(value: object) -> str:
    """Text of a row's value without addresses: ``@pytest.mark.parametrize(..., ids=stable)``."""
    return _ADDRESS.sub("", str(value))
