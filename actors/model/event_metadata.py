"""Metadata of the fields of events: how each is shown in a log line, in ``as_dict`` and in metrics."""

from __future__ import annotations

from typing import Final

TOLD: Final = "in dicts"
"""Key of the metadata of a field that is told though no repr shows it, because it is no content."""
KEPT: Final = "in journals"
"""Key of the metadata of a field that says whether a journal keeps it; by default it does."""
SHOWN: Final = "in log lines"
"""How a field is shown there, in its metadata: see ``actors.runtime.event_log``."""
UNLOGGED: Final = {SHOWN: "never"}
"""Metadata of a field that is for programs."""
LOGGED_TIME: Final = {SHOWN: "time of day"}
"""Metadata of a field in seconds since 1970."""
LOGGED_ERROR: Final = {SHOWN: "error"}
"""Metadata of a field with the text of an error, also where it is in no repr."""
LOGGED_PLACE: Final = {SHOWN: "at", KEPT: False}
"""Metadata of a field with a place in code, at the end of the line; no journal keeps it."""
IN_BRIEF: Final = {SHOWN: "in brief"}
"""Metadata of a field with an exception whose traceback an event before this one has: type and text on the line."""


def out_of(total: str) -> dict[str, str]:
    """Metadata of a field that counts up to another one, which is told with it: ``attempt 1 of 3``."""
    return {SHOWN: f"{OUT_OF}{total}"}


OUT_OF: Final = "out of "
MEASURED: Final = "unit"
"""How the unit of a field that is a measurement is given, in its metadata: that of a duration is ``SECONDS``."""
SECONDS: Final = {MEASURED: "s"}
NO_CONTENT: Final = {TOLD: True, SHOWN: "never"}
"""Metadata of a field that ``as_dict`` has though neither a repr nor a log line shows it."""
