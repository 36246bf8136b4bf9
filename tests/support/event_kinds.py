"""Every kind of event that the library declares, in an order that does not depend on what was imported before.

The registry itself also holds kinds that tests declare, in the order of imports. Cases made from it would differ
between the processes of one run.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import actors
import trees
from actors import Event
from actors.model.events import kinds

_DECLARES = re.compile(r"^class \w+\((\w*Event)\):", re.MULTILINE)


def _our_kinds() -> tuple[type[Event], ...]:
    for package in (actors, trees):
        root = Path(package.__path__[0])
        for path in root.rglob("*.py"):
            if _DECLARES.search(path.read_text()):
                importlib.import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))
    ours = [each for each in kinds() if each.__module__.startswith(("actors.", "trees."))]
    return tuple(sorted(ours, key=lambda kind: (kind.__module__, kind.__name__)))


OUR_KINDS = _our_kinds()
"""All of them."""
