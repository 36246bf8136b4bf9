"""The text of a traceback is what Python itself writes, though each place in code is looked up only once."""

import linecache
import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import pytest

from actors.validation import stack_text
from actors.validation.stack_text import exception_text


def function_in(name: str, error: str) -> Callable[[], object]:
    """A function of a file with this name, which raises."""
    space: dict[str, Any] = {}
    exec(compile(f"def f():\n    raise {error}\n", name, "exec"), space)  # noqa: S102 - as a notebook does
    function: Callable[[], object] = space["f"]
    return function


def plain() -> None:
    raise ValueError("plain")


def with_a_cause() -> None:
    try:
        plain()
    except ValueError as error:
        raise KeyError("later") from error


def with_a_context() -> None:
    try:
        plain()
    except ValueError:
        int("x")


def without_its_context() -> None:
    try:
        plain()
    except ValueError:
        raise TypeError("alone") from None


def caught(fails: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as seen:  # noqa: PT011 - each raises another one
        fails()
    return seen.value


def group() -> None:
    raise ExceptionGroup("two", [caught(with_a_cause), ExceptionGroup("inner", [caught(plain), ValueError("bare")])])


def group_as_a_cause() -> None:
    try:
        group()
    except ExceptionGroup as error:
        raise RuntimeError("after a group") from error


def noted() -> None:
    error = ValueError("said")
    error.add_note("and noted")
    raise error


def deep(left: int = 400) -> int:
    return deep(left - 1) if left else 1 // 0


def in_turns(left: int = 20) -> int:
    return max(in_turns(each) for each in [left - 1]) if left else 1 // 0


def misspelt() -> object:
    plainer = 1
    return plainest + plainer  # type: ignore[name-defined]  # noqa: F821


def no_such_attribute() -> object:
    return traceback.format_exceptions  # type: ignore[attr-defined]


def no_syntax() -> None:
    compile("a = = b", "<typed>", "exec")


def made_up() -> None:
    function_in("<made up>", "ValueError")()


def over_several_lines() -> object:
    return {
        "a": 1,
        "b": [].pop(),
    }


def without_words() -> None:
    raise ValueError


class OwnError(Exception):
    """An error of a user, with a name in a module."""


class SpeechlessError(Exception):
    """An error that cannot say anything."""

    def __str__(self) -> str:
        raise SystemExit


class NowhereError(Exception):
    """An error of no module."""

    __module__ = None  # type: ignore[assignment]


def own() -> None:
    raise OwnError("of a user\non two lines")


def speechless() -> None:
    raise SpeechlessError


def nowhere() -> None:
    raise NowhereError("here")


def in_a_circle() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


ALL: list[Callable[[], object]] = [
    plain,
    with_a_cause,
    with_a_context,
    without_its_context,
    group,
    group_as_a_cause,
    noted,
    deep,
    in_turns,
    misspelt,
    no_such_attribute,
    no_syntax,
    made_up,
    over_several_lines,
    without_words,
    own,
    speechless,
    nowhere,
    in_a_circle,
]


def by_python(error: BaseException, frames: TracebackType | None = None) -> str:
    return "".join(traceback.format_exception(type(error), error, frames or error.__traceback__))


@pytest.mark.parametrize("fails", ALL, ids=lambda each: each.__name__)
@pytest.mark.parametrize("known", [False, True], ids=["first", "again"])
def test_the_text_is_that_of_python(fails: Callable[[], object], known: bool) -> None:
    error = caught(fails)
    stack_text._places.clear()
    if known:
        exception_text(error, None)

    assert exception_text(error, None) == by_python(error)


@pytest.mark.parametrize("fails", [plain, with_a_cause], ids=lambda each: each.__name__)
@pytest.mark.parametrize("limit", [-1, 0, 1, 2])
def test_sys_tracebacklimit_holds(limit: int, fails: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    error = caught(fails)
    monkeypatch.setattr(sys, "tracebacklimit", limit, raising=False)

    assert exception_text(error, None) == by_python(error)


def test_frames_that_the_error_has_lost_are_told() -> None:
    error = caught(with_a_context)
    frames = error.__traceback__
    error.__traceback__ = None

    assert exception_text(error, frames) == by_python(error, frames)


def test_an_error_that_was_never_raised_has_no_frames() -> None:
    assert exception_text(ValueError("new"), None) == "ValueError: new\n"


def test_an_entry_that_somebody_made_with_another_line_is_told_as_python_does() -> None:
    """As template engines make them."""
    frames: Any = caught(plain).__traceback__
    moved = TracebackType(None, frames.tb_frame, frames.tb_lasti, 1)
    error = ValueError("moved")
    exception_text(error, frames)

    assert exception_text(error, moved) == by_python(error, moved)


def test_another_function_at_the_same_place_in_another_file_is_told_apart() -> None:
    """Code objects that are equal, of files that are not."""
    names = ["one.py", "two.py"]
    texts = [exception_text(caught(function_in(name, "ValueError")), None) for name in names]

    assert ["one.py" in text for text in texts] == [True, False]
    assert ["two.py" in text for text in texts] == [False, True]


def test_a_place_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    exception_text(caught(plain), None)
    asked: list[str] = []
    monkeypatch.setattr(linecache, "checkcache", lambda *names: asked.extend(map(str, names)))

    exception_text(caught(plain), None)

    assert not asked


def test_places_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_text, "MOST_PLACES", 10)
    stack_text._places.clear()
    for number in range(50):
        exception_text(caught(function_in(f"<{number}>", f"ValueError({number})")), None)

    assert 0 < len(stack_text._places) <= 10
