"""Which paths are offered to whoever has named one that is not there.

Comes in: that path, and those of the tree. Goes out: a few of these. Pure. This module must never import threads.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

MOST = 5
_LOOK = 2000
"""Paths that are looked at, in a tree that has more."""


def near_paths(path: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Paths that may have been meant, then others beside it; of a pool its own, unless a member was meant."""
    is_member, above = "#" in path, path.rpartition("/")[0]
    known = list(islice((each for each in paths if is_member or "#" not in each), _LOOK))
    below = [each for each in known if each.endswith(f"/{path}")]  # without the names above it
    close = difflib.get_close_matches(path, known, n=MOST, cutoff=0.5)
    beside = [each for each in known if above and each.rpartition("/")[0] == above]
    return tuple(dict.fromkeys([*below, *close, *beside]))[:MOST]
