"""Declarations of a tree: ``SupervisorSpec``, ``WorkerSpec``, ``Backoff``, ``Mailbox``.

Comes in: keyword arguments. Goes out: frozen specs, each right by itself and nowhere deeper than three levels;
anything else is a ``ConfigError`` while the spec is constructed, with every problem of that spec in ``.problems``.
Nothing here runs, imports or inspects the user's code: what only the whole tree shows is found by
``trees.declaration.check``. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, InstanceOf, PlainValidator, model_validator

from actors.model.errors import Problem
from actors.model.spec import StrategyName
from actors.tasks.model import Breaker
from actors.tasks.planning.settings import Tasks
from actors.validation import field_types
from actors.validation.delay_bounds import LONGEST_S, delay_problems, with_longest
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import listed, missing_name
from trees.declaration import work_fields
from trees.declaration.command import CommandTarget
from trees.declaration.process import Process
from trees.declaration.ray import Ray

MAX_LEVEL = 3
"""The root is level 1. Nothing stands deeper than this, and on this level itself only workers."""


class Backoff(SpecModel, frozen=True, kw_only=False):
    """The delay before the n-th consecutive restart: ``initial_s * factor**(n-1)``, at most ``max_s``, plus jitter."""

    initial_s: field_types.Delay = 0.1
    """Seconds before the first restart."""
    factor: field_types.Factor = 2.0
    """Each further delay is this many times the one before; at least 1."""
    max_s: field_types.Delay = LONGEST_S
    """Seconds. No delay is longer, jitter apart. Not given: at least ``initial_s``."""
    jitter: field_types.Share = 0.2
    """0 to 1. Up to this share of the delay is added at random, so that children do not come back at the same time."""
    reset_after_s: field_types.Period = 60.0
    """Seconds. A child that stayed up so long starts again at the first step."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        return with_longest(given)

    @classmethod
    def _cross_field_problems(cls, data: Mapping[str, Any]) -> list[Problem]:
        return delay_problems("Backoff", data)


class Mailbox(SpecModel, frozen=True, kw_only=False):
    """How many messages may wait for a worker, and what happens to one more."""

    capacity: Annotated[int, Field(ge=1)] | None = None
    """Messages that may wait. ``None``: no bound."""
    overflow: Literal["block", "reject", "drop_oldest"] = "block"
    """``"block"``: the sender waits for room, at most until its own deadline, else 5 s. ``"reject"``,
    ``"drop_oldest"``: nobody waits. A message without room is a dead letter, and for an ask a ``MailboxFullError``."""


_UNBOUNDED = Mailbox()
_BREAKER = Breaker()


_Dispatch: TypeAlias = (
    Literal["auto", "pool", "loop", "thread", "process", "ray"] | InstanceOf[Process] | InstanceOf[Ray]
)


