"""``context.step``: what an attempt has done is recorded, and not done again when the same attempt runs again."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections import Counter
from typing import Any

import pytest
from pydantic import BaseModel

from actors import Failed, StepMismatchError, SubtaskStepped
from tests.support.attempts import AT_ONCE, LONG_S, Shop, run, shop, spec_of
from tests.tasks.late_store import LateStore
from trees import Retry, Subtask, Task, WorkerSpec, start

ONE = (Subtask("x", worker="a"),)
ONCE = Retry(max_attempts=1)


class Calls:
    """Functions for steps that count how often they are called."""

    def __init__(self) -> None:
        self.of: Counter[Any] = Counter()

    def sync(self, value: Any = 1) -> Any:
        self.of[value] += 1
        return value

    async def coro(self, value: Any = 1) -> Any:
        await asyncio.sleep(0)
        return self.sync(value)


def works(code: Any, *rungs: Any, **words: Any) -> WorkerSpec:
    return WorkerSpec(**{"id": "a", "execute": code, "on_failure": list(rungs), **words})


def stepped(it: Shop) -> list[tuple[str, int, Any]]:
    return [(each.step, each.number, each.value) for each in it.events(SubtaskStepped)]


# -- one attempt -------------------------------------------------------------------------------------------------


def test_a_step_on_a_thread_is_recorded_before_it_returns() -> None:
    calls, seen = Calls(), list[Any]()

    def work(_: Any, context: Any) -> Any:
        context.step_sync("look", calls.sync, 1)
        seen.append(len(it.events(SubtaskStepped)))
        return context.step_sync("look", calls.sync, value=2)

    with shop(ONE, works(work)) as it:
        it.submit()
        assert it.report().results == {"x": 2}
        assert stepped(it) == [("look", 1, 1), ("look", 2, 2)]
    assert seen == [1]


class Found(BaseModel):
    name: str
    at: tuple[int, int]


def test_the_result_is_the_json_form_in_every_run_alike_and_belongs_to_the_code() -> None:
    async def work(_: Any, context: Any) -> Any:
        found = await context.step("look", lambda: [Found(name="n", at=(1, 2)), {3: (4,)}])
        assert found == [{"name": "n", "at": [1, 2]}, {"3": [4]}]
        found.append("changed")
        return None

    with shop(ONE, works(work)) as it:
        it.submit()
        it.report()
        [(_, _, value)] = stepped(it)
    assert value == [{"name": "n", "at": [1, 2]}, {"3": [4]}]


@pytest.mark.parametrize("result", [object(), {"f": print}, {1, object()}, iter], ids=type)
def test_a_result_that_is_no_json_is_recorded_as_nothing_and_says_so(result: Any) -> None:
    async def work(_: Any, context: Any) -> Any:
        return await context.step("look", lambda: result)

    with shop(ONE, works(work, ONCE)) as it:
        it.submit()
        assert "the result of step 'look': " in it.report().failed["x"]
        assert stepped(it) == []


def test_a_step_whose_function_raises_records_nothing_and_is_the_same_step_when_it_is_called_again() -> None:
    keys = list[str]()

    async def work(_: Any, context: Any) -> Any:
        async def flaky(at: int) -> int:
            keys.append(context.step_key)
            if len(keys) < 3:
                raise OSError("once more")
            return at

        for _ in range(2):
            with pytest.raises(OSError, match="once more"):
                await context.step("send", flaky, 5)
        await context.step("send", flaky, 6)
        return await context.step("send", flaky, 5)

    with shop(ONE, works(work)) as it:
        it.submit()
        it.report()
        assert stepped(it) == [("send", 2, 6), ("send", 1, 5)]
    assert keys[0] == keys[1] == keys[3] != keys[2]


def test_step_sync_is_refused_on_the_loop_and_refuses_async_code_on_a_thread() -> None:
    calls = Calls()

    async def on_the_loop(_: Any, context: Any) -> str:
        with pytest.raises(Exception, match=r"await context\.step"):
            context.step_sync("look", calls.sync)
        return "refused"

    def on_a_thread(_: Any, context: Any) -> str:
        with pytest.raises(Failed, match=r"await context\.step"):
            context.step_sync("look", calls.coro)
        with pytest.raises(TypeError, match=r"context\.step_sync"):
            context.step("look", calls.sync)
        with pytest.raises(TypeError, match=r"context\.ask_sync"):
            context.ask("b", "look")
        return "refused"

    assert run(ONE, works(on_the_loop)).results == {"x": "refused"}
    assert run(ONE, works(on_a_thread)).results == {"x": "refused"}
    assert calls.of == {}


def test_the_key_of_a_step_is_that_of_the_call_and_there_is_none_outside() -> None:
    async def work(_: Any, context: Any) -> Any:
        async def key(_: int) -> str:
            await asyncio.sleep(0)
            return str(context.step_key)

        with pytest.raises(RuntimeError, match="within a step only"):
            _ = context.step_key
        keys = await asyncio.gather(*(context.step("pay the bill", key, at) for at in range(3)))
        assert all(each.startswith(context.idempotency_key) for each in keys)
        assert not any(" " in each for each in keys)
        return keys

    keys = run(ONE, works(work)).results["x"]
    assert len({*keys}) == 3


def test_a_step_within_a_step_has_numbers_of_its_own() -> None:
    calls = Calls()

    async def work(_: Any, context: Any) -> Any:
        async def outer(name: str) -> Any:
            return [await context.step("inner", calls.coro, f"{name}{at}") for at in range(2)]

        return [await context.step("outer", outer, name) for name in "ab"] + [await context.step("inner", calls.coro)]

    with shop(ONE, works(work)) as it:
        it.submit()
        assert it.report().results == {"x": [["a0", "a1"], ["b0", "b1"], 1]}
        assert [each[:2] for each in stepped(it)] == [
            ("outer#1/inner", 1),
            ("outer#1/inner", 2),
            ("outer", 1),
            ("outer#2/inner", 1),
            ("outer#2/inner", 2),
            ("outer", 2),
            ("inner", 1),
        ]


def test_a_call_that_is_cancelled_while_its_record_is_written_is_not_made_again() -> None:
    calls, store = Calls(), LateStore()

    async def work(_: Any, context: Any) -> Any:
        store.hold()
        first = asyncio.ensure_future(context.step("pay", calls.sync, 7))
        assert await asyncio.to_thread(store.flushed.acquire, timeout=LONG_S)
        first.cancel()
        await asyncio.wait({first})
        assert first.cancelled()
        second = asyncio.ensure_future(context.step("pay", calls.sync, 7))
        other = asyncio.ensure_future(context.step("pay", calls.sync, 8))
        assert await asyncio.to_thread(store.flushed.acquire, timeout=LONG_S)
        assert calls.of[8] == 1, "the one after it is made"
        assert not second.done(), "it is not kept yet"
        store.keep()
        return [await second, await other]

    with start(spec_of(ONE, works(work)), store=store) as tree:
        handle = tree.submit(Task("sell"))
        assert handle.result(LONG_S).results == {"x": [7, 8]}
        steps = [(each.number, each.value) for each in handle.events() if isinstance(each, SubtaskStepped)]
    assert steps == [(1, 7), (2, 8)]
    assert calls.of == {7: 1, 8: 1}


def test_steps_of_many_threads_and_tasks_at_once_are_recorded_once_each() -> None:
    calls = Calls()

    def threads(_: Any, context: Any) -> int:
        def some(at: int) -> None:
            for number in range(20):
                context.step_sync(f"t{at}", calls.sync, (at, number))

        each = [threading.Thread(target=some, args=(at,)) for at in range(8)]
        for thread in each:
            thread.start()
        for thread in each:
            thread.join()
        return 160

    async def tasks(_: Any, context: Any) -> int:
        found = await asyncio.gather(*(context.step("same", calls.coro, ("async", at)) for at in range(200)))
        assert [at for _, at in found] == list(range(200))
        return len(found)

    with shop((*ONE, Subtask("y", worker="b")), works(threads), works(tasks, id="b")) as it:
        it.submit()
        assert it.report().results == {"x": 160, "y": 200}
        keys = [(step, number) for step, number, _ in stepped(it)]
    assert len(keys) == len({*keys}) == 360
    assert {*calls.of.values()} == {1}


# -- another attempt ---------------------------------------------------------------------------------------------


class Twice:
    """Makes three steps, the middle one for the whole subtask, and ends as it is told."""

    def __init__(self, *ends: Any) -> None:
        self.calls, self.ends = Calls(), list(ends)

    async def __call__(self, _: Any, context: Any) -> Any:
        await context.step("own", self.calls.coro, "own")
        await context.step("of all", self.calls.coro, "all", keep="subtask")
        await context.step("own", self.calls.coro, "last")
        if self.ends:
            raise self.ends.pop(0)
        return "done"


def test_a_retry_starts_without_steps_but_for_those_of_the_subtask() -> None:
    code = Twice(Failed("no"), Failed("no"))
    assert run(ONE, works(code, AT_ONCE)).results == {"x": "done"}
    assert code.calls.of == {"own": 3, "all": 1, "last": 3}


# -- the end of an attempt ---------------------------------------------------------------------------------------


def test_an_attempt_that_is_cancelled_in_a_step_records_nothing_of_it() -> None:
    begun = threading.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def work(_: Any, context: Any) -> Any:
        return await context.step("wait", endless)

    with shop(ONE, works(work)) as it:
        it.begin()
        assert begun.wait(LONG_S)
        it.handle.cancel()
        it.report()
        assert stepped(it) == []


def test_a_thread_that_was_given_up_makes_and_records_no_further_step() -> None:
    begun, gate, ended = threading.Event(), threading.Event(), list[BaseException]()
    over = threading.Event()

    def hangs() -> str:
        begun.set()
        assert gate.wait(LONG_S)
        return "too late"

    def work(_: Any, context: Any) -> Any:
        for _ in range(2):
            try:
                context.step_sync("hang", hangs)
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                ended.append(error)
        over.set()
        return "nobody hears it"

    with shop(ONE, works(work, ONCE, timeout_s=1.0)) as it:
        it.begin()
        assert begun.wait(LONG_S)
        it.advance(1.0)
        it.report()
        gate.set()
        assert over.wait(LONG_S)
        assert stepped(it) == []
    assert [type(each).__name__ for each in ended] == ["AttemptEnded", "AttemptEnded"]


def test_each_step_is_a_sign_of_life() -> None:
    shown = threading.Event()

    def work(_: Any, context: Any) -> str:
        for _at in range(4):
            context.step_sync("look", lambda: None)
            it.clock.advance(0.7)
        shown.set()
        return "alive"

    with shop(ONE, works(work, ONCE, idle_timeout_s=1.0)) as it:
        it.begin()
        assert shown.wait(LONG_S)
        assert it.report().results == {"x": "alive"}


def test_a_mismatch_error_names_both_and_goes_through_pickle() -> None:
    error = StepMismatchError("x", "charge", 2, "aaaa", "bbbb")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    for each in (error, again):
        assert type(each) is StepMismatchError
        assert not each.retryable
        assert all(part in str(each) for part in ("x", "'charge'", "2", "aaaa", "bbbb"))
