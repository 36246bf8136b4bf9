"""Packages of the extras: what is missing, or too old, is told with the extra and the version."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from actors import ConfigError
from trees.agents import packages
from trees.agents.packages import package_flaw, require

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    package_flaw.cache_clear()
    yield
    package_flaw.cache_clear()


def test_a_package_that_is_missing_is_told_with_its_extra() -> None:
    with pytest.raises(ConfigError) as caught:
        require("regrow-has-no-such-package", "mcp", "2.0")

    assert str(caught.value) == (
        "regrow-has-no-such-package: regrow-has-no-such-package 2.0 or newer is needed, and is not installed. "
        "Install the extra 'mcp': in a clone of regrow, pip install '.[mcp]'."
    )


@pytest.mark.parametrize(
    ("found", "at_least", "will_do"),
    [
        ("2.68.0", "2.0", True),
        ("2.0", "2.0", True),
        ("2", "2.0", True),
        ("2.0.0rc1", "2.0", True),
        ("10.1", "9.9", True),
        ("1.9.9", "2.0", False),
        ("1.45.2", "1.45.3", False),
    ],
)
def test_versions_are_compared_by_their_numbers(
    monkeypatch: pytest.MonkeyPatch, found: str, at_least: str, will_do: bool
) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: found)

    flaw = package_flaw("mcp", "mcp", at_least)

    assert (flaw is None) is will_do
    if flaw is not None:
        assert flaw[0] == f"mcp {found} is installed, and {at_least} or newer is needed"
        assert "'.[mcp]'" in flaw[1]


def test_what_is_asked_for_is_what_the_extras_install() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    table = [value for name, value in vars(packages).items() if name.isupper() and isinstance(value, tuple)]

    assert len(table) > 5
    assert [each for each in table if f"{each[0]}>={each[2]}" not in extras[each[1]]] == []
