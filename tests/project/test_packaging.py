"""What a user gets: the metadata, the type marker, the command. `.ci/run` looks into the wheel itself."""

import subprocess
import sys
import tomllib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_installed_metadata_tells_the_version_of_the_source() -> None:
    # PackageNotFoundError here means: not installed, run "pip install -e '.[dev]'" first.
    assert metadata.version("regrow") == PROJECT["version"]


def test_the_core_needs_three_packages_and_caps_none() -> None:
    assert [need.partition(">=")[0] for need in PROJECT["dependencies"]] == ["loguru", "pydantic", "pykka"]
    assert not any(mark in need for need in PROJECT["dependencies"] for mark in ("<", "==", "~"))


@pytest.mark.parametrize("package", ["actors", "trees"])
def test_a_package_tells_type_checkers_that_it_is_typed(package: str) -> None:
    spec = find_spec(package)

    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).with_name("py.typed").is_file()


@pytest.mark.slow
def test_python_m_trees_shows_its_commands() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "trees", "--help"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert shown.returncode == 0, shown.stderr
    assert all(command in shown.stdout for command in ("check", "run", "dump"))


def test_the_regrow_command_is_the_same_as_python_m_trees() -> None:
    (script,) = metadata.entry_points(group="console_scripts", name="regrow")

    assert script.value == PROJECT["scripts"]["regrow"] == "trees.cli:main"
    assert callable(script.load())
