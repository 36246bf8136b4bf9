"""Files of the page, which a browser loads: read once, served by name.

A name of a request is looked up in a table and never joined to a path, so no name leads out of the folder.
"""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "static"
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
    """Return all files, by their names as a request has them."""
    return {each.relative_to(FOLDER).as_posix(): _read(each) for each in sorted(FOLDER.rglob("*")) if each.is_file()}


def _read(file: Path) -> PageFile:
    body = file.read_bytes()
    kind = _KINDS.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    text = kind.startswith("text/") or kind.endswith(("+xml", "json"))
    return PageFile(body, f"{kind}; charset=utf-8" if text else kind, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
