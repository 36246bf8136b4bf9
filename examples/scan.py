"""The main job on real input: scan a folder of Python source with a tree that loses nothing but what broke it.

    python examples/scan.py                      the standard library of the running interpreter
    python examples/scan.py --input path=DIR     another folder
    python examples/scan.py --input dispatch=process     each parser is a process: a segfault is a crash like any other
    python examples/scan.py --input dispatch=ray         each parser is an actor in a cluster (extra "ray")
    regrow check examples/scan.py                draws the tree without starting it
    regrow run examples/scan.py --input path=DIR

A reader feeds four parsers. A parser takes no precautions: a file that it cannot read, decode or parse crashes it, the
reader hears why, and the supervisor starts another one for the next file. So every file that was found is seen: what a
crash loses is the one message, nothing else. This is checked at the end, and an error where it does not hold.

Needs the extra "cli" (for rich). Results go to a file of JSON lines, whose name is printed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import sysconfig
import tempfile
import uuid
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from loguru import logger
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import actors
from actors import Reply, Worker
from trees import Process, Ray, SupervisorSpec, Tree, WorkerSpec, start

PARSERS = 4
IN_FLIGHT = 2 * PARSERS
"""Files that are with the parsers at once: one being parsed and one waiting for each."""
RESULTS = Path(tempfile.gettempdir()) / f"scan-{uuid.uuid4().hex[:12]}.jsonl"
PLACES = ("pool", "process", "ray")
SHOWN = 20
"""Broken files that the table names; the others are in RESULTS."""
BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
"""Where the syntax tree keeps statements. Functions and classes are nowhere else."""


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one file."""

    file: str
    lines: int = 0
    functions: int = 0
    classes: int = 0
    crash: str = ""
    """Why its parser crashed; empty for a file that was parsed."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What became of all files so far."""

    files: int = 0
    lines: int = 0
    functions: int = 0
    classes: int = 0
    broken: tuple[Record, ...] = ()

    def plus(self, record: Record) -> Totals:
        """The totals with one more file."""
        return Totals(
            self.files + 1,
            self.lines + record.lines,
            self.functions + record.functions,
            self.classes + record.classes,
            (*self.broken, record) if record.crash else self.broken,
        )


# -- the workers -------------------------------------------------------------------------------------------


def parse(file: str) -> Record:
    """Count what is in a file. Whatever goes wrong leaves the handler, and that is a crash of its parser."""
    source = Path(file).read_bytes()
    lines, functions, classes = len(source.splitlines()), 0, 0
    todo: list[Any] = [ast.parse(source, file)]
    while todo:
        node = todo.pop()
        functions += isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        classes += isinstance(node, ast.ClassDef)
        for block in BLOCKS:
            todo.extend(getattr(node, block, ()))
    return Record(file, lines, functions, classes)


class Parser(Worker):
    """A parser. A plain function (handle=parse) would not crash: what it raises in an ask is a failed request."""

    def on_receive(self, file: str) -> Record:
        """Parse a file."""
        return parse(file)


class Reader(Worker):
    """Takes a folder, gives its files to the parsers and what they say to the writer; replies with the totals."""

    def on_start(self) -> None:
        """A Ref names a path, not an object: it is good for every incarnation of its target."""
        self._parsers, self._writer = actors.ref("scan/parsing/parse"), actors.ref("scan/results/writer")

    def on_receive(self, folder: str) -> Totals:
        """Scan a folder. A parser's crash reaches us as the error of our own ask, and costs us nothing else."""
        asked: deque[tuple[str, Reply]] = deque()
        for file in python_files(folder):
            if actors.stopping():  # Ctrl-C: what is in flight is enough
                break
            # No timeout of its own: a big file on a busy machine may take what it takes.
            asked.append((file, self._parsers.ask(file, timeout=None, block=False)))
            if len(asked) == IN_FLIGHT:
                self._pass_on(*asked.popleft())
        while asked:
            self._pass_on(*asked.popleft())
        totals: Totals = actors.ref("scan/results/tally").ask("totals", timeout=None)
        return totals

    def _pass_on(self, file: str, answer: Reply) -> None:
        try:
            record = answer.get()
        except Exception as error:  # noqa: BLE001 - exactly what crashed the parser
            record = Record(file, crash=f"{type(error).__name__}: {error}")
        self._writer.ask(record, timeout=None)


