"""The POST of a ``Webhook``: which addresses and headers can be sent, and one try.

No text of an error shows an address or a header: both may hold secrets, and urllib shows them in some of its own. So
what could not be sent is refused when the ``Webhook`` is made, and of an error of urllib only its kind is kept.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from actors.validation.validation_messages import type_phrase, validation_error, validation_errors

_OK: Final = range(200, 300)
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(r"[\t -~\xa0-\xff]*")
_ADDRESS: Final = re.compile(r"https?://[!-~]+")


class StatusError(OSError):
    """A server has answered with another status than 2xx."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status


def address(value: object) -> str:
    """Return an address that can be sent to.

    Raises:
        PydanticCustomError: it cannot. No text shows it.
    """
    if not isinstance(value, str):
        raise validation_error(f"expected an address, got {type_phrase(value)}", "Write 'https://host/path'.")
    if not _ADDRESS.fullmatch(value):
        hint = "Write 'https://host/path' in ASCII, with what is not, and spaces, as %20 and the like."
        raise validation_error("expected an address, got another str", hint)
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:  # its text has the port
        host, port = None, None
    if not host or port == 0 or parts.netloc.endswith(":"):
        raise validation_error("expected an address, got one without a host, or with a wrong port", "Correct it.")
    if "@" in parts.netloc:
        hint = "Give them in headers={'Authorization': ...}."
        raise validation_error("a name or a password before the host would not be sent", hint)
    return value


def headers(value: object) -> dict[str, str] | None:
    """Return headers that can be sent.

    Raises:
        PydanticCustomError: one cannot. No text shows its value.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise validation_error(f"expected a dict, got {type_phrase(value)}", "Write {'Authorization': '...'}.")
    wrong = [(f"[{at}]", *problem) for at, pair in enumerate(value.items()) for problem in _header_problems(*pair)]
    if wrong:
        raise validation_errors(wrong)
    return dict(value)


def _header_problems(name: object, value: object) -> list[tuple[str, str]]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return [("it has a name that is none of a header", "Use letters, digits and '-'.")]
    if not isinstance(value, str):
        return [(f"{name}: expected a str, got {type_phrase(value)}", "Write it in quotes.")]
    if not _VALUE.fullmatch(value):
        hint = "Use Latin-1. What was read from a file may end with a line break: strip() it."
        return [(f"{name}: its value has a line break, or a character that no header can have", hint)]
    return []


def post(url: str, body: bytes, fields: Mapping[str, str], timeout_s: float) -> None:
    """Send this once.

    Raises:
        StatusError: the answer has another status than 2xx. A redirect is not followed.
        OSError: nothing came for ``timeout_s`` seconds, or what answered speaks no HTTP.
    """
    request = urllib.request.Request(url, body, dict(fields), method="POST")  # noqa: S310 - the address was checked
    failed: OSError
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout_s) as answer:
            if answer.status in _OK:
                return
            failed = StatusError(answer.status, f"it answered with status {answer.status}")
    except HTTPError as error:
        error.close()  # it has the connection, and an event that it stands in is kept for long
        failed = StatusError(error.code, f"it answered with status {error.code}{_REDIRECTED.get(error.code, '')}")
    except URLError as error:
        failed = error.reason if isinstance(error.reason, OSError) else OSError("it could not be reached")
    except HTTPException as error:
        failed = error if isinstance(error, OSError) else OSError(f"its answer is no HTTP ({type(error).__name__})")
    # Outside of the except block: the error of urllib holds the request, and would travel as the context.
    raise failed.with_traceback(None) from None


_REDIRECTED: Final = dict.fromkeys(
    (301, 302, 303, 307, 308), ". A redirect is not followed: give the address that it leads to"
)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses a redirect: urllib would follow it with a GET, without the notice and with all headers."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none: the status is an error then."""
