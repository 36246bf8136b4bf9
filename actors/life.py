"""One life (incarnation) of a child, and the crash boundary around all its user code.

The states, each left once and never entered again::

    STARTING --on_start returned--> UP --an order, a crash, a return--> ENDING --> OVER
        |                            |                                            ^
        +------- raised, killed -----+------------------- killed ----------------+

* ``drive`` is the boundary: one coroutine that builds the actor, handles messages and runs the last hook. On the
  event loop it is a task; on a thread it is stepped once and never suspends, because there nothing is awaited. So
  there is one boundary, not one for each place.
* An **order** tells a life to end, and with which reason: ``SHUTDOWN`` (its supervisor, or somebody's Ref),
  ``NORMAL`` (itself) or ``KILLED``. It is looked at before each message, so it overtakes the mailbox.
* The end is one test-and-set (``_end``) under the mailbox's lock: whoever wins reports, once, to the owner. A thread
  that comes back from user code after its life was ended finds ``OVER`` and goes away without a trace: its late
  reply is dropped because a reply is completed once.
* Orders of the race "kill against a handler that is just returning": if the thread ends first, the exit is what the
  handler made of it and the kill finds OVER; if the kill is first, the thread finds OVER. Likewise "stop against going
  idle": both look at ``idle`` under the mailbox's lock. (tests/test_life_races.py forces both orders of each.)

Locking: ``phase``, ``order``, ``current``, ``running_on`` and ``_stopped`` are guarded by the mailbox's lock.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import traceback
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from types import CoroutineType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from actors.dispatch import soon
from actors.errors import ActorStoppedError, Failed, Ignore, WorkerCrashedError
from actors.mailbox import Refusal
from actors.messages import CURRENT, Current
from actors.reply import Reply
from actors.spec import ChildSpec, Reason, Where, WorkerRecipe

if TYPE_CHECKING:
    from actors.mailbox import Mailbox
    from actors.messages import Envelope
    from actors.system import System



class Owner(Protocol):
    """Who is told of a life: its supervisor's mailbox, or the tree for the root."""

    def post(self, message: Any, reply: Reply | None = None) -> bool:
        """Take an ``Up``, ``Ending`` or ``Ended``."""


QUOTA = 256
"""Messages handled in one run, before others get their turn."""


class Phase(IntEnum):
    """Where a life stands."""

    STARTING = 0
    UP = 1
    ENDING = 2
    """In its last hook."""
    OVER = 3


@dataclass(frozen=True, slots=True)
class Exit:
    """How a life ended."""

    reason: Reason
    error: BaseException | None = None
    """What it died of, if anything. Let go of soon: it holds frames."""
    what: str = ""
    """What happened, where there is no error to tell."""
    lost: int = 0
    """Messages that were being handled and are lost with it."""
    ignored: bool = False
    """It raised ``Ignore`` in on_start."""

    @property
    def detail(self) -> str:
        """The type of the error, or what happened; never a text that may hold payloads."""
        return type(self.error).__name__ if self.error is not None else self.what

    def __str__(self) -> str:
        return f"{self.reason} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class Up:
    """To the owner: this life has started."""

    life: Life


@dataclass(frozen=True, slots=True)
class Ending:
    """To the owner: this life is in its last hook by itself; give it the limit of a stop."""

    life: Life


@dataclass(frozen=True, slots=True)
class Ended:
    """To the owner: this life is over."""

    life: Life
    exit: Exit


