"""The hazards of Pykka 4.5 that concern futures, repeated on the replies of supervised actors."""

import asyncio
import threading
import weakref
from time import monotonic
from typing import Any

import pykka
import pytest

from actors.testing import settle
from tests.support.hardening import BOTH, LONG_S, Gate, eventually, in_thread, tree_of, worker


def test_a_get_keeps_its_timeout_while_another_thread_waits_on_the_same_mapped_future() -> None:
    """Row 15."""
    gate = Gate()
    with tree_of(worker("w")) as tree:
        mapped = tree.ref("t/w").ask(gate, timeout=None, block=False).map(str.upper)
        other = in_thread(lambda: mapped.get(timeout=LONG_S))
        gate.wait_reached()
        began = monotonic()
        with pytest.raises(pykka.Timeout):
            mapped.get(timeout=0.05)
        took_s = monotonic() - began
        gate.open.set()

        assert other() == "THROUGH"
        assert took_s < LONG_S / 4


@BOTH
def test_awaiting_a_reply_leaves_the_event_loop_free_to_bring_it_about(kind: type[Any]) -> None:
    """Row 16: the reply needs the very loop that awaits it."""

    async def host() -> str:
        loop, needed = asyncio.get_running_loop(), threading.Event()

        def needs_the_loop(_: object) -> str:
            loop.call_soon_threadsafe(needed.set)
            assert needed.wait(LONG_S)
            return "both ran"

        return await tree.ref("t/w").ask(needs_the_loop, timeout=LONG_S, block=False)

    with tree_of(worker("w", kind)) as tree:
        assert asyncio.run(host()) == "both ran"


def test_awaiting_a_mapped_reply_leaves_the_event_loop_free() -> None:
    """Row 16."""
    gate = Gate()

    async def host() -> str:
        reply = tree.ref("t/w").ask(gate, timeout=LONG_S, block=False).map(str.upper)
        asyncio.get_running_loop().call_later(0.01, gate.open.set)
        return await reply

    with tree_of(worker("w")) as tree:
        assert asyncio.run(host()) == "THROUGH"


@BOTH
def test_a_kept_error_keeps_nothing_of_the_handler_alive(kind: type[Any]) -> None:
    """Row 23."""

    class Big:
        pass

    def fail(_: object) -> None:
        big = Big()
        kept.append(weakref.ref(big))
        raise ValueError

    kept = []
    with tree_of(worker("w", kind)) as tree:
        reply = tree.ref("t/w").ask(fail, block=False)
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - that it is kept is the point
            reply.get()
        settle(tree)
        eventually(lambda: kept[0]() is None, "the locals of the handler let go of")

        assert caught.value.__traceback__ is not None


def test_a_second_reader_of_an_error_does_not_see_the_frames_of_the_first() -> None:
    """Row 23."""

    def fail() -> None:
        raise ValueError

    def first_reader() -> None:
        reply.get()

    def names(error: BaseException) -> list[str]:
        frames = error.__traceback__
        found = []
        while frames is not None:
            found.append(frames.tb_frame.f_code.co_name)
            frames = frames.tb_next
        return found

    with tree_of(worker("w")) as tree:
        reply = tree.ref("t/w").ask(fail, block=False)
        with pytest.raises(ValueError) as first:  # noqa: PT011
            first_reader()
        seen_first = names(first.value)
        with pytest.raises(ValueError) as second:  # noqa: PT011
            reply.get()

    assert "first_reader" in seen_first
    assert "first_reader" not in names(second.value)
