"""What stands behind an import string, whether it is async, and where it runs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import Worker
from tests.actors.execution.targets import (
    Asynchronous,
    AsyncMachine,
    Machine,
    Plain,
    Stock,
    StockAsync,
    Tamed,
    async_body,
    async_generator,
    async_handler,
    body,
)
from tests.support.ids import stable
from trees import WorkerSpec
from trees.declaration.kinds import KINDS, kind_of
from trees.declaration.resolve import ResolveError, async_names, is_async, resolve
from trees.declaration.specs import kind_fields


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Write a module that can be imported until the end of the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written = []

    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        written.append(name)

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_an_import_string_gives_the_object_and_anything_else_is_given_back() -> None:
    assert resolve("tests.actors.execution.targets:body") is body
    assert resolve("tests.actors.execution.targets:Machine.method") is Machine.method
    assert resolve(body) is body


@pytest.mark.parametrize(
    ("target", "what", "hint"),
    [
        ("no_such_module:Ledger", "module 'no_such_module' not found", "Correct the name, or install it"),
        ("json.nowhere.deep:x", "module 'json.nowhere' not found", "Correct the name"),
        ("json:dumpss", "attribute 'dumpss' of 'json:dumpss' is missing", "Did you mean 'dumps'?"),
        ("json:zzzzzzzzz", "attribute 'zzzzzzzzz' of 'json:zzzzzzzzz' is missing", "Correct the name after the colon."),
        ("json:dumps.x", "attribute 'x' of 'json:dumps.x' is missing", "Correct the name after the colon."),
        (
            "shop.mail.Mailer",
            "expected an import string, got 'shop.mail.Mailer'",
            "Write 'shop.mail:Mailer', or give the object itself.",
        ),
        (
            "mailer",
            "expected an import string, got 'mailer'",
            "Write 'package.module:attribute', or give the object itself.",
        ),
        ("", "expected an import string, got ''", "Write 'package.module:attribute', or give the object itself."),
        (
            "shop/a.py:Mailer",
            "expected an import string, got 'shop/a.py:Mailer'",
            "Write 'package.module:attribute', or give the object itself.",
        ),
        (
            "a:b:c",
            "expected an import string, got 'a:b:c'",
            "Write 'package.module:attribute', or give the object itself.",
        ),
        (
            "shop:",
            "expected an import string, got 'shop:'",
            "Write 'package.module:attribute', or give the object itself.",
        ),
        (
            ".mail:Mailer",
            "expected an import string, got '.mail:Mailer'",
            "Write 'package.module:attribute', or give the object itself.",
        ),
    ],
)
def test_an_import_string_that_leads_nowhere_tells_which_part_failed(target: str, what: str, hint: str) -> None:
    with pytest.raises(ResolveError) as caught:
        resolve(target)

    assert caught.value.what == what
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("source", "raised"),
    [
        ("raise ValueError('hunter2')", "ValueError"),
        ("import no_such_dependency", "ModuleNotFoundError for 'no_such_dependency'"),
        ("from json import no_such_name", "ImportError"),
        ("def broken(:", "SyntaxError"),
        ("import sys; sys.exit(1)", "SystemExit"),
    ],
)
def test_a_module_that_raises_on_import_is_told_as_such_and_without_its_words(
    write_module: Callable[[str, str], None], source: str, raised: str
) -> None:
    write_module("regrow_broken", source)

    with pytest.raises(ResolveError) as caught:
        resolve("regrow_broken:body")

    assert str(caught.value) == (
        f"module 'regrow_broken' raised {raised} on import. To see where: python -c 'import regrow_broken'."
    )
    assert caught.value.__cause__ is not None


def test_a_module_whose_lookup_raises_is_told_as_such(write_module: Callable[[str, str], None]) -> None:
    source = "def __getattr__(name):\n    raise OSError('hunter2') if name == 'body' else AttributeError"
    write_module("regrow_lazy", source)

    with pytest.raises(ResolveError) as caught:
        resolve("regrow_lazy:body")

    assert caught.value.what == "attribute 'body' of 'regrow_lazy:body' raised OSError"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (body, False),
        (async_body, True),
        (functools.partial(async_body), True),
        (functools.partial(functools.partial(async_body)), True),
        (functools.partial(body), False),
        (Machine(), False),
        (Machine().method, True),
        (AsyncMachine(), True),
        (functools.partial(AsyncMachine(), 1), True),
        (AsyncMachine().__call__, True),
        (AsyncMachine, False),
        (staticmethod(async_body), True),
        (classmethod(async_handler), True),
        (functools.partialmethod(async_body), True),
        (Machine.__call__, False),
        (async_generator, False),
        (print, False),
        (None, False),
    ],
)
def test_async_is_seen_through_partials_methods_and_callable_objects(
    call: Any,
    expected: bool,
) -> None:
    assert is_async(call) is expected


def test_the_async_names_of_a_class_are_its_hooks_and_public_methods_as_overridden() -> None:
    class Many(Asynchronous):
        async def on_receive(self, message: Any) -> Any: ...

        @staticmethod
        async def fetch() -> None: ...

        @classmethod
        async def build(cls) -> None: ...

        async def _private(self) -> None: ...

        def total(self) -> int:
            return 0

    assert async_names(Many) == ["on_receive", "fetch", "build"]
    assert async_names(Tamed) == []
    assert async_names(Worker) == []
    assert async_names(Stock) == []
    assert async_names(StockAsync) == ["on_receive"]


@pytest.mark.parametrize(
    ("field", "value"), [("actor", Plain), ("run", body), ("handle", "a:b"), ("execute", body)], ids=stable
)
def test_the_kind_of_a_worker_is_that_of_the_one_field_that_it_gives(field: str, value: Any) -> None:
    kind, found = kind_of(WorkerSpec(id="w", **{field: value}))

    assert kind is KINDS[field]
    assert kind.field == field
    assert found == value


def test_each_field_that_says_what_a_worker_does_has_a_kind() -> None:
    assert tuple(KINDS) == kind_fields() == ("actor", "run", "handle", "execute", "command")
