"""An answer of a worker's process, from the wire to who waits for it: in few steps, and after what was told before."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from actors.dispatch.host.answer import Answer
from actors.dispatch.host.forked_handle import ForkedHandle
from actors.dispatch.remote import CHUNK, Frame, FrameReader, Kind, dumped, frame, loaded, parts_of
from tests.actors.dispatch.process_trees import running, worker
from tests.support.hardening import LONG_S
from trees import WorkerSpec

FRAME = Frame(Kind.RESULT, 1, 0, b"")


# -- few steps -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "pieces"),
    [
        ([b"payload"], 1),
        ([b"meta", b"payload"], 1),
        ([b"meta", b"payload", memoryview(bytearray(1000)), b"", b"end"], 1),
        ([bytes(CHUNK)], 1),
        ([bytes(CHUNK + 1)], 2),
        ([b"meta", bytes(CHUNK)], 2),
        ([bytes(CHUNK + 1), b"small", bytes(10)], 4),
    ],
)
def test_a_small_frame_is_written_in_one_piece_and_any_is_read_as_it_was(parts: list[Any], pieces: int) -> None:
    """Each write wakes the other side, which would find half a frame."""
    whole = frame(Kind.MESSAGE, 7, parts)
    assert len(whole) == pieces
    ours, theirs = socket.socketpair()
    with ours, theirs:
        writer = threading.Thread(target=lambda: [theirs.sendall(each) for each in whole])
        writer.start()
        reader = FrameReader(ours)
        while not reader.frames:
            assert reader.receive()
        writer.join()
        found = reader.frames.popleft()
        assert (found.kind, found.number) == (Kind.MESSAGE, 7)
        assert list(map(bytes, parts_of(found))) == list(map(bytes, parts))


def test_who_waits_for_an_answer_goes_on_where_it_is_read_and_not_a_turn_of_the_loop_later() -> None:
    async def scenario() -> list[str]:
        steps: list[str] = []
        answer = Answer()

        async def wait() -> None:
            await answer
            steps.append("goes on")

        def read() -> None:
            answer.come(FRAME, at_once=True)
            steps.append("was read")

        waits = asyncio.create_task(wait())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(read)
        await waits
        assert answer.frame is FRAME
        return steps

    assert asyncio.run(scenario()) == ["goes on", "was read"]


@pytest.mark.parametrize("at_once", [True, False])
def test_an_answer_that_comes_while_another_task_runs_or_after_others_wakes_who_waits_a_turn_later(
    at_once: bool,
) -> None:
    async def scenario() -> list[str]:
        steps: list[str] = []
        answer = Answer()

        async def wait() -> None:
            await answer
            steps.append("goes on")

        waits = asyncio.create_task(wait())
        await asyncio.sleep(0)
        if at_once:
            answer.come(FRAME, at_once=True)  # in this task
        else:
            asyncio.get_running_loop().call_soon(lambda: answer.come(FRAME, at_once=False))
            asyncio.get_running_loop().call_soon(steps.append, "begun before")
        steps.append("here")
        await waits
        return steps

    assert asyncio.run(scenario()) == (["here", "goes on"] if at_once else ["here", "begun before", "goes on"])


@pytest.mark.parametrize("first", ["answer", "none", "cancel"])
def test_of_an_answer_the_end_of_the_process_and_a_cancel_only_the_first_counts(first: str) -> None:
    async def scenario() -> tuple[Any, bool]:
        answer = Answer()

        async def wait() -> None:
            await answer

        waits = asyncio.create_task(wait())
        await asyncio.sleep(0)
        acts = {
            "answer": lambda: answer.come(FRAME, at_once=False),
            "none": lambda: answer.come(None, at_once=False),
            "cancel": waits.cancel,
        }
        acts.pop(first)()
        for act in acts.values():
            act()
        await asyncio.wait({waits})
        return answer.frame, answer.cancelled()

    assert asyncio.run(scenario()) == (FRAME if first == "answer" else None, first == "cancel")


# -- order ---------------------------------------------------------------------------------------------------


def test_what_a_worker_has_told_before_its_answer_is_in_the_mailbox_before_its_asker_hears_of_it() -> None:
    gate, busy = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        busy.set()
        gate.wait()

    seen: list[int] = []
    with running(worker(), WorkerSpec(id="t", handle=hold)) as (tree, ask):
        target = tree.ref("p/t")
        ask(("keep", "p/t"))  # from now on telling it asks nothing of the host before
        target.tell("first")
        busy.wait()
        for _ in range(20):
            reply = ask(("kept", "p/t", "tell", "more"), block=False, timeout=None)
            heard = threading.Event()

            def look(heard: threading.Event = heard) -> None:
                seen.append(target.depth)
                heard.set()

            reply.when_done(look)
            reply.get()
            assert heard.wait(LONG_S)  # who waits for the reply may be told of it first
        gate.set()
    assert seen == list(range(1, 21))


def test_a_message_that_is_handed_over_while_the_last_words_of_a_dead_process_are_read_was_never_begun() -> None:
    """The other end of its wire may be open still: a process that it has started holds it."""

    async def scenario() -> bool:
        sent = asyncio.Event()

        class Owner:
            def took(self, read: Frame) -> None:
                assert loaded(parts_of(read)) == "answer"
                handle.send(Kind.MESSAGE, 2, dumped("next"))
                sent.set()

            def died(self, *_: Any) -> None:
                assert sent.is_set()

        def start_process(end: socket.socket) -> int:
            theirs.append(end.dup())
            end.close()
            status, told = os.pipe()
            os.close(told)
            return status

        theirs: list[socket.socket] = []
        handle = ForkedHandle(Owner(), SimpleNamespace(start_process=start_process))  # type: ignore[arg-type]
        starts = asyncio.create_task(handle.start())
        while not theirs:  # noqa: ASYNC110 - a thread of the loop hands it over
            await asyncio.sleep(0)
        process = subprocess.Popen(  # noqa: ASYNC220 - it only sleeps
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )
        try:
            theirs[0].sendall(b"".join(frame(Kind.HELLO, process.pid, [b""])))
            await asyncio.wait_for(starts, 60)
            theirs[0].sendall(b"".join(frame(Kind.RESULT, 1, dumped("answer"))))
            handle._has_ended(-9)
            return handle.is_unread(2)
        finally:
            process.kill()
            process.wait()
            await handle.end()
            theirs[0].close()

    assert asyncio.run(scenario())
