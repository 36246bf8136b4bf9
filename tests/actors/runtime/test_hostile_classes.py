"""Classes of users that answer for their own attributes: exceptions and actors whose every look-up runs user code.

``isinstance`` reads ``__class__`` of an object whose type is not the one looked for, and a traceback is an attribute as
any other. A supervisor, the boundary of a worker and a reply look at exceptions past their classes.
"""

from __future__ import annotations

import ast
from abc import ABCMeta
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import actors
from actors import ChildExited, Event, Failed, InternalError, StartError, SubscriberDropped, Worker
from actors.testing import settle
from tests.support.syntax import TOGETHER, library
from trees import SupervisorSpec, Tree, WorkerSpec, start

PROMPT_S = 20.0


def exits(*_: Any) -> Any:
    raise SystemExit("code of a user ran where nobody expects it")


class ClassError(Exception):
    __class__ = property(exits)  # type: ignore[assignment]


class TracebackError(Exception):
    __traceback__ = property(exits)  # type: ignore[assignment]


class CauseError(Exception):
    __cause__ = __context__ = __suppress_context__ = property(exits)  # type: ignore[assignment]


class RaisedAgainError(Exception):
    with_traceback = exits


class AttributeOfErrorError(Exception):
    __getattribute__ = exits


class HostileFailed(Failed):
    __getattribute__ = exits


class GroupError(ExceptionGroup[Exception]):
    exceptions = property(exits)  # type: ignore[assignment]


ERRORS: dict[str, Callable[[], Exception]] = {
    "class": lambda: ClassError("said"),
    "traceback": lambda: TracebackError("said"),
    "cause": lambda: CauseError("said"),
    "raised again": lambda: RaisedAgainError("said"),
    "every attribute": lambda: AttributeOfErrorError("said"),
    "members of a group": lambda: GroupError("said", [ValueError("said")]),
}


class Faulty(Worker):
    """Raises it where it is told to, in its first incarnation."""

    def __init__(self, place: str, error: Exception, lives: list[None]) -> None:
        self.error = error
        self.place = place if not lives else "nowhere"
        lives.append(None)

    def raises(self, place: str) -> None:
        if self.place == place:
            raise self.error

    def on_start(self) -> None:
        self.raises("on_start")

    def on_receive(self, message: object) -> object:
        self.raises("handler")
        if message == "crash":
            raise ValueError(message)
        if message == "stop":
            self.stop()
        return message

    def on_stop(self) -> None:
        self.raises("on_stop")

    def on_failure(self, *_: object) -> None:
        self.raises("on_failure")


def heard(tree: Tree) -> list[Event]:
    events: list[Event] = []
    tree.subscribe(events.append)
    return events


def told_as(raised: BaseException, error: Exception) -> bool:
    return type(raised) is type(error)


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("place", ["handler", "on_stop", "on_failure"])
def test_an_error_whose_class_answers_for_its_attributes_ends_its_worker_only(place: str, kind: str) -> None:
    error = ERRORS[kind]()
    message = {"handler": "any", "on_stop": "stop", "on_failure": "crash"}[place]
    faulty = WorkerSpec(id="faulty", actor=Faulty, args=(place, error, []))
    with start(SupervisorSpec(id="t", children=[faulty])) as tree:
        events = heard(tree)
        try:
            tree.ref("t/faulty").ask(message, timeout=PROMPT_S)
        except BaseException as caught:  # noqa: BLE001 - judged below
            raised: BaseException | None = caught
        else:
            raised = None
        settle(tree)

        assert tree.ref("t/faulty").ask("again", timeout=PROMPT_S) == "again"
        assert tree.child("t/faulty").incarnation == 2
        assert not [event for event in events if type(event) is InternalError]
        assert len([event for event in events if type(event) is ChildExited]) == 1
    assert raised is None if place == "on_stop" else raised is not None
    assert place != "handler" or (raised is not None and told_as(raised, error))


@pytest.mark.parametrize("kind", ERRORS)
def test_such_an_error_in_on_start_is_the_cause_of_a_failed_start(kind: str) -> None:
    error = ERRORS[kind]()

    with pytest.raises(StartError) as caught:
        start(SupervisorSpec(id="t", children=[WorkerSpec(id="x", actor=Faulty, args=("on_start", error, []))]))

    chain: list[StartError] = []
    step: BaseException | None = caught.value
    while type(step) is StartError:
        chain.append(step)
        step = step.__cause__
    assert chain[-1].path == "t/x"
    assert step is error


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("where", ["pool", "loop", "thread", "run", "lifespan", "own ask", "expected"])
def test_such_an_error_is_treated_as_any_other_wherever_the_code_runs(where: str, kind: str) -> None:
    error, raised = ERRORS[kind](), list[None]()

    def handle(_: object) -> None:
        raise error

    async def handle_async(_: object) -> None:
        raise error

    def body() -> None:
        if not raised:
            raised.append(None)
            raise error
        actors.stopping(PROMPT_S)

    @contextmanager
    def lifespan() -> Any:
        yield
        raise error

    forms: dict[str, dict[str, Any]] = {
        "pool": {"handle": handle},
        "loop": {"handle": handle_async},
        "thread": {"handle": handle, "dispatch": "thread"},
        "run": {"run": body},
        "lifespan": {"handle": handle, "lifespan": lifespan},
        "own ask": {"handle": lambda message: actors.ref("t/faulty").ask(message)},
        "expected": {"handle": handle, "expected": (type(error),)},
    }
    children = [
        WorkerSpec(id="faulty", handle=handle, expected=(type(error),)),
        WorkerSpec(id="x", **forms[where]),
        WorkerSpec(id="other", handle=lambda message: message),
    ]
    with start(SupervisorSpec(id="t", children=children)) as tree:
        events = heard(tree)
        if where != "run":
            with pytest.raises(Exception) as caught:  # noqa: PT011 - judged by its type
                tree.ref("t/x").ask("any", timeout=PROMPT_S)
            assert told_as(caught.value, error)
        settle(tree)

        lives = where in {"own ask", "expected"}
        assert tree.child("t/x").incarnation == (1 if lives else 2)
        assert tree.child("t/other").incarnation == 1
        assert not [event for event in events if type(event) is InternalError]
        assert type(error).__name__ in tree.dump() or lives


