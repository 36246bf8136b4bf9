"""Surroundings of the incarnation in a worker's process, in place of a tree's ``System``.

It has a clock, a loop and threads of its own. All else is the host's, and goes there by a back-call
(``actors.dispatch.worker.back_calls``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.concurrency.disposal import Disposal, disposal_on
from actors.concurrency.thread_state import Job, in_background
from actors.dispatch.remote import pack_error
from actors.dispatch.worker.back_calls import BackCallClient, PathAddress, Paths
from actors.execution.loop import Loop
from actors.messaging.dead_letters import stopped_error
from actors.messaging.handled import Measures
from actors.model.clock import SystemClock
from actors.model.errors import ActorsError
from actors.model.spec import DispatcherKind, WorkerRecipe
from actors.validation.introspection import type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.execution.crash_boundary import WorkerIncarnation
    from actors.execution.incarnation_ports import Dispatcher
    from actors.messaging.envelope import Address, Envelope
    from actors.messaging.inbox import Refusal
    from actors.messaging.ports import Tracer
    from actors.messaging.proxy import Attribute
    from actors.messaging.ref import Ref

_MOST_HOPS: Final = 2**31
"""No tell is refused here: the host counts them."""


class _Runner:
    """Runs a job on a thread of its own: few need one here."""

    def submit(self, job: Job) -> None:
        in_background("aside", job.run)


class _Reports:
    """Tells the host what goes wrong beside a message. A failed request is the host's own to tell."""

    def __init__(self, calls: BackCallClient) -> None:
        self._calls = calls
        self.measures = Measures()  # the host does
        self._spans_lost: set[type[Exception]] = set()

    def request_failed(self, path: str, error: BaseException, *, asked: bool) -> None: ...

    def callback_raised(self, path: str, error: BaseException) -> None:  # noqa: ARG002 - the host knows it
        self._calls.tell("callback_raised", pack_error(error))

    def span_lost(self, error: Exception) -> None:
        """Tell that a span cannot be rebuilt here: once for each type of error."""
        if type(error) not in self._spans_lost:
            self._spans_lost.add(type(error))
            self._calls.tell("callback_raised", pack_error(error))

    def hook_raised(self, path: str, hook: str, error: BaseException) -> None:  # noqa: ARG002 - the same
        self._calls.tell("hook_raised", hook, pack_error(error))

    def internal_error(self, error: BaseException) -> None:
        self._calls.tell("internal_error", pack_error(error))


class _Letters:
    """Tells the host of messages that nobody takes."""

    def __init__(self, calls: BackCallClient) -> None:
        self._calls = calls

    def dead_letter(self, box: object, body: Any, reason: Refusal, sender: str | None, path: str = "") -> None:  # noqa: ARG002
        self._calls.tell("dead_letter", type_name(type(body)), str(reason), sender)

    def refused(self, path: str, box: object, envelope: Envelope, refusal: Refusal) -> None:  # noqa: ARG002
        if envelope[1] is not None:
            envelope[1].fail(stopped_error(path, refusal))

    def overflowed(self, path: str, box: object, envelope: Envelope) -> None: ...

    def expired(self, box: object, envelope: Envelope) -> None:  # noqa: ARG002 - the host tells of it
        if envelope[1] is not None:
            envelope[1].expire()


class _Strays:
    """Nothing is abandoned in a process: it is killed."""

    def add(self, incarnation: Any) -> None: ...

    def returned(self, incarnation: Any) -> None: ...


class WorkerSystem:
    """Surroundings of the one incarnation of this process."""

    max_hops = _MOST_HOPS
    refuse_tells = False

    def __init__(self, path: str, calls: BackCallClient, place: Dispatcher) -> None:
        self.root_path = path.partition("/")[0]
        self.tracer: Tracer | None = None  # made with the first message around which there is a span
        self.clock = SystemClock()
        self.now = self.clock.now
        self.epoch = self.clock.wall() - self.now()
        self.pool = _Runner()
        self.disposal: Disposal = disposal_on(self.pool)
        self.letters, self.reports, self.strays = _Letters(calls), _Reports(calls), _Strays()
        self.boxes: Any = Paths(calls)
        self.loop = Loop(f"{path}-loop", blocked=lambda *_: None, failed=self.reports.internal_error)
        self._place, self._calls = place, calls

    @property
    def timers(self) -> Any:
        """Timers are asked for by a manual clock only."""
        raise NotImplementedError

    def place_of(self, recipe: WorkerRecipe) -> Dispatcher:
        """Return where its code runs."""
        return self.loop if recipe.where is DispatcherKind.LOOP else self._place

    def near(self, path: str) -> tuple[str, ...]:  # noqa: ARG002 - of the path that was looked up last
        """Paths that may have been meant."""
        near: tuple[str, ...] = self.boxes.near
        return near

    def actor_class(self, box: PathAddress) -> type[Any]:
        """Class of the actor at a path, which is imported here.

        Raises:
            NotPicklableError: it stands in no module, or not in one that is found here.
        """
        found: type[Any] = self._calls.get("actor_class", box.path)
        return found

    def attribute(self, ref: Ref, names: tuple[str, ...]) -> Attribute:
        """Look up what stands behind a name of the actors at a path: looked up in the host, where they are known."""
        found: Attribute = self._calls.get("attribute", ref.path, names)
        return found

    def refuse_own_end(self, path: str) -> None:
        """Refuse nothing: the host does."""

    def dead_end(self, target: object, current: object, /) -> None:
        """See nothing: the host does."""

    def publish(self, event: object) -> None:
        """Publish nothing: events are the host's."""

    def note_hops(self, chain: tuple[str, ...], hops: int) -> None:
        """Tell nobody: the host does."""

    def recursion_refused(self, path: str, chain: tuple[Address, ...], hops: int = 0) -> None:
        """Tell nobody: the host does."""

    def stopped_error(self, path: str, refusal: Refusal) -> ActorsError:
        """Why an ask fails at once."""
        return stopped_error(path, refusal)

    def run_apart(self, job: Job) -> None:
        """Run a callback of a user."""
        self.pool.submit(job)


class MainThread:
    """Place of sync code: the main thread of the process, which looks here whenever it has nothing to do."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.ready: list[WorkerIncarnation] = []
        self._wake = wake

    def schedule(self, incarnation: WorkerIncarnation) -> None:
        """Have it run soon."""
        self.ready.append(incarnation)
        self._wake()

    def cancel(self, incarnation: WorkerIncarnation) -> None:
        """A thread cannot be cancelled; what does not end in time is killed."""


class OwnThreads:
    """Place of the sync code of an async worker (what is taken off its loop): a thread for each, as few are needed."""

    def schedule(self, incarnation: WorkerIncarnation) -> None:
        """Run it."""
        in_background("aside", lambda: run_on(incarnation))

    def cancel(self, incarnation: WorkerIncarnation) -> None:
        """A thread cannot be cancelled; what does not end in time is killed."""


def run_on(incarnation: WorkerIncarnation) -> None:
    """Run an incarnation on this thread, as long as it has something to do."""
    while incarnation.run():
        pass
