"""``regrow top`` and ``regrow observe``: what stands on their command lines."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from actors.messaging.reply import Reply
from actors.model.errors import ActorsError
from trees.agents.packages import install
from trees.command.consoles import open_here, the_socket
from trees.command.store_source import StoreSource
from trees.command.top.picture import overview
from trees.command.top.target_run import run_target
from trees.host.console import ConsoleSource
from trees.observe.source import Source

TARGET = "FILE.py, FILE.py:ATTR, package.module or package.module:ATTR, where the SupervisorSpec is."
RootOption = Annotated[str | None, typer.Option("--root", help="Of a process with several trees.")]


def top(
    target: Annotated[
        str | None,
        typer.Argument(metavar="TARGET", help=f"Started as by 'regrow run', ended with the picture. {TARGET}"),
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

    Unless you say which, it is the only tree with an open console. A tree that runs elsewhere goes on when the picture
    is closed; that of a TARGET is stopped.
    """
    if sum(each is not None for each in (target, pid, socket)) > 1:
        raise typer.BadParameter(f"give one of TARGET, --pid PID and --socket PATH. {open_here()}")
    require_terminal()

    def show(path: Path) -> None:
        with closing(ConsoleSource(path)) as source:
            watch(source, every)

    try:
        if target is None:
            show(socket if socket is not None else the_socket(pid, root))
            return
        given = [target, *(part for each in inputs or () for part in ("--input", each))]
        given += [] if store is None else ["--store", store]
        code = run_target(given, show, typer.echo)
    except ActorsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    raise typer.Exit(code)


def observe(
    context: typer.Context,
    pid: Annotated[int | None, typer.Option(help="Of a process with 'regrow run' or start(..., console=True).")] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store", metavar="URL", envvar="REGROW_STORE", help="sqlite:///FILE or postgresql://USER@HOST/DB."
        ),
    ] = None,
    root: RootOption = None,
    web: Annotated[
        int | None,
        typer.Option("--web", metavar="PORT", min=0, max=65535, help="Serve the page at 127.0.0.1; 0: a free port."),
    ] = None,
) -> None:
    """Look at a tree that runs elsewhere, or at the trees of a store: who leads each, its tasks and its questions.

    Unless you say which, it is the only tree with an open console. Of a store it shows every tree that keeps its tasks
    there, or the one of --root, whether it runs or not. What is done there is left in the store, for its tree. On a
    terminal it is the picture of 'regrow top', elsewhere a text; with --web the page, until Ctrl-C.
    """
    if pid is not None and getattr(context.get_parameter_source("store"), "name", "") == "ENVIRONMENT":
        store = None  # the variable is for commands that name nothing
    if pid is not None and store is not None:
        raise typer.BadParameter(f"give either --pid PID or --store URL. {open_here()}")
    try:
        with closing(_source(pid, store, root)) as source:
            if web is not None:
                serve_page(source, web, typer.echo)
            elif sys.stdin.isatty() and sys.stdout.isatty():
                require_terminal()
                watch(source, 1.0)
            else:
                typer.echo(overview(source.snapshot(), source.tasks(), source.questions()))
    except ActorsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _source(pid: int | None, store: str | None, root: str | None) -> Source:
    if store is not None:
        return StoreSource(store, root)
    return ConsoleSource(the_socket(pid, root))


def serve_page(
    source: Source, port: int, say: Callable[[str], object], wait: Callable[[], object] = lambda: Reply().wait(None)
) -> None:
    """Serve the page of a source until ``wait`` returns, or Ctrl-C.

    Raises:
        ConfigError: the extra ``web`` is not installed.
        WebError: the port is taken.
        SourceError: there is nothing to show from the start.
    """
    from trees.observe.web.opening import open_page, require_web  # noqa: PLC0415 - only where a page is wanted
    from trees.observe.web.web_settings import Web  # noqa: PLC0415 - likewise

    require_web()
    source.snapshot(limit=1)
    page = open_page(
        source, Web(port=port, content=True), lambda error, _: say(f"the page failed: {type(error).__name__}")
    )
    try:
        say(f"{source.name}: {page.url}   Ctrl-C ends it")
        wait()
    except KeyboardInterrupt:
        return
    finally:
        page.stop()


def require_terminal() -> None:
    """End the command where there is nothing to draw on, or nothing to draw with."""
    if importlib.util.find_spec("textual") is None:
        typer.echo(f"the picture needs textual, not installed here. {install('cli')}", err=True)
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
