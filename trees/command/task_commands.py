"""``regrow tasks``: what is in a store, whichever process runs the tree, and commands to that tree.

Exit codes: 0 all is well, also where a command waits for its tree; 1 there is no such task, question or store, or it is
too late; 2 the command line is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from actors.model.clock import SystemClock
from actors.model.errors import ActorsError
from actors.tasks.model import TaskStatus
from trees.command.resume import DEFAULT, FILE
from trees.command.store_client import StoreClient
from trees.views.run_text import FORMATS
from trees.views.task_views import listing, shown

NEWEST = 20
"""Finished tasks that are listed."""

app = typer.Typer(
    no_args_is_help=False,
    rich_markup_mode=None,
    help=f"The tasks of a store ({FILE} in this folder unless you name another): list them, look at one, cancel, "
    "retry or remove one, change its priority, answer a question. The tree may run in another process, or be down: "
    "then it is told when it is started again.",
)

Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", envvar="REGROW_STORE", help="sqlite:///FILE or postgresql://USER@HOST/DB."),
]
Root = Annotated[str | None, typer.Option("--root", help="The tree, where several have a task of this id.")]
Wait = Annotated[float, typer.Option("--wait", min=0.0, help="Seconds to wait until the tree has taken it.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK")]


@app.callback(invoke_without_command=True)
def tasks(
    context: typer.Context,
    store: Store = None,
    all_: Annotated[bool, typer.Option("--all", help=f"All finished ones, not only the newest {NEWEST}.")] = False,
    status: Annotated[TaskStatus | None, typer.Option(help="Only tasks that stand so.", show_choices=True)] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Only tasks with this in their metadata; VALUE is JSON, or a text."),
    ] = None,
) -> None:
    """List the tasks of all trees of a store: those that are not finished, and the newest of those that are."""
    context.obj = store
    if context.invoked_subcommand is not None:
        return
    wanted = dict(map(_entry, metadata or ()))
    with _outside(store) as outside:
        listed = outside.tasks(None if all_ or status else NEWEST, wanted)
        if status is not None:
            listed.tasks[:] = [task for task in listed.tasks if task.status is status]
        typer.echo(listing(listed.tasks, SystemClock().wall()) if listed.tasks else "no tasks")
        if listed.left_out:
            typer.echo(f"... and {listed.left_out:,} older ones that have ended; --all lists them")
        for root_, ordered in outside.waiting():
            typer.echo(f"waits until {root_!r} takes it: {ordered}")
        for line in listed.damaged:
            typer.echo(line, err=True)


@app.command(short_help="Show a task: its graph, and all that happened.")
def show(
    context: typer.Context,
    task: TaskId,
    format: Annotated[str, typer.Option(help="text, mermaid or json.")] = "text",
    store: Store = None,
    root: Root = None,
) -> None:
    """Show the graph of a task with the state of each subtask, and everything that happened to it."""
    if format not in FORMATS:
        raise typer.BadParameter(f"{format!r} is none of {', '.join(FORMATS)}", param_hint="--format")
    with _outside(store or context.obj) as outside:
        found = outside.task(task, root)
        typer.echo(shown(found, format, SystemClock().wall()))


@app.command(short_help="Cancel a task.")
def cancel(
    context: typer.Context,
    task: TaskId,
    reason: Annotated[str, typer.Option(help="Why; it stands in the report.")] = "",
    store: Store = None,
    root: Root = None,
    wait: Wait = 5.0,
) -> None:
    """Cancel a task: what waits does not start, what runs is ended, what was done is undone where that is declared."""
    with _outside(store or context.obj) as outside:
        found = outside.task(task, root)
        typer.echo(outside.cancel(found, reason, wait))


@app.command(short_help="Try a task again that has failed.")
def retry(context: typer.Context, task: TaskId, store: Store = None, root: Root = None, wait: Wait = 5.0) -> None:
    """Try a task again that has failed, or was cancelled: what is done is kept, all else begins anew."""
    with _outside(store or context.obj) as outside:
        found = outside.task(task, root)
        typer.echo(outside.retry(found, wait))


@app.command(
    short_help="Give a task another priority.", context_settings={"ignore_unknown_options": True}
)  # a negative number is none
def priority(
    context: typer.Context,
    task: TaskId,
    number: Annotated[int, typer.Argument(metavar="PRIORITY", help="Smaller is sooner.")],
    store: Store = None,
    root: Root = None,
    wait: Wait = 5.0,
) -> None:
    """Give a task another priority: for what waits, what runs, and the parts of it that teams have."""
    with _outside(store or context.obj) as outside:
        found = outside.task(task, root)
        typer.echo(outside.set_priority(found, number, wait))


@app.command(short_help="Delete a task that has ended.")
def remove(context: typer.Context, task: TaskId, store: Store = None, root: Root = None, wait: Wait = 5.0) -> None:
    """Delete a task that has ended, is damaged, or whose supervisor is gone, with all that belongs to it."""
    with _outside(store or context.obj) as outside:
        typer.echo(outside.remove(task, root, wait))


@app.command()
def respond(
    context: typer.Context,
    escalation: Annotated[str, typer.Argument(metavar="ESCALATION")],
    answer: Annotated[str, typer.Argument(metavar="approve|reject|edit|respond")],
    value: Annotated[
        str | None,
        typer.Argument(metavar="[VALUE]", help="Of edit the result, as JSON; of respond a text; of reject the reason."),
    ] = None,
    store: Store = None,
    root: Root = None,
    wait: Wait = 5.0,
) -> None:
    """Answer an open question.

    approve: run it again as it is. reject: it has failed. edit: take VALUE as its result. respond: run it again, with
    VALUE as its feedback.
    """
    given = _value(answer, value)
    with _outside(store or context.obj) as outside:
        found, asked = outside.question(escalation, root)
        typer.echo(outside.respond(found, asked, answer, given, wait))


def _entry(text: str) -> tuple[str, Any]:
    """Read ``name=value``; a value that is no JSON is a text."""
    name, is_one, value = text.partition("=")
    if not is_one or not name:
        raise typer.BadParameter("write NAME=VALUE", param_hint="--metadata")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _value(answer: str, value: str | None) -> Any:
    """Read what goes with an answer; a mistake in it ends the command."""
    if answer == "edit":
        if value is None:
            raise typer.BadParameter("edit needs the result, as JSON", param_hint="VALUE")
        try:
            return json.loads(value)
        except ValueError as error:
            hint = f"it is not JSON ({error}); a text needs quotes of its own: '\"text\"'"
            raise typer.BadParameter(hint, param_hint="VALUE") from None
    if answer == "respond" and not value:
        raise typer.BadParameter("respond needs a text", param_hint="VALUE")
    if answer == "approve" and value is not None:
        raise typer.BadParameter("approve takes no value", param_hint="VALUE")
    if answer not in {"approve", "reject", "respond"}:
        what = f"{answer!r} is none of approve, reject, edit, respond. To answer with a text: respond 'TEXT'"
        raise typer.BadParameter(what, param_hint="ANSWER")
    return value


@contextmanager
def _outside(store: str | None) -> Iterator[StoreClient]:
    """The store; whatever is wrong is printed, and ends the command."""
    try:
        with StoreClient(store or DEFAULT) as outside:
            yield outside
    except ActorsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
