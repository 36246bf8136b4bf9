"""The protocol of mailbox and pool in every order of steps: nothing lost, nothing twice, no wake-up missed.

``support.interleaving`` runs senders, runs of a life, and whoever closes or replaces it through the real code. Then the
protocol is broken on purpose, each time by a mistake that was made here before or is easy to make: some order shows it.

``REGROW_ORDERS=all pytest tests/actors/messaging/test_mailbox_interleavings.py`` tries the deep scenes in all orders;
otherwise one in some of them is tried, spread evenly.
"""

from __future__ import annotations

import inspect
import os
import textwrap
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from actors.messaging import inbox, mailbox, places, pool_address, supervisor_mailbox
from actors.messaging.inbox import Inbox, Refusal
from actors.messaging.mailbox import Mailbox
from actors.messaging.places import Places, Room
from actors.messaging.pool_address import PoolAddress
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.model.spec import MailboxLimit, Overflow
from tests.support.interleaving import Lock, Scheduler, Watch, explore
from tests.support.sizes import sampled, size

WATCH = Watch(
    frozenset(str(module.__file__) for module in (inbox, mailbox, places, pool_address, supervisor_mailbox)),
    frozenset(
        [
            "queue",
            "batch",
            "idle",
            "plain",
            "runs",
            "roused",
            "free",
            "wake",
            "append",
            "extend",
            "refusal",
            "line",
            "remove",
            "claims",
            "_free",
            "beyond",
            "pop",
            "popleft",
            "copy",
            "iter",
            "length_hint",
        ]
    ),
)
"""What is read or written without the lock; all else is touched under it alone."""


class Life:
    """As much of a life as a mailbox looks at. Its dispatcher is a queue of jobs, worked off by ``Scene.runner``."""

    def __init__(self, scene: Scene, box: Mailbox) -> None:
        self.order: object = None
        self.current: Any = None
        self.running_on: int | None = None
        self.held = False
        self.inside = False
        self.runs = 0
        self.unheard: list[Any] = []
        self.scene = scene
        self.box = box

    def wake(self) -> None:
        self.scene.jobs.append(self)

    def run(self) -> None:
        """As a worker's run, without the handler. It begins in the two ways there are, in turn."""
        box, scene = self.box, self.scene
        self.runs += 1
        begins = not self.runs % 2
        if not begins and not box.hold(self):  # type: ignore[arg-type]
            return
        while (batch := box.take(self, begins=begins)) is not None:  # type: ignore[arg-type]
            begins = False
            scene.scheduler.pause()
            for envelope in batch:
                assert not self.inside, "two runs of one life at once"
                self.inside, self.current = True, envelope
                scene.scheduler.pause()
                self.inside = False
                if self.order is not None:
                    refusal = box.give_back(self, envelope)  # type: ignore[arg-type]
                    if refusal is not None:
                        scene.answered.append(envelope)
                    break
                if box.attached is self:
                    scene.handled.append(envelope)
                self.current = None
            if self.order is not None:
                self.end()
                break

    def end(self, *, abandon: bool = False) -> None:
        box, current = self.box, None
        with box.lock:
            self.order = self.order or "over"
            if box.attached is self:
                current, self.current = self.current, None
                told = box.detach(self, abandon=abandon)  # type: ignore[arg-type]
            else:
                told = []
        box.left()
        if current is not None:
            self.scene.answered.append(current)  # its asker hears that it was lost
        self.scene.answered.extend(body for body, _, _ in self.unheard)
        for each in told:
            each.complete()