class Life:
    """One incarnation of a worker."""

    __slots__ = (
        "_context",
        "_ended",
        "_stopped",
        "abandoned",
        "actor",
        "current",
        "gate",
        "home",
        "mailbox",
        "order",
        "owner",
        "phase",
        "running_on",
        "since",
        "spec",
        "system",
        "task",
    )

    urgent = False

    def __init__(self, system: System, spec: ChildSpec, mailbox: Mailbox, owner: Owner) -> None:
        self.system = system
        self.spec = spec
        self.mailbox = mailbox
        self.owner = owner
        """The mailbox of the supervisor that is told of the end."""
        self.actor: Any = None
        self.phase = Phase.STARTING
        self.order: Reason | None = None
        self.current: Envelope | None = None
        """The envelope being handled."""
        self.since = 0.0
        """When that began, on the tree's clock."""
        self.running_on: int | None = None
        """The thread that is in ``drive`` now, or None."""
        self.abandoned = False
        self.home: Current | None = None
        """The contextvar's value for messages from outside; built with the first run."""
        self._context: contextvars.Context | None = None
        self._stopped: Reply | None = None
        self._ended: Reply | None = None
        self.task: asyncio.Task[bool] | None = None
        self.gate: threading.Semaphore | None = None

    def __repr__(self) -> str:
        return f"<Life of {self.mailbox.path} {self.phase.name}>"

    @property
    def recipe(self) -> WorkerRecipe:
        """How it was built."""
        recipe = self.spec.recipe
        assert isinstance(recipe, WorkerRecipe)  # noqa: S101 - ours to get right, not a user's mistake
        return recipe

    @property
    def is_over(self) -> bool:
        """True after the end."""
        return self.phase is Phase.OVER

    def context_for_run(self) -> contextvars.Context:
        """The worker's own contextvars: they live as long as it does, and leak nowhere."""
        if self._context is None:
            self.home = Current(self, None)
            self._context = contextvars.Context()
            self._context.run(CURRENT.set, self.home)
        return self._context

    # -- its supervisor ------------------------------------------------------------------------------------

    def start(self) -> bool:
        """Begin; True when it is up already. Otherwise ``Up`` or ``Ended`` will be told."""
        recipe = self.recipe
        plain = recipe.starts_plain and not recipe.is_body and recipe.where is not Where.THREAD
        if plain:
            self.actor = recipe.make(self)
            self.phase = Phase.UP
        if self.mailbox.attach(self, idle=plain):
            self.wake()
        return plain

    def stop(self) -> Exit | None:
        """Its supervisor orders it to end after the message it is handling; its Exit if it ended on the spot."""
        plain = self.recipe.stops_plain and self.recipe.where is not Where.THREAD
        if self._order(Reason.SHUTDOWN):
            if plain:
                return self._end(Exit(Reason.SHUTDOWN))
            self.wake()
        return None

    def request_stop(self, reason: Reason) -> Reply:
        """Anybody else asks it to end: itself (NORMAL) or a Ref (SHUTDOWN). Completed when it is over."""
        over = self.when_over()
        if self._order(reason):
            self.wake()
        return over

    def when_over(self) -> Reply:
        """Completed when it is over."""
        with self.mailbox.lock:
            if self._ended is None:
                self._ended = Reply()
            ended, over = self._ended, self.phase is Phase.OVER
        if over:
            ended.complete()
        return ended

    def _order(self, reason: Reason) -> bool:
        """Give the order to end; True when the life was idle, and its claim is now the caller's."""
        with self.mailbox.lock:
            if self.phase is Phase.OVER or self.phase is Phase.ENDING or self.order is not None:
                return False
            self.order = reason
            idle = self._take_idleness()
            stopped = self._stopped
        if stopped is not None:
            stopped.complete()
        if self.recipe.is_body:
            self.system.dispatcher(self.recipe.where).cancel(self)
        return idle

    def kill(self, what: str = "") -> Exit | None:
        """End it without any hook: a coroutine is cancelled, a thread abandoned. Its Exit if it is over now."""
        with self.mailbox.lock:
            if self.phase is Phase.OVER:
                return None
            self.order = Reason.KILLED
            idle = self._take_idleness()
            running = self.running_on is not None
            stopped = self._stopped
        if stopped is not None:
            stopped.complete()
        if running and self.recipe.where is Where.LOOP:
            self.system.dispatcher(Where.LOOP).cancel(self)
            return None
        ended = self._end(Exit(Reason.KILLED, what=what), abandon=running)
        if idle:
            self.wake()  # a pinned thread waits at its gate, and may go now
        return ended

    def abandon(self, what: str = "") -> Exit | None:
        """It was cancelled and did not end: leave it to itself."""
        return self._end(Exit(Reason.KILLED, what=what), abandon=True)

    def _take_idleness(self) -> bool:
        idle = self.mailbox.idle is self
        if idle:
            self.mailbox.idle = None
        return idle

    # -- running -------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Have it run. The caller holds its claim."""
        self.system.dispatcher(self.recipe.where).schedule(self)

    def run(self) -> bool:
        """Drive it on the calling thread; True when there is more to do."""
        context = self.context_for_run()
        step = self.drive()
        try:
            context.run(step.send, None)
        except StopIteration as done:
            return bool(done.value)
        raise RuntimeError(f"{self!r} was suspended on a thread")  # unreachable: see _settled

    async def drive(self) -> bool:
        """The crash boundary: run what is to be run; True when there may be more."""
        with self.mailbox.lock:
            if self.phase is Phase.OVER:
                return False
            self.running_on = threading.get_ident()
        more = False
        try:
            more = await self._drive()
        finally:
            if more or self.abandoned:
                self._leave(more=more)
        return more

    def _leave(self, *, more: bool) -> None:
        with self.mailbox.lock:
            if more:
                self.running_on = None
            abandoned, self.abandoned = self.abandoned, False
            self.mailbox.abandoned -= abandoned
        if abandoned:
            self.system.came_back(self.mailbox.path)

    async def _drive(self) -> bool:
        if self.phase is Phase.STARTING:
            if not await self._begin():
                return False
            if self.recipe.is_body:
                await self._live()
                return False
            if self.recipe.where is Where.POOL:
                return True  # its supervisor goes first, perhaps on this very thread
        batch = self.mailbox.take(self)
        if batch is not None:
            if not await self._work(batch):
                return False
            if self.order is None:
                return True
        elif self.order is None or self.mailbox.life is not self:
            return False
        await self._obey()
        return False

    async def _begin(self) -> bool:
        error: BaseException | None = None
        try:
            self.actor = self.recipe.make(self)
            started = self.actor.on_start() if not self.recipe.starts_plain else None
            if type(started) is CoroutineType:
                await self._settled(started)
        except BaseException as caught:
            error = caught
        if error is not None:
            if isinstance(error, Ignore):
                self._tell_end(Exit(Reason.NORMAL, what="ignored", ignored=True))
            else:
                await self._crash(error)
            return False
        with self.mailbox.lock:
            if self.phase is Phase.OVER:
                return False
            ordered = self.order is not None
            if not ordered:
                self.phase = Phase.UP
        if ordered:
            await self._obey()
            return False
        self._report(Up(self))
        return True

    async def _work(self, batch: Any) -> bool:
        """Handle messages; False when the life is over."""
        handle, now, home = self.actor._handler(), self.system.now, self.home  # noqa: SLF001 - a friend
        for envelope in islice(batch, QUOTA):
            self.current = envelope
            if self.order is not None:
                self.mailbox.give_back(self, envelope)
                return True
            body, reply, origin = envelope
            self.since = now()
            if origin is not None:
                if origin.deadline is not None and origin.deadline < self.since:
                    self.system.dead_letter(self.mailbox, body, Refusal.EXPIRED, origin.sender)
                    continue
                CURRENT.set(Current(self, origin))
            try:
                result = handle(body)
                if type(result) is CoroutineType:
                    result = await self._settled(result)
            except BaseException as error:
                if not await self._survives(error, reply):
                    return False
            else:
                if reply is not None:
                    reply.complete(result)
            if origin is not None:
                CURRENT.set(home)
            elif home.failures is not None:  # type: ignore[union-attr]
                home.failures = None  # type: ignore[union-attr]
        self.current = None
        return True

    async def _settled(self, coroutine: Any) -> Any:
        """Await a handler's coroutine; on a thread there is no loop to await it on."""
        if self.recipe.where is Where.LOOP:
            return await coroutine
        coroutine.close()
        message = (
            f"{self.mailbox.path}: its code returned a coroutine but runs on the {self.recipe.where}. "
            "Declare it with dispatch='loop', or make it 'async def'"
        )
        raise TypeError(message)

    async def _survives(self, error: BaseException, reply: Reply | None) -> bool:
        """Whether an exception that left a handler is a failed request only; otherwise the life has crashed."""
        if isinstance(error, asyncio.CancelledError) and self.order is Reason.KILLED:
            self._tell_end(Exit(Reason.KILLED))
            return False
        recipe, current = self.recipe, CURRENT.get()
        failed = isinstance(error, (Failed, *recipe.expected)) or (
            not recipe.crash_on_ask_error and current is not None and current.is_own(error)
        )
        if not failed:
            await self._crash(error, reply)
            return False
        frames = error.__traceback__
        if reply is not None:
            reply.fail(error)
        self.system.request_failed(self.mailbox.path, error, asked=reply is not None)
        _clear(frames)
        return not self.is_over

    async def _live(self) -> None:
        """The whole life of a ``run=`` body."""
        error: BaseException | None = None
        try:
            result = self.actor._body()  # noqa: SLF001 - a friend
            if type(result) is CoroutineType:
                await self._settled(result)
        except asyncio.CancelledError as cancelled:
            error = None if self.order is not None else cancelled
        except BaseException as caught:
            error = caught
        if error is not None:
            await self._crash(error)
            return
        self._tell_end(Exit(self.order or Reason.NORMAL))

    # -- ending --------------------------------------------------------------------------------------------

    async def _obey(self) -> None:
        """End as ordered: on_stop first, unless killed."""
        reason = self.order or Reason.SHUTDOWN
        if reason is Reason.KILLED or not self._enter_last_hook(plain=self.recipe.stops_plain):
            self._tell_end(Exit(reason))
            return
        error = await self._hook("on_stop")
        if error is None:
            self._tell_end(Exit(reason))
        else:
            self._tell_end(Exit(Reason.CRASHED, error, what="on_stop raised"))

    async def _crash(self, error: BaseException, reply: Reply | None = None) -> None:
        """An exception was born in user code: answer the asker, run on_failure, end."""
        frames = error.__traceback__
        if reply is not None:
            reply.fail(self._for_asker(error))
        if self._enter_last_hook(plain=self.recipe.fails_plain or self.actor is None):
            second = await self._hook("on_failure", type(error), error, error.__traceback__)
            if second is not None:
                self.system.hook_raised(self.mailbox.path, "on_failure", second)
        self._tell_end(Exit(Reason.CRASHED, error))
        _clear(frames)

    def _for_asker(self, error: BaseException) -> BaseException:
        if isinstance(error, Exception):
            return error
        wrapped = WorkerCrashedError(self.mailbox.path, type(error).__name__)
        wrapped.__cause__ = error
        return wrapped

    def _enter_last_hook(self, *, plain: bool) -> bool:
        """True when a last hook is to be run; the owner then gives it the limit of a stop."""
        if plain:
            return False
        with self.mailbox.lock:
            if self.phase is Phase.OVER or self.order is Reason.KILLED:
                return False
            self.phase = Phase.ENDING
        self.owner.post(Ending(self))
        return True

    async def _hook(self, name: str, *args: Any) -> BaseException | None:
        """Run a last hook; what it raised."""
        if self.task is not None and self.task.cancelling():
            self.task.uncancel()  # it was cancelled to get here; its last hook starts with a clean slate
        try:
            result = getattr(self.actor, name)(*args)
            if type(result) is CoroutineType:
                await self._settled(result)
        except BaseException as error:
            return None if self.order is Reason.KILLED else error
        return None

    def never_ran(self, error: BaseException) -> None:
        """Its thread could not be started."""
        self._tell_end(Exit(Reason.CRASHED, error))

    def _tell_end(self, exit_: Exit) -> None:
        """End, and tell the owner if nobody else has ended it before."""
        if self.order is Reason.KILLED and exit_.reason is not Reason.KILLED:
            exit_ = Exit(Reason.KILLED, what=exit_.what)
        ended = self._end(exit_)
        if ended is not None:
            self._report(Ended(self, ended))

    def _report(self, message: Up | Ended) -> None:
        # What follows on this thread cannot block: it may keep the supervisor's job for itself (no thread switch).
        with soon():
            self.owner.post(message)

    def _end(self, exit_: Exit, *, abandon: bool = False) -> Exit | None:
        """The one test-and-set of the end; None when it was over already."""
        box = self.mailbox
        with box.lock:
            if self.phase is Phase.OVER:
                return None
            self.phase = Phase.OVER
            self.order = self.order or exit_.reason
            if box.life is self:
                box.life = None
            self._take_idleness()
            current, self.current = self.current, None
            if abandon:
                self.abandoned = True
                box.abandoned += 1
                # The old thread iterates over the same batch: this empties it under its feet, in one step.
                box.batch = iter(list(box.batch))
            signals = (self._stopped, self._ended, *(box.waiters or ()))
            box.waiters = None
        for signal in signals:
            if signal is not None:
                signal.complete()
        if current is not None:
            if current[1] is not None:
                current[1].fail(ActorStoppedError(box.path, "ended while it handled this message"))
            exit_ = Exit(exit_.reason, exit_.error, exit_.what, 1, exit_.ignored)
        if abandon:
            self.system.abandoned(box.path)
        else:
            self.actor = self.home = self._context = None
        return exit_

    @property
    def was_killed(self) -> bool:
        """True once it was to be killed."""
        return self.order is Reason.KILLED

    # -- for the worker's own code -------------------------------------------------------------------------

    @property
    def must_stop(self) -> bool:
        """True once it was asked to end."""
        return self.order is not None

    def stop_signal(self) -> Reply:
        """Completed once the life was asked to end."""
        with self.mailbox.lock:
            if self._stopped is None:
                self._stopped = Reply()
            signal = self._stopped
            asked = self.order is not None
        if asked:
            signal.complete()
        return signal


def _clear(frames: TracebackType | None) -> None:
    """Let go of the handler's locals: whoever keeps the exception keeps its traceback, not the worker's state."""
    if frames is not None:
        traceback.clear_frames(frames)
