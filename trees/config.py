"""What a user writes to declare a tree: ``SupervisorSpec``, ``WorkerSpec``, ``Backoff``, ``Mailbox``.

Comes in: keyword arguments. Goes out: frozen specs, each right by itself and nowhere deeper than three levels;
anything else is a ``ConfigError`` while the spec is constructed, with every problem of that spec in ``.problems``.
Nothing here runs, imports or inspects the user's code: what only the whole tree shows is found by ``trees.check``.
This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, PlainValidator, ValidationError

from actors.errors import ConfigError, DepthError, Problem
from trees import fields
from trees.problems import from_pydantic, listed

MAX_LEVEL = 3
"""The root is level 1. Nothing stands deeper than this, and on this level itself only workers."""

WORK_FIELDS = ("actor", "run", "handle")
"""What a worker does: exactly one of these."""


class Words(BaseModel, frozen=True):
    """The base of what a user writes: no unknown words, frozen, and one error type for every mistake.

    A spec keeps the objects it was given; children, functions and arguments are never copied. It cannot be changed:
    ``model_copy(update={...})`` makes another one and checks it. A repr never shows ``args`` or ``kwargs``.
    """

    # Frozen is said at each class, because only there a type checker sees it.
    model_config = ConfigDict(extra="forbid", strict=True)

    def __init__(self, /, **data: Any) -> None:
        problems: list[Problem] = []
        try:
            super().__init__(**data)
        except ValidationError as error:
            known = {cls.__name__: list(cls.model_fields) for cls in [*Words.__subclasses__(), type(self)]}
            problems = from_pydantic(error, self._owner(data), type(self).__name__, known)
        # Raised outside of the except block: pydantic's error holds the values and would travel as the context.
        problems += self._misfits(data)
        deep = self._too_deep(data)
        if problems or deep:
            raise (ConfigError if problems else DepthError)((*problems, *deep))

    @classmethod
    def _owner(cls, data: Mapping[str, Any]) -> str:
        """What the paths of its problems begin with."""
        name: object = data.get("id")
        return str(name) if fields.is_id(name) else cls.__name__

    @classmethod
    def _misfits(cls, data: Mapping[str, Any]) -> list[Problem]:  # noqa: ARG003 - for the specs that have a rule
        """Fields that do not go together. ``data`` is what the user gave, unchecked."""
        return []

    @classmethod
    def _too_deep(cls, data: Mapping[str, Any]) -> list[Problem]:  # noqa: ARG003 - the same
        """What stands too deep. ``data`` is what the user gave, unchecked."""
        return []

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same spec, or with ``update`` another one, checked like any new one (pydantic's own is not)."""
        if not update:
            return super().model_copy(deep=deep)
        return type(self)(**{name: getattr(self, name) for name in self.model_fields_set} | dict(update))

    if not TYPE_CHECKING:  # a type checker that saw these two would let any attribute be set

        def __setattr__(self, name: str, value: object) -> None:
            raise ConfigError((self._frozen(name),))

        def __delattr__(self, name: str) -> None:
            raise ConfigError((self._frozen(name),))

    def _frozen(self, name: str) -> Problem:
        at = f"{self._owner(self.__dict__)}.{name}"
        return Problem(at, "a spec cannot be changed", f"Make another one: model_copy(update={{{name!r}: ...}}).")

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """What was given, of code only its name, and nothing that a worker is called with: secrets travel there."""
        for name in type(self).model_fields:
            if name in self.model_fields_set and name not in {"args", "kwargs"}:
                yield name, _brief(name, getattr(self, name))


def _brief(name: str, value: Any) -> object:
    """A field's value for a repr. Only a name of code: a partial or a bound method would show what is bound."""
    if name == "children":
        return f"{len(value)} declared"
    if name not in WORK_FIELDS or value is None or isinstance(value, str):
        return value
    return f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', type(value).__qualname__)}"


