"""Door to the server of a page: the extra ``web`` is asked for, and loaded, here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trees.agents.packages import Package, require
from trees.observe.source import Source
from trees.observe.web.web_settings import Web

if TYPE_CHECKING:
    from trees.observe.web.web_server import Failed, WebServer

PACKAGES: Final[tuple[Package, ...]] = (
    ("starlette", "web", "0.41.3"),
    ("uvicorn", "web", "0.30"),
    ("sse-starlette", "web", "3.0"),
)


def require_web() -> None:
    """Refuse to go on without the extra.

    Raises:
        ConfigError: a package of it is not installed, or too old.
    """
    for package in PACKAGES:
        require(*package)


def open_page(source: Source, settings: Web, failed: Failed, without_token: Source | None = None) -> WebServer:
    """Open the page of a source; ``without_token`` is what those see who have no token. None: the same.

    Raises:
        ConfigError: the extra ``web`` is not installed.
        WebError: its port is taken.
    """
    require_web()
    from trees.observe.web.web_server import WebServer  # noqa: PLC0415 - needs the extra

    return WebServer(source, settings, failed, without_token)