class Scene:
    """Mailboxes, senders and runners, and what became of each message."""

    def __init__(self, scheduler: Scheduler, bounds: MailboxLimit = MailboxLimit(), pool: int = 0) -> None:  # noqa: B008 - frozen
        self.scheduler = scheduler
        self.jobs: deque[Life] = deque()
        self.sent: list[tuple[Any, ...]] = []
        self.handled: list[Any] = []
        self.answered: list[Any] = []
        self.senders = 0
        self.pool = PoolAddress("t/p", bounds) if pool else None
        if self.pool is not None:
            self.pool.lock = Lock(scheduler)  # type: ignore[assignment]
        self.boxes = [Mailbox(f"t/p#{n}", bounds, self.pool) for n in range(pool or 1)]
        if self.pool is None:
            self.boxes[0].lock = Lock(scheduler)  # type: ignore[assignment]
        else:
            self.pool.refill(list(self.boxes))
        self.lives = [Life(self, box) for box in self.boxes]
        for incarnation in self.lives:
            incarnation.box.attach(incarnation, idle=True)  # type: ignore[arg-type]

    @property
    def target(self) -> Inbox:
        return self.pool if self.pool is not None else self.boxes[0]

    def envelope(self, *body: object) -> Any:
        envelope = (body, None, None)
        self.sent.append(envelope)
        return envelope

    def send(self, target: Inbox, envelope: Any) -> None:
        verdict = target.put(envelope)
        while isinstance(verdict, Room):
            self.scheduler.wait_for(lambda room=verdict: room.done)
            room, verdict = verdict, target.put(envelope)
            room.leave(used=True)
        if isinstance(verdict, tuple):
            self.answered.append(verdict)
        elif verdict is not None:
            self.answered.append(envelope)

    def act(self, name: str, body: Callable[[], None]) -> None:
        """A thread that is not a runner."""
        self.senders += 1

        def run() -> None:
            body()
            self.senders -= 1

        self.scheduler.spawn(name, run)

    def sender(self, name: str, count: int, to: Inbox | None = None) -> None:
        def run() -> None:
            for n in range(count):
                self.send(to if to is not None else self.target, self.envelope(name, n))

        self.act(name, run)

    def runner(self, name: str) -> None:
        """A thread of the dispatcher."""

        def run() -> None:
            while True:
                self.scheduler.wait_for(lambda: self.jobs or not self.senders)
                if self.jobs:
                    self.jobs.popleft().run()
                elif not self.senders:
                    return

        self.scheduler.spawn(name, run)

    def check(self, *, order: bool = True) -> None:
        """At the end: each message is accounted for once, and nobody was left behind."""
        left = [each for box in self.boxes for each in [*box.queue, *box.batch]]
        left += list(self.pool.queue) if self.pool is not None else []
        assert not left, f"lost: {left} wait, and nobody comes"
        ids = [id(each) for each in (*self.handled, *self.answered)]
        assert sorted(ids) == sorted(map(id, self.sent)), (self.sent, self.handled, self.answered)
        for box in (*self.boxes, *((self.pool,) if self.pool is not None else ())):
            assert not box.waiters, "a sender waits for room"
            if box.places is not None:
                assert free(box) == box.bounds.capacity, "a place is lost, or there is one too many"
        for incarnation in self.lives:
            assert not incarnation.held or incarnation.box.attached is not incarnation
            assert incarnation.box.attached is not incarnation or incarnation.box.idle is incarnation
        if order:
            names = {each[0][0] for each in self.handled}
            for name in names:
                numbers = [body[1] for body, _, _ in self.handled if body[0] == name]
                assert numbers == sorted(numbers), self.handled


# -- the scenes --------------------------------------------------------------------------------------------


def two_senders(scheduler: Scheduler) -> Callable[[], None]:
    scene = Scene(scheduler)
    scene.sender("a", 1)
    scene.sender("b", 1)
    scene.runner("run")
    return scene.check


def two_runs(scheduler: Scheduler) -> Callable[[], None]:
    """Both senders find the life idle, so there is a job too many."""
    scene = Scene(scheduler)
    scene.sender("a", 1)
    scene.sender("b", 1)
    scene.runner("one")
    scene.runner("two")
    return scene.check


def a_job_too_many(scheduler: Scheduler) -> Callable[[], None]:
    scene = Scene(scheduler)
    for n in range(2):
        scene.send(scene.target, scene.envelope("a", n))
    scene.lives[0].wake()
    scene.runner("one")
    scene.runner("two")
    return scene.check


def closed_meanwhile(scheduler: Scheduler) -> Callable[[], None]:
    scene = Scene(scheduler)
    scene.sender("a", 2)
    scene.act("close", lambda: scene.answered.extend(scene.boxes[0].close(Refusal.STOPPED)))
    scene.runner("run")
    return scene.check


def ended_and_closed(scheduler: Scheduler) -> Callable[[], None]:
    scene = Scene(scheduler)
    box, incarnation = scene.boxes[0], scene.lives[0]

    def end() -> None:
        with box.lock:
            incarnation.order = "stop"
            idle = box.take_idleness(incarnation)  # type: ignore[arg-type]
        if idle:
            incarnation.end()
        else:
            scheduler.wait_for(lambda: box.attached is None)
        scene.answered.extend(box.close(Refusal.STOPPED))

    scene.sender("a", 1)
    scene.act("end", end)
    scene.runner("run")
    return scene.check


