"""The keeper: who starts and ends a tree while the store answers, lies, hangs or is gone. The store is a stand-in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors import ActorsError, Reply, StartError, TreeDownError
from actors.model.clock import unstopped
from actors.runtime.system import System
from actors.tasks.orchestration.task_runtime import TaskRuntime, attach
from actors.testing import Hang
from tests.support.crew import LONG_S, Record, shop
from tests.tasks.task_crew import idle
from trees import (
    HA,
    LeaseLostError,
    NotLeaderError,
    Plan,
    PlanRefused,
    RoleChanged,
    RoleLost,
    StaticPlan,
    StoreError,
    Subtask,
    SubtaskFailed,
    SubtaskRetrying,
    SubtaskStarted,
    SupervisorSpec,
    Task,
    Tasks,
    Tree,
    WorkerSpec,
)
from trees.declaration.build import build
from trees.ha.lease_keeper import LeaseKeeper
from trees.ha.roles import Leadership
from trees.store import MemoryStore
from trees.store.lease_store import LeaseState

MINE = HA(lease_s=6.0, name="me")
"""Half of its lease must be longer than a busy machine lets a process wait."""
FREE = LeaseState(0, "", None, 0.0)
OTHER = LeaseState(3, "other", 1000.0, 30.0)


class FakeLeases:
    """A store that says what it is told to."""

    store = "fake"

    def __init__(self, row: LeaseState = FREE) -> None:
        self.row = row
        self.token = row.token + 1
        self.gate: Hang | None = None
        """Every request hangs here."""
        self.error: Exception | None = None
        """Every request fails with this."""
        self.renewals = 0
        self.released: list[int] = []
        self.closed = False
        self.began = 0.0
        """When the last request began that got or renewed it."""

    def _come(self) -> None:
        if self.gate is not None:
            self.gate.hold()
        if self.error is not None:
            raise self.error

    def look(self) -> LeaseState:
        self._come()
        return self.row

    def acquire(self) -> int | LeaseState:
        began = unstopped()
        self._come()
        self.began = began
        return self.row if self.row.left_s > 0 else self.token

    def renew(self, token: int) -> int | LeaseState:
        began = unstopped()
        self._come()
        self.renewals += 1
        self.began = began
        return token if token == self.token else self.row

    def release(self, token: int) -> None:
        self._come()
        self.released.append(token)

    def close(self) -> None:
        self.closed = True


def quiet() -> SupervisorSpec:
    return shop(WorkerSpec(id="w", handle=lambda message: message))


@contextmanager
def kept(
    leases: FakeLeases,
    spec: SupervisorSpec | None = None,
    ha: HA = MINE,
    open_store: Callable[[int], object] = lambda _: None,
) -> Iterator[tuple[Tree, Record, Reply]]:
    """A tree with its keeper, begun; ended at the end."""
    given = spec or quiet()
    system = System(build(given))
    attach(system, MemoryStore())
    keeper = LeaseKeeper(ha, system, leases, open_store)
    tree = Tree(given, system, Leadership(system, keeper), None)
    system.before_stop = keeper.leave
    record = Record(tree)
    settled = keeper.start()
    try:
        yield tree, record, settled
    finally:
        tree.stop()


def roles(record: Record) -> list[str]:
    return [event.role for event in record.of(RoleChanged)]


def lost(tree: Tree) -> LeaseLostError:
    with pytest.raises(LeaseLostError) as caught:
        tree.wait(LONG_S)
    return caught.value


# -- leading -----------------------------------------------------------------------------------------------


def test_a_free_lease_makes_a_leader_that_renews_and_gives_it_back() -> None:
    leases = FakeLeases()
    with kept(leases) as (tree, record, settled):
        assert settled.get() == "leader"
        assert (tree.role, tree.holder) == ("leader", "me")
        assert tree.ref("shop/w").ask(1) == 1
        tree.stop()

        assert (tree.role, tree.holder) == ("stopped", None)
    assert roles(record) == ["leader", "stopped"]
    assert (leases.released, leases.closed) == ([1], True)


def test_a_leader_goes_on_as_long_as_it_can_renew() -> None:
    leases = FakeLeases()
    with kept(leases) as (tree, _, settled):
        settled.get()

        assert not tree.wait(1.5 * MINE.lease_s)
        assert tree.role == "leader"
        assert leases.renewals >= 4


def test_a_leader_whose_requests_hang_is_down_before_its_lease_is_over() -> None:
    leases = FakeLeases()
    with Hang(deaf=True) as gate, kept(leases) as (tree, record, settled):
        settled.get()
        leases.gate = gate
        error = lost(tree)

        down = unstopped()
        assert down < leases.began + MINE.lease_s
        assert "could not be renewed" in str(error)
        assert tree.role == "stopped"
    (event,) = record.of(RoleLost)
    assert (event.role, event.token) == ("stopped", 1)
    assert leases.released == []


def test_it_is_stopped_in_order_first_and_killed_when_that_takes_too_long() -> None:
    leases = FakeLeases()
    with (
        Hang(deaf=True) as stuck,
        kept(leases, shop(WorkerSpec(id="w", run=stuck.hold))) as (tree, _, settled),
    ):
        settled.get()
        stuck.wait_until_entered()
        before = unstopped()
        leases.error = OSError("no route")
        lost(tree)

        assert unstopped() - before < MINE.lease_s
        assert leases.released == [], "a thread was left to itself: the lease must run out"


def test_a_leader_that_hears_of_another_one_is_ended_at_once() -> None:
    leases = FakeLeases()
    with kept(leases) as (tree, record, settled):
        settled.get()
        leases.row, leases.token = LeaseState(2, "other", 1000.0, 1.0), 2

        error = lost(tree)
        assert (error.holder, error.root) == ("other", "shop")
        assert "other has taken over with token 2" in str(error)
        assert leases.released == []
    assert roles(record) == ["leader", "stopped"]


def test_a_write_that_was_refused_ends_it_at_once() -> None:
    leases = FakeLeases()
    with kept(leases) as (tree, _, settled):
        settled.get()
        assert tree._leadership.keeper is not None
        tree._leadership.keeper.lease_lost(LeaseLostError("fake", "shop", "other"))

        error = lost(tree)
        assert error.holder == "other"
        assert "a write was refused" in str(error)
        assert not tree._system.services["tasks"].may_start()


def test_whoever_finds_the_lease_over_ends_it() -> None:
    """The keeper's own thread stands still: what is about to be started finds out first."""
    leases = FakeLeases()
    with kept(leases) as (tree, _, settled):
        settled.get()
        keeper: Any = tree._leadership.keeper
        standing, go_on = threading.Event(), threading.Event()

        def stand(_: float) -> None:
            standing.set()
            assert go_on.wait(LONG_S)

        keeper._hear(stand)
        assert standing.wait(LONG_S)
        ends = keeper._candidate.sent + MINE.kill_s
        threading.Event().wait(max(0.0, ends - unstopped()) + 0.01)

        assert not tree._system.services["tasks"].may_start()
        with pytest.raises(LeaseLostError, match="token was 1"):
            _ = tree._system.services["tasks"].token
        go_on.set()
        lost(tree)


