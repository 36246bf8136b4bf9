"""One table of the rooms of the library: a file imports from its own room and from those that stand below it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import actors
import trees
import trees.agents

ROOT = Path(__file__).parents[2]
ROOMS = (
    "actors/model",
    "actors/validation",
    "actors/concurrency",
    "actors/messaging",
    "actors/execution",
    "actors/dispatch",
    "actors/supervision",
    "actors/runtime",
    "actors/tasks",
    "actors",
    "trees/agents",
    "trees/declaration",
    "trees/store",
    "trees/views",
    "trees/ha",
    "trees/observe",
    "trees/host",
    "trees/command",
    "trees",
)
"""From the lowest to the highest. A file stands in the innermost of the folders that are listed."""
MOVED = {
    "actors.worker": "actors/dispatch",
}
VIEW = "actors.tasks.journal.view"
"""The one module through which the rooms of ``SEE_TASKS`` look at tasks."""
SEE_TASKS = {
    "trees/views": frozenset[str](),
    "trees/observe": frozenset[str](),
    "trees/command": frozenset[str](),
    "trees/agents": frozenset(
        {
            "ANSWERS", "Answer", "MOST_NAME_CHARS", "NO_USAGE", "PutOff", "Schema", "ToolInfo", "answer_of",
            "called", "off_loop", "plain_text", "report_usage", "usage_of", "use_in_step",
        }
    ),
}  # fmt: skip
"""Names of ``actors/tasks`` that a room may use beside the view and public names: adapters run inside an attempt."""
OF_EXTRAS = (
    "agents", "langchain_core", "langgraph", "mcp", "opentelemetry", "prometheus_client", "psycopg", "pydantic_ai",
    "ray", "rich", "sqlalchemy", "starlette", "textual", "typer", "uvicorn",
)  # fmt: skip
"""Packages that only those processes load that use them."""


def room_of(module: str) -> str:
    """The room of a module; of a package itself the room that it is."""
    if module in MOVED:
        return MOVED[module]
    path = module.replace(".", "/")
    return max((room for room in ROOMS if path == room or path.startswith(f"{room}/")), key=len)


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the library with its file."""
    for package in ("actors", "trees"):
        for file in sorted((ROOT / package).rglob("*.py")):
            name = file.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            yield name.removesuffix(".__init__"), file


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of what a file imports, also inside functions; it has no relative imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}:{node.lineno}: imports have full names"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def test_a_file_imports_from_no_room_above_its_own() -> None:
    known = dict(modules())
    wrong = []
    for module, file in known.items():
        for line, name in imported(file):
            target = name if name in known else name.rpartition(".")[0]
            package = target.partition(".")[0]
            if package in {"tests", "examples"}:
                wrong.append(f"{file}:{line}: imports {name}")
            elif target in known and ROOMS.index(room_of(target)) > ROOMS.index(room_of(module)):
                wrong.append(f"{file}:{line}: {room_of(module)} imports {name}, of {room_of(target)}")

    assert not wrong, "\n".join(["", *wrong])


def test_rooms_that_show_tasks_know_of_the_engine_its_view_and_public_names() -> None:
    public = {*actors.__all__, *trees.__all__, *trees.agents.__all__}
    wrong = []
    for module, file in modules():
        allowed = SEE_TASKS.get(room_of(module))
        if allowed is None:
            continue
        for line, name in imported(file):
            of, _, last = name.rpartition(".")
            if of.startswith("actors.tasks") and of != VIEW and last not in public | allowed:
                wrong.append(f"{file}:{line}: imports {name}: take it from {VIEW}")

    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.parametrize("package", ["actors", "trees"])
def test_no_package_of_an_extra_is_loaded_before_it_is_used(package: str) -> None:
    code = f"import sys, {package}\nprint(*(set(sys.argv[1:]) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code, *OF_EXTRAS], capture_output=True, text=True, check=True, timeout=100, cwd=ROOT
    )

    assert done.stdout.split() == []
