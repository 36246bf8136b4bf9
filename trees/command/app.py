"""``regrow check | run | mcp | dump | top | observe | tasks``; the last three are in files of their own.

Exit codes: 0 all is well (also: ended by Ctrl-C, cleanly); 1 the declaration, the target, the store or the start is
wrong, or there is nothing to dump; 2 the command line is wrong; 3 the root gave up; 4 ``main`` raised, or a task that
was resumed did not succeed; 5 another process has taken over the store; 130 a second Ctrl-C did not wait for a clean
end.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated, get_args

import typer

from actors import __version__
from actors.messaging.reply import Reply
from actors.model.errors import ActorsError, ConfigError
from actors.runtime.event_log import ErrorsInLog
from trees.command import task_commands
from trees.command.consoles import open_here, sockets_of
from trees.command.dump_watch import EMPTIED, EVERY_S, watch
from trees.command.resume import DEFAULT, MEMORY, NothingToResumeError, store_choice
from trees.command.run import Runner
from trees.command.serve import NotServedError, claim_wire, serving
from trees.command.target import Program, TargetError, load, require_inputs
from trees.command.top_command import TARGET, observe, top
from trees.declaration.check import require_valid
from trees.declaration.hints import hints
from trees.host.console import ConsoleSource
from trees.host.start import DURABILITIES
from trees.observe.source import Shape, SourceError
from trees.observe.web.web_settings import PORT, Web
from trees.views.declaration_text import draw
from trees.views.tree_text import FORMATS

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Supervision trees: check a declaration, run it, look at a running one, and at the tasks of any.",
)
app.add_typer(
    task_commands.app, name="tasks", short_help="The tasks of a store: list, show, cancel, retry, answer, remove."
)
app.command(short_help="Look at a tree live, and operate it.")(top)
app.command(short_help="Look at a tree elsewhere, or at a store.")(observe)

Target = Annotated[str, typer.Argument(metavar="TARGET", help=TARGET)]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=VALUE",
        help="For the function that makes the tree and for main, a list as JSON; repeatable.",
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="REGROW_STORE",
        help=f"Where tasks are kept: sqlite:///FILE, postgresql://USER@HOST/DB, or {MEMORY} for this run only; "
        f"{DEFAULT} unless you say so.",
    ),
]


def with_port(words: list[str]) -> list[str]:
    """Return a command line with the usual port after each ``--web`` that has none: typer has no such options."""
    said = []
    for word, following in zip(words, [*words[1:], ""], strict=False):  # of no words, none
        said += [word, str(PORT)] if word == "--web" and not following.isdecimal() else [word]
    return said


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"regrow {__version__}")
        raise typer.Exit


@app.callback()
def _any(
    version: Annotated[  # noqa: ARG001 - it has a callback
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Also where the terminal cannot show the lines of a tree."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


@app.command(short_help="Check a declaration, and draw it.")
def check(target: Target, inputs: Inputs = None) -> None:
    """Say everything that is wrong with a tree (exit code 1), or draw it, with hints below. Starts nothing.

    ATTR is a SupervisorSpec or a function that returns one; by default the only one there is, else TREE.
    """
    spec = _loaded(target, inputs).spec
    typer.echo(draw(spec))
    for hint in hints(spec):
        typer.echo(f"\nhint: {hint}")


@app.command(short_help="Run a tree until it ends.")
def run(
    target: Target,
    inputs: Inputs = None,
    store: Store = None,
    durability: Annotated[
        str, typer.Option(help="What a task survives: process, however that ends; power, a failure of the machine too.")
    ] = "process",
    resume: Annotated[
        bool, typer.Option("--resume", help="Only go on with what an earlier run left: main is not called.")
    ] = False,
    log_errors: Annotated[
        str, typer.Option(help="Of exceptions in log lines: text; or type only, where their texts may hold secrets.")
    ] = "text",
    web: Annotated[
        int | None,
        typer.Option(
            metavar="[PORT]", min=0, max=65535, help=f"Open its page at 127.0.0.1: at {PORT}; 0: any port that is free."
        ),
    ] = None,
) -> None:
    """Start a tree and show it until it ends, until Ctrl-C, or until main returns; then print its dump.

    If the module has a function main(tree, ...), sync or async, it is called with the running tree and the inputs, and
    the tree is stopped when it returns. A second Ctrl-C kills what does not stop.

    The tasks of a tree that has any are kept in a store, and outlive the run. What an earlier run left unfinished there
    goes on in any case. With --resume nothing new is submitted: resume(tree, ...) of the module is called in place of
    main, if there is one; else every unfinished task is waited for, and its report printed.

    Exit code: 0; 1 it could not be started; 2 the command line is wrong; 3 the root gave up; 4 main raised, or a task
    that was resumed did not succeed; 5 another process has taken over the store; 130 killed by a second Ctrl-C.
    """
    chosen = next((each for each in DURABILITIES if each == durability), None)
    if chosen is None:
        raise typer.BadParameter(f"{durability!r} is none of {', '.join(DURABILITIES)}", param_hint="--durability")
    shown: ErrorsInLog | None = next((each for each in get_args(ErrorsInLog) if each == log_errors), None)
    if shown is None:
        raise typer.BadParameter(f"{log_errors!r} is neither text nor type", param_hint="--log-errors")
    program = _loaded(target, inputs)
    try:
        require_inputs(target, program.resume if resume else program.main)
        kept = store_choice(program.spec, store, chosen, resume=resume)
    except TargetError as error:
        raise _end(str(error)) from error
    except NothingToResumeError as error:
        raise typer.BadParameter(str(error), param_hint="--resume") from error
    page = None if web is None else Web(port=web)
    raise typer.Exit(Runner(program, kept, resume=resume, log_errors=shown, web=page).run())


@app.command(short_help="Serve a tree to MCP clients.")
def mcp(
    target: Target,
    inputs: Inputs = None,
    http: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65535, help="Over HTTP at 127.0.0.1; 0: any port that is free."),
    ] = None,
    store: Store = None,
) -> None:
    """Run a tree behind an MCP server: any MCP client gives it tasks, follows them and answers their questions.

    It speaks over standard input and output, which nothing else may use: whatever is printed goes to stderr. The end of
    the input, SIGTERM and Ctrl-C end server and tree; unfinished tasks stay in the store, and go on at the next start.
    The main of the module is not called.
    """
    try:
        wire = claim_wire(http)
        program = serving(_loaded(target, inputs), wire, http or 0, lambda said: typer.echo(said, err=True))
    except NotServedError as error:
        raise _end(str(error)) from None
    kept = store_choice(program.spec, store, "process", resume=False)
    raise typer.Exit(Runner(program, kept).run())


@app.command(short_help="Print the trees of a running program.")
def dump(
    pid: Annotated[int | None, typer.Option(help="Of a process with 'regrow run' or start(..., console=True).")] = None,
    socket: Annotated[Path | None, typer.Option(help="Of one tree, instead of --pid.")] = None,
    format: Annotated[str, typer.Option(help="text, json or mermaid.")] = "text",
    path: Annotated[str | None, typer.Option(help="Only the child or pool at this path, e.g. shop/billing.")] = None,
    stacks: Annotated[bool, typer.Option("--stacks", help="Also where busy and abandoned workers stand.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also ages, due times and current messages.")] = False,
    only: Annotated[str | None, typer.Option(help="troubled: what is in trouble, and what stands above it.")] = None,
    depth: Annotated[int | None, typer.Option(min=0, help="Levels below the top; 0: the top alone.")] = None,
    watching: Annotated[bool, typer.Option("--watch", help="Again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks, with --watch.")] = EVERY_S,
) -> None:
    """Show the trees of a running program: of the only one that runs here, unless you say which.

    Several trees are shown one after the other. Changes nothing.
    """
    if pid is not None and socket is not None:
        raise typer.BadParameter(f"give either --pid PID or --socket PATH. {open_here()}")
    if format not in FORMATS:
        raise typer.BadParameter(f"{format!r} is none of {', '.join(FORMATS)}", param_hint="--format")
    if only not in {None, "troubled"}:
        raise typer.BadParameter(f"{only!r} is not troubled", param_hint="--only")
    shown = {"format": format, "path": path, "stacks": stacks, "verbose": verbose, "only": only, "depth": depth}

    def look() -> list[str]:
        return [ConsoleSource(socket).dump(**shown)] if socket is not None else _of_process(pid, shown)

    try:
        if watching:
            watch(look, _show_anew, lambda: Reply().wait(every))
        else:
            typer.echo("\n\n".join(look()))
    except SourceError as error:
        raise _end(str(error)) from error


def _show_anew(picture: str) -> None:
    """On a terminal each picture replaces the one before; elsewhere an empty line stands between them."""
    typer.echo(f"{EMPTIED}{picture}" if sys.stdout.isatty() else f"{picture}\n")


def _of_process(pid: int | None, shown: Shape) -> list[str]:
    """Return what every tree of a process shows; with a path only those that have it."""
    dumps, refused = [], None
    for socket in sockets_of(pid):
        try:
            dumps.append(ConsoleSource(socket).dump(**shown))
        except SourceError as error:
            refused = error
    if not dumps and refused is not None:
        raise refused
    return dumps


def _loaded(target: str, inputs: list[str] | None) -> Program:
    """The program that stands on the command line; every mistake is printed, and ends the command."""
    try:
        program = load(target, _parsed(inputs or []))
        require_valid(program.spec)
    except ConfigError as error:
        raise _end("\n".join(str(problem) for problem in error.problems)) from error
    except TargetError as error:
        if error.__cause__ is not None and "traceback" in error.hint:
            traceback.print_exception(error.__cause__)
        raise _end(str(error)) from error
    except ActorsError as error:
        raise _end(f"{target}: {error}") from error
    return program


def _parsed(inputs: list[str]) -> dict[str, str]:
    parsed = {}
    for given in inputs:
        name, equals, value = given.partition("=")
        if not equals or not name.isidentifier():
            raise typer.BadParameter(f"{given!r} is not NAME=VALUE", param_hint="--input")
        parsed[name] = value
    return parsed


def _end(text: str) -> typer.Exit:
    typer.echo(text, err=True)
    return typer.Exit(1)