def test_a_root_that_gives_up_hands_over() -> None:
    def crash() -> None:
        raise ValueError("no")

    leases = FakeLeases()
    with kept(leases, shop(WorkerSpec(id="w", run=crash))) as (tree, record, settled):
        settled.wait(LONG_S)
        with pytest.raises(ActorsError):
            tree.wait(LONG_S)

        assert leases.released == [1]
    assert roles(record)[-1] == "stopped"


# -- what is started ---------------------------------------------------------------------------------------


def working(execute: Callable[..., Any], **words: Any) -> SupervisorSpec:
    """A root with one worker, and a plan of one subtask for it."""
    words.setdefault("planner", StaticPlan([Subtask(id="one", worker="w")]))
    return SupervisorSpec(id="shop", tasks=Tasks(**words), children=[WorkerSpec(id="w", execute=execute)])


def stands(tree: Tree) -> threading.Event:
    """Hold its keeper up until its time is over; setting the event lets it go on."""
    standing, go_on = threading.Event(), threading.Event()
    keeper: Any = tree._leadership.keeper

    def stand(_: float) -> None:
        standing.set()
        assert go_on.wait(LONG_S)

    keeper._hear(stand)
    assert standing.wait(LONG_S)
    threading.Event().wait(max(0.0, keeper._candidate.sent + MINE.kill_s - unstopped()) + 0.01)
    return go_on


@pytest.mark.parametrize("what", ["an attempt", "a step"])
def test_nothing_is_started_when_the_time_is_over_and_it_is_nobodys_failure(what: str) -> None:
    ran: list[object] = []

    def plan(task: object, catalogue: object, feedback: object) -> Plan:
        ran.append("plan")
        return Plan(subtasks=[Subtask(id="one", worker="w")])

    words = {"planner": plan} if what == "a step" else {}
    with kept(FakeLeases(), working(lambda _, context: ran.append(context.token), **words)) as (tree, record, settled):
        settled.get()
        thaw = stands(tree)
        handle = tree.submit(Task(goal="goal", id="t1"))
        idle(tree)
        thaw.set()
        lost(tree)

        assert ran == []
        assert record.of(SubtaskFailed) == record.of(SubtaskRetrying) == record.of(PlanRefused) == []
        assert len(record.of(SubtaskStarted)) <= 1, "it was tried again and again"
        with pytest.raises(TreeDownError):
            handle.result(0)


