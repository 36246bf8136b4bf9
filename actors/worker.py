"""Workers: the class to derive from, and the workers made from plain functions.

A supervisor asks a recipe (``actors.model.spec.WorkerRecipe``) for a new object per incarnation, and wants to know
whether user code would run when it starts, stops or fails. Where none would, it need not leave its own thread for that.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeGuard

import pykka

from actors.dispatch.command.program import Program
from actors.dispatch.process import ProcessCode, ProcessWorker
from actors.execution.pykka_bridge import ManagedActor, build, managed
from actors.messaging.crossing_refs import ref_at
from actors.messaging.envelope import CURRENT, SystemMessage
from actors.messaging.mailbox import Refusal
from actors.model.errors import Failed
from actors.model.spec import DispatcherKind, RefTo, WorkerRecipe


class Worker(ManagedActor):
    """A worker with state: derive from it, and declare it with ``WorkerSpec(id=..., actor=YourClass)``.

    The hooks are Pykka's, each of them sync or ``async``: ``on_start``, ``on_receive(message)``, ``on_stop``,
    ``on_failure(type, value, traceback)``. Methods can be called through ``ref.proxy()``.

    One message is handled at a time. An exception born in a handler is a crash: the asker gets it, ``on_failure``
    runs, and the supervisor builds a *new* object from the spec. After a normal or ordered end only ``on_stop`` runs;
    after a kill neither. Build state in ``__init__`` or ``on_start``; ``super().__init__()`` need not be called.
    """

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        # Not pykka.Actor.__init__: an Event, a UUID and an ActorRef per worker would be 1.3 KB that nobody reads.
        pass

    def __str__(self) -> str:
        incarnation = self._regrow_incarnation
        return f"{type(self).__name__} ({'no tree' if incarnation is None else incarnation.mailbox.path})"

    # "-> Any", where Pykka says "-> None": so that a subclass may make them async.

    def on_start(self) -> Any:
        """Set up, after ``__init__``; the worker is up when it has returned. What it raises is a failed start."""

    def on_stop(self) -> Any:
        """Clean up, after a normal or an ordered end; not after a crash or a kill."""

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any, /) -> Any:
        """Clean up after a crash. The asker has its answer already; the object is thrown away afterwards."""

    def lifespan(self) -> Any:
        """Own a resource: return an async or sync context manager, entered before on_start and left after on_stop.

        Decorate it with ``@asynccontextmanager`` or ``@contextmanager`` and yield once. It is entered and left in the
        one task, or by the one thread, in which all of this incarnation runs.
        """

    def on_receive(self, message: Any, /) -> Any:
        """Handle a message; what it returns is the reply. Not overridden: the message is a dead letter."""
        name = type(self).__name__
        own = set(dir(self)).difference(dir(Worker))  # what stands in the base class is nobody's misspelling
        close = get_close_matches("on_receive", own, n=1, cutoff=0.7)
        meant = f" Is its {close[0]!r} meant to be that?" if close else ""
        _unhandled(message, f"{name} handles no messages. Give it 'def on_receive(self, message)'.{meant}")

    def execute(self, task: Any, context: Any, /) -> Any:
        """Do a piece of work: ``task`` (``Work``, a text) says what, ``context`` is all it may know. Sync or async.

        What it returns is the result (JSON, or what pydantic makes JSON of). An exception that leaves it is a crash of
        this object, and a failed attempt; ``raise Failed(...)`` is only the latter.
        """
        raise NotImplementedError(f"{type(self).__name__} has no execute(task, context)")


def _unhandled(message: Any, why: str) -> None:
    """A message that nobody handles: a tell is a dead letter, an ask fails and says why.

    Raises:
        Failed: somebody has asked.
    """
    current = CURRENT.get()
    if current is None:
        return
    box = current.incarnation.mailbox
    if current.reply is not None and not current.reply.is_tell:
        raise Failed(f"{box.path}: {why}")
    current.incarnation.system.letters.dead_letter(box, message, Refusal.UNHANDLED, None)


class ExecuteWorker(ManagedActor):
    """``execute=``: code that does one piece of work at a time; what is sent to it otherwise is a dead letter."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.execute = call

    def _regrow_receive(self, message: Any) -> Any:
        if issubclass(type(message), SystemMessage):
            return message.handle(self)
        _unhandled(message, "it takes tasks, and no messages. Write tree.run(...), or tree.map(items, to=...)")
        return None


class FunctionWorker(ManagedActor):
    """``handle=``: a function that takes one message at a time. It has no state, so incarnations share it."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._function = function
        if args or kwargs:
            self._function = lambda message: function(message, *args, **kwargs)

    def _regrow_handler(self) -> Callable[[Any], Any]:
        return self._function


class BodyWorker(ManagedActor):
    """``run=``: a function that is the worker's whole life."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._regrow_body: Callable[[], Any] = functools.partial(function, *args, **kwargs)


# -- recipes: what a kind of work says of its recipe, and besides it the rules of the worker, fields of it, too ---


Maker: TypeAlias = Callable[..., WorkerRecipe]


def _with_refs(maker: Maker) -> Maker:
    """Have an incarnation made of the Refs that its args and kwargs stand for (``Ref.to``), where there are any."""

    @functools.wraps(maker)
    def recipe(code: Any, args: tuple[Any, ...], kwargs: dict[str, Any], **rules: Any) -> WorkerRecipe:
        made = maker(code, args, kwargs, **rules)
        if not any(type(each) is RefTo for each in (*args, *kwargs.values())):
            return made

        def make(incarnation: Any) -> Any:
            def given(value: Any) -> Any:
                return ref_at(incarnation.system, value.path) if type(value) is RefTo else value

            own = maker(code, tuple(map(given, args)), {name: given(each) for name, each in kwargs.items()}, **rules)
            assert own.make is not None  # noqa: S101 - only a command has none, which has no args
            return own.make(incarnation)

        return replace(made, make=make)

    return recipe


