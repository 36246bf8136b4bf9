"""Every file of examples/, run as a user would run it: as a program, with warnings as errors."""

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.clusters import RayCluster
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("kill=everything", "kill=mcp|agent|model"),
        ("speed=fast", "kill=mcp|agent|model"),
        ("path=nowhere", "path=nowhere: no folder with texts in it (.md, .rst, .txt)"),
    ],
)
def test_research_says_what_is_wrong_with_its_inputs(given: str, said: str, tmp_path: Path) -> None:
    refused = _again("research.py", "--input", given, tmp=tmp_path)

    assert refused.returncode == 2
    assert said in refused.stderr


@pytest.mark.slow
def test_research_shows_itself_in_a_browser_until_enter(tmp_path: Path) -> None:
    folder = _folder(tmp_path, PAPERS)
    done = _again("research.py", "--input", f"path={folder}", "--web", "0", tmp=tmp_path)

    _shows_itself(done)
    assert "* otter.md: sleep on their backs" in _researched(done)


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
def test_scan_sees_the_same_with_parsers_in_a_cluster(tmp_path: Path, cluster: RayCluster) -> None:
    folder = _folder(tmp_path, {"good.py": b"def f():\n    return '\\d'\n", "broken.py": b"def (:\n"})
    place = {"RAY_ADDRESS": cluster.address}
    done = _run("scan.py", "--input", f"path={folder}", "--input", "dispatch=ray", tmp=tmp_path, env=place)

    assert done.returncode == 0, done.stderr
    found = _table(done.stdout)
    assert (found["files seen"], found["functions"], found["files that crashed a parser"]) == (2, 1, 1)
    assert "SyntaxError" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("given", ["dispatch=moon", "speed=fast", "path"])
def test_scan_says_what_is_wrong_with_its_inputs(tmp_path: Path, given: str) -> None:
    done = _again("scan.py", "--input", given, tmp=tmp_path)

    assert done.returncode != 0
    assert "process" in done.stderr


@pytest.mark.slow
def test_scan_shows_its_tree_at_the_end(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"broken.py": b"def (:\n"} | {f"good{i}.py": b"pass\n" for i in range(40)})
    done = _again("scan.py", "--input", f"path={folder}", tmp=tmp_path)
    dump = done.stdout[done.stdout.index("\nscan ") :]

    assert done.returncode == 0, done.stderr
    assert re.search(r"results +one_for_all +running", dump)
    assert re.search(r"parse ×4 +permanent +running 4", dump)
    assert re.search(r"parsing +one_for_one +running +restarts 1/100000 in 60 s", dump)


@pytest.mark.slow
def test_scan_leaves_a_line_for_each_file_and_why_it_broke(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"good.py": b"pass\n", "broken.py": b"def (:\n"})
    done = _again("scan.py", "--input", f"path={folder}", tmp=tmp_path)
    (results,) = tmp_path.glob("scan-*.jsonl")
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]

    assert str(results) in done.stdout
    assert [(Path(line["file"]).name, line["crash"].partition(":")[0]) for line in lines] == [
        ("broken.py", "SyntaxError"),
        ("good.py", ""),
    ]


@pytest.mark.slow
def test_scan_bears_more_broken_files_than_the_default_limit_would(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {f"broken{i}.py": b"def (:\n" for i in range(50)})
    done = _again("scan.py", "--input", f"path={folder}", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert _table(done.stdout)["files that crashed a parser"] == 50
    assert "and 30 more" in done.stdout


@pytest.mark.slow
def test_scan_loses_no_file_when_its_tally_and_its_writer_crash_on_the_way(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"a_broken.py": b"def (:\n"} | {f"good{i}.py": b"pass\n" for i in range(300)})
    saboteur = tmp_path / "sabotage.py"
    saboteur.write_text(_SABOTAGE, encoding="utf-8")
    done = _again(str(saboteur), str(folder), tmp=tmp_path, env={"PYTHONPATH": str(EXAMPLES)})

    assert done.stdout.splitlines()[-1:] == ["each was replaced"], done.stderr
    assert _table(done.stdout)["files seen"] == 301


_SABOTAGE = """\
import sys
import scan
from actors import ChildExited
from trees import start

with start(scan.TREE) as tree:
    def sabotage(event):
        if isinstance(event, ChildExited) and event.path.startswith("scan/parsing"):
            tree.ref("scan/results/tally").tell("rubbish")
            tree.ref("scan/results/writer").tell("rubbish")

    tree.subscribe(sabotage)
    scan.main(tree, sys.argv[1])
    replaced = all(child.incarnation > 1 for child in tree.which_children("scan/results"))
    print("each was replaced" if replaced else "nothing had happened")
"""


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
def test_scan_of_a_folder_without_python_says_so(tmp_path: Path) -> None:
    done = _again("scan.py", "--input", f"path={tmp_path}", tmp=tmp_path)

    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("no Python files there")


@pytest.mark.slow
def test_scan_that_lost_a_file_ends_with_an_error(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {f"good{i}.py": b"pass\n" for i in range(3)})
    thief = tmp_path / "thief.py"
    thief.write_text("import scan\nscan.Tally._count = lambda *_: None\nscan.run()\n", encoding="utf-8")
    done = _again(str(thief), "--input", f"path={folder}", tmp=tmp_path, env={"PYTHONPATH": str(EXAMPLES)})

    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("RuntimeError: 3 files were found, but 0 seen")


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


