"""Files of the page, which a browser loads: read once, served by name.

A name of a request is looked up in a table and never joined to a path, so no name leads out of the folder.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import Final

INDEX: Final = "index.html"
_KINDS: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file."""

    body: bytes
    media_type: str
    tag: str
    """Tag of this content: a browser that has it is not sent it again."""


@cache
def page_files() -> dict[str, PageFile]:
    """Return all files, by their names as a request has them. They may stand in a zip file, as the program does."""
    return dict(_below(files(__package__) / "static"))


def _below(folder: Traversable, before: str = "") -> Iterator[tuple[str, PageFile]]:
    for each in sorted(folder.iterdir(), key=lambda file: file.name):
        name = f"{before}{each.name}"
        if each.is_dir():
            yield from _below(each, f"{name}/")
        else:
            yield name, _read(each.name, each.read_bytes())


def _read(name: str, body: bytes) -> PageFile:
    kind = _KINDS.get(PurePath(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    text = kind.startswith("text/") or kind.endswith(("+xml", "json"))
    return PageFile(body, f"{kind}; charset=utf-8" if text else kind, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