def replaced_meanwhile(scheduler: Scheduler, bounds: MailboxLimit = MailboxLimit()) -> Callable[[], None]:  # noqa: B008 - frozen
    """A life is given up while its thread runs, and its successor goes on."""
    scene = Scene(scheduler, bounds)
    box = scene.boxes[0]

    def replace() -> None:
        with box.lock:
            scene.lives[0].order = "killed"
        scene.lives[0].end(abandon=True)
        successor = Life(scene, box)
        scene.lives.append(successor)
        if box.attach(successor, idle=True):  # type: ignore[arg-type]
            successor.wake()

    scene.sender("a", 2)
    scene.act("replace", replace)
    scene.runner("one")
    scene.runner("two")
    return lambda: scene.check(order=False)  # what the old one had begun may be handled beside the new one


def full_and_blocking(scheduler: Scheduler) -> Callable[[], None]:
    scene = Scene(scheduler, MailboxLimit(1, Overflow.BLOCK))
    scene.sender("a", 2)
    scene.sender("b", 1)
    scene.runner("run")
    return scene.check


def full_and_closed(scheduler: Scheduler) -> Callable[[], None]:
    """A sender begins to wait for room while the inbox is closed."""
    scene = Scene(scheduler, MailboxLimit(1, Overflow.BLOCK))
    scene.send(scene.target, scene.envelope("first", 0))
    scene.jobs.clear()  # nobody makes room
    scene.sender("a", 1)
    scene.act("close", lambda: scene.answered.extend(scene.boxes[0].close(Refusal.STOPPED)))
    return scene.check


def bounded_and_closed(scheduler: Scheduler) -> Callable[[], None]:
    scene = Scene(scheduler, MailboxLimit(2, Overflow.REJECT))
    scene.sender("a", 2)
    scene.act("close", lambda: scene.answered.extend(scene.boxes[0].close(Refusal.STOPPED)))
    scene.runner("run")
    return scene.check


def bounded_and_replaced(scheduler: Scheduler) -> Callable[[], None]:
    return replaced_meanwhile(scheduler, MailboxLimit(2, Overflow.REJECT))


def full_pool(scheduler: Scheduler) -> Callable[[], None]:
    scene = Scene(scheduler, MailboxLimit(1, Overflow.BLOCK), pool=2)
    scene.sender("a", 2)
    scene.sender("b", 1)
    scene.runner("one")
    return lambda: scene.check(order=False)


def gives_up_waiting(scheduler: Scheduler) -> Callable[[], None]:
    """One sender gives up its wait; it must take no wake-up with it."""
    scene = Scene(scheduler, MailboxLimit(1, Overflow.BLOCK))
    scene.send(scene.target, scene.envelope("first", 0))

    def impatient() -> None:
        envelope = scene.envelope("impatient", 0)
        verdict = scene.target.put(envelope)
        if isinstance(verdict, Room):
            scheduler.pause()
            verdict.leave(used=False)
            scene.answered.append(envelope)

    scene.act("impatient", impatient)
    scene.sender("b", 1)
    scene.runner("run")
    return scene.check


def full_and_dropping(scheduler: Scheduler) -> Callable[[], None]:
    scene = Scene(scheduler, MailboxLimit(1, Overflow.DROP_OLDEST))
    scene.send(scene.target, scene.envelope("first", 0))
    scene.runner("run")
    scene.sender("a", 2)
    return scene.check


def pool_of_two(scheduler: Scheduler) -> Callable[[], None]:
    scene = Scene(scheduler, pool=2)
    scene.sender("a", 2)
    scene.sender("b", 1)
    scene.runner("one")
    return lambda: scene.check(order=False)


def pool_and_one_of_its_members(scheduler: Scheduler) -> Callable[[], None]:
    """Messages for anybody, and messages for the member that is called."""
    scene = Scene(scheduler, pool=2)
    scene.sender("a", 1)
    scene.sender("b", 1, scene.boxes[1])
    scene.runner("one")
    scene.runner("two")
    return lambda: scene.check(order=False)


def pool_whose_member_ends(scheduler: Scheduler) -> Callable[[], None]:
    """The member that is called ends before it comes: another takes the message."""
    scene = Scene(scheduler, pool=2)

    def end() -> None:
        box, incarnation = scene.boxes[1], scene.lives[1]
        with box.lock:
            incarnation.order = "stop"
            idle = box.take_idleness(incarnation)  # type: ignore[arg-type]
        if idle:
            incarnation.end()

    scene.sender("a", 2)
    scene.act("end", end)
    scene.runner("one")
    return lambda: scene.check(order=False)


