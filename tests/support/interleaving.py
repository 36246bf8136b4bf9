"""A scheduler that runs real threads through real code, one step of one thread at a time, in every order.

A *step* is one access to what threads touch without a lock (attributes and methods of given names, items), or the begin
of a section under a lock, in the code objects that are watched. Before each step the thread asks the scheduler, which
lets it go on or lets another one run. So only one thread runs at any time, and a run is given by its *switches*: at
which step another thread was let run.

``explore`` tries all runs with at most ``switches`` switches that nobody forced. (A switch that is forced, because a
thread waits or ends, costs nothing; which of the others goes on then is tried as well.) Nearly every fault of a
protocol shows with two of them: one thread is stopped at the worst moment, another does its part, the first goes on.

The locks of the code must be ``Lock`` of this module, and waits must be ``Scheduler.wait_for``: a thread that waits for
another is no step, and threads that all wait are a ``Deadlock``, which is what a lost wake-up comes to.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

_ALWAYS = ("BEFORE_WITH", "SUBSCR", "FOR_ITER")
"""Parts of the names of the instructions that are steps whatever they touch; the names differ a little by version."""
_LIMIT = 4000
"""Steps of one run: more are a run that does not end."""


class _AbortedError(BaseException):
    """The run is over for this thread, because another one went wrong."""


class DeadlockError(AssertionError):
    """All threads that have not ended wait."""


@dataclass(frozen=True)
class Watch:
    """What is looked at: the code of some files, and the names in it that threads share without a lock."""

    files: frozenset[str]
    names: frozenset[str]

    def steps(self, code: CodeType) -> frozenset[int]:
        """The offsets of the instructions that are steps."""
        known, _ = _KNOWN.get(id(code), (None, None))
        if known is None:
            known = frozenset(
                each.offset
                for each in dis.get_instructions(code)
                if each.argval in self.names or any(part in each.opname for part in _ALWAYS)
            )
            _KNOWN[id(code)] = known, code
        return known


_KNOWN: dict[int, tuple[frozenset[int], CodeType]] = {}
"""By the identity of a code object, which is kept with its steps: its hash is of all that is in it."""


class _Thread:
    """One thread of a run."""

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.name = name
        self.body = body
        self.gate = threading.Lock()
        self.gate.acquire()
        self.ready: Callable[[], object] | None = None
        """What it waits for; None: it can go on."""
        self.over = False


class Crew:
    """Real threads that run one run after another: a new one for each run would cost a third of its time."""

    def __init__(self) -> None:
        self._idle: list[_Member] = []

    def start(self, job: Callable[[], None]) -> _Member:
        """Let an idle thread, or a new one, do a job; it says when it is idle again."""
        member = self._idle.pop() if self._idle else _Member()
        member.job = job
        member.busy.acquire()
        member.begin.release()
        return member

    def wait(self, members: list[_Member], timeout_s: float) -> None:
        """Wait until these are idle again. One that is not by then is left to itself."""
        for member in members:
            if member.busy.acquire(timeout=timeout_s):
                member.busy.release()
                self._idle.append(member)

    def close(self) -> None:
        """End the idle threads."""
        for member in self._idle:
            member.job = None
            member.begin.release()
            member.thread.join()


class _Member:
    """One thread of a crew. Its locks are signals: ``begin`` is released to begin a job, ``busy`` when that is done."""

    def __init__(self) -> None:
        self.job: Callable[[], None] | None = None
        self.begin, self.busy = threading.Lock(), threading.Lock()
        self.begin.acquire()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            self.begin.acquire()
            if self.job is None:
                return
            self.job()
            self.busy.release()


class Scheduler:
    """One run."""

    def __init__(self, switches: tuple[tuple[int, int], ...], watch: Watch) -> None:
        self._switches = dict(switches)
        self._watch = watch
        self._threads: list[_Thread] = []
        self._done = threading.Lock()
        self._done.acquire()
        self._current = 0
        self._aborted = False
        self.step = 0
        self.choices: list[tuple[int, tuple[int, ...], bool]] = []
        """For each step who could have gone on instead, and whether the switch was forced."""
        self.errors: list[BaseException] = []

    def spawn(self, name: str, body: Callable[[], None]) -> None:
        """Add a thread, before the run."""
        self._threads.append(_Thread(name, body))

    def run(self, crew: Crew) -> None:
        """Run all threads to their end."""
        real = [crew.start(functools.partial(self._main, one)) for one in self._threads]
        self._threads[0].gate.release()
        ended = self._done.acquire(timeout=60)
        self._aborted = True  # those that still wait, after an error, end at their gates
        for one in self._threads:
            if one.gate.locked():
                one.gate.release()
        crew.wait(real, 20)
        assert ended, "a run does not end"

    def wait_for(self, ready: Callable[[], object]) -> None:
        """The calling thread goes on only when ``ready()`` is true."""
        if not ready():
            me = self._threads[self._current]
            me.ready = ready
            self._choose(forced=True)
            me.ready = None

    def pause(self) -> None:
        """One step of the calling thread."""
        self._choose(forced=False)

    # -- inside --------------------------------------------------------------------------------------------

    def _main(self, me: _Thread) -> None:
        me.gate.acquire()
        sys.settrace(self._trace)
        try:
            self._check()
            me.body()
            me.over = True
            if all(one.over for one in self._threads):
                self._done.release()
            else:
                self._choose(forced=True)
        except _AbortedError:
            return
        except BaseException as error:  # noqa: BLE001 - whatever it is, the run has gone wrong
            self.errors.append(error)
            self._done.release()
        finally:
            sys.settrace(None)

    def _check(self) -> None:
        if self._aborted:
            raise _AbortedError

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or frame.f_code.co_filename not in self._watch.files:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        steps, choose = self._watch.steps(frame.f_code), self._choose

        def inside(frame: FrameType, event: str, _: Any) -> Any:
            if event == "opcode" and frame.f_lasti in steps:
                choose(forced=False)
            return inside

        return inside

    def _choose(self, *, forced: bool) -> None:
        """One step: who goes on. Returns when it is this thread's turn again."""
        self._check()
        own, number, self.step = self._current, self.step, self.step + 1
        if number > _LIMIT:
            message = f"no end after {_LIMIT} steps"
            raise AssertionError(message)
        able = [at for at, one in enumerate(self._threads) if not one.over and (one.ready is None or one.ready())]
        if not able:
            message = f"all wait: {[one.name for one in self._threads if not one.over]}"
            raise DeadlockError(message)
        usual = own if own in able else able[0]
        self.choices.append((number, tuple(at for at in able if at != usual), forced or usual != own))
        chosen = self._switches.get(number, usual)
        assert chosen in able, f"step {number} is not that of the run before: {self._threads[chosen].name} waits"
        me = self._threads[own]
        if chosen != own:
            self._current = chosen
            self._threads[chosen].gate.release()
            if not me.over:
                me.gate.acquire()
                self._check()


