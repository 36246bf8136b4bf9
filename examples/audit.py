"""The main job on real input: a team looks through a folder of source, and a reviewer sends back what is weak.

    python examples/audit.py [DIR]               by default the installed pip, else the standard library
    python examples/audit.py --store sqlite:///audit.db          kill it at any moment, and
    python examples/audit.py --store sqlite:///audit.db --resume goes on: what was done is not done again
    python examples/audit.py --web               shows it in a browser while it runs (extra "web")
    regrow check examples/audit.py               draws the tree without starting it
    regrow run examples/audit.py --input path=DIR
    regrow run examples/audit.py --resume

The goal is one sentence. The planner finds in it who is meant: two tools (``search``, ``analyse``), a workflow
(``measure``) and a team (``review``); "the findings" makes the team wait for the others. Then a reviewer looks at the
results: a finding needs a file, a line and a reason, and nobody reads hundreds of them. What does not pass runs again,
with what was said about it, and so does whoever needs its result; nothing else does.

Files are read by workers that take no precautions: one that is no text, or no Python, crashes its reader. Whoever asked
hears why, the supervisor starts another reader, and the task goes on.

Needs the extra "cli".
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import re
import sys
import sysconfig
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loguru import logger
from pydantic import BaseModel
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

import actors
from actors import Context, Reply, Reviewed, SubtaskSucceeded, Worker
from trees import (
    Check,
    Report,
    StaticPlan,
    StoreError,
    Subtask,
    SupervisorSpec,
    Task,
    TaskHandle,
    Tasks,
    Tree,
    Verdict,
    WorkerSpec,
    start,
)

GOAL = "search for open work, analyse the files, measure complexity and review the findings"
READERS = 4
IN_FLIGHT = 2 * READERS
MOST = 60
"""Findings of one tool that somebody will read."""
SHOWN, HARDEST = 15, 5
REASON = 40
"""Columns of a terminal that a reason has at least, beside its place."""
LONG, UNDOCUMENTED = 80, 30
"""Lines from which on a function is long, or has to say what it is for."""
BUCKETS = (1, 5, 10, 20, 50)
MARKERS = {"FIXME": 3, "XXX": 3, "HACK": 2, "TODO": 1}
"""Words that stand before open work, and how urgent it is."""
MARKER = re.compile(rf"#\s*({'|'.join(MARKERS)})\b[:\s]*(?:\([^)]*\):?)?\s*(.*)")


class Finding(BaseModel):
    """Something that a person should look at."""

    file: str
    line: int
    kind: str
    why: str
    weight: int = 1
    """1 to 3; more is worse."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file as its reader saw it."""

    file: str
    lines: list[str]
    tree: ast.Module | None
    """None: it is no Python."""


# -- reading: what crashes here costs one message --------------------------------------------------------------


class Reader(Worker):
    """Reads a file. Whatever goes wrong leaves the handler, and that is a crash of this reader."""

    def on_receive(self, order: tuple[str, bool]) -> Source:
        """The file's lines; where that is wanted and it is Python, also its syntax tree."""
        path, parsed = order
        text = Path(path).read_text(encoding="utf-8")
        return Source(path, text.splitlines(), ast.parse(text, path) if parsed and path.endswith(".py") else None)


