"""How many tokens a text is worth, without a vocabulary. Pure."""

from __future__ import annotations

import math
from typing import Final

_BYTES_A_TOKEN: Final = 3.5
"""Prose has about four, code and most other scripts about three."""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text is worth; 0 only for no text."""
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_A_TOKEN)
