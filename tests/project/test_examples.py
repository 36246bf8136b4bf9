"""Every file of examples/, run as a user would run it: as a program, with warnings as errors."""

import os
import re
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.programs import ran

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN_S = 90.0
"""Seconds that an example may take on a busy machine."""


def test_every_example_has_a_test_here() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    examples = sorted(path.name for path in EXAMPLES.glob("*.py"))

    assert examples
    assert [name for name in examples if f'"{name}"' not in here] == []


# -- local_model.py, whose model is asked in tests/trees/agents/test_local_model.py ------------------------


@pytest.mark.slow
def test_local_model_says_what_it_does_also_where_the_model_is_not_installed(tmp_path: Path) -> None:
    done = _run("local_model.py", "--help", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "--port" in done.stdout


# -- research.py, whose MCP server is "documents_server.py" -------------------------------------------------


PAPERS = {
    "otter.md": b"# Otters\nSummary: sleep on their backs\nLicense: MIT\n",
    "newt.txt": b"Newts\nLicense-Expression: BSD-2-Clause\n",
    "sub/odd.rst": b"bytes \xff that are no text\n",
    "ignored.bin": b"\0",
}


@pytest.mark.slow
@pytest.mark.timeout(6 * RUN_S)  # as many runs
def test_research_reads_what_is_there_and_ends_with_the_same_report_whatever_part_of_it_is_killed(
    tmp_path: Path,
) -> None:
    folder = _folder(tmp_path, PAPERS)
    first = _run("research.py", "--input", f"path={folder}", tmp=tmp_path)
    report = _researched(first)

    assert re.search(r"^\[survey\] ", first.stdout, re.MULTILINE)
    told = re.search(r"^by agent:\n((?: {4}\w+ +\d+ tokens\n)+)", first.stdout, re.MULTILINE)
    assert told is not None
    assert {"survey", "licences", "summary"} <= {line.split()[0] for line in told[1].splitlines()}
    assert "* otter.md: sleep on their backs" in report
    assert "* newt.txt: BSD-2-Clause" in report
    assert "3 documents" in report
    assert '"style"' in report
    for kill, sign in {
        "mcp": r"files +permanent +running +incarnation 2.* crashed",
        "agent": r"survey +permanent +running +incarnation 2.* crashed SystemExit",
        "model": "",
    }.items():
        done = _again("research.py", "--input", f"path={folder}", "--input", f"kill={kill}", tmp=tmp_path)

        assert _researched(done) == report, kill
        assert re.search(sign, done.stdout), done.stdout
        assert "SubtaskRetrying" in done.stderr, f"{kill}: nothing was killed"


def _researched(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 0, done.stderr
    return re.search(r"^succeeded: .*?(?=^used, by role)", done.stdout, re.MULTILINE | re.DOTALL)[0]  # type: ignore[index]


# -- scan.py -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_scan_sees_every_file_though_some_crash_their_parser(tmp_path: Path) -> None:
    folder = _folder(
        tmp_path,
        {
            "good.py": b"class A:\n    def f(self):\n        pass\n",
            "sub/also_good.py": b"try:\n    pass\nfinally:\n    async def g():\n        def h(): ...\n",
            "sub/broken_syntax.py": b"def (:\n",
            "sub/broken_encoding.py": b"name = '\xff'\n",
            "sub/broken_null.py": b"name = 1\0\n",
            "zero.py": b"",
            "not_python.txt": b"def (:\n",
            "__pycache__/hidden.py": b"def (:\n",
        },
    )
    done = _run("scan.py", "--input", f"path={folder}", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert _table(done.stdout) == {
        "files found": 6,
        "files seen": 6,
        "lines": 8,
        "functions": 3,
        "classes": 1,
        "files that crashed a parser": 3,
    }
    assert "broken_syntax.py" in done.stdout
    assert "SyntaxError" in done.stdout
    assert "WARNING" not in done.stderr, "the log of the crashes is to be quiet"


@pytest.mark.slow
def test_scan_sees_the_same_with_parsers_in_processes(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"good.py": b"def f():\n    return '\\d'\n", "broken.py": b"def (:\n"})
    done = _run("scan.py", "--input", f"path={folder}", "--input", "dispatch=process", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "what the compiler thinks of old files is quiet there as well"
    found = _table(done.stdout)
    assert (found["files seen"], found["functions"], found["files that crashed a parser"]) == (2, 1, 1)
    assert "SyntaxError" in done.stdout


@pytest.mark.slow
def test_scan_finds_in_a_real_package_what_was_counted_without_a_tree(tmp_path: Path) -> None:
    folder = Path(sysconfig.get_path("stdlib"), "email")
    files = [path for path in folder.rglob("*.py") if "__pycache__" not in path.parts]
    lines = sum(len(path.read_bytes().splitlines()) for path in files)
    classes = sum(len(re.findall(rb"^ *class \w+.*:", path.read_bytes(), re.MULTILINE)) for path in files)
    done = _again("scan.py", "--input", f"path={folder}", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert _table(done.stdout) == {
        "files found": len(files),
        "files seen": len(files),
        "lines": lines,
        "functions": _table(done.stdout)["functions"],
        "classes": classes,
        "files that crashed a parser": 0,
    }
    assert _table(done.stdout)["functions"] > 100


@pytest.mark.slow
def test_scan_can_be_drawn_and_run_by_the_command(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"broken.py": b"def (:\n"} | {f"good{i}.py": b"pass\n" for i in range(40)})
    scan = str(EXAMPLES / "scan.py")
    drawn = _command("check", scan, tmp=tmp_path)
    ran = _command("run", scan, "--input", f"path={folder}", tmp=tmp_path)

    assert drawn.returncode == 0, drawn.stderr
    assert "parse ×4" in drawn.stdout
    assert ran.returncode == 0, ran.stderr
    assert _table(ran.stdout)["files seen"] == 41
    assert re.search(r"parsing +one_for_one +stopped +restarts 1/100000 in 60 s", ran.stdout)


# -- audit.py ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_audit_has_weak_findings_revised_and_survives_the_files_that_crash_a_reader(tmp_path: Path) -> None:
    folder = _folder(
        tmp_path,
        {
            "heap.py": b"".join(b"# TODO: number %d\n" % n for n in range(70)),
            "bare.py": b"def careless():\n    try:\n        work()\n    except:\n        pass\n",
            "silent.py": b"# FIXME\n# it loses the last line\nx = 1\n",
            "sub/broken.py": b"def (:\n",
            "sub/image.bin": b"\xff\xfe\x00",
        },
    )
    done = _run("audit.py", str(folder), tmp=tmp_path)
    first, second = re.findall(r"review (\d: .*)", done.stdout)

    assert done.returncode == 0, done.stderr
    assert (first, second) == ("1: not good enough", "2: passed")
    assert "search: 1 have no reason, the first in silent.py:1; look around it; 71 findings" in done.stdout
    assert "analyse: Revision" not in done.stdout, "only what is weak runs again"
    assert re.search(r"silent.py:1 +│ FIXME: it loses the last line", done.stdout)
    assert re.search(r"bare.py:4 +│ bare except", done.stdout)
    assert re.search(r"sub/broken.py +│ SyntaxError", done.stdout)
    assert re.search(r"sub/image.bin +│ UnicodeDecodeError", done.stdout)
    assert re.search(r"│ TODO +│ +59 │", done.stdout), "70 of them, and the FIXME: at most 60"
    assert "WARNING" not in done.stderr, "the log of the crashes is to be quiet"
    assert done.stdout.endswith("\n6 readers crashed and were replaced, nothing was lost, one revision\n")


# -- checkout.py -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_checkout_charges_reserves_and_confirms(tmp_path: Path) -> None:
    done = _run("checkout.py", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert _acts(done.stdout) == ["card: charged 27", "stock: reserved 3", "mail: confirmed to cleo@example.org"]
    assert "order: succeeded\n  undone: nothing; cost of payment 0.54" in done.stdout


@pytest.mark.slow
def test_checkout_refunds_the_payment_exactly_once_when_the_stock_is_gone(tmp_path: Path) -> None:
    done = _again("checkout.py", "--input", "fail=stock", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert _acts(done.stdout) == ["card: charged 27", "card: refunded 27"]
    assert "order: failed" in done.stdout
    assert "undone: payment;" in done.stdout
    assert "skipped: confirm: needs 'stock', which has failed" in done.stdout


@pytest.mark.slow
def test_checkout_opens_a_breaker_and_pays_with_the_backup_when_the_card_is_down(tmp_path: Path) -> None:
    done = _again("checkout.py", "--input", "fail=payment", tmp=tmp_path)
    first, second, third = re.split("The (?:second|third) order", done.stdout)

    assert done.returncode == 0, done.stderr
    assert [act for act in _acts(done.stdout) if "charged" in act] == ["bank: charged 27"] * 3
    assert first.count("with card failed: ConnectionError") == 3
    assert second.count("with card failed: ConnectionError") == 3
    assert "with card failed" not in third
    assert "shop/payment/card: breaker open" in third
    assert done.stdout.count("order: succeeded") == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "last_acts"),
    [
        ("approve", ["stock: reserved 3", "mail: confirmed to cleo@example.org"]),
        ("respond cleo@example.com", ["stock: reserved 3", "mail: confirmed to cleo@example.com"]),
        ("edit told by telephone", ["card: charged 27", "stock: reserved 3"]),
        ("reject no such customer", ["stock: released 3", "card: refunded 27"]),
    ],
)
def test_checkout_does_what_a_person_answers(tmp_path: Path, answer: str, last_acts: list[str]) -> None:
    asked = ("--input", "fail=confirm", "--input", "answers=stdin")
    done = _again("checkout.py", *asked, tmp=tmp_path, said=f"eh?\n{answer}\n")

    assert done.returncode == 0, done.stderr
    assert _acts(done.stdout)[-2:] == last_acts
    assert ("order: failed" in done.stdout) == answer.startswith("reject")


def _acts(output: str) -> list[str]:
    _, _, after = output.partition("What the providers have done:\n")
    return [line.strip() for line in after.splitlines() if re.match(r"  \w+: ", line)]


# -- fastapi_host.py ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_fastapi_example_submits_watches_and_answers_over_http(tmp_path: Path) -> None:
    for package in ("fastapi", "httpx", "uvicorn"):
        pytest.importorskip(package, reason="needs the extra 'example'")
    done = _run("fastapi_host.py", tmp=tmp_path)
    assert done.returncode == 0, done.stderr
    _, first, second = done.stdout.split("\nPOST /tasks: ")

    assert "'publish': 'published under what, supervisor, restarts'" in first
    assert "EscalationRaised" not in first
    assert "GET /tasks/ID: waiting, It has only 2 words. Publish it?" in second
    assert "POST /escalations/ID respond: 200\nPOST /escalations/ID approve: 409" in second
    assert "'publish': 'published under notes'" in second
    assert re.search(r"events: TaskSubmitted Planned .* EscalationRaised EscalationAnswered .* TaskFinished", second)
    assert second.count(" --> n2") == 2
    assert "GET /tasks/none: 404" in second
    assert re.search(r"desk +one_for_one +running .* tasks finished 2", second)


# -- batch.py ----------------------------------------------------------------------------------------------


_SMALL = {
    "good.py": b"def f(x):\n    if x:\n        return [y for y in x]\n",
    "sub/also_good.py": b"class A:\n    async def g(self):\n        pass\n",
    "sub/broken.py": b"name = '\xff'\n",
    "zero.py": b"",
    "not_python.txt": b"def (:\n",
}
_ALL_KINDS = {
    "documents": 9,
    "measured": 3,
    "crashed a worker": 2,
    "killed a process": 1,
    "given up: hung": 2,
    "refused: too large": 1,
    "accounted for": 9,
    "lines": 6,
    "functions": 2,
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a pipe hangs, and there is none")
def test_batch_accounts_for_every_document_though_some_raise_hang_segfault_spin_or_are_huge(tmp_path: Path) -> None:
    done = _run("batch.py", "--input", f"path={_folder(tmp_path, _SMALL)}", "--input", "bad=1", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert _table(done.stdout) == _ALL_KINDS | {"good.py f": 3, "sub/also_good.py g": 1}
    assert "good.py f" in done.stdout
    assert "WARNING" not in done.stderr, "the log of the crashes is to be quiet"
    assert "ProcessDiedError" in done.stdout
    assert re.search(r"measure ×4 +permanent +running", done.stdout)
    assert "abandoned" not in done.stdout, "what hangs in a process is killed"


# -- the others --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_pykka_example_goes_on_after_its_crash(tmp_path: Path) -> None:
    done = _run("pykka_host.py", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "before the crash: 10 20" in done.stdout
    assert "after the crash:  10 " in done.stdout
    assert re.search(r"counter +permanent +running +incarnation 2 +last exit: crashed TypeError", done.stdout)


@pytest.mark.slow
def test_the_asyncio_example_serves_on_when_a_worker_crashes(tmp_path: Path) -> None:
    done = _run("asyncio_host.py", tmp=tmp_path)
    rounds = re.findall(r"round \d: (\d+) KeyError\('coffee'\) (\d+)", done.stdout)

    assert done.returncode == 0, done.stderr
    assert rounds == [("3", "4"), ("6", "8"), ("9", "12")]
    assert done.stdout.rstrip().endswith("store: connection closed")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process")
def test_the_asyncio_example_stops_its_tree_in_order_on_ctrl_c(tmp_path: Path) -> None:
    with _popen("asyncio_host.py", "--rounds", "0", tmp=tmp_path) as process:
        assert process.stdout is not None
        started = next(line for line in process.stdout if line.startswith("round 1"))
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=RUN_S)

    assert started
    assert process.returncode == 0, errors
    assert rest.splitlines()[-2:] == ["store: connection closed", "stopped by Ctrl-C"]
    assert errors == ""


@pytest.mark.slow
def test_the_depth_and_recursion_example_shows_both_errors(tmp_path: Path) -> None:
    done = _run("depth_and_recursion.py", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "shop/web/react/lint: level 4 of at most 3." in done.stdout
    assert "office/plan > office/research > office/plan: 'office/plan' would wait for itself." in done.stdout
    assert "[('plan', 1), ('research', 1)]" in done.stdout


# -- helpers -----------------------------------------------------------------------------------------------


def _folder(tmp_path: Path, files: dict[str, bytes]) -> Path:
    folder = tmp_path / "source"
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def _command(*args: str, tmp: Path) -> "subprocess.CompletedProcess[str]":
    return _again("-m", "trees", *args, tmp=tmp)


def _arguments(name: str, args: tuple[str, ...]) -> list[str]:
    return ["-W", "error", *([name] if name == "-m" else [str(EXAMPLES / name)]), *args]


def _environment(tmp: Path, env: dict[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(tmp), "PYTHONIOENCODING": "utf-8", "COLUMNS": "120"} | (env or {})


def _popen(
    name: str, *args: str, tmp: Path, env: dict[str, str] | None = None, said: str | None = None
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *_arguments(name, args)],
        cwd=tmp,
        env=_environment(tmp, env),
        stdin=subprocess.DEVNULL if said is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def _run(
    name: str, *args: str, tmp: Path, env: dict[str, str] | None = None, said: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Start it as a user does."""
    with _popen(name, *args, tmp=tmp, env=env, said=said) as process:
        try:
            out, errors = process.communicate(said, timeout=RUN_S)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def _again(
    name: str, *args: str, tmp: Path, env: dict[str, str] | None = None, said: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run it where its imports are made already: another test starts it as a user does."""
    return ran(*_arguments(name, args), cwd=tmp, env=_environment(tmp, env), said=said, timeout=RUN_S)


def _table(output: str) -> dict[str, int]:
    rows = re.findall(r"^│ (\S.*?) +│ +([\d,]+) │$", output, re.MULTILINE)
    return {name: int(count.replace(",", "")) for name, count in rows}
