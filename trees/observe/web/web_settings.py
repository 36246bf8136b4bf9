"""Settings of the page of a tree, and the errors of opening it. Nothing of the extra ``web`` is loaded here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field, PlainValidator

from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import PlacedError, type_phrase, validation_error, value_phrase

PORT: Final = 8420
HOST: Final = "127.0.0.1"
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]{16,200}")


_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")


def _hosts(value: object) -> tuple[str, ...]:
    hint = "Write ('ops.example.com',): each without http:// and without a port."
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise validation_error(f"expected names of hosts, got {type_phrase(value)}", hint)
    for each in value:
        if not isinstance(each, str) or len(each) > 255 or not _NAME.fullmatch(each):  # noqa: PLR2004 - of DNS
            raise validation_error(f"{value_phrase(each)} is not the name of a host", hint)
    return tuple(value)


def _token(value: object) -> str | None:
    """Return a token; no text shows what was given, which may be one with a mistake in it."""
    if value is None:
        return None
    hint = "Use 16 to 200 letters, digits and '-._~', or None for a random one."
    if not isinstance(value, str):
        raise validation_error(f"expected a str, got {type_phrase(value)}", hint)
    if not _TOKEN.fullmatch(value):
        raise validation_error(f"expected a token, got another str of {len(value)} characters", hint)
    return value


class WebError(PlacedError):
    """The page could not be opened: its port is taken, or its address is not one of this machine."""


class Web(SpecModel, frozen=True, kw_only=False):
    """The page of a tree: where it listens, and what it shows.

    Raises ``ConfigError`` with every problem of it.
    """

    port: Annotated[int, Field(ge=0, le=65_535)] = PORT
    """Port. 0: any that is free; ``.url`` of the handle says which."""
    host: Annotated[str, Field(min_length=1, max_length=255)] = HOST
    """Address. With one that is not loopback, whoever looks needs the token, too, and everybody on the way can read
    it: the page speaks plain HTTP, so put a proxy with TLS before it."""
    names: Annotated[Sequence[str], PlainValidator(_hosts)] = ()
    """Names of hosts, without a port, under which a proxy or a DNS server leads here: requests for any other are
    refused. With one, whoever looks needs the token, also on loopback."""
    token: Annotated[str | None, PlainValidator(_token)] = None
    """Secret that whoever operates the tree must have: 16 letters, digits or ``-._~`` at least. ``None``: a random one,
    which stands in ``.url``."""
    content: bool | None = None
    """Goals, questions, inputs, results and feedback are shown to whoever has the token. ``True``: also to those who
    look without it, at a loopback address. ``False``: to nobody. All others see ids, types, states, texts of errors and
    of ``context.progress``, and lines of commands."""
