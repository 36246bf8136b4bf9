"""A batch on real input: every file of the standard library, parsed and measured, each accounted for.

    python examples/batch.py                             the standard library of the running interpreter
    python examples/batch.py --input path=DIR            another folder
    python examples/batch.py --input bad=3               with three documents of each bad kind among them
    python examples/batch.py --input bad=segfault,spin   or only of some: raise, hang, huge, segfault, spin
    regrow run examples/batch.py --input bad=3

The whole of it is one loop over ``tree.map``; nothing is tuned. Each worker is a process (``dispatch="process"``), so
what is bad costs nothing but itself: a document that is no Python crashes its worker, which is replaced; one that hits
a bug of a library in C takes the process down, and no more; one that hangs (a pipe into which nobody writes), or that
spins where no thread of the process gets a turn any more, is killed after ten seconds; one that is huge is refused. The
table at the end has all that was found, and an error says so where a document is missing.

Shows a progress bar where rich is installed (extra "cli") and somebody looks on; else a line now and then.
"""

from __future__ import annotations

import argparse
import ast
import ctypes
import importlib.util
import os
import re
import sys
import sysconfig
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loguru import logger

from actors import Failed, ProcessDiedError, ReplyTimeoutError
from trees import SupervisorSpec, Tree, WorkerSpec, start

MOST_BYTES = 2_000_000
"""What is larger is no source that somebody has written."""
SHOWN = 10
EVERY_S = 2.0
KINDS = ("raise", "hang", "huge", "segfault", "spin")
BUGS: dict[bytes, Callable[[], object]] = {
    b"# segfault": lambda: ctypes.string_at(0),
    b"# spin": lambda: re.match(r"(a+)+b", "a" * 100),
}
"""Stand for bugs of a library in C, by what a document begins with that hits them. The second keeps the GIL."""
DECISIONS = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.match_case)


