# ruff: noqa: INP001 - no __init__.py here: to the scripts of tests/, a package of this name would be the real typing
"""The public API as a user writes it; type-checked by `mypy --strict`, run by nobody."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Literal, assert_type

import pykka

import actors
from actors import (
    ActorsError,
    ActorStoppedError,
    ChildCounts,
    ChildError,
    ChildExited,
    ChildInfo,
    ConfigError,
    DeadLetter,
    Event,
    Failed,
    Ignore,
    LastExit,
    ParkedError,
    Problem,
    RecursionDetectedError,
    Ref,
    Reply,
    ReplyTimeoutError,
    RestartLimitError,
    TreeDownError,
    Worker,
)
from actors.testing import ManualClock, settle
from trees import (
    HA,
    Backoff,
    Batch,
    Keep,
    LeaseLostError,
    Mailbox,
    Plan,
    Report,
    RoleChanged,
    StoreBusyError,
    StoreError,
    Subtask,
    SupervisorSpec,
    Task,
    TaskHandle,
    Tree,
    WorkerSpec,
    start,
    start_async,
)

# -- workers -----------------------------------------------------------------------------------------------


class Ledger(Worker):
    """Sync hooks, with the types that a user would give them."""

    def __init__(self, path: str, *, limit: int = 10) -> None:
        self.path = path
        self.limit = limit

    def on_start(self) -> None:
        if not self.path:
            raise Ignore

    def on_receive(self, message: dict[str, int]) -> int:
        if not message:
            raise Failed("nothing to add")
        return sum(message.values())

    def on_stop(self) -> None: ...

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def total(self) -> int:
        self.actor_ref.tell({"again": 1})
        self.stop()
        return self.limit


class Counter(Worker):
    """Its messages are amounts, so it says so: the parameter is positional."""

    def on_receive(self, amount: int) -> int:
        return amount


class Asks(Worker):
    """It is given the Ref of a worker whose replies are numbers."""

    def __init__(self, counter: Ref[int]) -> None:
        self.counter = counter

    def on_start(self) -> None:
        assert_type(self.counter.ask(1), int)
        later = self.counter.ask(1, timeout=2.0, block=False)
        assert_type(later, Reply[int])
        assert_type(later.get(), int)

    async def on_receive(self, amount: int) -> int:
        assert_type(await self.counter.ask(amount, block=False), int)
        return await self.counter.ask_async(amount)


class Feed(Worker):
    """The same hooks, async."""

    async def on_start(self) -> None:
        await asyncio.sleep(0)

    async def on_receive(self, message: str) -> int:
        reply: int = await actors.ref("shop/parse").ask_async(message, timeout=2.0)
        return reply

    async def on_stop(self) -> None:
        await asyncio.sleep(0)

    async def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Careless(Worker):
    """A hook that does not look at its arguments."""

    def on_failure(self, *_: object) -> None: ...


class Narrow(Worker):
    """There always is an exception."""

    def on_failure(self, kind: type[BaseException], error: BaseException, frames: TracebackType) -> None: ...


class Stock(pykka.ThreadingActor):
    """A Pykka actor as it stands."""

    def on_receive(self, message: Any) -> Any:
        return message


def poll(seconds: float = 1.0) -> None:
    while not actors.sleep(seconds):
        assert_type(actors.stopping(0.5), bool)
        actors.heartbeat()


async def listen() -> None:
    await asyncio.sleep(0)


def parse(message: str) -> int:
    return int(message)


async def fetch(message: str) -> bytes:
    return message.encode()


# -- declaring ---------------------------------------------------------------------------------------------

TREE = SupervisorSpec(
    id="shop",
    strategy="rest_for_one",
    max_restarts=3,
    period_s=5.0,
    auto_shutdown="any_significant",
    max_children=20,
    parallel_stop=True,
    children=[
        WorkerSpec(id="poll", run=poll, args=(0.5,), restart="transient", significant=True),
        WorkerSpec(id="asks", actor=Asks, args=(Ref.to("shop/counter"),)),
        WorkerSpec(id="listen", run=listen, shutdown="brutal_kill"),
        WorkerSpec(id="parse", handle=parse, pool=8, expected=(ValueError,)),
        WorkerSpec(id="fetch", handle=fetch, mailbox=Mailbox(capacity=10, overflow="drop_oldest")),
        WorkerSpec(id="mailer", actor="shop.mail:Mailer", on_exhausted="park", start_timeout_s=None, stall_s=30.0),
        SupervisorSpec(
            id="billing",
            strategy="one_for_all",
            shutdown=10,
            children=(
                WorkerSpec(id="ledger", actor=Ledger, args=("ledger.db",), kwargs={"limit": 3}),
                WorkerSpec(id="feed", actor=Feed, backoff=Backoff(initial_s=0.1, max_s=5.0, jitter=0.0)),
                WorkerSpec(id="stock", actor=Stock, dispatch="thread", crash_on_ask_error=True),
            ),
        ),
    ],
)

assert_type(TREE.model_copy(update={"max_restarts": 5}), SupervisorSpec)


# -- running -----------------------------------------------------------------------------------------------


def candidate() -> None:
    tree = start(TREE, store="postgresql://regrow@db/tasks", ha=HA(lease_s=10, name="one"))
    assert_type(tree.role, Literal["leader", "standby", "stopped"])
    assert_type(tree.holder, str | None)
    assert_type(tree.wait_for_role("leader", timeout=5.0), bool)
    tree.subscribe(roles)


def roles(event: Event) -> None:
    if isinstance(event, RoleChanged):
        assert_type(event.token, int)
        assert_type(event.reason, str)


def host() -> None:
    with start(TREE, seed=1, max_threads=100, max_hops=10, console=True, loop_stall_s=5.0) as tree:
        assert_type(tree, Tree)
        assert_type(tree.spec, SupervisorSpec)
        assert_type(tree.is_alive, bool)
        ledger = tree.ref("shop/billing/ledger")
        assert_type(ledger, Ref)
        assert_type(ledger.path, str)
        ledger.tell({"order": 7})
        ledger.tell({"order": 7}, detached=True)
        total: int = ledger.ask({"order": 7}, timeout=2.0)
        later: Reply = ledger.ask({"order": total}, block=False)
        assert_type(later.wait(1.0), bool)
        assert_type(later.done, bool)
        also: int = ledger.proxy().total().get()
        print(later.get(timeout=also))
        assert_type(ledger.is_alive(), bool)
        ledger.stop()
        look(tree)
        change(tree)
        assert_type(tree.wait(timeout=0.1), bool)
        assert_type(tree.stop(timeout=5.0), bool)


def durable_host() -> None:
    kept = Keep(age_s=24 * 3600.0, count=100)
    try:
        with start(TREE, store="sqlite:///tasks.db", durability="power", keep=kept) as tree:
            (goes_on,) = tree.resumed()
            assert_type(goes_on, TaskHandle)
            assert_type(goes_on.kept, list[str])
            assert_type(goes_on.task, Task)
            assert_type(tree.tasks("running"), list[TaskHandle])
    except StoreBusyError as error:
        assert_type(error.holder, str)
    except LeaseLostError as error:
        assert_type(error.root, str)
    except StoreError as error:
        assert_type(error.may_be_taken, bool)


async def durable_async_host() -> None:
    async with start_async(TREE, store="postgresql://me@localhost/tasks", durability="process") as tree:
        assert_type(await tree.asubmit(Task("do it", id="t-1")), TaskHandle)
        assert_type(await tree.arun("do it"), Report)


async def async_host() -> None:
    async with start_async(TREE) as tree:
        assert_type(tree, Tree)
        ledger = tree.ref("shop/billing/ledger")
        await ledger.tell_async({"order": 7})
        total: int = await ledger.ask_async({"order": 7})
        later: Reply = ledger.ask({"order": total}, block=False)
        print(await later)
    kept = await start_async(TREE)
    assert_type(kept, Tree)
    async with kept:
        pass


def batch(tree: Tree) -> None:
    for item, result in tree.map([1, 2], to="shop/parse", timeout_s=1.0, progress=print):
        assert_type(item, int)
        assert_type(result, Any)
    with tree.map(iter("ab"), "reading", on_error="raise", max_in_flight=2) as items:
        assert_type(items, Batch[str, Any])
        items.close()


async def async_batch(tree: Tree, lines: AsyncIterator[bytes]) -> None:
    async for item, _ in tree.map(lines, to="reading"):
        assert_type(item, bytes)
    assert_type(await tree.arun(Task("do it", plan=Plan([Subtask("first")]))), Report)


def look(tree: Tree) -> None:
    assert_type(tree.dump(), str)
    assert_type(tree.dump("shop/billing", format="mermaid"), str)
    child = tree.child("shop/parse")
    assert_type(child, ChildInfo)
    assert_type(child.last_exit, LastExit | None)
    assert_type(child.ref, Ref)
    assert_type(tree.which_children("shop"), list[ChildInfo])
    counts = tree.count_children("shop")
    assert_type(counts, ChildCounts)
    assert_type(counts.active, int)


def change(tree: Tree) -> None:
    counter: Ref[int] = tree.ref("shop/counter")
    assert_type(counter.ask(1), int)
    try:
        assert_type(tree.start_child("shop", WorkerSpec(id="extra", handle=parse)), Ref)
        tree.terminate_child("shop/extra")
        assert_type(tree.restart_child("shop/extra"), Ref)
        tree.delete_child("shop/extra")
    except ChildError as error:
        if error.code == "already_started":
            print(error.path)


# -- what happens ------------------------------------------------------------------------------------------


def watch(tree: Tree) -> None:
    crashes: list[tuple[str, BaseException]] = []

    def seen(event: Event) -> None:
        match event:
            case ChildExited(path=path, error=BaseException() as error):
                crashes.append((path, error))
            case DeadLetter(reason=reason):
                assert_type(reason, str)
            case _:
                pass

    unsubscribe = tree.subscribe(seen)
    assert_type(unsubscribe, Callable[[], None])
    unsubscribe()


def errors(ref: Ref) -> Any:
    try:
        return ref.ask("message")
    except ReplyTimeoutError as error:
        assert_type(error.timeout_s, float)
    except ParkedError as error:
        assert_type(error.path, str)
    except TreeDownError as error:
        return error.__cause__
    except ActorStoppedError as error:
        assert_type(error.why, str)
    except RecursionDetectedError as error:
        assert_type(error.chain, tuple[str, ...])
    except ConfigError as error:
        assert_type(error.problems, tuple[Problem, ...])
    except RestartLimitError as error:
        assert_type(error.limit, int)
    except ActorsError:
        raise
    return None


# -- testing -----------------------------------------------------------------------------------------------


def test_a_tree_of_ones_own() -> None:
    clock = ManualClock()
    with start(TREE, clock=clock) as tree:
        clock.advance(5.0)
        settle(tree)

        assert tree.child("shop/parse").state == "running"
