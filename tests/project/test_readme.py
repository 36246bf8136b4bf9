"""Runs every Python block of README.md and of the pages of the folders, and follows their links."""

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import settings_tables
from tests.support import readme
from tests.support.programs import python, started

RUN_S = 110
"""Seconds that the blocks of a page may take on a busy machine: those of agents import three frameworks."""

_PAGE = """\
Intro.
```python
shared = 1
```
<!-- test-command -->
Text between.
```sh
run the tests
```
```python alone
raise LookupError
```
```python
assert shared == 1
```
"""


def _named(page: Path) -> str:
    return page.relative_to(readme.ROOT).as_posix()


@pytest.mark.parametrize("page", readme.pages(), ids=_named)
def test_every_python_block_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    programs = readme.programs(page.read_text(encoding="utf-8"))
    fails = _failure_of_new_interpreter if page == readme.README else _failure
    failures = [output for program in programs if (output := fails(program, tmp_path))]

    assert programs or page != readme.README, "the README shows no Python"
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("page", readme.pages(), ids=_named)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    for link in readme.links(page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page

        assert target.is_file(), f"{link} of {_named(page)} leads to no file"
        if heading:  # of a page; a picture has none
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {found.lower().replace(" ", "-") for found in headings}, link


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    linked, to_follow = set[Path](), [readme.README]
    while to_follow:
        page = to_follow.pop()
        linked.add(page)
        targets = {(page.parent / link.partition("#")[0]).resolve() for link in readme.links(page.read_text("utf-8"))}
        to_follow += [target for target in targets if target.suffix == ".md" and target not in linked]

    assert len(readme.README.read_bytes()) <= 10_000
    assert linked >= set(readme.pages())


def test_the_page_of_a_folder_lists_each_of_its_files_once() -> None:
    folder = readme.ROOT / "actors/dispatch"
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    files = [each.relative_to(folder).as_posix() for each in folder.rglob("*.py") if each.name != "__init__.py"]

    assert sorted(listed) == sorted(files)


def test_the_tables_of_settings_say_what_the_docstrings_say() -> None:
    page = settings_tables.PAGE.read_text(encoding="utf-8")

    assert settings_tables.written(page) == page, "run: python -m tests.project.settings_tables"


@pytest.mark.parametrize(
    ("marker", "expected"), [("test-command", "python -m pytest"), ("main-command", "examples/audit.py")]
)
def test_the_readme_gives_its_commands_as_one_line_for_a_bare_machine(marker: str, expected: str) -> None:
    command = readme.command(readme.README.read_text(encoding="utf-8"), marker)

    assert command.startswith("python3 -m venv .venv && ")
    assert command.endswith(expected)
    assert "\n" not in command


def test_the_first_program_is_killed_and_prints_the_second_time_what_the_page_says(tmp_path: Path) -> None:
    blocks = readme.blocks(readme.README.read_text(encoding="utf-8"))
    program, shown = blocks[0], blocks[1]
    script, environment = _written(program.code, tmp_path)
    runs = [
        subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        for _ in range(2)
    ]

    assert program.info == "python killed"
    assert runs[0].returncode == -signal.SIGKILL
    assert "searching" in runs[0].stdout or not runs[0].stdout, "a killed process may keep what it had buffered"
    assert _timeless(runs[1].stdout) == _timeless(shown.code)


def test_the_service_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = readme.blocks(readme.README.read_text(encoding="utf-8"))
    place, service = next((n, block.code) for n, block in enumerate(blocks) if block.info == "python")
    # The reader sees the tree at rest; for a test that must be waited for.
    service = "from actors.testing import settle\n" + service.replace("print(tree", "settle(tree); print(tree")
    exec(compile(service, "README.md", "exec"), {})  # noqa: S102 - our own page

    assert _timeless(capsys.readouterr().out) == _timeless(blocks[place + 1].code)


def test_the_agent_records_each_answer_and_each_call_once(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = readme.blocks(readme.README.read_text(encoding="utf-8"))
    agent = next(block.code for block in blocks if block.info == "python alone")
    exec(compile(agent, "README.md", "exec"), {"__name__": "shown"})  # noqa: S102 - our own page
    output, steps = capsys.readouterr().out.splitlines()

    assert output in agent.replace("\\", "")
    assert [step.split()[0] for step in ast.literal_eval(steps)] == ["model", "tool", "model"]


def test_the_list_of_tasks_is_what_the_command_shows_of_the_program_above_it(tmp_path: Path) -> None:
    page = (readme.ROOT / "trees/store/README.md").read_text(encoding="utf-8")
    blocks = readme.blocks(page)
    declaration, submission, _ = blocks[0].code.split("\nwith start(ORDER", 2)
    shown = next(block.code for block in blocks if block.info == "text")
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    program = f"{declaration}\nwith start(ORDER{submission}".replace("sqlite:///tasks.db", url)
    failure = _failure(program, tmp_path)
    with started("tasks", "--store", url, cwd=tmp_path) as listing:
        listed, _ = listing.communicate(timeout=RUN_S)

    assert failure == ""
    assert _timeless(listed) == _timeless(shown)


def _timeless(text: str) -> str:
    """How long a run takes differs from machine to machine."""
    return re.sub(r"\d+ s +", "0 s ", re.sub(r"\d+\.\d s", "0.0 s", text)).replace("age    goal", "age   goal")


def test_blocks_share_their_names_unless_they_stand_alone() -> None:
    shared, alone = readme.programs(_PAGE)

    assert "shared = 1" in shared
    assert "assert shared == 1" in shared
    assert alone.strip() == "raise LookupError"


def test_a_program_has_the_line_numbers_of_the_page() -> None:
    page = _PAGE.splitlines()
    shared, alone = (program.splitlines() for program in readme.programs(_PAGE))

    assert shared.index("assert shared == 1") == page.index("assert shared == 1")
    assert alone.index("raise LookupError") == page.index("raise LookupError")


def test_a_failing_block_is_reported_with_its_line(tmp_path: Path) -> None:
    _, alone = readme.programs(_PAGE)

    assert "line 11" in _failure(alone, tmp_path)


def test_an_unknown_kind_of_python_block_is_refused_rather_than_left_unrun() -> None:
    with pytest.raises(ValueError, match=r"line 1: .* not 'python skip'"):
        readme.programs("```python skip\n1\n```\n")


def test_a_command_is_the_first_block_after_its_comment() -> None:
    assert readme.command(_PAGE, "test-command") == "run the tests"


def test_a_missing_command_is_an_error_that_names_its_comment() -> None:
    with pytest.raises(LookupError, match="main-command"):
        readme.command(_PAGE, "main-command")


def _written(program: str, folder: Path) -> tuple[Path, dict[str, str]]:
    """Puts it in an empty folder; the file, and the environment to run it in."""
    script = folder / "README.py"
    script.write_text(program, encoding="utf-8")
    return script, {**os.environ, "PYTHONPATH": str(readme.README.parent)}


def _failure(program: str, folder: Path) -> str:
    """Runs the program in a process that has imported what it needs; its output if it failed, else nothing."""
    script, environment = _written(program, folder)
    with python("-W", "error", script, cwd=folder, env=environment) as running:
        said = "\n".join(running.communicate(timeout=RUN_S))
    return said.strip() or f"exit code {running.returncode}" if running.returncode else ""


def _failure_of_new_interpreter(program: str, folder: Path) -> str:
    """Runs the program as a user would, in an empty folder; its output if it failed, else nothing."""
    script, environment = _written(program, folder)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    return done.stdout or f"exit code {done.returncode}" if done.returncode else ""