def measure(path: str) -> dict[str, Any]:
    """Count what is in a document. Nothing is caught here: whatever goes wrong is this document's own end.

    Raises:
        Failed: it is too large.
    """
    size = Path(path).stat().st_size
    if size > MOST_BYTES:
        raise Failed(f"{size:,} bytes are more than {MOST_BYTES:,}")
    source = Path(path).read_bytes()
    BUGS.get(source.splitlines()[0] if source else b"", lambda: None)()
    functions = [
        node for node in ast.walk(ast.parse(source, path)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    worst = max(((_decisions(each), each.name) for each in functions), default=(0, ""))
    return {"lines": len(source.splitlines()), "functions": len(functions), "worst": worst}


def _decisions(function: ast.AST) -> int:
    return 1 + sum(isinstance(node, DECISIONS) for node in ast.walk(function))


@contextmanager
def quiet() -> Iterator[None]:
    """In the process of a worker: what the compiler thinks of old files' escapes is not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


MEASURE = WorkerSpec(id="measure", handle=measure, lifespan=quiet, dispatch="process", pool=4)
TREE = SupervisorSpec(id="batch", children=[MEASURE])


# -- the documents -----------------------------------------------------------------------------------------


def documents(folder: str) -> Iterator[str]:
    """Every Python file below a folder, in a stable order; of an installation only what is its own."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"__pycache__", "site-packages", "dist-packages"})
        yield from (str(Path(place, name)) for name in sorted(names) if name.endswith(".py"))


@contextmanager
def planted(bad: str) -> Iterator[list[str]]:
    """Bad documents, in a folder of their own: so many of each kind, or one for each kind that is named.

    Raises:
        ValueError: it is neither.
    """
    counts = Counter(dict.fromkeys(KINDS, int(bad)) if bad.isdecimal() else filter(None, bad.split(",")))
    if unknown := counts.keys() - set(KINDS):
        raise ValueError(
            f"bad={bad}: {', '.join(sorted(unknown))} is unknown. Give a number, or some of {','.join(KINDS)}"
        )
    with tempfile.TemporaryDirectory() as place:
        found = [Path(place, f"{kind}-{number}.py") for kind, count in counts.items() for number in range(count)]
        for path in found:
            _plant(path, path.name.partition("-")[0])
        yield [str(path) for path in found]


def _plant(path: Path, kind: str) -> None:
    if kind == "raise":
        path.write_text("def broken(:\n", encoding="utf-8")
    elif kind in {"segfault", "spin"}:
        path.write_text(f"# {kind}\n", encoding="utf-8")
    elif kind == "huge":
        path.touch()
        os.truncate(path, 50 * MOST_BYTES)  # takes no room on most disks
    else:
        os.mkfifo(path)  # whoever opens it waits until somebody writes


def mixed(good: list[str], bad: list[str]) -> list[str]:
    """The bad ones spread evenly among the good ones."""
    found, step = list(good), max(1, len(good) // (len(bad) + 1))
    for number, each in enumerate(bad, 1):
        found.insert(min(len(found), number * step), each)
    return found


# -- the host ----------------------------------------------------------------------------------------------


def main(tree: Tree, path: str = sysconfig.get_path("stdlib"), bad: str = "") -> None:
    """Measure a folder with a running tree, and print what became of each document.

    Raises:
        FileNotFoundError: there is no Python in it.
        RuntimeError: a document was lost.
        ValueError: there are no such bad documents.
    """
    logger.disable("actors")  # each crash is logged with its traceback; here they are results, and shown
    good = list(documents(path))
    if not good:
        raise FileNotFoundError(f"{path}: no Python files there")
    ends: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    failed: list[tuple[str, str]] = []
    worst: list[tuple[int, str]] = []
    with planted(bad) as wrong, progress() as show:
        given = mixed(good, wrong)
        for document, result in tree.map(given, to="batch/measure", progress=show):
            name = short(document, path)
            ends[kind_of(result)] += 1
            if isinstance(result, Exception):
                failed.append((name, f"{type(result).__name__}: {result}"))
            else:
                totals.update(lines=result["lines"], functions=result["functions"])
                worst.append((result["worst"][0], f"{name} {result['worst'][1]}"))
    print(f"\nDocuments in {path}" + (f", and {len(wrong)} bad ones" if wrong else ""))
    table({"documents": len(given), **ends, "accounted for": ends.total(), **totals}, "", "count")
    table(dict(sorted(failed)[:SHOWN]), "failed", "why")
    table({name: number for number, name in sorted(worst, reverse=True)[:SHOWN] if number}, "most decisions", "number")
    if ends.total() != len(given):
        raise RuntimeError(f"{len(given)} documents were given, but {ends.total()} came back")


def kind_of(result: Any) -> str:
    """What became of a document, in the words of the table."""
    if isinstance(result, ReplyTimeoutError):
        return "given up: hung"
    if isinstance(result, Failed):
        return "refused: too large"
    if isinstance(result, Exception) and isinstance(result.__cause__, ProcessDiedError):
        return "killed a process"
    return "crashed a worker" if isinstance(result, Exception) else "measured"


def short(path: str, folder: str) -> str:
    """Its name in the folder, as text that can be shown whatever bytes are in it."""
    name = os.path.relpath(path, folder) if path.startswith(folder) else Path(path).name
    return name.encode("utf-8", "backslashreplace").decode()


@contextmanager
def progress() -> Iterator[Callable[[int, int], None]]:
    """What shows how far it is: a bar in a terminal with rich, else a line now and then."""
    if importlib.util.find_spec("rich") is not None and sys.stdout.isatty():
        from rich.progress import Progress  # noqa: PLC0415 - where it is installed

        with Progress() as bar:
            task = bar.add_task("measured")
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    last = time.monotonic()

    def say(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY_S:
            last = time.monotonic()
            print(f"{done} of {total} documents", flush=True)

    yield say


def table(rows: dict[str, Any], *heads: str) -> None:
    """Print two columns; with rich in a frame."""
    if not rows:
        return
    shown = [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in rows.items()]
    if importlib.util.find_spec("rich") is None:
        width = max(len(name) for name, _ in shown)
        print("", *(f"{name:{width}}  {value}" for name, value in [(heads[0], heads[1]), *shown]), sep="\n")
        return
    from rich.console import Console  # noqa: PLC0415 - where it is installed
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    framed = Table(*heads)
    for name, value in shown:
        framed.add_row(Text(name), Text(value, justify="right" if heads[1] != "why" else "left"))
    Console().print(framed)


def run() -> None:
    """As a program: start the tree, measure, show the tree as it is then."""
    parser = argparse.ArgumentParser(description="Measure a folder of Python source; each document is accounted for.")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=VALUE", help="path=DIR, bad=NUMBER")
    inputs = dict(each.split("=", 1) for each in parser.parse_args().input if "=" in each)
    if set(inputs) - {"path", "bad"}:
        parser.error(f"the inputs are path=DIR and bad=NUMBER (or bad={','.join(KINDS)})")
    with start(TREE) as tree:
        try:
            main(tree, **inputs)
        finally:
            print(tree.dump())


if __name__ == "__main__":
    try:
        run()
    except KeyboardInterrupt:
        sys.exit("stopped by Ctrl-C")