@pytest.mark.slow
def test_audit_shows_its_run_and_its_tree(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"good.py": b"def f(x):\n    return x if x else [y for y in x]\n"})
    done = _again("audit.py", str(folder), tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert re.search(r"functions of complexity 1 or more +│ +1 │", done.stdout)
    assert "good.py:1 f" in done.stdout
    assert "complexity 3" in done.stdout
    assert re.search(r"└─ review +review +succeeded +after search, analyse, measure", done.stdout)
    assert "graph TD" not in done.stdout
    assert done.stdout.endswith("\nno reader crashed, nothing was lost, no revision was needed\n")
    assert re.search(r"succeeded after one review in .* \(planned .* ms, queued .* ms, running .* ms\)", done.stdout)
    assert re.search(r"└─ review +one_for_one +running +restarts 0/3 in 5 s +tasks finished 1", done.stdout)


@pytest.mark.slow
def test_audit_shows_itself_in_a_browser_until_enter(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"good.py": b"x = 1\n"})
    _shows_itself(_again("audit.py", str(folder), "--web", "0", tmp=tmp_path))


@pytest.mark.slow
def test_audit_can_be_drawn_and_run_by_the_command(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"good.py": b"pass\n"})
    audit = str(EXAMPLES / "audit.py")
    drawn = _command("check", audit, tmp=tmp_path)
    ran = _command("run", audit, "--input", f"path={folder}", tmp=tmp_path)

    assert drawn.returncode == 0, drawn.stderr
    assert "measure" in drawn.stdout
    assert ran.returncode == 0, ran.stderr
    assert "review 1: passed" in ran.stdout


@pytest.mark.slow
def test_audit_of_a_folder_without_python_says_so(tmp_path: Path) -> None:
    done = _again("audit.py", str(_folder(tmp_path, {"notes.txt": b"TODO\n"})), tmp=tmp_path)

    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("no Python files there")


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


@pytest.mark.slow
def test_checkout_answers_itself_where_nobody_can(tmp_path: Path) -> None:
    done = _again("checkout.py", "--input", "fail=confirm", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "stdin is no terminal; answered: approve" in done.stdout
    assert _acts(done.stdout)[-1] == "mail: confirmed to cleo@example.org"


@pytest.mark.slow
def test_checkout_can_be_run_by_the_command(tmp_path: Path) -> None:
    ran = _command("run", str(EXAMPLES / "checkout.py"), "--input", "fail=stock", tmp=tmp_path)

    assert ran.returncode == 0, ran.stderr
    _, _, after = ran.stdout.partition("What the providers have done:\n")
    # The command prints from another thread, so one of its lines may be behind one of these.
    assert re.findall(r"card: [a-z]+ 27", after) == ["card: charged 27", "card: refunded 27"]


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


@pytest.mark.slow
def test_batch_needs_no_rich(tmp_path: Path) -> None:
    without = "import importlib.util as u; find = u.find_spec; "
    without += "u.find_spec = lambda name, *rest: None if name == 'rich' else find(name, *rest)\n"
    (tmp_path / "sitecustomize.py").write_text(without, encoding="utf-8")
    given = ("--input", f"path={_folder(tmp_path, _SMALL)}", "--input", "bad=raise,huge,raise")
    done = _run("batch.py", *given, tmp=tmp_path, env={"PYTHONPATH": str(tmp_path)})

    assert done.returncode == 0, done.stderr
    assert re.search(r"^documents +7$", done.stdout, re.MULTILINE)
    assert re.search(r"^accounted for +7$", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_batch_can_be_drawn_and_run_by_the_command(tmp_path: Path) -> None:
    folder, batch = _folder(tmp_path, _SMALL), str(EXAMPLES / "batch.py")
    drawn = _command("check", batch, tmp=tmp_path)
    ran = _command("run", batch, "--input", f"path={folder}", "--input", "bad=raise", tmp=tmp_path)

    assert drawn.returncode == 0, drawn.stderr
    assert ran.returncode == 0, ran.stderr
    assert _table(ran.stdout)["accounted for"] == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "says"),
    [(("bad=none",), "Give a number"), (("path=/nowhere",), "no Python files"), (("x=1",), "path=DIR")],
)
def test_batch_says_what_is_wrong_with_its_inputs(tmp_path: Path, inputs: tuple[str, ...], says: str) -> None:
    folder = _folder(tmp_path, _SMALL)
    given = [part for each in (f"path={folder}", *inputs) for part in ("--input", each)]
    done = _again("batch.py", *given, tmp=tmp_path)

    assert done.returncode != 0
    assert says in done.stderr


# -- the others --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_pykka_example_goes_on_after_its_crash(tmp_path: Path) -> None:
    done = _run("pykka_host.py", tmp=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "before the crash: 10 20" in done.stdout
    assert "after the crash:  10 " in done.stdout
    assert re.search(r"counter +permanent +running +incarnation 2 +last exit: crashed TypeError", done.stdout)


@pytest.mark.slow
def test_the_pykka_example_needs_no_extras(tmp_path: Path) -> None:
    for name in ("rich", "typer"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not installed')\n", encoding="utf-8")
    done = _run("pykka_host.py", tmp=tmp_path, env={"PYTHONPATH": str(tmp_path)})

    assert done.returncode == 0, done.stderr


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


def _shows_itself(done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 0, done.stderr
    assert re.match(r"open http://127\.0\.0\.1:\d+/\?token=[\w-]{43}\n", done.stdout)
    assert done.stdout.endswith("The page stays until Enter.\n")


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
