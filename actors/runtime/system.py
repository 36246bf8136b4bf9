"""State that the actors of one tree share: clock, places to run, timers, events, mailboxes by path, and the books.

It is built for one tree and ends with it. ``trees.Tree`` is what users hold; a ``System`` knows no declarations.
Parts: ``letters`` takes what no worker takes, ``leftovers`` what a closed mailbox still held, ``reports`` makes events
of what the places where things run have to tell, ``strays`` knows the incarnations that were left to themselves.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from actors.concurrency.disposal import disposal_on
from actors.concurrency.thread_state import HERE, ON_A_THREAD, Job, after_fork, ending, in_background
from actors.execution.incarnation import Exit, Exited, Started
from actors.execution.pool import Pool
from actors.execution.pykka_bridge import register_root
from actors.execution.stall_watch import StallWatch
from actors.execution.timers import Timers
from actors.messaging.blocking import require_thread
from actors.messaging.dead_letters import DeadLetterOffice, down_error, stopped_error
from actors.messaging.envelope import CURRENT, Address, own_error
from actors.messaging.leftovers import Leftovers
from actors.messaging.mailbox import Mailbox, Refusal
from actors.messaging.message_errors import ActorStoppedError, TreeDownError
from actors.messaging.pool_address import PoolAddress
from actors.messaging.proxy import Attribute, attribute_of
from actors.messaging.ref import Ref
from actors.messaging.reply import Reply
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.model import events
from actors.model.clock import Clock, SystemClock
from actors.model.errors import (
    ActorsError,
    BlockingAskError,
    HopLimitError,
    RecursionDetectedError,
    StartError,
    UnknownPathError,
)
from actors.model.spec import ChildSpec, Reason
from actors.runtime import event_log, living_trees
from actors.runtime.abandoned_incarnations import AbandonedIncarnations
from actors.runtime.dispatch_reports import DispatchReports
from actors.runtime.dispatchers import Dispatchers
from actors.runtime.event_bus import Bus
from actors.runtime.loop_renewal import LoopRenewal
from actors.runtime.near_paths import near_paths
from actors.runtime.services import Service
from actors.supervision.child import Child, ChildState
from actors.supervision.child_table import child_form, declared
from actors.supervision.dead_ends import dead_end
from actors.supervision.supervisor import Supervisor
from actors.supervision.supervisor_incarnation import SupervisorIncarnation

CLOSE_S = 1.0
"""How long the end of a tree waits for its own threads and for slow subscribers."""
GRACE_S = 2.0
"""How long a tree that cannot go on has for an end in order."""


class System:
    """State that the actors of one running tree share."""

    epoch: float
    """Seconds since 1970 at which the tree's clock read 0: times for people and for other processes never jump."""
    exit: Exit | None
    """How it ended."""
    cause: ActorsError | None
    """Why it ended where nobody had asked for that: what its root gave up for, or what ``fail`` was told."""
    before_stop: Callable[[], object] | None
    """Tells whoever would start it, or keeps the right to have it run, that it is to end."""
    role: Callable[[], str] | None
    """Part that this process plays: leader or standby. None: there is no other process."""

    def __init__(
        self,
        spec: ChildSpec,
        *,
        clock: Clock | None = None,
        seed: int | None = None,
        max_threads: int = 4096,
        max_hops: int = 64,
        refuse_tells: bool = False,
        log_errors: event_log.ErrorsInLog = "text",
        on_host_loop: bool = False,
        loop_stall_s: float | None = 10.0,
    ) -> None:
        name = self.root_path = spec.id
        self.is_down = self.is_ending = False  # it ends from the moment when its root begins to stop
        self.exit, self.cause, self.before_stop, self.role = None, None, None, None
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.now = self.clock.now
        self.epoch = self.clock.wall() - self.now()
        self.random = random.Random(seed)  # noqa: S311 - for jitter, not for secrets
        self.max_hops = max_hops
        self.blocking_lines: set[tuple[str, int]] = set()  # of the host's code: each was reported once
        self.refuse_tells = refuse_tells
        self.letters = DeadLetterOffice(self)
        self.strays = AbandonedIncarnations(self.publish)
        reports = self.reports = DispatchReports(name, self.publish)
        self.pool = Pool(name, max_threads, near_cap=reports.near_cap, failed=reports.internal_error)
        self.disposal = disposal_on(self.pool)  # lets go of what may have finalizers of users
        self.leftovers = Leftovers(self.pool, self.letters.refused, self.disposal)
        self.bus = Bus(self.pool, name, lambda: self.epoch + self.now())
        self.loop = LoopRenewal(self, loop_stall_s).loop()
        self.timers = Timers(f"{name}-timers", self.clock, failed=reports.internal_error)
        self.stalls = StallWatch(self.clock, self.timers)
        self.dispatchers = Dispatchers(name, self.pool, self.loop, reports, self.fail if on_host_loop else None)
        self.place_of = self.dispatchers.place_of
        self.boxes: dict[str, Mailbox | PoolAddress] = {}
        """Every path that is listed now, pools too."""
        self.children: dict[str, Child] = {}
        """Every child that is listed now, the root too."""
        self.supervisors: dict[str, Supervisor] = {}
        """The present, or last, incarnation of each supervisor."""
        self.started, self.ended, self._last_acts = Reply(), Reply(), list[Callable[[], object]]()
        self.tracer: Any = None  # maker of spans (``trees.agents.telemetry_spans``); None: nobody wants any
        box = self.boxes[name] = SupervisorMailbox(name, Refusal.DOWN)  # it is never started again
        self.root = self.children[name] = Child(spec, name, box, 0, dynamic=False, form=child_form(spec))
        self._unregister: Callable[[], None] = lambda: None
        self.error_texts = log_errors  # texts of errors, or types only: of log lines, and whatever else is shown
        event_log.write_lines(self.bus, log_errors)
        self.services: dict[str, Service] = {}
        """Services attached to this tree, by name, which are told of its life."""
        after_fork(self)
        living_trees.add(self)

    def __repr__(self) -> str:
        return f"<System {self.root_path}>"

    # -- beginning and end ---------------------------------------------------------------------------------

    def start(self) -> Reply:
        """Start the root; completed when all is up, or failed when nothing is left of a failed start."""
        root = self.root
        if self.cause is not None:
            self.close_unstarted()
            return self.started
        try:
            self.pool.open()
            self.timers.open()
            self.dispatchers.open()
        except RuntimeError as error:
            failure = StartError(self.root_path, "the machine gives it no thread", "Raise the limit of threads.")
            failure.__cause__ = error
            self.is_down = True
            self._close(Exit(Reason.CRASHED, failure))
            return self.started
        root.standing = ChildState.STARTING
        incarnation = root.incarnation = SupervisorIncarnation(self, root.spec, root.mailbox, self)
        self._unregister = register_root(Ref(self, root.mailbox), Supervisor)
        incarnation.start()
        return self.started

    def close_unstarted(self) -> None:
        """Close a tree that is not to be started after all."""
        self.is_down = True
        self._close(Exit(Reason.SHUTDOWN))

    def post(self, message: Any, reply: Reply | None = None) -> bool:  # noqa: ARG002 - as a supervisor's mailbox
        """Take what the root reports to its owner."""
        if isinstance(message, Started):
            self.root.standing = ChildState.UP
            self.root.up_since = self.now()
            self.publish(events.TreeStarted(self.root_path))
            for service in self.services.values():
                service.is_up()
            self.started.complete()
        elif isinstance(message, Exited):
            self._root_ended(message.exit)
        return True

    def stop(self) -> Reply:
        """Stop the root; completed when nothing of the tree runs any more."""
        if self.before_stop is not None:
            self.before_stop()
        incarnation = self.root.incarnation
        if incarnation is not None:
            # Not on this thread: a Ctrl-C in the middle of the order would leave a root that is never woken.
            in_background(f"{self.root_path}-stop", ending(self, incarnation.stop))
        return self.ended

    def kill(self) -> Reply:
        """Kill all; completed when nothing runs any more but what was abandoned."""
        incarnation = self.root.incarnation
        if incarnation is not None:
            in_background(f"{self.root_path}-kill", ending(self, incarnation.kill))
        return self.ended

    def fail(self, error: ActorsError, grace_s: float | None = None) -> None:
        """Stop a tree that cannot go on, kill what has not stopped within ``grace_s``, and tell those who wait why.

        Returns at once. The first error counts; a tree that is down already stays as it is.
        """
        if self.is_down or self.cause is not None:
            return
        self.cause = error
        self.publish(events.TreeFailed(self.root_path, error))

        def end() -> None:
            if not self.stop().wait(GRACE_S if grace_s is None else grace_s):
                self.kill()

        in_background(f"{self.root_path}-fail", end)

    def before_end(self, act: Callable[[], object]) -> None:
        """Have something done when nothing of the tree runs any more, and before anybody hears of that; it must end."""
        self._last_acts.append(act)

    def _root_ended(self, exit_: Exit) -> None:
        self.root.record_exit(exit_, self.now())
        self.root.incarnation, self.root.standing = None, ChildState.DOWN
        self.is_down = True
        for box in list(self.boxes.values()):
            if isinstance(box, Mailbox) and (box.refusal is not Refusal.DOWN or box.depth):  # not closed by its owner
                self.leftovers.answer(box, box.close(Refusal.DOWN), Refusal.DOWN)
        for service in self.services.values():
            service.close()
        told = lambda: self.publish(events.TreeStopped(self.root_path, self.cause is not None))  # noqa: E731
        close = ending(self, partial(self._close, exit_, self.leftovers.finish, told))  # there may be much to answer
        in_background(f"{self.root_path}-close", close)

    def _close(self, exit_: Exit, *before: Callable[[], object]) -> None:
        """Let go of every thread, then tell who waits: whatever one step meets, the others follow."""
        self.exit = exit_
        flush = partial(self.bus.flush, CLOSE_S)
        steps: list[Callable[[], object]] = [*before, self._unregister, flush]
        steps += [partial(self.timers.close, CLOSE_S), partial(self.dispatchers.close, CLOSE_S)]
        steps += [*self._last_acts, flush] if self._last_acts else []
        steps += [*(service.end for service in self.services.values()), partial(self.pool.close, CLOSE_S)]
        for act in steps:
            try:
                act()
            except Exception as error:  # noqa: BLE001 - those who wait for the end must hear of it
                self.reports.internal_error(error)
        living_trees.LIVING.discard(self)
        if isinstance(exit_.error, StartError):
            self.started.fail(exit_.error)
        elif self.cause is not None and self.cause is not exit_.error:
            self.started.fail(self.cause)
        else:
            self.started.fail(StartError(self.root_path, "was stopped while it started"))
        self.ended.complete(exit_)

    def forked(self) -> None:
        """In the child of a fork: none of the threads is here, so the tree is down."""
        self.letters.forked()
        self.strays.forked()
        self.is_down = True
        self.bus.silence()
        boxes = list(self.boxes.values())
        for inbox in boxes:  # first all: the members of a pool share its lock
            inbox.lock, inbox.places = threading.RLock(), None
        for box in boxes:
            if isinstance(box, Mailbox):
                box.lock = box.lock if box.pool is None else box.pool.lock
                box.quiet = None
                box.close(Refusal.DOWN)
        self._unregister()
        self.root.incarnation = self.before_stop = None
        self.ended = Reply()
        self.ended.complete(Exit(Reason.KILLED, what="forked"))

    # -- where things run ----------------------------------------------------------------------------------

    @property
    def in_handler(self) -> bool:
        """True in code that a worker of this tree runs."""
        current = CURRENT.get()
        return current is not None and current.incarnation.system is self

    def supervise(self, incarnation: SupervisorIncarnation) -> Supervisor:
        """A new incarnation of a supervisor."""
        supervisor = self.supervisors[incarnation.mailbox.path] = Supervisor(incarnation)
        return supervisor

    def run_apart(self, job: Job) -> None:
        """Run a user's callback on the pool, where it may block."""
        if self.pool.closed:
            in_background(f"{self.root_path}-callback", job.run)
        else:
            self.pool.submit(job)

    # -- events and books ----------------------------------------------------------------------------------

    def publish(self, event: events.Event) -> None:
        """Something happened."""
        self.bus.publish(event)

    @property
    def dead_letters(self) -> Counter[str]:
        """Dead letters so far, by reason."""
        return self.letters.counts

    def stopped_error(self, path: str, refusal: Refusal) -> ActorStoppedError:
        """Why an ask to this path fails at once."""
        refusal = Refusal.DOWN if self.is_down else refusal
        return self.down_error(path) if refusal is Refusal.DOWN else stopped_error(path, refusal, self.children)

    def down_error(self, path: str) -> TreeDownError:
        """The whole tree is down; with the reason, where nobody had asked for that."""
        return down_error(path, self.cause)

    def recursion_refused(self, path: str, chain: tuple[Address, ...], hops: int = 0) -> None:
        """A request or a tell was refused."""
        limit = self.max_hops if hops > self.max_hops else None
        self.publish(events.RecursionRefused(path, (*(address.path for address in chain), path), hops, limit))

    def note_hops(self, chain: tuple[str, ...], hops: int) -> None:
        """Publish that there may be a recursion, at ``max_hops`` tells in a row and at each doubling."""
        times, rest = divmod(hops, self.max_hops or 1)
        if times and not rest and not times & (times - 1) and not self.refuse_tells:
            self.publish(events.RecursionSuspected(chain[-1], chain, hops, self.max_hops))

    @property
    def abandoned_by_path(self) -> Counter[str]:
        """Incarnations that were left to themselves and still run, counted by path."""
        return self.strays.by_path()

    # -- calls that would wait for themselves --------------------------------------------------------------

    def refuse_to_wait_for_end(self, called: str = "stop", *, awaits: bool = False) -> None:
        """The end of the tree must not be waited for by one of its own requests, nor by blocking its loop.

        Args:
            called: method of the tree that is to wait, for the error.
            awaits: the caller waits on an event loop, and blocks nothing.

        Raises:
            RecursionDetectedError: called in code that a worker of this tree runs or waits for: a circle.
            BlockingAskError: called on the thread of a tree's event loop, or on one that brings that end about.
        """
        held_up = self._held_up()
        if held_up:
            path = held_up[-1].path
            raise own_error(RecursionDetectedError((path, self.root_path, path)))
        if HERE.ends is self:  # in a finalizer
            raise BlockingAskError(self.root_path, ON_A_THREAD, is_in_between=True)
        if not awaits:
            require_thread(self.root_path, f"await asyncio.to_thread(tree.{called})")

    def hops_of_here(self) -> int:
        """How many tells led to the code that runs here, with the one that it is about to send.

        Raises:
            HopLimitError: too many.
        """
        current = CURRENT.get()
        if current is None or current.incarnation.system is not self or (current.origin is None and not current.hops):
            return 0
        hops = current.hops + 1
        if hops > self.max_hops:
            path = current.incarnation.mailbox.path
            self.recursion_refused(path, current.waiting(), hops)
            raise own_error(HopLimitError(path, hops, self.max_hops))
        return hops

    def refuse_own_end(self, path: str) -> None:
        """A worker must not wait for its own end, nor for that of one who waits for it.

        Raises:
            RecursionDetectedError: the worker that calls this, or one that waits for it, is at ``path`` or below it.
        """
        held_up = self._held_up()
        for at in reversed(range(len(held_up))):
            box = held_up[at]
            if f"{box.path}/".startswith(f"{path}/") or box.address.path == path:
                raise own_error(RecursionDetectedError((*(each.path for each in held_up[at:]), path)))

    dead_end = dead_end

    def _held_up(self) -> tuple[Address, ...]:
        """Workers of this tree that wait while the present code waits, its own last; none for what a request left."""
        current = CURRENT.get()
        found = () if current is None else current.held_up()
        return tuple(box for box in found if self.boxes.get(box.path) is box)

    # -- looking -------------------------------------------------------------------------------------------

    def actor_class(self, box: Mailbox | None) -> type[Any]:
        """The class of the actors at a path."""
        spec = declared(self, box.path) if box is not None else None
        return getattr(spec.recipe, "actor_class", None) or Supervisor if spec is not None else object

    def attribute(self, ref: Ref, names: tuple[str, ...]) -> Attribute:
        """Look up what stands behind a name of the actors at a path, as a proxy sees it."""
        return attribute_of(ref.living_actors(), ref.actor_class, names, has_objects=not ref.crosses)

    def activity(self) -> int:
        """Changes whenever a worker has handled something or anything has happened. For ``actors.testing.settle``."""
        boxes = [box for box in list(self.boxes.values()) if type(box) is Mailbox]
        return self.bus.published + sum(box.runs for box in boxes)

    def near(self, path: str) -> tuple[str, ...]:
        """Paths that may have been meant."""
        return near_paths(str(path), list(self.boxes))

    def no_supervisor(self, path: str) -> UnknownPathError:
        """Return what to raise where ``path`` names no supervisor."""
        box = self.boxes.get(path)
        is_worker = box is not None and not isinstance(box, SupervisorMailbox)
        return UnknownPathError(path, () if is_worker else self.near(path), is_worker=is_worker)
