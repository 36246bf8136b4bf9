"""Every public name is told of in some page, and comes with a star import; ``trees`` has all that a user needs."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import actors
import trees
from tests.support.readme import pages

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("package", ["actors", "actors.testing", "trees", "trees.agents"])
def test_every_public_name_is_told_of_in_some_page(package: str) -> None:
    told = {word for page in pages() for word in re.findall(r"\w+", page.read_text(encoding="utf-8"))}

    assert sorted(set(import_module(package).__all__) - told) == []


@pytest.mark.parametrize("package", ["actors", "actors.testing", "trees", "trees.agents"])
def test_a_star_import_brings_every_public_name(package: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {package} import *", names)  # noqa: S102 - as a user types it

    assert set(import_module(package).__all__) <= set(names)


def test_trees_has_every_name_of_actors() -> None:
    assert [name for name in actors.__all__ if getattr(trees, name, None) is not getattr(actors, name)] == []
    assert {"Worker", "Failed", "Context", "Ref", "ChildExited", "ConfigError"} <= set(trees.__all__)


def test_the_version_of_both_packages_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["version"] == trees.__version__ == actors.__version__


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("from actors import RoleChanged", "RoleChanged is in trees: from trees import RoleChanged"),
        ("from trees import start, ManualClock", "ManualClock is in actors.testing: from actors.testing import"),
        ("from trees import MCP", "MCP is in trees.agents: from trees.agents import MCP"),
        ("from trees.agents import Task", "Task is in trees: from trees import Task"),
        ("from trees.store import Subtask", "Subtask is in trees: from trees import Subtask"),
        ("from actors.testing import Worker", "Worker is in trees: from trees import Worker"),
        ("from trees import WorkrSpec", "Did you mean WorkerSpec?"),
        ("from actors import Contxt", "Did you mean Context?"),
        ("from trees import nothing_like_it", "module 'trees' has no attribute 'nothing_like_it'"),
    ],
)
def test_a_name_asked_of_the_wrong_package_gets_an_error_that_says_where_it_is(statement: str, said: str) -> None:
    package, name = re.findall(r"from (\S+) import .*?(\w+)$", statement)[0]

    with pytest.raises(ImportError, match=re.escape(said)):
        exec(statement)  # noqa: S102 - as a user types it
    with pytest.raises(AttributeError, match=re.escape(said)):
        getattr(import_module(package), name)


def test_a_module_of_a_package_can_be_imported_from_it() -> None:
    from actors import testing  # noqa: PLC0415
    from trees import agents  # noqa: PLC0415

    assert testing.ManualClock
    assert agents.MCP