def pool_that_closes(scheduler: Scheduler) -> Callable[[], None]:
    scene = Scene(scheduler, pool=2)
    scene.sender("a", 2)
    scene.act("close", lambda: [scene.answered.extend(box.close(Refusal.STOPPED)) for box in scene.boxes])
    scene.runner("one")
    return lambda: scene.check(order=False)


def calls_while_an_incarnation_ends(scheduler: Scheduler, *, successor: bool = False) -> Callable[[], None]:
    """Two calls to a supervisor that ends, whether it is idle or hears just then."""
    scene = Scene(scheduler)
    box, old = SupervisorMailbox("t/s"), scene.lives[0]
    box.lock = Lock(scheduler)  # type: ignore[assignment]
    scene.boxes, old.box = [box], box
    box.attach(old, idle=True)  # type: ignore[arg-type]

    def call() -> None:
        for n in range(2):
            message = scene.envelope("call", n)
            if box.call(message, None) is not None:
                scene.answered.append(message)

    def end() -> None:
        with box.lock:
            old.order = "stop"
            idle = box.take_idleness(old)  # type: ignore[arg-type]
        if idle:
            old.end()
        scheduler.wait_for(lambda: box.attached is None)
        if successor:
            new = Life(scene, box)
            scene.lives.append(new)
            if box.attach(new, idle=True):  # type: ignore[arg-type]
                new.wake()

    def check() -> None:
        scene.handled = [body for body, _, _ in scene.handled]  # what was put in was an envelope round each
        scene.check()

    scene.act("call", call)
    scene.act("end", end)
    scene.runner("run")
    return check


def calls_while_an_incarnation_is_replaced(scheduler: Scheduler) -> Callable[[], None]:
    return calls_while_an_incarnation_ends(scheduler, successor=True)


def free(box: Inbox) -> int:
    """How many messages an inbox takes before it is full."""
    claimed = 0
    while box.places is not None and box.places.put([], None):  # type: ignore[arg-type]
        claimed += 1
    return claimed


QUICK = [
    (two_senders, 2),
    (closed_meanwhile, 1),
    (ended_and_closed, 2),
    (full_and_dropping, 2),
    (a_job_too_many, 2),
    (two_runs, 1),
    (replaced_meanwhile, 1),
    (full_and_blocking, 1),
    (full_and_closed, 2),
    (bounded_and_closed, 1),
    (bounded_and_replaced, 1),
    (full_pool, 1),
    (gives_up_waiting, 1),
    (pool_of_two, 1),
    (pool_and_one_of_its_members, 1),
    (pool_whose_member_ends, 1),
    (pool_that_closes, 1),
    (calls_while_an_incarnation_ends, 2),
    (calls_while_an_incarnation_is_replaced, 1),
]
ONE_IN = 1 if os.environ.get("REGROW_ORDERS") == "all" else size(31, 509, 509)
DEEP = [(two_runs, 2), (pool_of_two, 2), (pool_whose_member_ends, 2), (full_and_blocking, 2)]


def named(scenes: list[Any]) -> list[Any]:
    return [pytest.param(*each, id=f"{each[0].__name__}-{each[1]}") for each in scenes]


@pytest.mark.parametrize(("scene", "switches"), named(QUICK))
def test_in_every_order_each_message_is_handled_once_or_answered(
    scene: Callable[[Scheduler], Callable[[], None]], switches: int
) -> None:
    assert explore(scene, WATCH, switches=switches, one_in=size(1, 8, 8)) > size(40, 10, 10)


@pytest.mark.slow
@pytest.mark.timeout(600)  # for all orders
@pytest.mark.parametrize(("scene", "switches"), named(DEEP))
def test_with_one_more_switch_the_same_holds(scene: Callable[[Scheduler], Callable[[], None]], switches: int) -> None:
    assert explore(scene, WATCH, switches=switches, one_in=ONE_IN) > size(100, 25, 25)


# -- the faults, planted again -----------------------------------------------------------------------------

