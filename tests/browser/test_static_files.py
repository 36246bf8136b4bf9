"""Files of the page, as they are: all of it is served from here, and no text becomes markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import trees

FOLDER = Path(trees.__file__).parent / "observe" / "web" / "static"
FILES = sorted(FOLDER.iterdir(), key=lambda file: file.name)
SCRIPTS = [file for file in FILES if file.suffix == ".js"]
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc|setHTML|javascript:"
)


def test_the_page_has_no_inline_script_or_style() -> None:
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_a_script_makes_no_markup_of_text_and_sets_no_style_attribute(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert not MARKUP.search(text)
    assert not re.search(r"setAttribute\(\"style|\{ style:|, style:", text)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_asks_no_other_host(file: Path) -> None:
    text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|@import|url\(", text)


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_what_a_script_imports_is_there(file: Path) -> None:
    wanted = re.findall(r'from "\./([^"]+)"', file.read_text(encoding="utf-8"))
    assert {name for name in wanted if not (file.parent / name).is_file()} == set()
