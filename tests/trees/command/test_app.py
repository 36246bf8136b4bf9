"""``regrow check`` and ``regrow dump``, as a user runs them: in a process of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from tests.support.command import DRAWN, SHOP, WAIT_S, file, out, regrow, running, runtime, shop
from tests.support.programs import python
from trees import cli
from trees.command.app import with_port
from trees.command.target import TargetError, load

__all__ = ["runtime", "shop"]
pytestmark = pytest.mark.usefixtures("runtime")

# -- check -------------------------------------------------------------------------------------------------


def test_check_draws_a_tree_without_starting_it(shop: Path) -> None:
    checked = regrow("check", shop)

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, DRAWN, "")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["shop:TREE", "./shop.py"])
def test_a_target_is_a_file_or_a_module_with_or_without_an_attribute(shop: Path, target: str) -> None:
    assert regrow("check", target, cwd=shop.parent).stdout == DRAWN


def test_check_says_every_mistake_with_its_place_and_what_to_do(tmp_path: Path) -> None:
    text = SHOP.replace("run=beat", "run='no_such_module:f'").replace(
        "handle=parse, pool=3", "handle=parse, args=(1, 2)"
    )
    text = text.replace('args=(), description="counts"', 'description="counts"')

    checked = regrow("check", file(tmp_path, "wrong.py", text))

    assert checked.returncode == 1
    assert checked.stdout == ""
    first, second = checked.stderr.splitlines()
    assert first.startswith("shop/beat.run: module 'no_such_module' not found. Correct the name")
    assert second.startswith("shop/parse.handle: args and kwargs do not fit parse: too many positional arguments.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("", "empty.py", "empty.py: has no tree. Declare one: TREE = SupervisorSpec(id=..., children=[...])."),
        (SHOP, "x.py:TREES", "x.py: has no 'TREES'. Did you mean 'TREE'? Write x.py:TREE."),
        (SHOP + "OTHER = TREE.children[2]\nTREE2 = TREE\ndel TREE", "x.py", "x.py: has several trees and none called"),
        ("raise OSError('secret')", "x.py", "x.py:1: raised OSError on import. The traceback shows where."),
    ],
)
def test_a_target_that_leads_to_no_tree_is_an_error_that_says_what_to_write(
    tmp_path: Path, text: str, target: str, said: str
) -> None:
    file(tmp_path, target.partition(":")[0], text)

    checked = regrow("check", target, cwd=tmp_path)

    assert checked.returncode == 1
    assert said in checked.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere.py", "nowhere.py: no such file."),
        ("no_such_module", "no_such_module: module 'no_such_module' not found."),
        ("a-b", "a-b: is neither a file nor a module name."),
        ("shop.py:a b", "shop.py:a b: is not a target. Write FILE.py, FILE.py:ATTR"),
        ("./", "is a folder. Name a Python file"),
    ],
)
def test_a_target_that_is_not_there_is_an_error(target: str, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        load(target, {})

    assert said in str(caught.value)


TYPED = """
from datetime import date
from trees import SupervisorSpec
TREE = SupervisorSpec(id="typed", children=[])
def main(tree, tags: list[str] | None = None, sizes: dict[str, int] | None = None, day: date | None = None,
         text: str = "", days: list[date] = ()):
    return tags, sizes, day, text, days