class Backoff(Words, frozen=True):
    """The delay before the n-th consecutive restart: ``initial_s * factor**(n-1)``, at most ``max_s``, plus jitter."""

    initial_s: fields.Delay = 0.1
    """Seconds before the first restart."""
    factor: fields.Factor = 2.0
    """Each further delay is this many times the one before; at least 1."""
    max_s: fields.Delay = 30.0
    """Seconds; no delay is longer, jitter apart."""
    jitter: fields.Share = 0.2
    """Up to this share (0 to 1) of the delay is added at random, so that children do not come back in step."""
    reset_after_s: fields.Period = 60.0
    """A child that stayed up this many seconds starts again at the first step."""

    @classmethod
    def _misfits(cls, data: Mapping[str, Any]) -> list[Problem]:
        first, most = data.get("initial_s", 0.1), data.get("max_s", 30.0)
        if isinstance(first, (int, float)) and isinstance(most, (int, float)) and 0 <= most < first:
            what = f"{most!r} is less than initial_s={first!r}"
            return [Problem("Backoff.max_s", what, "Raise max_s: no delay is longer than it.")]
        return []


class Mailbox(Words, frozen=True):
    """How many messages may wait for a worker, and what happens to one more."""

    capacity: Annotated[int, Field(ge=1)] | None = None
    """Messages; None: no bound."""
    overflow: Literal["block", "reject", "drop_oldest"] = "block"
    """Block waits at most the current message's deadline, else 5 s; then the message is a dead letter."""


_UNBOUNDED = Mailbox()


class WorkerSpec(Words, frozen=True):
    """One worker, or a pool of them: what it does (exactly one of ``actor``, ``run``, ``handle``) and its rules.

    Raises ``ConfigError`` with every problem of this spec; what the code itself is like is checked with the tree.
    """

    id: fields.Id
    """Letters, digits, ``_``, ``.``, ``-``. Unique among siblings; the last part of its path."""
    actor: fields.ActorTarget = None
    """A ``Worker`` or ``pykka.ThreadingActor`` subclass, or ``"module:attr"``."""
    run: fields.CodeTarget = None
    """A function, sync or async, that is the worker's whole life; returning is a normal exit. Or ``"module:attr"``."""
    handle: fields.CodeTarget = None
    """``f(message, *args, **kwargs) -> reply``, sync or async, or ``"module:attr"``."""
    args: fields.Args = ()
    """Positional arguments of each new incarnation (``handle``: of each call). Shown in no repr and no error."""
    kwargs: fields.Kwargs = Field(default_factory=dict)
    """Keyword arguments of the same; the dict is copied, its values are not."""
    restart: fields.RestartWord = "permanent"
    """Permanent: always started again; transient: unless it ended clean; temporary: never, it is forgotten."""
    shutdown: fields.Shutdown = 5.0
    """Seconds that a stop may take before it is a kill; ``"brutal_kill"``: at once; ``"infinity"``: no limit."""
    significant: bool = False
    """Whether its end may end its supervisor; see ``auto_shutdown`` there."""
    start_timeout_s: fields.StartTimeout = 30.0
    """Seconds for ``__init__`` and ``on_start`` together; None: no limit."""
    backoff: InstanceOf[Backoff] | None = None
    """The delay before restarts; None: none."""
    on_exhausted: fields.ExhaustedWord = "escalate"
    """Park: it has a restart limit of its own, its supervisor's figures, and is parked when that is used up."""
    pool: Annotated[int, Field(ge=1)] = 1
    """Members. 1 is a plain child ``id``; from 2 on they are ``id#0`` .. ``id#n-1``."""
    dispatch: Literal["auto", "pool", "loop", "thread"] = "auto"
    """Where its code runs; auto: async code on the event loop, sync bodies and stock Pykka actors on a thread."""
    mailbox: InstanceOf[Mailbox] = _UNBOUNDED
    """How many messages may wait."""
    expected: fields.Expected = ()
    """Exception types that are a failure of the request and not of the worker: the asker gets it, the worker lives."""
    crash_on_ask_error: bool = False
    """True: the error of an ask of its own that it does not catch is a crash, as in OTP."""
    description: str = ""
    """For people; shown in listings."""

    @classmethod
    def _misfits(cls, data: Mapping[str, Any]) -> list[Problem]:
        given = [name for name in WORK_FIELDS if data.get(name) is not None]
        if len(given) == 1:
            return []
        what = f"{listed(given, last='and')} together" if given else "declares no work"
        return [Problem(cls._owner(data), what, f"Give exactly one of {listed(WORK_FIELDS)}.")]