def test_a_failed_request_whose_class_answers_for_its_attributes_is_no_crash() -> None:
    def handle(_: object) -> None:
        raise HostileFailed("no")

    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="x", handle=handle)])) as tree:
        with suppress(HostileFailed):
            tree.ref("t/x").ask("any", timeout=PROMPT_S)
        settle(tree)
        assert tree.child("t/x").incarnation == 1


class Asked(type):
    """A metaclass that raises when it is asked for the classes derived from its own."""

    __instancecheck__ = exits

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls or bool(exits())  # the first: Python asks that itself where an error is raised


class Base(Exception, metaclass=Asked):  # noqa: N818 - a base
    pass


class DerivedError(Base):
    pass


@pytest.mark.parametrize(("error", "incarnation"), [(ValueError("said"), 2), (DerivedError("said"), 1)])
def test_expected_types_are_matched_as_except_does_and_their_metaclass_is_not_asked(
    error: Exception, incarnation: int
) -> None:
    def handle(_: object) -> None:
        raise error

    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="x", handle=handle, expected=(Base,))])) as tree:
        events = heard(tree)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - judged by its type
            tree.ref("t/x").ask("any", timeout=PROMPT_S)
        assert told_as(caught.value, error)
        settle(tree)

        assert tree.child("t/x").incarnation == incarnation
        assert not [event for event in events if type(event) is InternalError]


@pytest.mark.parametrize("kind", ERRORS)
def test_a_subscriber_that_raises_such_an_error_is_dropped_and_no_other(kind: str) -> None:
    error = ERRORS[kind]()

    def hear(_: Event) -> None:
        raise error

    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="x", handle=int)])) as tree:
        events = heard(tree)
        tree.subscribe(hear)
        tree.ref("t/x").tell("no number")
        settle(tree)
        tree.ref("t/x").tell("no number")
        settle(tree)

    assert len([event for event in events if type(event) is SubscriberDropped]) == 1
    assert len([event for event in events if type(event) is ChildExited and event.error is not None]) == 2


class Watchful(Worker):
    """Runs code of its own when anybody looks at one of its attributes."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__init__":
            raise LookupError(name)
        return object.__getattribute__(self, name)


class Watched(ABCMeta):
    """Does the same for the attributes of a class."""

    armed = False

    def __getattribute__(cls, name: str) -> Any:
        if name == "__new__" and Watched.armed:
            raise LookupError(name)
        return super().__getattribute__(name)


class OfWatched(Worker, metaclass=Watched):
    """Its class is looked at when an object is made."""


@pytest.mark.parametrize("kind", [Watchful, OfWatched])
def test_an_actor_that_answers_for_its_attributes_is_made_where_it_works_and_not_by_its_supervisor(
    kind: type[Worker],
) -> None:
    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="other", handle=lambda message: message)])) as tree:
        events = heard(tree)
        spec = WorkerSpec(id="x", actor=kind)
        Watched.armed = True
        try:
            with pytest.raises(StartError) as caught:
                tree.start_child("t", spec)
        finally:
            Watched.armed = False

        assert type(caught.value.__cause__) is LookupError
        assert tree.ref("t/other").ask("asked", timeout=PROMPT_S) == "asked"
        assert tree.child("t/other").incarnation == 1
        settle(tree)
        assert not [event for event in events if type(event) is InternalError]


OF_AN_ERROR = {"__traceback__", "__cause__", "__context__", "__suppress_context__", "with_traceback"}
STACKS = "actors/validation/stack_text.py"
READS_NO_ERROR = {(STACKS, "text.__cause__"), (STACKS, "text.__context__")}
"""Reads of Python's own summary of a traceback."""


@pytest.mark.always
@TOGETHER
def test_the_runtime_reads_what_belongs_to_an_error_past_its_class() -> None:
    found = {
        (file.name, ast.unparse(node))
        for file in library()
        if file.name.startswith("actors/")
        for node in file.of(ast.Attribute)
        if node.attr in OF_AN_ERROR and isinstance(node.ctx, ast.Load)
    }

    assert found == READS_NO_ERROR, "use actors.model.raised"