class Tally(Worker):
    """Counts what the writer has written. The two restart together, so that the totals are always those of the file."""

    def on_start(self) -> None:
        """A new incarnation has no state of the old one: it counts again what is in the file."""
        self._totals = Totals()
        self._seen: set[str] = set()
        if RESULTS.exists():
            for line in RESULTS.read_text(encoding="utf-8").splitlines():
                self._count(Record(**json.loads(line)))

    def on_receive(self, message: Record | Literal["totals"]) -> Totals | None:
        """Count a record, or say how far we are."""
        if message == "totals":
            return self._totals
        self._count(message)
        return None

    def _count(self, record: Record) -> None:
        # The mailbox survives a crash: what it holds may have been counted from the file.
        if record.file not in self._seen:
            self._seen.add(record.file)
            self._totals = self._totals.plus(record)


class Writer(Worker):
    """Owns the file of results."""

    def on_start(self) -> None:
        """Go on where the incarnation before this one ended."""
        self._tally = actors.ref("scan/results/tally")
        self._file = RESULTS.open("a", encoding="utf-8", buffering=1)  # a line is in the file before it is counted

    def on_receive(self, record: Record) -> None:
        """Write one line, and have it counted."""
        self._file.write(json.dumps(asdict(record)) + "\n")
        self._tally.tell(record)

    def on_stop(self) -> None:
        """Close the file."""
        self._file.close()

    def on_failure(self, *_: object) -> None:
        """Close the file after a crash, too: on_stop does not run then."""
        self._file.close()


@contextmanager
def quiet() -> Iterator[None]:
    """In the process of a parser: what the compiler thinks of old files' escapes is not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


PARSE = WorkerSpec(id="parse", actor=Parser, pool=PARSERS)
DISPATCH: dict[str, Process | Ray] = {"process": Process(), "ray": Ray(num_cpus=1 / PARSERS)}
ELSEWHERE = {
    place: WorkerSpec(
        id="parse",
        actor=Parser,
        pool=PARSERS,
        lifespan=quiet,
        dispatch=dispatch,
        start_timeout_s=120.0,  # a cluster that is busy, or grows by a node, takes long to start an actor
    )
    for place, dispatch in DISPATCH.items()
}
TREE = SupervisorSpec(
    id="scan",
    children=[
        SupervisorSpec(
            id="results",
            strategy="one_for_all",
            children=[WorkerSpec(id="tally", actor=Tally), WorkerSpec(id="writer", actor=Writer)],
        ),
        SupervisorSpec(
            id="parsing",
            # The default limit, 3 restarts in 5 s, is for workers that should not crash: the fourth broken file in a
            # row would take the tree down. Here a crash says something of the file and nothing of the parser, so the
            # budget is one restart for each file of a big folder that is broken throughout. on_exhausted="park" would
            # be wrong: a parked parser leaves the same files to fewer parsers. (A service that expects bad input uses a
            # function, or says expected=(SyntaxError, ...): then those are failed requests, and nothing is restarted.)
            max_restarts=100_000,
            period_s=60.0,
            children=[PARSE],
        ),
        WorkerSpec(id="reader", actor=Reader),
    ],
)


# -- the host ----------------------------------------------------------------------------------------------


def python_files(folder: str) -> Iterator[str]:
    """Every Python file below a folder, in a stable order; of an installation only what is its own."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"__pycache__", "site-packages", "dist-packages"})
        yield from (str(Path(place, name)) for name in sorted(names) if name.endswith(".py"))


