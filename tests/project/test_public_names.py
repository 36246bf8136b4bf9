"""Every public name is told of in some page, and comes with a star import."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.support.readme import pages


@pytest.mark.parametrize("package", ["actors", "actors.testing", "trees", "trees.agents"])
def test_every_public_name_is_told_of_in_some_page(package: str) -> None:
    told = {word for page in pages() for word in re.findall(r"\w+", page.read_text(encoding="utf-8"))}

    assert sorted(set(import_module(package).__all__) - told) == []


@pytest.mark.parametrize("package", ["actors", "actors.testing", "trees", "trees.agents"])
def test_a_star_import_brings_every_public_name(package: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {package} import *", names)  # noqa: S102 - as a user types it

    assert set(import_module(package).__all__) <= set(names)
