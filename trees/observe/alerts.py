"""Alerts of a tree: what is watched, and who is told. ``start(TREE, alerts=[Alert(...)])``.

They are declared here; ``trees.observe.alert_notifier`` watches, on a thread that the tree does not depend on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, PlainValidator

from actors.model.log_lines import Line, place_of, write
from actors.validation import field_types
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import not_async, type_phrase, validation_error, value_phrase
from trees.observe.alert_conditions import (
    SHIPPED,
    Condition,
    breaker_open,
    gave_up,
    lease_lost,
    mailbox_over,
    parked,
    question_waiting,
    queue_over,
    restarts_over,
    stalled,
    store_paused,
    task_failed,
)
from trees.observe.alert_state import Told
from trees.observe.webhook_post import address, post
from trees.observe.webhook_post import headers as headers_of
from trees.views.snapshot import TreeSnapshot

__all__ = [
    "Alert",
    "AlertNotice",
    "Log",
    "Webhook",
    "breaker_open",
    "gave_up",
    "lease_lost",
    "mailbox_over",
    "parked",
    "question_waiting",
    "queue_over",
    "restarts_over",
    "stalled",
    "store_paused",
    "task_failed",
]

Level: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


@dataclass(frozen=True, slots=True)
class AlertNotice:
    """News of an alert."""

    name: str
    state: Told
    """``"firing"``: it has begun; ``"still_firing"``; ``"resolved"``: it is over."""
    tree: str
    """Path of the root."""
    at: float
    """Seconds since 1970, by the tree's clock."""
    since: float
    """When its condition began to hold, likewise."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {"version": 1, **asdict(self)}


class Webhook(SpecModel, frozen=True, kw_only=False):
    """Address that is told of alerts: a POST of JSON, tried again with growing pauses where it fails.

    Raises ``ConfigError`` with every problem of it.
    """

    url: Annotated[str, PlainValidator(address)]
    """Where to, in ASCII. No log line and no error shows it: it may hold a secret."""
    headers: Annotated[dict[str, str] | None, PlainValidator(headers_of)] = None
    """Headers beside those of JSON, such as ``Authorization``. No log line and no error shows a value."""
    timeout_s: field_types.Period = 5.0
    """Seconds for one try, from the connection to the end of the answer's head."""

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """Show neither address nor headers: they may hold secrets."""
        yield "timeout_s", self.timeout_s

    def __call__(self, notice: AlertNotice) -> None:
        """Tell it once.

        Raises:
            OSError: nobody answered in time, or not in HTTP, or with another status than 2xx. A redirect is not
                followed.
        """
        fields = {"Content-Type": "application/json", **(self.headers or {})}
        post(self.url, json.dumps(notice.as_dict()).encode(), fields, self.timeout_s)


class Log(SpecModel, frozen=True, kw_only=False):
    """Log that is told of alerts."""

    level: Level = "WARNING"
    """Level of its lines."""

    def __call__(self, notice: AlertNotice) -> None:
        """Write a line."""
        text = f"{notice.tree}: alert {notice.name} is {notice.state.replace('_', ' ')}"
        write(self.level, lambda: Line(text, place_of(None, "alert")))


def _a_condition(value: object) -> object:
    if isinstance(value, Condition):
        return value
    if not callable(value):
        hint = "Give a condition of trees.observe.alerts, such as parked(), or a function of the snapshot."
        raise validation_error(f"expected a condition, got {value_phrase(value)}", hint)
    for each in SHIPPED:
        name = each.__name__
        if value is each:
            raise validation_error(f"{name} makes a condition, and is none", f"Write {name}(...).")
    return not_async(value)


def _a_target(value: object) -> object:
    if not callable(value):
        hint = "Give a Webhook('https://...'), a Log('WARNING'), or a function of the notice."
        raise validation_error(f"expected a target, got {type_phrase(value)}", hint)  # an address may hold a secret
    return not_async(value)


class Alert(SpecModel, frozen=True, kw_only=False):
    """Something to be told of, while the tree runs.

    Raises ``ConfigError`` with every problem of it.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    """Name in what is told, and in the log."""
    when: Annotated[Condition | Callable[[TreeSnapshot], object], PlainValidator(_a_condition)]
    """Condition of ``trees.observe.alerts``, or ``(snapshot) -> bool`` of your own, asked every second or so. Pools are
    folded in that snapshot."""
    to: Annotated[Callable[[AlertNotice], object], PlainValidator(_a_target)]
    """Target that is told: a ``Webhook``, a ``Log``, or ``(notice) -> None`` of your own, on a thread of its own.
    Whatever it raises is an ``AlertFailed`` event."""
    for_s: field_types.Delay = 0.0
    """Seconds for which the condition must hold."""
    every_s: field_types.Delay = 300.0
    """Seconds after which it is told that it still holds; and no second firing is told within them."""
    resolve: bool = True
    """``True``: its end is told as well."""