class Lock:
    """A re-entrant lock whose waits the scheduler knows of."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner != me:
            self._scheduler.wait_for(lambda: self._owner is None)
        self._owner = me
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None

    def _is_owned(self) -> bool:
        return self._owner == threading.get_ident()


def explore(
    scene: Callable[[Scheduler], Callable[[], None]],
    watch: Watch,
    *,
    switches: int,
    most: int = 1_000_000,
    one_in: int = 1,
) -> int:
    """Run a scene in every order; how many runs that were.

    ``scene(scheduler)`` adds its threads and returns what checks the end of the run. With ``one_in`` above 1, only one
    in so many of the last switches is tried, spread evenly over all orders.

    Raises:
        AssertionError: of the first run that went wrong, with its switches.
    """
    with contextlib.closing(Crew()) as crew, _traced_meanwhile(watch):
        return _explore(crew, scene, watch, switches=switches, most=most, one_in=one_in)


@contextlib.contextmanager
def _traced_meanwhile(watch: Watch) -> Iterator[None]:
    """Have instructions of this thread told as well, to nobody.

    From 3.13 on, code that runs without that forgets it: the next call of it that is traced would have no step.
    """

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "call" and frame.f_code.co_filename not in watch.files:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _explore(
    crew: Crew,
    scene: Callable[[Scheduler], Callable[[], None]],
    watch: Watch,
    *,
    switches: int,
    most: int,
    one_in: int,
) -> int:
    left: list[tuple[tuple[tuple[int, int], ...], int]] = [((), 0)]
    runs = last_switches = 0
    while left:
        taken, used = left.pop()
        known = -1
        while known < len(_KNOWN):  # from 3.12 on, of code that runs for the first time not every step is told
            known = len(_KNOWN)
            scheduler = Scheduler(taken, watch)
            check = scene(scheduler)
            scheduler.run(crew)
        runs += 1
        wrong = scheduler.errors[0] if scheduler.errors else _wrong(check)
        if wrong is not None:
            message = f"run {runs}, switches {taken}: {type(wrong).__name__}: {wrong}"
            raise AssertionError(message) from wrong
        assert runs < most, "too many orders to try them all"
        for variant in _variants(taken, used, scheduler, switches):
            if used < switches == variant[1]:
                last_switches += 1
                if last_switches % one_in:
                    continue
            left.append(variant)
    return runs


def _wrong(check: Callable[[], None]) -> BaseException | None:
    try:
        check()
    except AssertionError as error:
        return error
    return None


def _variants(
    taken: tuple[tuple[int, int], ...], used: int, scheduler: Scheduler, switches: int
) -> Iterator[tuple[tuple[tuple[int, int], ...], int]]:
    """The runs that differ from this one by one more switch, after its last one."""
    last = taken[-1][0] if taken else -1
    for number, others, forced in scheduler.choices:
        if number > last and used + (not forced) <= switches:
            for other in others:
                yield (*taken, (number, other)), used + (not forced)