def test_an_attempt_that_was_given_in_time_does_not_begin_when_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []
    with kept(FakeLeases(), working(lambda _, __: ran.append("ran"))) as (tree, record, settled):
        settled.get()
        asked = threading.Semaphore(0)
        answers = iter([True])  # where it is given; not where it begins, nor where it is given again

        def may_start() -> bool:
            asked.release()
            return next(answers, False)

        monkeypatch.setattr(tree._system.services["tasks"], "may_start", may_start)
        tree.submit(Task(goal="goal", id="t1"))
        for _ in range(3):
            assert asked.acquire(timeout=LONG_S)
        idle(tree)

        assert ran == []
        assert record.of(SubtaskFailed) == record.of(SubtaskRetrying) == []


def test_a_thread_that_was_left_to_itself_gets_no_token_any_more() -> None:
    found: list[object] = []
    read = threading.Event()
    leases = FakeLeases()
    with Hang(deaf=True) as stuck:

        def execute(_: object, context: Any) -> None:
            found.append(context.token)
            stuck.hold()
            try:
                found.append(context.token)
            except LeaseLostError as error:
                found.append(type(error))
            read.set()

        with kept(leases, working(execute)) as (tree, _, settled):
            settled.get()
            tree.submit("goal")
            stuck.wait_until_entered()
            leases.error = OSError("no route")
            lost(tree)
            stuck.release()

            assert read.wait(LONG_S)
    assert found == [1, LeaseLostError]


def test_a_leader_says_so_only_when_what_was_unfinished_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    resumed = Reply()
    monkeypatch.setattr(TaskRuntime, "resumed", lambda _: resumed)
    with kept(FakeLeases()) as (tree, _, settled):
        assert not settled.wait(0.5)
        assert tree.role == "standby"
        assert not tree.wait_for_role("leader", 0.1)
        resumed.complete()

        assert settled.get() == "leader"
        assert tree.role == "leader"


# -- waiting -----------------------------------------------------------------------------------------------


def test_a_standby_has_started_nothing_and_says_who_leads() -> None:
    ran = threading.Event()
    with kept(FakeLeases(OTHER), shop(WorkerSpec(id="w", run=ran.set))) as (tree, record, settled):
        assert settled.get() == "standby"

        assert (tree.role, tree.holder, tree.is_alive) == ("standby", "other", True)
        for call in (
            lambda: tree.ref("shop/w"),
            lambda: tree.child("shop/w"),
            lambda: tree.which_children("shop"),
            lambda: tree.count_children("shop"),
            lambda: tree.start_child("shop", WorkerSpec(id="x", run=ran.set)),
            lambda: tree.terminate_child("shop/w"),
            lambda: tree.restart_child("shop/w"),
            lambda: tree.delete_child("shop/w"),
            lambda: tree.submit("goal"),
            lambda: tree.run("goal"),
            lambda: tree.task("t"),
            tree.tasks,
            tree.registry,
            tree.escalations,
        ):
            with pytest.raises(NotLeaderError, match="'other' leads"):
                call()
        assert tree.dump().startswith("standby, other leads, until ")
        assert tree.snapshot().role == "standby"
        assert '"token": 3' in tree.dump(format="json")
        assert not tree.wait(0)
        tree.stop()

        assert (tree.role, tree.is_alive, tree.wait(0)) == ("stopped", False, True)
        assert not ran.is_set()
    assert roles(record) == ["standby", "stopped"]


def test_it_leads_as_soon_as_the_lease_is_given_back() -> None:
    leases = FakeLeases(OTHER)
    with kept(leases) as (tree, record, settled):
        settled.get()
        leases.row, leases.token = LeaseState(3, "other", 900.0, 0.0), 4

        assert tree.wait_for_role("leader", LONG_S)
        assert tree.snapshot().token == 4
        assert tree.ref("shop/w").ask(2) == 2
    assert roles(record) == ["standby", "leader", "stopped"]


def test_a_standby_whose_store_is_gone_says_so_and_goes_on_when_it_is_back() -> None:
    leases = FakeLeases(OTHER)
    with kept(leases) as (tree, _, settled):
        settled.get()
        leases.error = OSError("no route")
        while "no route" not in tree.dump():
            tree.wait(0.02)
        leases.error, leases.row, leases.token = None, LeaseState(3, "other", 900.0, 0.0), 4

        assert tree.wait_for_role("leader", LONG_S)
        assert "no route" not in tree.dump()


