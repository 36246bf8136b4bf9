"""``Command``: a program as a child, for what an argv alone does not say."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import Annotated, Any, Final, TypeAlias

from pydantic import PlainValidator

from actors.dispatch.command.program import Program
from actors.validation.field_types import WORK
from actors.validation.introspection import binds, names_of, signature_of
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import not_async, type_phrase, validation_error, value_phrase

MOST_CODE: Final = 255


def _argv(value: object) -> tuple[str, ...]:
    hint = "Write ['server', '--port', '8080']: the program, and each argument by itself. There is no shell."
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise validation_error(f"expected a list of words, got {type_phrase(value)}", hint)
    if not value:
        raise validation_error("an empty command", hint)
    words = [fspath(each) if isinstance(each, PathLike) else each for each in value]
    wrong = next((each for each in words if not isinstance(each, str)), "")
    if not isinstance(wrong, str):
        raise validation_error(f"expected a word, got {type_phrase(wrong)}", hint)
    if not words[0] or any("\0" in each for each in words):
        raise validation_error("an empty program" if not words[0] else "a word with a null character", hint)
    return tuple(words)


def _env(value: object) -> dict[str, str] | None:
    hint = "Write {'PORT': '8080'}."
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise validation_error(f"expected a dict, got {type_phrase(value)}", hint)
    for name, each in value.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise validation_error(f"{value_phrase(name)} is the name of no variable", hint)
        if not isinstance(each, str):
            raise validation_error(f"expected a text for {name}, got {type_phrase(each)}", hint)
        if "\0" in each:
            raise validation_error(f"the text for {name} has a null character", hint)
    return dict(value)


def _cwd(value: object) -> str | None:
    path = fspath(value) if isinstance(value, PathLike) else value
    if path is None:
        return None
    if not isinstance(path, str):
        raise validation_error(f"expected a folder, got {type_phrase(value)}", "Write its path.")
    if not path or "\0" in path:
        flaw = "a path with a null character" if path else "an empty path"
        raise validation_error(f"expected a folder, got {flaw}", "Write its path, or '.' for that of the host.")
    return path


def _codes(value: object) -> frozenset[int]:
    hint = "Write (0, 3)."
    if isinstance(value, (str, bytes)) or not isinstance(value, Collection):
        raise validation_error(f"expected exit codes, got {type_phrase(value)}", hint)
    wrong = [each for each in value if type(each) is not int or not 0 <= each <= MOST_CODE]
    if wrong:
        raise validation_error(f"{value_phrase(wrong[0])} is not an exit code", hint)
    return frozenset(value)


def _ready(value: object) -> object:
    hint = "Give a regular expression that a line of its output matches, or a function that returns True when it is up."
    if value is None or callable(value):
        return _called(value, "without arguments")
    if not isinstance(value, str):
        raise validation_error(f"expected a regular expression or a function, got {type_phrase(value)}", hint)
    flaw = ""
    try:
        re.compile(value)
    except re.error as error:
        flaw = str(error)
    if flaw:
        raise validation_error(f"{value_phrase(value)} is not a regular expression ({flaw})", hint)
    return value


def _signal(value: object) -> str:
    hint = "Write 'TERM', 'INT' or 'QUIT'."
    if not isinstance(value, str):
        raise validation_error(f"expected the name of a signal, got {type_phrase(value)}", hint)
    name = value.removeprefix("SIG")
    if f"SIG{name}" not in signal.Signals.__members__:
        raise validation_error(f"{value_phrase(value)} is not a signal on this system", hint)
    return name


def _on_line(value: object) -> object:
    if value is None or callable(value):
        return _called(value, "with a line", "a line")
    raise validation_error(f"{type_phrase(value)} cannot be called", "Give a function of one line.")


def _called(call: Any, form: str, *args: object) -> object:
    signature = None if call is None else signature_of(call)
    if signature is not None and not binds(signature, *args):
        what = f"it cannot be called {form}: it takes {names_of(signature)}"
        raise validation_error(what, "Give what it takes besides with functools.partial, or in a lambda.")
    return not_async(call)


Environment: TypeAlias = Annotated[Mapping[str, str] | None, PlainValidator(_env)]
"""Variables of the environment of a process."""
Folder: TypeAlias = Annotated[str | None, PlainValidator(_cwd)]
"""Folder in which a process runs."""


class Command(SpecModel, frozen=True, kw_only=False):
    """A program that is a child: it runs as long as the worker lives, and its exit is the worker's exit. No shell."""

    argv: Annotated[Sequence[str], PlainValidator(_argv)]
    """The program and its arguments, each by itself. A repr shows the program only."""
    env: Environment = None
    """Added to the environment of the host. Shown nowhere."""
    cwd: Folder = None
    """The folder that it runs in. ``None``: that of the host."""
    ok_codes: Annotated[Collection[int], PlainValidator(_codes)] = (0,)
    """Exit codes that are a normal end. Any other one, and any signal that is not ours, is a crash."""
    ready: Annotated[str | Callable[[], Any] | None, PlainValidator(_ready)] = None
    """A regular expression that a line of its output must match, or a function that is asked every 50 ms: until then
    it is starting (``start_timeout_s``). ``None``: it is up as soon as it runs."""
    stop_signal: Annotated[str, PlainValidator(_signal)] = "TERM"
    """Sent to its process group to stop it; after ``shutdown`` seconds SIGKILL follows."""
    on_line: Annotated[Callable[[str], Any] | None, PlainValidator(_on_line)] = None
    """Called with each line of its output, on the pool."""

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """Show the program alone: arguments and environment may hold secrets."""
        yield "program", self.argv[0]

    def program(self) -> Program:
        """Return it as the runtime needs it."""
        return Program(
            argv=tuple(self.argv),
            env=dict(self.env or {}),
            cwd=self.cwd,
            ok_codes=frozenset(self.ok_codes),
            ready=self.ready,
            stop_signal=self.stop_signal,
            on_line=self.on_line,
        )


def _command(value: object) -> object:
    return value if value is None or isinstance(value, Command) else _argv(value)


CommandTarget: TypeAlias = Annotated[Sequence[str] | Command | None, PlainValidator(_command), WORK]
