"""The cost of the barest exchange on this machine: threads, locks and futures alone, against the same raw Pykka.

And of the barest start: such an exchange, with nothing made but what is there of a child that does nothing.

No library can do better in Python: so these rows say which ratio is the most that a row of ``messages`` can reach here.
``MOST`` names the rows that each of them bounds; it is printed under the table. Where threads share a core, the bound
is below the floor of "ask_async, one after the other": raw Pykka blocks the loop there, which costs two locks and no
call of a loop, and a call of a loop (a write to its pipe, a poll, two reads) costs more than all else together.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, cast

from actors.execution.incarnation import Incarnation
from actors.messaging.mailbox import Mailbox
from actors.supervision.child import Child
from actors.supervision.child_table import child_form
from tests.bench.lives import start_raw
from tests.bench.messages import asks_of_raw, awaits_of_raw
from tests.bench.sides import echo
from tests.bench.table import Row, Size, compare, micros
from trees import WorkerSpec
from trees.declaration.build import build

WAIT_S = 120.0
AT_ONCE = 100
THREADS, TO_LOOP, TO_THREAD = (
    "from thread to thread and back",
    "from thread to loop and back",
    "from loop to thread and back",
)
MANY = f"{AT_ONCE} futures at once"
START = "a start, from thread to thread and back"
MOST = {
    THREADS: ("ask from outside", "worker asks worker, both on the pool"),
    TO_LOOP: ("worker asks worker, from the pool to the loop",),
    TO_THREAD: ("ask_async, one after the other",),
    MANY: ("ask_async, 100 at once to a pool of 8",),
    START: ("start_child",),
}
"""For each barest exchange: the rows whose ratio cannot be above its own."""


def barest(size: Size) -> Iterator[Row]:
    """Two thread switches; a loop that awaits a thread; a thread that awaits a loop; 100 futures at once."""
    number = size.asks
    rows: dict[str, tuple[Callable[[int], float], Callable[[int], float]]] = {
        THREADS: (_locks, asks_of_raw),
        TO_LOOP: (_thread_to_loop, asks_of_raw),
        TO_THREAD: (_loop_to_thread, awaits_of_raw),
        MANY: (_many, awaits_of_raw),
        START: (_start, start_raw),
    }
    for name, (ours, raw) in rows.items():
        many = size.children if name is START else number
        yield compare(
            f"barest: {name}",
            lambda ours=ours, many=many: ours(many),  # type: ignore[misc]
            lambda raw=raw, many=many: raw(many),  # type: ignore[misc]
            pairs=size.pairs,
            show=micros,
        )


def notes() -> Iterator[str]:
    """Which rows each barest exchange bounds, line by line."""
    yield "The ratio of a row cannot be above that of the barest exchange, which is threads, locks and futures alone:"
    for name, rows in MOST.items():
        yield f"  barest: {name} : {'; '.join(rows)}"


def _locks(number: int) -> float:
    there, back = _closed(), _closed()

    def answers() -> None:
        for _ in range(number):
            there.acquire(timeout=WAIT_S)
            back.release()

    with _Beside(answers):
        began = perf_counter()
        for _ in range(number):
            there.release()
            back.acquire(timeout=WAIT_S)
        return (perf_counter() - began) / number


def _start(number: int) -> float:
    """Nothing is checked, decided, told or run: the declaration, and the records that there are of an idle child."""
    there, back = _closed(), _closed()
    asked: deque[WorkerSpec] = deque()
    kind, host = build(WorkerSpec(id="w", handle=echo)), cast("Any", None)
    form = child_form(kind)
    children: dict[str, Child] = {}

    def makes() -> None:
        for n in range(number):
            there.acquire(timeout=WAIT_S)
            id_ = asked.popleft().id
            box = Mailbox(f"bench/{id_}")
            child = children[box.path] = Child(kind, id_, box, n, dynamic=True, form=form)
            child.incarnation = Incarnation(host, kind, box, host)
            back.release()

    with _Beside(makes):
        began = perf_counter()
        for n in range(number):
            asked.append(WorkerSpec(id=f"w{n}", handle=echo))
            there.release()
            back.acquire(timeout=WAIT_S)
        return (perf_counter() - began) / number


def _thread_to_loop(number: int) -> float:
    back, loop = _closed(), asyncio.new_event_loop()
    with _Beside(loop.run_forever):
        began = perf_counter()
        for _ in range(number):
            loop.call_soon_threadsafe(back.release)
            back.acquire(timeout=WAIT_S)
        took = perf_counter() - began
        loop.call_soon_threadsafe(loop.stop)
    loop.close()
    return took / number


def _loop_to_thread(number: int) -> float:
    return asyncio.run(_exchange(number, 1))


def _many(number: int) -> float:
    return asyncio.run(_exchange(number, AT_ONCE))


async def _exchange(number: int, at_once: int) -> float:
    """Futures that a thread completes, all that are there with one call of the loop."""
    loop, gate = asyncio.get_running_loop(), _closed()
    asked: deque[asyncio.Future[None] | None] = deque()

    def complete(futures: list[Any]) -> None:
        for future in futures:
            future.set_result(None)

    def answers() -> None:
        while True:
            gate.acquire(timeout=WAIT_S)
            found = [asked.popleft() for _ in range(len(asked))]
            if None in found:
                return
            loop.call_soon_threadsafe(complete, found)

    async def one() -> None:
        future = loop.create_future()
        asked.append(future)
        if len(asked) == at_once:
            gate.release()
        await future

    with _Beside(answers):
        began, rounds = perf_counter(), max(1, number // at_once)
        for _ in range(rounds):
            await (one() if at_once == 1 else asyncio.gather(*(one() for _ in range(at_once))))
        took = perf_counter() - began
        asked.append(None)
        gate.release()
    return took / (rounds * at_once)


def _closed() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class _Beside:
    """A thread that runs meanwhile, and has ended after it."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=act)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join(WAIT_S)