def test_what_can_never_be_is_not_waited_for() -> None:
    with kept(FakeLeases()) as (tree, _, settled):
        settled.get()

        assert tree.wait_for_role("leader", 0)
        assert not tree.wait_for_role("standby")
        assert not tree.wait_for_role("stopped", 0.01)
        with pytest.raises(ValueError, match="is not a role"):
            tree.wait_for_role("boss")  # type: ignore[arg-type]
        tree.stop()
        assert not tree.wait_for_role("leader")
        assert tree.wait_for_role("stopped")


# -- starts that fail --------------------------------------------------------------------------------------


def test_a_store_that_cannot_be_reached_at_the_start_leaves_nothing() -> None:
    leases = FakeLeases()
    leases.error = StoreError("fake", "cannot be reached")
    with kept(leases) as (tree, _, settled):
        with pytest.raises(StoreError, match="cannot be reached"):
            settled.get()

        assert (tree.role, tree.is_alive, leases.closed) == ("stopped", False, True)


def test_what_is_no_error_of_ours_is_told_as_one() -> None:
    leases = FakeLeases()
    leases.error = OSError("no route")
    with kept(leases) as (_, __, settled), pytest.raises(StoreError, match="no route") as caught:
        settled.get()
    assert isinstance(caught.value.__cause__, OSError)


def refuse() -> None:
    raise ValueError("not here")


def test_a_tree_that_does_not_start_gives_the_lease_back_and_says_why() -> None:
    leases = FakeLeases()
    with kept(leases, shop(WorkerSpec(id="w", actor=_shy()))) as (tree, record, settled):
        with pytest.raises(StartError, match="shop"):
            settled.get(timeout=LONG_S)

        assert (tree.role, leases.released) == ("stopped", [1])
    assert [type(event) for event in record.of(RoleChanged)] == [RoleLost]
    assert "StartError" in record.of(RoleLost)[0].reason


def test_a_takeover_that_does_not_start_gives_the_lease_back_and_is_the_cause_of_the_end() -> None:
    leases = FakeLeases(OTHER)
    with kept(leases, shop(WorkerSpec(id="w", actor=_shy()))) as (tree, record, settled):
        settled.get()
        leases.row, leases.token = LeaseState(3, "other", 900.0, 0.0), 4
        with pytest.raises(StartError):
            tree.wait(LONG_S)

        assert leases.released == [4]
    assert roles(record) == ["standby", "stopped"]


def _shy() -> type[Any]:
    from actors import Worker  # noqa: PLC0415

    class Shy(Worker):
        def on_start(self) -> None:
            refuse()

    return Shy


def test_journals_that_cannot_be_read_give_the_lease_back() -> None:
    def unreadable(_: int) -> None:
        raise StoreError("fake", "is damaged")

    leases = FakeLeases()
    with kept(leases, open_store=unreadable) as (tree, record, settled):
        with pytest.raises(StoreError, match="is damaged"):
            settled.get(timeout=LONG_S)

        assert (tree.role, leases.released) == ("stopped", [1])
    assert len(record.of(RoleLost)) == 1


def test_one_that_is_stopped_while_it_reads_the_journals_starts_nothing() -> None:
    ran = threading.Event()
    leases = FakeLeases()
    with (
        Hang() as reading,
        kept(leases, shop(WorkerSpec(id="w", run=ran.set)), open_store=lambda _: reading.hold()) as (tree, _, settled),
    ):
        reading.wait_until_entered()
        assert (tree.role, tree.snapshot().role_reason) == ("standby", "is taking over")
        with pytest.raises(NotLeaderError):
            tree.submit("goal")
        stopping = threading.Thread(target=tree.stop)
        stopping.start()
        while not leases.released:
            tree.wait(0.02)
        reading.release()
        stopping.join(LONG_S)

        with pytest.raises(StartError):
            settled.get(timeout=LONG_S)
        assert (leases.released, ran.is_set(), tree.is_alive) == ([1], False, False)


def test_a_start_may_take_longer_than_the_lease() -> None:
    leases = FakeLeases()
    with Hang() as slow, kept(leases, open_store=lambda _: slow.hold()) as (tree, _, settled):
        slow.wait_until_entered()
        assert not settled.wait(1.25 * MINE.lease_s)
        slow.release()

        assert settled.get(timeout=LONG_S) == "leader"
        assert leases.renewals >= 3
        assert tree.role == "leader"


def test_a_keeper_that_dies_takes_its_tree_with_it() -> None:
    leases = FakeLeases()
    with kept(leases) as (tree, _, settled):
        settled.get()

        def bug(_: float) -> None:
            refuse()

        keeper: Any = tree._leadership.keeper
        keeper._hear(bug)

        assert "its keeper died of ValueError" in str(lost(tree))