def main(tree: Tree, path: str = sysconfig.get_path("stdlib"), dispatch: str = "pool", *, bar: bool = False) -> None:
    """Scan a folder with a running tree and print what there was.

    Raises:
        FileNotFoundError: there is no Python in it.
        RuntimeError: a file was lost.
        ValueError: parsers cannot run there.
    """
    if dispatch not in PLACES:
        raise ValueError(f"dispatch={dispatch}: give one of {', '.join(PLACES)}")
    # Each crash is logged with its traceback, at WARNING. Here crashes are results, and the table shows them.
    logger.disable("actors")
    found = sum(1 for _ in python_files(path))
    if not found:
        raise FileNotFoundError(f"{path}: no Python files there")
    if dispatch in ELSEWHERE:  # other parsers take the place of those that the tree was started with
        tree.terminate_child("scan/parsing/parse")
        tree.delete_child("scan/parsing/parse")
        tree.start_child("scan/parsing", ELSEWHERE[dispatch])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the compiler thinks of old files' escapes
        scan = tree.ref("scan/reader").ask(path, timeout=None, block=False)
        (show_bar if bar else show_lines)(tree, scan, found)
        totals: Totals = scan.get()
    show(totals, found, path)
    if totals.files != found:
        raise RuntimeError(f"{found} files were found, but {totals.files} seen")


def show_lines(tree: Tree, scan: Reply, found: int) -> None:
    """Say how far the scan is, every two seconds until it is done."""
    tally = tree.ref("scan/results/tally")
    while not scan.wait(2.0):
        so_far: Totals = tally.ask("totals", timeout=None)
        print(f"{so_far.files} of {found} files, {len(so_far.broken)} crashed a parser", flush=True)


def show_bar(tree: Tree, scan: Reply, found: int) -> None:
    """The same as a bar, for a terminal."""
    tally = tree.ref("scan/results/tally")
    crashed = TextColumn("{task.fields[broken]} crashed a parser")
    with Progress(BarColumn(), MofNCompleteColumn(), crashed, TimeElapsedColumn()) as progress:
        bar = progress.add_task("", total=found, broken=0)
        done = False
        while not done:
            done = scan.wait(0.1)
            so_far: Totals = tally.ask("totals", timeout=None)
            progress.update(bar, completed=so_far.files, broken=len(so_far.broken))


def show(totals: Totals, found: int, path: str) -> None:
    """Print the result."""
    print(f"\nPython source in {path}")
    table = Table("", "count")
    table.columns[1].justify = "right"
    for what, count in (
        ("files found", found),
        ("files seen", totals.files),
        ("lines", totals.lines),
        ("functions", totals.functions),
        ("classes", totals.classes),
        ("files that crashed a parser", len(totals.broken)),
    ):
        table.add_row(what, f"{count:,}")
    console = Console()
    console.print(table)
    if totals.broken:
        console.print(broken_files(totals, path))
    print(f"All of it, a line for each file: {RESULTS}")


def broken_files(totals: Totals, path: str) -> Table:
    """The files that crashed a parser, and why."""
    table = Table("crashed a parser", "why")
    table.columns[0].overflow = "fold"
    for record in totals.broken[:SHOWN]:
        name = os.path.relpath(record.file, path)
        table.add_row(*(Text(text.encode("utf-8", "backslashreplace").decode()) for text in (name, record.crash)))
    if len(totals.broken) > SHOWN:
        table.add_row(f"... and {len(totals.broken) - SHOWN} more", "")
    return table


def run() -> None:
    """As a program: start the tree, scan, show the tree as it is then."""
    parser = argparse.ArgumentParser(description="Scan a folder of Python source with a supervised tree.")
    said = "path=DIR, dispatch=process or ray"
    parser.add_argument("--input", action="append", default=[], metavar="NAME=VALUE", help=said)
    inputs = dict(each.partition("=")[::2] for each in parser.parse_args().input)
    if set(inputs) - {"path", "dispatch"} or not all(inputs.values()):
        parser.error("the inputs are path=DIR and dispatch=process (or ray, or pool)")
    with start(TREE) as tree:
        try:
            main(tree, **inputs, bar=sys.stdout.isatty())
        finally:
            print(tree.dump())


if __name__ == "__main__":
    try:
        run()
    except KeyboardInterrupt:
        sys.exit("stopped by Ctrl-C")
