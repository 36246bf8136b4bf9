"""``regrow top``: what stands on its command line."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from actors.model.errors import ActorsError
from trees.command.consoles import open_here, the_socket
from trees.command.top.target_run import run_target
from trees.host.console import ConsoleSource
from trees.observe.source import Source

RootOption = Annotated[str | None, typer.Option("--root", help="Of a process with several trees.")]


def top(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[FILE_OR_MODULE[:ATTR]]", help="Started as by 'regrow run', ended with the picture."),
    ] = None,
    pid: Annotated[int | None, typer.Option(help="Of a process with 'regrow run' or start(..., console=True).")] = None,
    socket: Annotated[Path | None, typer.Option(help="Of one tree, instead of --pid.")] = None,
    root: RootOption = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", metavar="NAME=VALUE", help="As for 'regrow run'; repeatable.")
    ] = None,
    store: Annotated[str | None, typer.Option("--store", metavar="URL", help="As for 'regrow run'.")] = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Look at a tree live, and operate it: children, tasks, questions, crashes. The keys stand at the bottom.

    A tree that runs elsewhere goes on when the picture is closed; that of a TARGET is stopped.
    """
    if sum(each is not None for each in (target, pid, socket)) != 1:
        raise typer.BadParameter(f"give one of TARGET, --pid PID and --socket PATH. {open_here()}")
    require_terminal()

    def show(path: Path) -> None:
        with closing(ConsoleSource(path)) as source:
            watch(source, every)

    try:
        if target is None:
            show(socket if socket is not None else the_socket(pid or 0, root))
            return
        given = [target, *(part for each in inputs or () for part in ("--input", each))]
        given += [] if store is None else ["--store", store]
        code = run_target(given, show, typer.echo)
    except ActorsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    raise typer.Exit(code)


def require_terminal() -> None:
    """End the command where there is nothing to draw on, or nothing to draw with."""
    if importlib.util.find_spec("textual") is None:
        typer.echo("the picture needs textual, not installed here. Install it: pip install 'regrow[cli]'", err=True)
        raise typer.Exit(2)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        typer.echo("this needs a terminal. 'regrow dump' writes the same into a file or a pipe", err=True)
        raise typer.Exit(2)


def watch(source: Source, every: float) -> None:
    """Show a source until its picture is closed.

    Raises:
        SourceError: there is nothing to show from the start.
    """
    from trees.command.top.app import Top  # noqa: PLC0415 - only where its packages are installed

    source.snapshot(limit=1)
    Top(source, every).run()