def _children(value: object) -> tuple[WorkerSpec | SupervisorSpec, ...]:
    return fields.specs(value, (WorkerSpec, SupervisorSpec))


class SupervisorSpec(Words, frozen=True):
    """A supervisor and its children, in start order.

    Raises ``ConfigError`` with every problem of this spec, and ``DepthError`` where something would stand deeper
    than level 3 if this one were the root: so a supervisor may stand on level 1 or 2.
    """

    id: fields.Id
    """Letters, digits, ``_``, ``.``, ``-``. Unique among siblings; the last part of its path."""
    strategy: Literal["one_for_one", "one_for_all", "rest_for_one"] = "one_for_one"
    """Who is restarted with a child: nobody, all its siblings, or those after it."""
    max_restarts: fields.Count = 3
    """Restarts within ``period_s`` that it bears; one more and it gives up. 0: gives up at the first crash."""
    period_s: fields.Period = 5.0
    """Seconds."""
    auto_shutdown: Literal["never", "any_significant", "all_significant"] = "never"
    """Whether it ends when the first or the last of its significant children ended by itself."""
    children: Annotated[Sequence[WorkerSpec | SupervisorSpec], PlainValidator(_children)] = ()
    """A list or tuple, kept as a tuple of the very same specs."""
    max_children: fields.Count | None = None
    """Children that it may have at once, pool members counted each; None: no bound."""
    parallel_stop: bool = False
    """True: its children are stopped all at once instead of one by one in reverse order."""
    restart: fields.RestartWord = "permanent"
    """As for a worker: a supervisor on level 2 is its parent's child."""
    shutdown: fields.Shutdown = "infinity"
    """Seconds that its stop may take; by default it is limited only by what its children may take."""
    significant: bool = False
    """Whether its end may end its parent."""
    backoff: InstanceOf[Backoff] | None = None
    """The delay before it is restarted by its parent; None: none."""
    on_exhausted: fields.ExhaustedWord = "escalate"
    """Park: its parent parks it instead of giving up when it was restarted too often."""
    description: str = ""
    """For people; shown in listings."""

    @classmethod
    def _too_deep(cls, data: Mapping[str, Any]) -> list[Problem]:
        children = data.get("children")
        return _deep(children, 2, cls._owner(data)) if isinstance(children, (list, tuple)) else []


Spec: TypeAlias = WorkerSpec | SupervisorSpec
"""What may stand in a tree."""


def check_depth(spec: Spec, level: int = 1, path: str = "") -> list[Problem]:
    """Everything of ``spec`` that stands too deep if ``spec`` stands on ``level``, under its parent's full ``path``.

    Deeper than level 3 is too deep for all, level 3 itself for a supervisor: with children they are named, without
    any it is. Takes time in proportion to the children.
    """
    at = f"{path}/{spec.id}" if path else spec.id
    problems = []
    if level > MAX_LEVEL:
        hint = f"Each level adds a hop. Move {spec.id!r} under {at.split('/')[1 - level]!r}, or start a second tree."
        problems.append(Problem(at, f"level {level} of at most {MAX_LEVEL}", hint))
    if isinstance(spec, WorkerSpec):
        return problems
    if level == MAX_LEVEL and not spec.children:
        above = at.split("/")[-MAX_LEVEL]
        hint = f"Its children would be on level {level + 1}. Move {spec.id!r} under {above!r}, or start a second tree."
        problems.append(Problem(at, f"a supervisor on level {level} of at most {MAX_LEVEL}", hint))
    return problems + _deep(spec.children, level + 1, at)


def _deep(children: Sequence[object], level: int, path: str) -> list[Problem]:
    """The same for children on ``level``; a worker on a level that exists is not even looked at."""
    wanted = (WorkerSpec, SupervisorSpec) if level > MAX_LEVEL else SupervisorSpec
    return [problem for child in children if isinstance(child, wanted) for problem in check_depth(child, level, path)]
