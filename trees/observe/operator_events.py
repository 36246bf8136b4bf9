"""Events of those who watch and operate a tree: what a person has done, and what became of the page."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from actors.model.event_metadata import LOGGED_TIME, SECONDS
from actors.model.events import Event
from actors.model.record import record


@record
class Operated(Event):
    """A person has operated the tree from outside: from the page, through the console or by a command in its store."""

    level = "INFO"
    act: str
    """restart, terminate, unpark, cancel, priority, remove, approve, edit, respond or reject."""
    by: str
    """Person, as far as that is known: the address of a browser, the user of the console, or the process that has left
    a command in the store."""
    about: str = ""
    """Id of the task or of the question; empty: the child at ``path``."""


@record
class PageFailed(Event):
    """The server of the page has failed, which nothing else of the tree depends on."""

    level = "WARNING"
    error: BaseException
    again_in_s: float = field(metadata=SECONDS)
    """Seconds until it is started anew; 0: one request has failed, and it goes on."""


@record
class AlertFailed(Event):
    """The condition of an alert raised, so it does not hold, or it hangs; or whoever is to be told will not be."""

    level = "WARNING"
    alert: str
    """Name of the alert; empty: what watches and tells all of them has crashed, and goes on."""
    error: BaseException


@record
class AlertChanged(Event):
    """An alert has begun to fire, or does not any more. Whom it tells of that, and how often, is set in the alert."""

    level = "DEBUG"
    alert: str
    state: Literal["firing", "resolved"]
    since: float = field(metadata=LOGGED_TIME)
    """When its condition began to hold, in seconds since 1970."""