Fault = tuple[type, str, str, str, Callable[[Scheduler], Callable[[], None]]]
FAULTS: dict[str, Fault] = {
    "goes idle without a second look": (
        Mailbox,
        "take",
        "if not self.queue and (pool is None or not pool.queue):",
        "if True:",
        two_senders,
    ),
    "marks idle after the second look": (
        Mailbox,
        "take",
        "self._is_idle(incarnation)\n            if not self.queue and (pool is None or not pool.queue):",
        "if not self.queue and (pool is None or not pool.queue):\n                self._is_idle(incarnation)",
        two_senders,
    ),
    "lets two runs of a life overlap": (
        Mailbox,
        "hold",
        "self.attached is not incarnation or incarnation.held",
        "self.attached is not incarnation",
        a_job_too_many,
    ),
    "lets a run overlap that holds and takes at once": (
        Mailbox,
        "take",
        "self.attached is not incarnation or (begins and incarnation.held)",
        "self.attached is not incarnation",
        a_job_too_many,
    ),
    "notes the wake-up for whatever period there is by then": (
        Mailbox,
        "rouse",
        "self.roused = turn",
        "self.roused = self.runs",
        two_senders,
    ),
    "takes the idleness of a life that has come back": (
        Mailbox,
        "rouse",
        "self.roused = turn",
        "self.idle = None",
        two_senders,
    ),
    "swaps the queue out without a lock of the senders": (
        Mailbox,
        "drain",
        "taken = self.queue.copy()\n    del self.queue[: len(taken)]",
        "taken, self.queue = self.queue, []",
        two_senders,
    ),
    "does not look whether it was closed meanwhile": (
        Mailbox,
        "put",
        "self.idle is None and self.plain",
        "self.idle is None",
        ended_and_closed,
    ),
    "gives back what was answered already": (
        Mailbox,
        "give_back",
        "if incarnation.current is not envelope:",
        "if False:",
        replaced_meanwhile,
    ),
    "drops the oldest of an empty queue": (
        Inbox,
        "_replace_oldest",
        "if queue and not nested:",
        "if True:",
        full_and_dropping,
    ),
    "gives a message a place that another has still": (
        Inbox,
        "_replace_oldest",
        "places.beyond +=",
        "ignored =",
        full_and_dropping,
    ),
    "keeps senders that have gone in the line": (
        Room,
        "leave",
        "self._places.line.remove(ref(self))",
        "pass",
        gives_up_waiting,
    ),
    "lets a sender that has gone keep its wake-up": (Room, "leave", "if not used:", "if False:", gives_up_waiting),
    "looks at the line before the place is free": (
        Places,
        "begun",
        "self._free.append(1)\n    if self.line:\n        self.tell_next()",
        "line = list(self.line)\n        self._free.append(1)\n    if line:\n        self.tell_next()",
        full_and_blocking,
    ),
    "tells those in line before there is room, where it is closed": (
        Inbox,
        "vacated",
        "self.places.vacate(count)\n    return self.places.everybody_in_line()",
        "told = self.places.everybody_in_line()\n    self.places.vacate(count)\n    return told",
        full_and_closed,
    ),
    "keeps the place of a message that was taken out again": (
        Inbox,
        "pull",
        "self.places.vacate()",
        "pass",
        bounded_and_closed,
    ),
    "calls one member and does not pass it on": (
        PoolAddress,
        "pass_on",
        "if self.queue:",
        "if False:",
        pool_whose_member_ends,
    ),
    "keeps calls for the next incarnation": (
        SupervisorMailbox,
        "detach",
        "incarnation.unheard = [*self.batch, *self.drain()]",
        "incarnation.unheard = []",
        calls_while_an_incarnation_ends,
    ),
    "takes calls while no incarnation is there": (
        SupervisorMailbox,
        "detach",
        "self.open()",
        "pass",
        calls_while_an_incarnation_ends,
    ),
    "begins to wait for room that has just come": (
        Places,
        "put_or_wait",
        "waits = not self.put(queue, envelope)",
        "waits = True",
        full_and_blocking,
    ),
}


@pytest.mark.parametrize("fault", sampled(list(FAULTS), 4))
def test_a_fault_that_is_planted_shows_in_some_order(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, right, wrong, scene = FAULTS[fault]
    real = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(real))
    changed = source.replace(right, wrong)
    assert changed != source
    made: dict[str, Any] = {}
    exec(  # noqa: S102 - our own source, with one mistake in it
        compile(f"from __future__ import annotations\n{changed}", real.__code__.co_filename, "exec"),
        real.__globals__,
        made,
    )
    monkeypatch.setattr(owner, name, made[name])

    with pytest.raises(AssertionError, match="switches"):
        explore(scene, WATCH, switches=2, one_in=size(1, 8, 8), most=20_000)
