"""Interfaces that a message meets on its way: the incarnation that handles it, and the tree around that.

Each of these is a narrow view of something that is made in a room above this one, so that nothing here depends on
those rooms. ``actors.execution.incarnation_ports.IncarnationHost`` and ``actors.supervision.registry.Registry`` add
what an incarnation, and a supervisor, need besides.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from actors.concurrency.thread_state import Job
    from actors.messaging.envelope import Address, CurrentMessage, Envelope, Home
    from actors.messaging.handled import Measures
    from actors.messaging.inbox import Refusal
    from actors.messaging.mailbox import Mailbox
    from actors.messaging.message_errors import ActorStoppedError
    from actors.messaging.pool_address import PoolAddress
    from actors.messaging.proxy import Attribute
    from actors.messaging.pulse import Pulse
    from actors.messaging.ref import Ref
    from actors.messaging.reply import Reply
    from actors.model.clock import Clock
    from actors.model.events import Event
    from actors.model.spec import Reason


class Timer(Protocol):
    """Something that is to be called later."""

    def cancel(self) -> None:
        """Cancel it: it is not to be called any more."""


class Timers(Protocol):
    """Calls things when their time has come."""

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer:
        """Have ``callback()`` called at a time of the tree's clock."""


class Addresses(Protocol):
    """Where messages can be sent to in a tree."""

    @property
    def root_path(self) -> str:
        """The path of its root."""

    @property
    def boxes(self) -> dict[str, Mailbox | PoolAddress]:
        """Every path that is listed now."""

    @property
    def max_hops(self) -> int:
        """Tells that may follow from one another before that is suspected to be a recursion."""

    @property
    def refuse_tells(self) -> bool:
        """True: one more tell is refused."""

    def note_hops(self, chain: tuple[str, ...], hops: int, /) -> None:
        """Say that there may be a recursion, if so many tells have led to each other."""

    @property
    def now(self) -> Callable[[], float]:
        """Tells the time of the tree's clock."""

    @property
    def clock(self) -> Clock:
        """The tree's clock."""

    @property
    def timers(self) -> Timers:
        """Calls things when their time has come."""

    def near(self, path: str) -> tuple[str, ...]:
        """Paths that may have been meant."""

    def actor_class(self, box: Mailbox | None) -> type[Any]:
        """The class of the actors at a path."""

    def attribute(self, ref: Ref, names: tuple[str, ...]) -> Attribute:
        """Look up what stands behind a name of the actors at a path, as a proxy sees it."""

    def refuse_own_end(self, path: str) -> None:
        """Raise where a worker would wait for its own end."""

    def dead_end(self, target: Address, current: CurrentMessage, /) -> ActorStoppedError | None:
        """Why a reply of ``target`` will not come while code of this request waits for it; None: it may come."""


class DeadLetters(Protocol):
    """Where messages go that no worker takes."""

    def dead_letter(self, box: Mailbox | None, body: Any, reason: Refusal, sender: str | None, path: str = "") -> None:
        """Count a message that no worker will handle."""

    def refused(self, path: str, box: Mailbox | None, envelope: Envelope, refusal: Refusal) -> None:
        """A message was not taken."""

    def overflowed(self, path: str, box: Mailbox | None, envelope: Envelope) -> None:
        """A message had to go for a newer one."""

    def expired(self, box: Mailbox, envelope: Envelope) -> None:
        """Drop a message whose asker waits no longer."""


class FailureReports(Protocol):
    """Where is told what failed around a message."""

    measures: Measures
    """How long messages take, where somebody asks."""

    def request_failed(self, path: str, error: BaseException, *, asked: bool) -> None:
        """A handler answered with an error, and lives."""

    def callback_raised(self, path: str, error: BaseException) -> None:
        """A callback that somebody had added to a reply raised."""

    def hook_raised(self, path: str, hook: str, error: BaseException) -> None:
        """A last hook raised on the way out of a crash."""

    def internal_error(self, error: BaseException) -> None:
        """A bug of ours."""


class Crossing(Protocol):
    """A span on its way to another process: it can be pickled."""

    def variables(self) -> contextvars.Context:
        """Make variables in which it is current."""

    def tracer(self) -> Tracer:
        """Return what takes spans along there, from there on."""


class Tracer(Protocol):
    """Maker of spans, as messages see it: a span goes along with a message."""

    def carried(self) -> contextvars.Context | None:
        """Return the variables that a tell takes along; None: there is no span here. It raises nothing."""

    def crossing(self, variables: contextvars.Context | None = None) -> Crossing | None:
        """Return the span that is current in these variables as it crosses to another process. It raises nothing.

        Args:
            variables: where the span is current. None: here.

        Returns:
            None: there is no span.
        """


class Host(Addresses, Protocol):
    """A tree, as messages see it."""

    tracer: Tracer | None
    """Maker of spans; None: nobody wants any."""

    @property
    def letters(self) -> DeadLetters:
        """Where messages go that no worker takes."""

    @property
    def reports(self) -> FailureReports:
        """Where is told what failed around a message."""

    def publish(self, event: Event) -> None:
        """Something happened."""

    def recursion_refused(self, path: str, chain: tuple[Address, ...], hops: int = 0) -> None:
        """A request or a tell was refused."""

    def stopped_error(self, path: str, refusal: Refusal) -> ActorStoppedError:
        """Why an ask to this path fails at once."""

    def run_apart(self, job: Job) -> None:
        """Run a callback of a user on a thread on which it may block."""


class Runnable(Protocol):
    """Incarnation of a child, as messages see it. What it means stands in ``actors.execution.incarnation``."""

    current: Envelope | None
    since: float
    running_on: int | None
    held: bool
    abandoned: bool
    """True while its code goes on after it was given up."""
    in_users_code: bool
    """True while code of its user runs, on a thread."""
    pulse: Pulse | None
    """Signs of life; None: nobody looks for any."""

    @property
    def mailbox(self) -> Mailbox:
        """Where its messages come from."""

    @property
    def actor(self) -> Any:
        """The object that handles them; None: there is none."""

    @property
    def order(self) -> Reason | None:
        """The order to end, once there is one."""

    @property
    def home(self) -> Home | None:
        """The request of all messages from outside."""

    @property
    def resource(self) -> Any:
        """Resource that its lifespan has yielded; None: nothing."""

    @property
    def system(self) -> Host:
        """The tree that it belongs to."""

    @property
    def is_elsewhere(self) -> bool:
        """True where the object that handles them only forwards: the worker's own is in a process."""

    @property
    def is_over(self) -> bool:
        """True after the end."""

    @property
    def must_stop(self) -> bool:
        """True once it was asked to end."""

    @property
    def is_handling_here(self) -> bool:
        """True in its handler, on the thread or in the task that runs it."""

    def wake(self) -> None:
        """Have it run. May be done once too often."""

    def request_stop(self, reason: Reason) -> Reply:
        """Ask it to end; completed when it is over."""

    def stop_signal(self) -> Reply:
        """Completed once it was asked to end."""
