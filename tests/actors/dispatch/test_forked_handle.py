"""The host's half of a process against its own end, in both orders: the fork server, the guardian, an answer."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from actors import NotPicklableError, StartError
from actors.dispatch.host import forked_handle
from actors.dispatch.host.forked_handle import ForkedHandle, ForkedPlace
from actors.dispatch.process import ProcessCode, ProcessWorker
from actors.dispatch.remote import Frame, FrameReader, Kind, dumped, frame, loaded, parts_of
from tests.actors.dispatch.process_trees import running, spec_of, worker
from trees import Process, start


class Owner:
    """Notes the ends of its process."""

    def __init__(self) -> None:
        self.ends: list[tuple[int | None, int | None]] = []
        self.ended = asyncio.Event()

    def took(self, frame: Frame) -> None:
        """Take nothing."""

    def died(self, exit_code: int | None, number: int | None) -> None:
        self.ends.append((exit_code, number))
        self.ended.set()


class KilledServer:
    """A fork server that is killed as soon as it was asked."""

    def __init__(self, *, has_forked: bool) -> None:
        self._has_forked = has_forked
        self.theirs: socket.socket | None = None

    def start_process(self, end: socket.socket) -> int:
        if self._has_forked:
            self.theirs = end.dup()
        end.close()
        status, told = os.pipe()
        os.close(told)
        return status


def test_a_process_that_was_forked_just_before_its_server_was_killed_goes_on_and_its_end_is_seen() -> None:
    async def scenario() -> None:
        owner, server = Owner(), KilledServer(has_forked=True)
        handle = ForkedHandle(owner, server)  # type: ignore[arg-type]
        starts = asyncio.create_task(handle.start())
        while not handle._is_untold:  # noqa: ASYNC110 - the loop turns until it has seen that the server is gone
            await asyncio.sleep(0)
        process = subprocess.Popen(  # noqa: ASYNC220 - it only sleeps
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )
        try:
            assert server.theirs is not None
            server.theirs.sendall(b"".join(frame(Kind.HELLO, process.pid, [b""])))
            await asyncio.wait_for(starts, 10)
            assert (handle.pid, owner.ends) == (process.pid, [])
            os.kill(process.pid, signal.SIGKILL)
            await asyncio.wait_for(owner.ended.wait(), 10)
            assert owner.ends == [(None, signal.SIGKILL)], "this test is its parent and has not reaped it yet"
        finally:
            process.kill()
            process.wait()
            await handle.end()
            assert server.theirs is not None
            server.theirs.close()

    asyncio.run(scenario())


def test_a_process_that_was_not_forked_before_its_server_was_killed_is_a_failed_start() -> None:
    async def scenario() -> None:
        owner = Owner()
        handle = ForkedHandle(owner, KilledServer(has_forked=False))  # type: ignore[arg-type]
        with pytest.raises(ChildProcessError):
            await asyncio.wait_for(handle.start(), 10)
        await handle.end()

    asyncio.run(scenario())


@pytest.mark.parametrize("when", ["before there is an object", "before its first step", "after it"])
def test_a_start_that_is_called_off_leaves_no_socket(when: str) -> None:
    """A task that is cancelled before its first step never runs: who made the sockets closes them then."""

    async def scenario() -> None:
        is_early = when == "before there is an object"  # nobody could tell that to stop, so it looks itself
        life: Any = SimpleNamespace(mailbox=SimpleNamespace(path="p/w"), system=None, was_killed=False)
        life.order = "shutdown" if is_early else None
        handles: list[ForkedHandle] = []

        def handle(owner: Any) -> ForkedHandle:
            handles.append(ForkedHandle(owner, KilledServer(has_forked=False)))  # type: ignore[arg-type]
            return handles[-1]

        half: Any = ProcessWorker(life, ProcessCode(b"", SimpleNamespace(handle=handle)))  # type: ignore[arg-type]
        lifespan = half.lifespan()
        entering = asyncio.ensure_future(lifespan.__aenter__())
        while not is_early and half._starting is None:  # noqa: ASYNC110 - the loop turns until the task is made
            await asyncio.sleep(0)
        if when == "after it":
            await asyncio.sleep(0)
        if not is_early:
            life.order = "shutdown"
            half.tell_to_stop()
        with suppress(ChildProcessError):  # the server may have been too quick
            await entering
            await half.on_start()
            await half.on_stop()
            await lifespan.__aexit__(None, None, None)
        while handles[0]._theirs.fileno() >= 0:  # noqa: ASYNC110 - the thread closes it that was asked to
            await asyncio.sleep(0)
        assert handles[0]._ours.fileno() < 0
        assert handles[0]._is_handed_over == (when == "after it")

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_a_process_that_cannot_be_guarded_is_a_failed_start_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: int) -> None:
        raise OSError("no guardian")

    monkeypatch.setattr(forked_handle, "guard", refused)
    with pytest.raises(StartError, match="OSError"), start(spec_of(worker(start_timeout_s=60.0))):
        pass


@pytest.mark.parametrize("is_answered", [True, False])
def test_an_attempt_that_is_ended_when_its_answer_is_there_already_costs_its_process_nothing(is_answered: bool) -> None:
    async def scenario() -> list[Any]:
        done: list[Any] = []
        mailbox = SimpleNamespace(path="p/w")
        life: Any = SimpleNamespace(mailbox=mailbox, system=None, order=None, was_killed=False)
        half: Any = ProcessWorker(life, ProcessCode(b"", ForkedPlace(())))
        loop = asyncio.get_running_loop()
        half._started, half._exit = loop.create_future(), loop.create_future()

        def give_up() -> bool:
            done.append("given up")
            return True

        half._handle = SimpleNamespace(send=lambda kind, *_: done.append(kind), is_unread=lambda _: False)
        life.recipe, life.give_up = SimpleNamespace(is_body=False), give_up
        steps = SimpleNamespace(end_traces=lambda: None)
        context = SimpleNamespace(_regrow_crossing=lambda task: (task, steps, lambda: "timeout"))
        work = asyncio.create_task(half.execute("task", context))
        while not done and not work.done():  # noqa: ASYNC110 - until it was handed over
            await asyncio.sleep(0)
        if is_answered:
            half.took(Frame(Kind.RESULT, 1, 0, dumped((True, 42, True))[0]))
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return done

    assert asyncio.run(scenario()) == [Kind.MESSAGE] + ([] if is_answered else [Kind.CANCEL, "given up"])


def test_a_message_for_which_its_process_has_no_memory_is_an_error_of_that_one_message() -> None:
    with running(worker(dispatch=Process(memory_mb=400))) as (tree, ask):
        with pytest.raises(NotPicklableError, match="MemoryError"):
            ask(("echo", bytes(450_000_000)), timeout=120)
        assert ask(21, timeout=60) == 42
        assert tree.child("p/w").incarnation == 1


def test_a_frame_without_memory_is_skipped_and_the_next_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(_: int) -> bytearray:
        raise MemoryError

    monkeypatch.setattr("actors.dispatch.remote.bytearray", no_room, raising=False)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = FrameReader(ours)
        data = b"".join(frame(Kind.MESSAGE, 1, [bytes(200_000)]) + frame(Kind.MESSAGE, 2, dumped(1)))
        for at in range(0, len(data), 50_000):
            theirs.sendall(data[at : at + 50_000])
            reader.receive()
        while len(reader.frames) < 2:
            reader.receive()
        lost, whole = reader.frames
        assert (lost.number, whole.number) == (1, 2)
        with pytest.raises(MemoryError):
            parts_of(lost)
        assert loaded(parts_of(whole)) == 1
