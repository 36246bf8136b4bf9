"""The examples on a store, in processes of their own: killed half way, resumed, answered from another terminal."""

import json
import re
from pathlib import Path

import pytest

from tests.project.test_examples import EXAMPLES, RUN_S, _acts, _again, _arguments, _command, _environment, _folder
from tests.support.command import Process, out
from tests.support.programs import python

STORE = ("--store", "sqlite:///kept.db")
FILES = {
    "heap.py": b"".join(b"# TODO: number %d\n" % n for n in range(70)),
    "silent.py": b"# FIXME\n# it loses the last line\ndef f(x):\n    return x if x else 1\n",
    "sub/broken.py": b"def (:\n",
}
WATCHED = """\
import sys

import audit

book = open("worked.txt", "a", encoding="utf-8")


def watched(name):
    work = getattr(audit, name)

    def watching(*args, **words):
        print(name, file=book, flush=True)
        if HOLD and name == "open_work" and words["look_further"]:
            sys.stdout.write("holding\\n")  # at once: the main thread prints at the same time
            sys.stdout.flush()
            sys.stdin.read()
        return work(*args, **words)

    setattr(audit, name, watching)


HOLD = "--resume" not in sys.argv
for each in ("open_work", "remarks", "complexity"):
    watched(each)
audit.run()
"""
"""The audit, with a book of what its three tools did; it stands still where search has been sent back."""


def _forked(name: str, *args: str, tmp: Path, env: dict[str, str] | None = None) -> Process:
    return python(*_arguments(name, args), cwd=tmp, env=_environment(tmp, env), talks=True)


def killed_half_way(tmp: Path) -> tuple[Path, str]:
    """An audit that was killed when the first review had sent search back; its script, and what it had printed."""
    script = tmp / "watched.py"
    script.write_text(WATCHED, encoding="utf-8")
    folder = _folder(tmp, FILES)
    env = {"PYTHONPATH": str(EXAMPLES)}
    with _forked(str(script), str(folder), *STORE, tmp=tmp, env=env) as process:
        shown = ""
        while "holding\n" not in shown or "review 1: " not in shown:
            line = out(process).readline()
            assert line, "it ended"
            shown += line
        process.kill()
        process.communicate(timeout=RUN_S)
    return script, shown


def worked(tmp: Path) -> dict[str, int]:
    """How often each tool has looked at something since the last time."""
    book = tmp / "worked.txt"
    lines = book.read_text(encoding="utf-8").split()
    book.unlink()
    return {name: lines.count(name) for name in ("open_work", "remarks", "complexity")}


def started(tmp: Path) -> dict[str, int]:
    """How often each subtask of the audit was started, in both processes together."""
    listed = _command("tasks", *STORE, tmp=tmp)
    task = listed.stdout.splitlines()[1].split()[0]
    told = _command("tasks", "show", task, "--format", "json", *STORE, tmp=tmp)
    begun = [each for each in json.loads(told.stdout)["events"] if each["event"] == "SubtaskStarted"]
    return {id_: sum(each.get("subtask") == id_ for each in begun) for id_ in ("search", "analyse", "measure")}


@pytest.mark.slow
def test_an_audit_that_was_killed_half_way_goes_on_and_does_again_only_what_was_not_recorded(tmp_path: Path) -> None:
    script, shown = killed_half_way(tmp_path)
    before = worked(tmp_path)
    done = _again(str(script), *STORE, "--resume", tmp=tmp_path, env={"PYTHONPATH": str(EXAMPLES)})
    after = worked(tmp_path)
    again = _again("audit.py", *STORE, "--resume", tmp=tmp_path)

    assert "review 1: not good enough" in shown
    assert min(before.values()) > 0
    assert done.returncode == 0, done.stderr
    assert "kept, and not done again: analyse, measure\n" in done.stdout
    assert (after["remarks"], after["complexity"]) == (0, 0)
    assert after["open_work"] == 1
    assert "review 2: passed" in done.stdout
    assert re.search(r"silent.py:1 +│ FIXME: it loses the last line", done.stdout)
    assert re.search(r"sub/broken.py +│ SyntaxError", done.stdout)
    assert re.search(r"succeeded after 2 reviews", done.stdout)
    assert "nothing to resume: no audit is unfinished" in again.stdout


@pytest.mark.slow
def test_the_command_goes_on_with_an_audit_that_was_killed(tmp_path: Path) -> None:
    killed_half_way(tmp_path)
    done = _command("run", str(EXAMPLES / "audit.py"), *STORE, "--resume", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "kept, and not done again: analyse, measure\n" in done.stdout
    assert "review 2: passed" in done.stdout
    assert started(tmp_path) == {"search": 3, "analyse": 1, "measure": 1}


@pytest.mark.slow
def test_audit_keeps_nothing_unless_it_is_told_where(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"good.py": b"pass\n"})
    done = _again("audit.py", str(folder), tmp=tmp_path)
    mistaken = _again("audit.py", "--resume", tmp=tmp_path)
    refused = _again("audit.py", str(folder), "--store", "sqlite:///no/such/folder/x.db", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("*.db")) == []
    assert mistaken.returncode == 2
    assert "--resume needs the --store of the run that is to go on" in mistaken.stderr
    assert refused.returncode == 1
    assert refused.stderr.startswith("store sqlite")
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "last"),
    [
        (("approve",), "mail: confirmed to cleo@example.org"),
        (("respond", "cleo@example.com"), "mail: confirmed to cleo@example.com"),
        (("reject", "no such customer"), "card: refunded 27"),
    ],
)
def test_the_question_of_checkout_is_answered_from_another_terminal(
    tmp_path: Path, answer: tuple[str, ...], last: str
) -> None:
    with _forked("checkout.py", "--input", "fail=confirm", *STORE, tmp=tmp_path) as process:
        shown: list[str] = []
        while not shown or not shown[-1].startswith("answer it with: "):
            shown.append(out(process).readline())
            assert shown[-1], "it ended"
        escalation = shown[-1].split()[6]
        listed = _command("tasks", *STORE, tmp=tmp_path)
        told = _command("tasks", "respond", escalation, *answer, *STORE, "--wait", "20", tmp=tmp_path)
        rest, errors = process.communicate(timeout=RUN_S)

    assert shown[-1] == f"answer it with: regrow tasks respond {escalation} approve --store URL\n"
    assert f"asks {escalation}: confirm failed. What now?" in listed.stdout
    assert told.stdout == f"escalation {escalation}: answered: {answer[0]}\n", told.stderr
    assert process.returncode == 0, errors
    assert f"answered: {answer[0]}\n" in rest
    assert _acts(rest)[-1] == last


@pytest.mark.slow
def test_checkout_waits_for_another_terminal_where_the_command_is_told_so(tmp_path: Path) -> None:
    command = ["-m", "trees", "run", str(EXAMPLES / "checkout.py")]
    asked = ["--input", "fail=confirm", "--input", "answers=elsewhere"]
    with python(*command, *asked, cwd=tmp_path) as process:
        line = ""
        while not line.startswith("answer it with: "):
            line = out(process).readline()
            assert line, "it ended"
        told = _command("tasks", "respond", line.split()[6], "approve", "--wait", "20", tmp=tmp_path)
        rest, _ = process.communicate(timeout=RUN_S)

    assert told.returncode == 0, told.stderr
    assert process.returncode == 0
    assert _acts(rest)[-1] == "mail: confirmed to cleo@example.org"
