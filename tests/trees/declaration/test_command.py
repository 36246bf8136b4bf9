"""``command=``: what is right, what is refused, and what is shown of it."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actors import ConfigError
from trees import Command, SupervisorSpec, WorkerSpec
from trees.declaration.check import require_valid
from trees.views.declaration_text import draw


@pytest.mark.parametrize(
    "command", [["ls"], ("ls", "-l"), [Path("/bin/ls")], Command(["ls"]), Command(argv=["ls"], ready="up")]
)
def test_a_command_is_a_list_of_words_or_a_command(command: Any) -> None:
    spec = SupervisorSpec(id="p", children=[WorkerSpec(id="m", command=command)])
    require_valid(spec)

    assert "command ls   process of its own" in draw(spec)


def test_a_method_a_class_and_what_has_defaults_may_be_called_with_a_line_or_to_see_if_it_is_ready() -> None:
    for on_line in (print, [].append, str, lambda line, deep=True: None, lambda *_: None):
        assert Command(["ls"], on_line=on_line).on_line is on_line
    for ready in (threading.Event().wait, dict, lambda port=80: True, partial(lambda port: True, 80)):
        assert Command(["ls"], ready=ready).ready is ready


async def awaits(*_: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"argv": "ls -l"}, "expected a list of words"),
        ({"argv": []}, "an empty command"),
        ({"argv": [""]}, "an empty program"),
        ({"argv": ["ls", 3]}, "expected a word"),
        ({"argv": ["a\0b"]}, "null"),
        ({"argv": ["ls"], "env": {"A": 1}}, "expected a text for A"),
        ({"argv": ["ls"], "env": {"A": "x\0"}}, "the text for A has a null character"),
        ({"argv": ["ls"], "env": {"A=B": "1"}}, "name of no variable"),
        ({"argv": ["ls"], "cwd": 3}, "expected a folder"),
        ({"argv": ["ls"], "cwd": ""}, "expected a folder, got an empty path"),
        ({"argv": ["ls"], "cwd": "a\0b"}, "expected a folder, got a path with a null character"),
        ({"argv": ["ls"], "ok_codes": [256]}, "is not an exit code"),
        ({"argv": ["ls"], "ok_codes": 0}, "expected exit codes"),
        ({"argv": ["ls"], "ready": "("}, "is not a regular expression"),
        ({"argv": ["ls"], "ready": 3}, "expected a regular expression or a function"),
        ({"argv": ["ls"], "stop_signal": "NOPE"}, "is not a signal on this system"),
        ({"argv": ["ls"], "on_line": 3}, "cannot be called"),
        ({"argv": ["ls"], "ready": awaits}, "Command.ready: .* is async, and nobody awaits it there"),
        ({"argv": ["ls"], "on_line": awaits}, "Command.on_line: .* is async, and nobody awaits it there"),
        ({"argv": ["ls"], "ready": lambda port: port}, r"Command.ready: .* without arguments: it takes \(port\)"),
        ({"argv": ["ls"], "on_line": lambda: None}, r"Command.on_line: .* with a line: it takes \(\)"),
        ({"argv": ["ls"], "shell": True}, "shell"),
    ],
)
def test_what_is_no_command_is_refused_with_a_hint(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        Command(**given)
    assert all(problem.hint for problem in raised.value.problems)


def test_arguments_and_environment_stand_in_no_repr() -> None:
    command = Command(["/bin/server", "--token", "secret"], env={"KEY": "secret"})
    spec = WorkerSpec(id="m", command=command)
    plain = WorkerSpec(id="m", command=["server", "secret"])

    assert "secret" not in repr(command) + repr(spec) + repr(plain) + draw(SupervisorSpec(id="p", children=[spec]))