@_with_refs
def actor_recipe(cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any], **rules: Any) -> WorkerRecipe:
    """The recipe for ``actor=``: a Worker, or a stock ``pykka.ThreadingActor``."""
    hardened = managed(cls)
    return WorkerRecipe(
        make=lambda incarnation: build(hardened, incarnation, args, kwargs),
        starts_plain=not overrides(hardened, "on_start") and _builds_plain(hardened),
        stops_plain=not overrides(hardened, "on_stop"),
        fails_plain=not overrides(hardened, "on_failure"),
        has_lifespan=has_lifespan(cls),
        has_hooks=any(overrides(hardened, hook) for hook in ("on_start", "on_stop", "on_failure")),
        **rules,
        actor_class=cls,
    )


def _shared_recipe(worker: ManagedActor, **rules: Any) -> WorkerRecipe:
    """The recipe of a worker that all its incarnations share, and that has no hooks."""
    rules |= {"starts_plain": True, "stops_plain": True, "fails_plain": True, "actor_class": type(worker)}
    return WorkerRecipe(make=lambda _: worker, **rules)


@_with_refs
def handle_recipe(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], **rules: Any
) -> WorkerRecipe:
    """The recipe for ``handle=``."""
    stateless = rules.get("resource") is None
    return _shared_recipe(FunctionWorker(function, args, kwargs), **rules, is_stateless=stateless)


@_with_refs
def execute_recipe(
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    makes_object: bool = False,
    **rules: Any,
) -> WorkerRecipe:
    """The recipe for ``execute=``.

    Args:
        call: ``call(subtask, context, *args, **kwargs)``; or, with ``makes_object``, what makes an object of
            ``(*args, **kwargs)`` and returns how that is called.
        args: for the call, or for making the object.
        kwargs: the same.
        makes_object: each incarnation is a new object.
        rules: fields of the recipe. Without an object every ``Exception`` is expected: a function has no state to
            repair.
    """
    if not makes_object:
        bound = (lambda task, context: call(task, context, *args, **kwargs)) if args or kwargs else call
        return _shared_recipe(ExecuteWorker(bound), **rules | {"expected": (Exception,)})
    return WorkerRecipe(
        make=lambda _: ExecuteWorker(call(*args, **kwargs)),
        stops_plain=True,
        fails_plain=True,
        **rules,
        actor_class=ExecuteWorker,
    )


@_with_refs
def body_recipe(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], **rules: Any
) -> WorkerRecipe:
    """The recipe for ``run=``."""
    return _shared_recipe(BodyWorker(function, args, kwargs), is_body=True, **rules)


def process_recipe(inner: WorkerRecipe, code: ProcessCode) -> WorkerRecipe:
    """The recipe for ``dispatch="process"``: the host's half of a worker whose own half is made there.

    The worker's own half tells a failed request from a crash. An error that it calls a failure is none of the host's.

    Args:
        inner: the recipe of the worker as it would run here.
        code: how its own half is made there.
    """
    return replace(
        inner,
        make=lambda incarnation: ProcessWorker(incarnation, code),
        where=DispatcherKind.LOOP,
        starts_plain=False,
        stops_plain=False,
        fails_plain=False,
        resource=None,
        is_stateless=False,
        crash_on_ask_error=False,
        has_lifespan=True,
        has_hooks=True,
        process=code,
    )


def command_recipe(program: Program) -> WorkerRecipe:
    """The recipe for ``command=``: no object is made, each incarnation is a process."""
    return WorkerRecipe(
        make=None,
        where=DispatcherKind.PROCESS,
        is_body=True,
        program=program,
        stops_plain=True,
        fails_plain=True,
        actor_class=BodyWorker,
    )


# -- what trees.declaration.check asks ---------------------------------------------------------------------------------


def is_actor_class(target: object) -> TypeGuard[type[Any]]:
    """True for what ``actor=`` takes: a ``Worker`` or a ``pykka.ThreadingActor`` class."""
    return inspect.isclass(target) and (Worker in target.__mro__ or pykka.ThreadingActor in target.__mro__)


def is_stock(cls: type[Any]) -> bool:
    """True for a Pykka actor that was not written for this library."""
    return Worker not in cls.__mro__


def has_lifespan(cls: type[Any]) -> bool:
    """True where objects of the class own a resource."""
    return not is_stock(cls) and overrides(cls, "lifespan")


def _builds_plain(cls: type[Any]) -> bool:
    """True where making an object runs none of the user's code, so that a supervisor may do it on its own thread."""
    looked_up = type(cls).__mro__[:-2]  # a metaclass answers for attributes: without type and object
    run = {"__new__", "__getattribute__"}
    return (
        cls.__init__ is Worker.__init__
        and not any("__getattribute__" in vars(base) for base in looked_up)
        and not any(run & vars(base).keys() for base in cls.__mro__[:-1])
    )


def overrides(cls: type[Any], hook: str) -> bool:
    """True where the class brings its own version of a hook."""
    return getattr(cls, hook, None) not in {getattr(base, hook, None) for base in (pykka.Actor, ManagedActor, Worker)}