def files(folder: str) -> Iterator[str]:
    """Every file below a folder, in a stable order; of an installation only what is its own."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"__pycache__", "site-packages", "dist-packages", ".git", ".venv"})
        yield from (str(Path(place, name)) for name in sorted(names) if not name.endswith(".pyc"))


def short(path: str, folder: str) -> str:
    """Its name in the folder, as text that can be stored and shown whatever bytes are in it."""
    return os.path.relpath(path, folder).encode("utf-8", "backslashreplace").decode()


def sources(context: Context, *, parsed: bool, broken: dict[str, str] | None = None) -> Iterator[Source]:
    """What the readers make of the files of the task; those that crash a reader are left out, and noted."""
    folder = context.inputs["path"]
    reader = actors.ref("audit/files/read")
    paths = list(files(folder))
    asked: deque[tuple[str, Reply]] = deque()
    for number, path in enumerate([*paths, *[""] * IN_FLIGHT]):
        if path:
            asked.append((path, reader.ask((path, parsed), timeout=None, block=False)))
        if asked and (not path or len(asked) == IN_FLIGHT):
            context.progress(number / len(paths), f"{len(paths)} files")
            name, answer = asked.popleft()
            try:
                yield answer.get()
            except Exception as error:  # noqa: BLE001 - exactly what crashed the reader
                if broken is not None:
                    broken[short(name, folder)] = f"{type(error).__name__}: {error}"


def statements(source: Source) -> Iterator[ast.AST]:
    """Every statement of a file, however deep, and every except; functions are nowhere else."""
    todo: list[ast.AST] = [source.tree] if source.tree else []
    while todo:
        node = todo.pop()
        yield node
        for block in ("body", "orelse", "handlers", "finalbody", "cases"):
            inside = getattr(node, block, ())
            todo.extend(inside if isinstance(inside, list) else ())


# -- two tools --------------------------------------------------------------------------------------------------


def search(task: Subtask, context: Context) -> list[Finding]:  # noqa: ARG001 - every execute has both
    """Find open work. Sent back, it looks further for the reason, and keeps the most urgent."""
    return better(list(open_work(context, look_further="reason" in context.feedback)), context.feedback)


def open_work(context: Context, *, look_further: bool) -> Iterator[Finding]:
    """Every comment that says that something is to be done; its reason may go on, or stand, on the lines below."""
    for source in sources(context, parsed=False):
        name = short(source.file, context.inputs["path"])
        for number, line in enumerate(source.lines, 1):
            if found := MARKER.search(line):
                why = found[2].strip()
                if look_further and len(why.split()) < 2:  # noqa: PLR2004 - one word is no reason
                    why = f"{why} {below(source.lines[number : number + 3])}".strip()
                yield Finding(file=name, line=number, kind=found[1], why=why, weight=MARKERS[found[1]])


def below(lines: list[str]) -> str:
    """What a comment goes on with, else the code that it stands above."""
    for line in lines:
        if text := line.strip():
            return text.lstrip("# ") if text.startswith("#") else f"above: {text}"
    return ""


def analyse(task: Subtask, context: Context) -> list[Finding]:  # noqa: ARG001
    """Find what is risky or hard to read in functions. Sent back, it keeps the worst."""
    found: list[Finding] = []
    for source in sources(context, parsed=True):
        name = short(source.file, context.inputs["path"])
        for node in statements(source):
            for line, kind, why, weight in remarks(node):
                found.append(Finding(file=name, line=line, kind=kind, why=why, weight=weight))
    return better(found, context.feedback)


def remarks(node: ast.AST) -> Iterator[tuple[int, str, str, int]]:
    """What there is to say of one node: line, kind, why, weight."""
    if isinstance(node, ast.ExceptHandler):
        silent = all(isinstance(each, ast.Pass) for each in node.body)
        if node.type is None:
            yield node.lineno, "bare except", "catches KeyboardInterrupt and SystemExit as well", 3
        elif silent and isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}:
            yield node.lineno, "silent except", f"any {node.type.id} disappears without a trace", 3
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        size = (node.end_lineno or node.lineno) - node.lineno + 1
        if any(isinstance(each, (ast.List, ast.Dict, ast.Set)) for each in node.args.defaults):
            yield node.lineno, "mutable default", f"all calls of {node.name} share it", 2
        if size > LONG:
            yield node.lineno, "long function", f"{node.name} has {size} lines", 2
        elif size > UNDOCUMENTED and not node.name.startswith("_") and ast.get_docstring(node) is None:
            yield node.lineno, "no docstring", f"{node.name} has {size} lines and does not say what it is for", 1


def better(found: list[Finding], feedback: str) -> list[Finding]:
    """What was asked for: only findings with a reason, and no more than somebody will read, the worst first."""
    if "reason" in feedback:
        found = [each for each in found if each.why]
    if limit := re.search(r"at most (\d+)", feedback):
        found = sorted(found, key=lambda each: -each.weight)[: int(limit[1])]
    return found


# -- a workflow -------------------------------------------------------------------------------------------------


def measure(task: Subtask, context: Context) -> dict[str, Any]:  # noqa: ARG001
    """Count lines, and decisions by function; always the same steps in the same order."""
    broken: dict[str, str] = {}
    totals: Counter[str] = Counter()
    worst: list[tuple[int, str]] = []
    for source in sources(context, parsed=True, broken=broken):
        totals["files"] += 1
        totals["lines"] += len(source.lines)
        for node in statements(source):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                place = f"{short(source.file, context.inputs['path'])}:{node.lineno} {node.name}"
                worst.append((complexity(node), place))
    spread = {f"{low} or more": sum(number >= low for number, _ in worst) for low in BUCKETS}
    most = sorted(worst, reverse=True)[:SHOWN]
    return {**totals, "functions": len(worst), "complexity": spread, "worst": most, "unreadable": broken}


def complexity(function: ast.AST) -> int:
    """Ways through a function: one, and one more for each decision."""
    decisions = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.match_case)
    return 1 + sum(
        len(node.values) - 1 if isinstance(node, ast.BoolOp) else isinstance(node, decisions)
        for node in ast.walk(function)
    )


# -- a team ------------------------------------------------------------------------------------------------------


def findings(context: Context) -> list[Finding]:
    """What the others found. A team's members see the results that the team was given."""
    results = context.results
    return [Finding(**each) for result in results.values() if isinstance(result, list) for each in result]


