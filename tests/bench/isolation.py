"""What a process of its own costs a worker: messages, large replies, starts, a kill, and work that needs the cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

from actors import Ref, WorkerCrashedError
from tests.bench import isolated
from tests.bench.isolated import TURNS, do, turn
from tests.bench.sides import logs_to_nowhere, tree_of
from tests.bench.table import Row, Size, compare, limit, micros, seconds
from trees import Process, SupervisorSpec, WorkerSpec, start

PIPE, EXECUTOR, THREADS = "multiprocessing.Pipe", "ProcessPoolExecutor(2)", "pool=2 on threads"
WAIT_S = 120.0
PRELOADED = Process(preload=(isolated.__name__,))
MOST_KILL_S, MOST_START_S = 0.05, 1.5
MEGABYTE = 1024 * 1024


def milli(value: float) -> str:
    """Seconds, shown as milliseconds."""
    return f"{value * 1e3:.1f} ms"


def worker(id_: str = "w", **fields: Any) -> WorkerSpec:
    return WorkerSpec(id=id_, handle=do, **{"dispatch": PRELOADED, "start_timeout_s": WAIT_S, **fields})


@contextmanager
def piped() -> Iterator[Connection]:
    """The barest worker in a process, at the other end of a pipe."""
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    process = context.Process(target=isolated.serve, args=(theirs,))
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join(WAIT_S)


def ask(size: Size) -> Iterator[Row]:
    """Ask and reply, one after the other."""
    with tree_of(worker()) as tree, piped() as pipe:
        ref = tree.ref("bench/w")
        yield compare(
            f"ask a process : {PIPE}",
            lambda: _each(lambda: ref.ask("echo", timeout=WAIT_S), size.echoes),
            lambda: _each(lambda: _through(pipe, "echo"), size.echoes),
            pairs=size.pairs,
            show=micros,
            floor=1 / 3,
        )


def large(size: Size) -> Iterator[Row]:
    """A large reply, as bytes."""
    wanted = ("bytes", size.reply_mb * MEGABYTE)
    with tree_of(worker()) as tree, piped() as pipe:
        ref = tree.ref("bench/w")
        yield compare(
            f"reply of {size.reply_mb} MB : {PIPE}",
            lambda: _each(lambda: ref.ask(wanted, timeout=WAIT_S), 1),
            lambda: _each(lambda: _through(pipe, wanted), 1),
            pairs=size.pairs,
            show=milli,
            floor=0.5,
        )


def _through(pipe: Connection, message: object) -> object:
    pipe.send(message)
    return pipe.recv()


def _each(act: Callable[[], object], number: int) -> float:
    began = perf_counter()
    for _ in range(number):
        act()
    return (perf_counter() - began) / number


def kill(size: Size) -> Iterator[Row]:
    """From a kill -9 to the reply of the next incarnation."""
    with logs_to_nowhere(), tree_of(worker()) as tree:
        ref = tree.ref("bench/w")
        took = []
        for _ in range(size.kills):
            pid = ref.ask("pid", timeout=WAIT_S)
            began = perf_counter()
            os.kill(pid, signal.SIGKILL)
            while _pid_now(ref) in {None, pid}:
                continue
            took.append(perf_counter() - began)
    yield limit("kill -9 to the next reply", statistics.median(took), show=milli, floor=MOST_KILL_S)


def _pid_now(ref: Ref) -> int | None:
    """Return the process of the worker that replies, or None where it died with this message."""
    try:
        pid: int = ref.ask("pid", timeout=WAIT_S)
    except WorkerCrashedError:
        return None
    return pid


def starting(size: Size) -> Iterator[Row]:
    """Start a tree of workers in processes; its fork server runs already."""
    with tree_of(worker()):
        took = statistics.median(_start(size.brood) for _ in range(size.pairs))
    yield limit(f"start {size.brood} workers in processes", took, show=seconds, floor=MOST_START_S)


def _start(number: int) -> float:
    spec = SupervisorSpec(id="bench", children=[worker(pool=number)])
    began = perf_counter()
    with start(spec):
        return perf_counter() - began


def work(size: Size) -> Iterator[Row]:
    """Handlings that keep a core busy for 5 ms each, two at a time."""
    number = size.handlings
    turn(TURNS)  # warm
    with tree_of(worker(pool=2), worker("t", pool=2, dispatch="pool")) as tree, _executor() as executor:
        processes, threads = tree.ref("bench/w"), tree.ref("bench/t")
        for name, other, floor in (
            (EXECUTOR, lambda: _executed(executor, number), 0.95),
            (THREADS, lambda: _asked(threads, number), 1.7),
        ):
            yield compare(
                f"{number:,} of 5 ms : {name}",
                lambda: _asked(processes, number),
                other,
                pairs=size.pairs,
                show=milli,
                floor=floor,
            )


@contextmanager
def _executor() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver")) as executor:
        list(executor.map(do, ["up"] * 4))
        yield executor


def _asked(ref: Any, number: int) -> float:
    began = perf_counter()
    for reply in [ref.ask(TURNS, timeout=WAIT_S, block=False) for _ in range(number)]:
        reply.get()
    return (perf_counter() - began) / number


def _executed(executor: ProcessPoolExecutor, number: int) -> float:
    began = perf_counter()
    for future in [executor.submit(do, TURNS) for _ in range(number)]:
        future.result(WAIT_S)
    return (perf_counter() - began) / number