class WorkerSpec(SpecModel, frozen=True):
    """One worker, or a pool of them: its rules, and one of ``actor``, ``run``, ``handle``, ``execute``, ``command``.

    Raises ``ConfigError`` with every problem of this spec; what the code itself is like is checked with the tree.
    """

    id: field_types.Id
    """Letters, digits, ``_``, ``.``, ``-``. Unique among siblings. The last part of the path
    ``shop/billing/ledger``."""
    actor: field_types.ActorTarget = None
    """A ``Worker`` or ``pykka.ThreadingActor`` subclass, or ``"module:attr"``."""
    run: field_types.CodeTarget = None
    """A function, sync or async, that is the worker's whole life. Returning is a normal exit. Or ``"module:attr"``."""
    handle: field_types.CodeTarget = None
    """``f(message, *args, **kwargs) -> reply``, sync or async, or ``"module:attr"``."""
    execute: work_fields.ExecuteTarget = None
    """``f(task, context, *args, **kwargs) -> result``, sync or async; an object, or a class, with such a method, or
    with ``process(payload, context)``; an agent of a framework as it is, which gets a prompt (``trees.agents``); or
    ``"module:attr"``. What they get: rule 1 of the contract of tasks. A callable with one parameter gets the task."""
    command: CommandTarget = None
    """A program and its arguments, ``["server", "--port", "8080"]``, or a ``Command``: a process, whose exit is the
    worker's. It takes no messages. No shell."""
    args: field_types.Args = ()
    """Positional arguments of each new incarnation (``handle``, ``execute``: of each call, but where that is a class).
    Shown in no repr and no error."""
    kwargs: field_types.Kwargs = Field(default_factory=dict)
    """Keyword arguments, likewise. The dict is copied, its values are not."""
    lifespan: field_types.LifespanTarget = None
    """A resource that each incarnation owns: a factory without arguments of an async or sync context manager, or
    ``"module:attr"``. It is entered before ``__init__`` and ``on_start``, and left after ``on_stop``, in the same task
    or thread; ``actors.resource()`` is what it yields. (A ``Worker`` may have a method ``lifespan`` instead.)"""
    restart: field_types.RestartWord = "permanent"
    """``"permanent"``: always started again. ``"transient"``: unless it ended clean. ``"temporary"``: never; it is
    forgotten."""
    shutdown: field_types.Shutdown = 5.0
    """Seconds that a stop may take, for the handler in progress and ``on_stop`` together, before it is a kill.
    ``"brutal_kill"``: killed at once. ``"infinity"``: no limit."""
    significant: bool = False
    """True if its end may end its supervisor; see ``auto_shutdown`` there."""
    required: bool = True
    """``False``: a first start that fails does not keep its supervisor from starting. It is restarted as after a crash:
    see ``on_exhausted`` and ``backoff``."""
    start_timeout_s: field_types.StartTimeout = 30.0
    """Seconds for ``__init__`` and ``on_start`` together. ``None``: no limit."""
    stall_s: field_types.StartTimeout = None
    """Seconds without a sign of life after which it is taken to be hung: the start of a message,
    ``actors.heartbeat()``, any ask or sleep of the library, and what an attempt tells its ``context``. It has then
    crashed with a ``StalledError``. ``None``: never."""
    backoff: InstanceOf[Backoff] | None = None
    """The delay before restarts. ``None``: no delay."""
    on_exhausted: field_types.ExhaustedWord = "escalate"
    """``"escalate"``: its restarts count for its supervisor. ``"park"``: it has a restart limit of its own (its
    supervisor's figures), and stays down when that is used up, until ``restart_child``. Not given: ``"park"`` for a
    worker that an orchestrator gives work to."""
    pool: Annotated[int, Field(ge=1)] = 1
    """Members. From 2 on they are ``id#0`` .. ``id#n-1``. Messages to ``id`` wait in one queue, and each member takes
    the next one when it is free. A message to ``id#0`` waits for that member alone."""
    dispatch: _Dispatch = "auto"
    """Where its code runs. ``"auto"``: async code on the event loop of the tree, sync bodies and stock Pykka actors on
    a thread of their own, everything else on the pool. ``"loop"``, ``"thread"`` and ``"pool"`` say so outright.
    ``"process"``, or a ``Process``: each incarnation, and each member of a pool, in a process of its own. ``"ray"``, or
    a ``Ray``: each is an actor in a cluster."""
    mailbox: InstanceOf[Mailbox] = _UNBOUNDED
    """How many messages may wait. Of a pool: for its one queue, and for each member's own."""
    expected: field_types.Expected = ()
    """Exception types that are a failure of the request and not of the worker: the asker gets it, the worker lives."""
    crash_on_ask_error: bool = False
    """``True``: the error of an ask of its own that it does not catch is a crash, as in OTP."""
    description: str = ""
    """For people and planners. Shown in listings."""

    type: work_fields.TypeWord = "tool"
    """The kind of work, for planners. ``"skill"`` is another word for ``"workflow"``."""
    capabilities: work_fields.Capabilities = frozenset()
    """Words for its abilities that a plan may ask for."""
    tools: work_fields.Tools = None
    """Tools of an MCP server that may be used: names. ``None``: all."""
    consumes: work_fields.Capabilities = frozenset()
    """Words for what it needs of others. ``CapabilityPlanner`` has it wait for those who produce one of them."""
    produces: work_fields.Capabilities = frozenset()
    """Words for what its results are."""
    output: work_fields.Output = None
    """The type of its results: a pydantic model, or any type that pydantic has a schema for. ``None``: anything."""
    timeout_s: field_types.StartTimeout = None
    """Seconds that one attempt may run. Time in the queue does not count. ``None``: no limit."""
    idle_timeout_s: field_types.StartTimeout = None
    """Seconds that an attempt may go without ``context.progress``, ``stream`` or ``heartbeat``. ``None``: no limit."""
    on_failure: work_fields.OnFailure = None
    """The ladder when an attempt fails: a list of ``Retry``, ``Failover``, ``Escalate``. ``None``: the one of its
    supervisor's ``tasks``."""
    breaker: work_fields.BreakerField = _BREAKER
    """When it gets no more work for a while. A pool shares one. ``None``: it always gets work."""
    backup: work_fields.Backup = None
    """The id of a sibling that goes on where this one is at its end."""
    undo: work_fields.Undo = None
    """``f(task, result, context)``, sync or async, ``"module:attr"``, or the id of a sibling: undoes finished work if
    the task fails. ``None``: nothing is to be undone."""
    estimate: work_fields.Estimate = None
    """Probable usage of one attempt: tokens, a ``Budget``, or a function of the subtask that gives one."""

    @classmethod
    def _cross_field_problems(cls, data: Mapping[str, Any]) -> list[Problem]:
        given = [name for name in kind_fields() if data.get(name) is not None]
        if len(given) == 1:
            return []
        what = f"{listed(given, last='and')} together" if given else "declares no work"
        return [Problem(cls._owner(data), what, f"Give exactly one of {listed(kind_fields())}.")]