"""


@pytest.mark.parametrize(
    ("inputs", "given"),
    [
        ({"tags": '["a", "b"]'}, (["a", "b"], None, None, "", ())),
        ({"sizes": '{"a": 1}', "text": '["a"]'}, (None, {"a": 1}, None, '["a"]', ())),
        ({"day": "2031-05-06", "days": '["2031-05-06"]'}, (None, None, date(2031, 5, 6), "", [date(2031, 5, 6)])),
    ],
)
def test_an_input_that_is_a_list_or_a_dict_is_json(tmp_path: Path, inputs: dict[str, str], given: object) -> None:
    path = tmp_path / "typed_inputs.py"
    path.write_text(TYPED)
    main = load(str(path), inputs).main

    assert main is not None
    assert main(None) == given


def test_an_input_that_is_no_such_list_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "typed_inputs.py"
    path.write_text(TYPED)
    with pytest.raises(TargetError, match=r"--input sizes: .*unable to parse.* Its type is dict\[str, int\]"):
        load(str(path), {"sizes": '{"a": "x"}'})


# -- dump --------------------------------------------------------------------------------------------------


def test_dump_shows_a_running_program_from_outside(shop: Path, runtime: Path) -> None:
    with running(shop) as (process, _):
        by_pid = regrow("dump", "--pid", process.pid)
        (socket,) = runtime.glob("regrow/*")
        by_socket = regrow("dump", "--socket", socket, "--path", "shop/team", "--format", "json")
        wrong = regrow("dump", "--pid", process.pid, "--path", "shop/nobody")
        alive = process.poll() is None

    assert by_pid.returncode == 0
    assert by_pid.stdout.splitlines()[2] == "├─ parse ×3         permanent     running 3"
    assert json.loads(by_socket.stdout)["top"]["path"] == "shop/team"
    assert wrong.returncode == 1
    assert "shop/nobody: no such path in this tree." in wrong.stderr
    assert alive


def test_dump_with_stacks_shows_where_a_worker_stands(shop: Path) -> None:
    with running(shop) as (process, _):
        shown = regrow("dump", "--pid", process.pid, "--stacks", "--verbose")

    assert "actors.stopping(600)" in shown.stdout
    assert "threads of the pool: " in shown.stdout


def test_a_signal_makes_a_run_write_its_dump_to_stderr(shop: Path) -> None:
    with running(shop) as (process, _):
        process.send_signal(signal.SIGUSR1)
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)

    assert first.startswith("shop                one_for_one   running")


TWO_TREES = """
import sys
from trees import SupervisorSpec, start
with start(SupervisorSpec(id="one"), console=True), start(SupervisorSpec(id="two"), console=True):
    print("up", flush=True)
    sys.stdin.read()
"""


def test_all_trees_of_a_process_are_shown_and_with_a_path_those_that_have_it() -> None:
    with python("-c", TWO_TREES, talks=True) as process:
        up = out(process).readline()
        both, second = regrow("dump", "--pid", process.pid), regrow("dump", "--pid", process.pid, "--path", "two")
        process.communicate("", timeout=WAIT_S)

    assert up == "up\n"
    assert [line.split()[0] for line in both.stdout.splitlines() if line] == ["one", "two"]
    assert [line.split()[0] for line in second.stdout.splitlines()] == ["two"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("--pid", "1", "--format", "xml"), 2, "'xml' is none of text, json, mermaid"),
        (("--pid", "1"), 1, "process 1: has no open console. It must run as you"),
        (("--socket", "nowhere.sock"), 1, "nowhere.sock: nobody listens there."),
    ],
)
def test_a_dump_that_cannot_be_had_says_why(args: tuple[str, ...], code: int, said: str) -> None:
    dumped = regrow("dump", *args)

    assert dumped.returncode == code
    assert said in dumped.stderr


# -- the command itself ------------------------------------------------------------------------------------


def test_without_its_dependencies_the_command_says_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "NEEDS", ("typer", "no_such_module"))

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("regrow: the command line needs no_such_module, not installed here. ")
    assert said.endswith("in a clone of regrow, pip install '.[cli]'\n")


@pytest.mark.slow
def test_the_library_itself_imports_nothing_that_an_extra_brings() -> None:
    extras = "{'typer', 'rich', 'sqlalchemy', 'psycopg'}"
    program = f"import sys, trees, actors, trees.cli; sys.exit(bool({extras} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=WAIT_S).returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", ""),
        ("run a.py --web", "run a.py --web 8420"),
        ("run --web a.py", "run --web 8420 a.py"),
        ("run a.py --web 0", "run a.py --web 0"),
        ("run a.py --web --resume", "run a.py --web 8420 --resume"),
        ("run a.py", "run a.py"),
    ],
)
def test_web_has_a_port_if_none_is_given(words: str, said: str) -> None:
    assert with_port(words.split()) == said.split()