def style(task: Subtask, context: Context) -> dict[str, int]:  # noqa: ARG001
    """How often what was found."""
    return dict(Counter(each.kind for each in findings(context)).most_common())


def risk(task: Subtask, context: Context) -> list[dict[str, Any]]:  # noqa: ARG001
    """The findings; first those that are bad by themselves, in a file that is hard to follow, with others around."""
    found = findings(context)
    around = Counter(each.file for each in found)
    hard: Counter[str] = Counter()
    for result in context.results.values():
        for number, place in result["worst"] if isinstance(result, dict) else ():
            hard[place.partition(":")[0]] += number
    rated = [(10 * each.weight + min(9, around[each.file]) + hard[each.file] // 10, each) for each in found]
    return [{"risk": rate, **each.model_dump()} for rate, each in sorted(rated, key=lambda pair: -pair[0])]


def in_one(task: Task, results: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - every synthesizer has both
    """What the team says: its members' results under names that a reader knows."""
    return {"top": results["risk"][:SHOWN], "kinds": results["style"]}


# -- the reviewer ------------------------------------------------------------------------------------------------


def check_findings(task: Task, plan: object, results: dict[str, Any]) -> Verdict:  # noqa: ARG001 - every reviewer has all
    """Look at every finding; what is said of a subtask is what it is told when it runs again."""
    tools = {id_: result for id_, result in results.items() if isinstance(result, list)}
    checks = [Check(id_, not (said := weaknesses(result)), said) for id_, result in tools.items()]
    known = {(each["file"], each["line"]) for result in tools.values() for each in result}
    for id_, result in results.items():
        if isinstance(result, dict) and "top" in result:
            invented = [each for each in result["top"] if (each["file"], each["line"]) not in known]
            checks.append(Check(id_, not invented, f"{len(invented)} of them nobody has found" if invented else ""))
    return Verdict(all(check.passed for check in checks), checks)


def weaknesses(result: list[dict[str, Any]]) -> str:
    """What is to be better; nothing where it is good enough."""
    said = []
    unclear = [each for each in result if not each["why"]]
    if unclear:
        first = unclear[0]
        said.append(f"{len(unclear)} have no reason, the first in {first['file']}:{first['line']}; look around it")
    if any(not each["file"] or each["line"] < 1 for each in result):
        said.append("each needs a file and a line")
    if len(result) > MOST:
        said.append(f"{len(result)} findings are a heap; give at most {MOST}, the worst")
    return "; ".join(said)


TREE = SupervisorSpec(
    id="audit",
    tasks=Tasks(reviewer=check_findings),
    children=[
        # A crash says something of a file and nothing of its reader, so the budget is one for each file (see scan.py).
        SupervisorSpec(
            id="files",
            max_restarts=100_000,
            period_s=60.0,
            children=[WorkerSpec(id="read", actor=Reader, pool=READERS)],
        ),
        WorkerSpec(id="search", execute=search, output=list[Finding], description="Finds open work in comments"),
        WorkerSpec(id="analyse", execute=analyse, output=list[Finding], description="Finds what is risky in functions"),
        WorkerSpec(id="measure", execute=measure, type="workflow", capabilities={"statistics", "complexity"}),
        SupervisorSpec(
            id="review",
            description="Says what to look at first",
            tasks=Tasks(planner=StaticPlan([Subtask("style"), Subtask("risk")]), synthesizer=in_one),
            children=[WorkerSpec(id="style", execute=style), WorkerSpec(id="risk", execute=risk)],
        ),
    ],
)


# -- the host ----------------------------------------------------------------------------------------------------


def default_folder() -> str:
    """The source of pip, which is nearly everywhere; else the standard library."""
    pip = importlib.util.find_spec("pip")
    return str(Path(pip.origin).parent) if pip and pip.origin else sysconfig.get_path("stdlib")


def main(tree: Tree, path: str = "") -> None:
    """Have a running tree audit a folder, and print what it says, and what that has shown."""
    print(audit(tree, path))


def audit(tree: Tree, path: str) -> str:
    """The same; returns what it has shown.

    Raises:
        FileNotFoundError: there is nothing in it.
        TaskFailedError: a part that is needed has failed.
    """
    folder = path or default_folder()
    if not any(name.endswith(".py") for name in files(folder)):
        raise FileNotFoundError(f"{folder}: no Python files there")
    handle = tree.submit(Task(GOAL, inputs={"path": folder}))
    print(f"{GOAL}\nin {folder}\n", flush=True)
    return follow(tree, handle)


def resume(tree: Tree) -> None:
    """Go on with the audits that an earlier run has left unfinished; nothing that was recorded is done again."""
    print(rest(tree))


def rest(tree: Tree) -> str:
    """The same; returns what they have shown."""
    closing = []
    for handle in tree.resumed():
        print(f"{handle.task.goal}\nin {handle.task.inputs['path']}, begun by an earlier run\n")
        print(f"kept, and not done again: {', '.join(handle.kept) or 'nothing'}", flush=True)
        closing.append(follow(tree, handle))
    return "\n".join(closing) or "nothing to resume: no audit is unfinished"


def follow(tree: Tree, handle: TaskHandle) -> str:
    """Print what happens to an audit, and what it says; returns what it has shown.

    Raises:
        TaskFailedError: a part that is needed has failed.
    """
    logger.disable("actors")  # each crash is logged with its traceback; here they are results, and shown
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the compiler thinks of old files' escapes
        for event in handle.events(new=True):
            if isinstance(event, SubtaskSucceeded):
                print(f"{event.subtask}: done", flush=True)
            elif isinstance(event, Reviewed):
                print(f"review {event.iteration}: {'passed' if event.passed else 'not good enough'}", flush=True)
                for id_, feedback in event.rerun.items():
                    print(f"  {id_}: {feedback}", flush=True)
        report = handle.result()
    show(report)
    print(f"\nThe run:\n{handle.dump()}\n")
    return closing_line(report, tree.child("audit/files/read").restarts, len(list(files(handle.task.inputs["path"]))))


def closing_line(report: Report, crashes: int, number: int) -> str:
    """What the run has shown: how many readers crashed, if each file has an answer, and what was sent back."""
    numbers = report.results["measure"]
    lost = number - numbers["files"] - len(numbers["unreadable"])
    kept = "nothing was lost" if not lost else f"{lost} of {number} files are without an answer"
    revisions = report.iterations - 1
    again = {0: "no revision was needed", 1: "one revision"}.get(revisions, f"{revisions} revisions")
    crashed = {0: "no reader crashed", 1: "one reader crashed and was replaced"}
    return f"{crashed.get(crashes, f'{crashes} readers crashed and were replaced')}, {kept}, {again}"


def show(report: Report) -> None:
    """Print the findings, the numbers and the times."""
    console = Console()
    review, numbers = report.results["review"], report.results["measure"]
    top = table("What to look at first", "risk", "where", "what, and why")
    places = [f"{each['file']}:{each['line']}" for each in review["top"]]
    console.width = max(console.width, max(map(len, places), default=0) + REASON)  # a place stays in one piece
    for place, each in zip(places, review["top"], strict=True):
        top.add_row(str(each["risk"]), Text(place), Text(f"{each['kind']}: {each['why']}"))
    counts = table("Numbers", "", "count")
    counted = {name: value for name, value in numbers.items() if isinstance(value, int)} | review["kinds"]
    for name, value in counted.items():
        counts.add_row(name, f"{value:,}")
    for name, value in numbers["complexity"].items():
        counts.add_row(f"functions of complexity {name}", f"{value:,}")
    for number, place in numbers["worst"][:HARDEST]:
        counts.add_row(Text(place), f"complexity {number}")
    for each in (top, counts):
        console.print(each)
    if numbers["unreadable"]:
        crashed = table("Files that crashed their reader", "file", "why")
        for name, why in list(numbers["unreadable"].items())[:SHOWN]:
            crashed.add_row(Text(name), Text(why))
        console.print(crashed)
    best = ", the best effort: the last review did not pass" if report.best_effort else ""
    times = ", ".join(f"{name} {1000 * report.timings[name]:,.1f} ms" for name in ("planned", "queued", "running"))
    reviews = "one review" if report.iterations == 1 else f"{report.iterations} reviews"
    print(f"{report.status} after {reviews} in {report.timings['total']:.1f} s ({times}){best}")


def table(title: str, *columns: str) -> Table:
    """A table whose cells are folded rather than cut, but for places, which stay in one piece."""
    made = Table(title=title, title_justify="left", title_style="bold")
    for name in columns:
        justify: JustifyMethod = "right" if name in {"risk", "count"} else "left"
        made.add_column(name, overflow="fold", justify=justify, no_wrap=name in {"where", "file"})
    return made


def run() -> None:
    """As a program: start the tree, audit, show the tree as it is then."""
    parser = argparse.ArgumentParser(description="Audit a folder of source with a team that reviews its findings.")
    parser.add_argument("folder", nargs="?", default="", metavar="DIR", help="what to audit")
    parser.add_argument("--store", metavar="URL", help="where it is kept, as sqlite:///audit.db; by default in memory")
    parser.add_argument("--resume", action="store_true", help="go on with what an earlier run left in the store")
    parser.add_argument("--web", nargs="?", type=int, const=8420, metavar="PORT", help="show it in a browser")
    given = parser.parse_args()
    if given.resume and given.store is None:
        parser.error("--resume needs the --store of the run that is to go on")
    with start(TREE, store=given.store) as tree:
        if given.web is not None:
            print(f"open {tree.serve(given.web, content=True).url}\n", flush=True)
        try:
            closing = rest(tree) if given.resume else audit(tree, given.folder)
        finally:
            print(tree.dump())
        print(f"\n{closing}")
        if given.web is not None:
            print("\nThe page stays until Enter.", flush=True)
            sys.stdin.readline()


if __name__ == "__main__":
    try:
        run()
    except KeyboardInterrupt:
        raise SystemExit("stopped by Ctrl-C") from None
    except StoreError as error:
        raise SystemExit(str(error)) from None