@functools.cache
def kind_fields() -> tuple[str, ...]:
    """Fields for the work of a worker: exactly one of these."""
    return tuple(name for name, field in WorkerSpec.model_fields.items() if field_types.WORK in field.metadata)


def _children(value: object) -> tuple[WorkerSpec | SupervisorSpec, ...]:
    return field_types.specs(value, (WorkerSpec, SupervisorSpec))


_START: Final = "A SupervisorSpec is a declaration, and runs nothing. Write: with start(TREE) as tree"
_OF_A_TREE: Final = frozenset(
    {"start", "stop", "run", "submit", "ask", "tell", "ref", "dump", "map", "arun", "asubmit", "wait"}
)
"""Names that only a running tree has."""


class SupervisorSpec(SpecModel, frozen=True):
    """A supervisor and its children, in start order.

    Raises ``ConfigError`` with every problem of this spec, and ``DepthError`` where something would stand deeper
    than level 3 if this one were the root: so a supervisor may stand on level 1 or 2.
    """

    if not TYPE_CHECKING:  # a type checker that saw these would let it be used as a tree

        def __getattr__(self, name: str) -> object:
            if name in _OF_A_TREE:
                raise missing_name(self, name, dict.fromkeys(_OF_A_TREE, _START))
            return super().__getattr__(name)

        def __enter__(self) -> object:
            raise TypeError(_START)

        def __exit__(self, *_: object) -> None:
            """Never called: it was not entered."""

    id: field_types.Id
    """Letters, digits, ``_``, ``.``, ``-``. Unique among siblings. The last part of its path."""
    strategy: StrategyName = "one_for_one"
    """Which siblings are restarted with a child. ``"one_for_one"``: none. ``"one_for_all"``: all. ``"rest_for_one"``:
    those after it."""
    max_restarts: field_types.Count = 3
    """Restarts of its children within ``period_s``. With one more it stops its children and gives up, to its own
    supervisor. 0: gives up at the first crash."""
    period_s: field_types.Period = 5.0
    """Seconds."""
    auto_shutdown: Literal["never", "any_significant", "all_significant"] = "never"
    """``"any_significant"``: ends when the first significant child ended by itself. ``"all_significant"``: the last."""
    children: Annotated[Sequence[WorkerSpec | SupervisorSpec], PlainValidator(_children)] = ()
    """A list or tuple of specs in start order. Children are stopped in reverse."""
    max_children: field_types.Count | None = None
    """Children at once, each member of a pool counted. ``None``: no bound."""
    parallel_stop: bool = False
    """``True``: its children are stopped all at once instead of one by one in reverse order."""
    restart: field_types.RestartWord = "permanent"
    """As for a worker: a supervisor on level 2 is its parent's child."""
    shutdown: field_types.Shutdown = "infinity"
    """Seconds that its stop may take. ``"infinity"``: only the limits of its children count."""
    significant: bool = False
    """True if its end may end its parent."""
    required: bool = True
    """``False``: a first start that fails does not keep its supervisor from starting. It is restarted as after a crash:
    see ``on_exhausted`` and ``backoff``."""
    backoff: InstanceOf[Backoff] | None = None
    """The delay before its parent restarts it. ``None``: no delay."""
    on_exhausted: field_types.ExhaustedWord = "escalate"
    """``"park"``: its parent parks it instead of giving up when it was restarted too often."""
    description: str = ""
    """For people and planners. Shown in listings."""

    tasks: InstanceOf[Tasks] | None = None
    """Gives it an orchestrator, its first child: goals become plans, and plans become work for its other children. What
    follows makes it, as a team, one that its parent's orchestrator can give work to."""
    capabilities: work_fields.Capabilities = frozenset()
    """The abilities of the team. Not given: all that its members have."""
    consumes: work_fields.Capabilities = frozenset()
    """Words for what the team needs of others. Not given: what its members consume and none of them produces."""
    produces: work_fields.Capabilities = frozenset()
    """Words for what its results are. Not given: all that its members produce."""
    timeout_s: field_types.StartTimeout = None
    """Seconds that one attempt of the team may run. ``None``: no limit."""
    idle_timeout_s: field_types.StartTimeout = None
    """Seconds that an attempt of the team may go without a sign of life of its members. ``None``: no limit."""
    on_failure: work_fields.OnFailure = None
    """The ladder when the team fails. ``None``: the one of the parent's ``tasks``, if that was given; else it is not
    tried again, because its members were."""
    breaker: work_fields.BreakerField = _BREAKER
    """When it gets no more work for a while. ``None``: it always gets work."""
    backup: work_fields.Backup = None
    """The id of a sibling that goes on where the team is at its end."""
    undo: work_fields.Undo = None
    """As for a worker. ``None``: the finished work of its members is undone in reverse."""
    estimate: work_fields.Estimate = None
    """As for a worker."""

    def find(self, path: str) -> WorkerSpec | SupervisorSpec:
        """Return the spec at a path below this root, for example ``TREE.find("shop/billing/ledger")``.

        Raises:
            UnknownPathError: nothing is declared there.
        """
        from trees.declaration import variants  # noqa: PLC0415 - it checks whole trees, which are made of these

        return variants.find(self, path)

    def replace(self, path: str, /, **changes: Any) -> SupervisorSpec:
        """Return a checked copy of this root in which the spec at ``path`` has other fields; the root stays as it is.

        ``TREE.replace("shop/billing/ledger", actor=FaultyWorker)``. A worker that is given other code (``actor``,
        ``handle``, ...) loses its old one, and the ``args`` and ``kwargs`` of that; all else stays as declared.

        Raises:
            UnknownPathError: nothing is declared there.
            ConfigError: the copy could not be started; ``.problems`` has every mistake.
        """
        from trees.declaration import variants  # noqa: PLC0415 - see find

        return variants.replaced(self, path, changes)

    @classmethod
    def _depth_problems(cls, data: Mapping[str, Any]) -> list[Problem]:
        children = data.get("children")
        return _deep(children, 2, cls._owner(data)) if isinstance(children, (list, tuple)) else []


Spec: TypeAlias = WorkerSpec | SupervisorSpec
"""Kinds of specs that may stand in a tree."""


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
    """Check the depth of children on ``level``; a worker on a level that exists is not even looked at."""
    wanted = (WorkerSpec, SupervisorSpec) if level > MAX_LEVEL else SupervisorSpec
    return [problem for child in children if isinstance(child, wanted) for problem in check_depth(child, level, path)]
