"""The crash matrix: every way to fail x every restart type x every strategy x every place to run.

Each cell crashes ``x`` between its siblings ``a`` and ``z`` and asserts the same things: exactly one exit reported for
each end, the order of all stops and starts, where each child stands afterwards, and what the one who asked got. What is
expected is derived, not listed: from the fault (what its own hooks do, how it ends, how often its start fails) and the
rules of SEMANTICS.md.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from actors import ChildExited, StartError, WorkerCrashedError
from actors.testing import Fault, Hang, ManualClock, settle
from tests.support.crew import LONG_S, Record, faulty, hooks, meanwhile, running, shop, until
from trees import Tree

SHORT_S = 0.5
BEGUN_S = 0.5


@dataclass(frozen=True)
class Crash:
    """One way to fail."""

    name: str
    act: Callable[[Tree, Hang], Any]
    """Makes ``x`` fail; what it returns or raises is what the asker got."""
    exits: tuple[str, ...]
    """The reasons that ``x`` ends with, where it is started again as often as that takes."""
    own: tuple[str, ...]
    """The hooks of ``x`` on its first way out."""
    by_itself: bool = True
    """False: it was ended by a call, so it stays down whatever its restart type."""
    hooks: Callable[[Hang], dict[str, object]] = lambda _: {}
    """The faults of its hooks."""
    asker_gets: type[BaseException] | None = None
    cause: type[BaseException] | None = None


def tell(message: object) -> Callable[[Tree, Hang], None]:
    return lambda tree, _: tree.ref("shop/x").tell(message)


def ask(message: object) -> Callable[[Tree, Hang], Any]:
    return lambda tree, _: tree.ref("shop/x").ask(message, timeout=LONG_S)


def ignore_a_stop(tree: Tree, hang: Hang) -> None:
    tree.ref("shop/x").tell(hang)
    hang.wait_until_entered()
    tree.terminate_child("shop/x")


CRASHES = [
    Crash("handler raises on tell", tell("raise ValueError"), ("crashed",), ("on_failure x",)),
    Crash("handler raises on ask", ask("raise ValueError"), ("crashed",), ("on_failure x",), asker_gets=ValueError),
    *(
        Crash(
            f"handler raises {error.__name__}",
            ask(error("out")),
            ("crashed",),
            ("on_failure x",),
            asker_gets=WorkerCrashedError,
            cause=error,
        )
        for error in (SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit)
    ),
    Crash(
        "on_stop raises",
        tell("stop"),
        ("crashed",),
        ("on_stop x",),
        hooks=lambda _: {"on_stop": Fault(OSError, times=1)},
    ),
    Crash(
        "on_stop hangs", tell("stop"), ("killed",), ("on_stop x",), hooks=lambda hang: {"on_stop": Fault(hang, times=1)}
    ),
    Crash("stop ignored", ignore_a_stop, ("killed",), (), by_itself=False),
    Crash(
        "fails again on restart",
        tell("raise ValueError"),
        ("crashed", "crashed"),
        ("on_failure x",),
        hooks=lambda _: {"on_start": Fault("raise OSError", after=1, times=1)},
    ),
]
DISPATCHES = ("pool", "loop", "thread")
RESTARTS = ("permanent", "transient", "temporary")
STRATEGIES = ("one_for_one", "one_for_all", "rest_for_one")


# -- what the rules say ------------------------------------------------------------------------------------


def one_pass(strategy: str, *, first: bool, fails: bool) -> list[str]:
    """The stops and starts of one restart pass of ``x``; ``first``: the siblings are all up before it."""
    scope = {"one_for_one": "x", "one_for_all": "axz", "rest_for_one": "xz"}[strategy]
    up = scope if first else scope[: scope.index("x")]
    stops = [f"on_stop {id_}" for id_ in reversed(up) if id_ != "x"]
    starts = [f"on_start {id_}" for id_ in scope]
    return stops + ([*starts[: scope.index("x") + 1], "on_failure x"] if fails else starts)


def expected_hooks(crash: Crash, restart: str, strategy: str) -> list[str]:
    lines = list(crash.own)
    if restart != "temporary" and crash.by_itself:
        for number in range(len(crash.exits)):
            lines += one_pass(strategy, first=number == 0, fails=number < len(crash.exits) - 1)
    return lines


def expected_states(crash: Crash, restart: str) -> dict[str, str]:
    x = {"x": "running" if crash.by_itself else "stopped"} if restart != "temporary" else {}
    return {"a": "running", **x, "z": "running"}


def expected_exits(crash: Crash, restart: str) -> list[str]:
    return list(crash.exits if restart != "temporary" else crash.exits[:1])


# -- what happened -----------------------------------------------------------------------------------------


def assert_one_exit_for_each_end(record: Record, lines: list[str], crash: Crash, restart: str) -> None:
    assert record.exits("shop/x") == expected_exits(crash, restart)
    for sibling in "az":
        assert record.exits(f"shop/{sibling}") == ["shutdown"] * lines.count(f"on_stop {sibling}")


def assert_dump_shows(tree: Tree, wanted: dict[str, str]) -> None:
    """The dump and the listing agree: each child that is listed has a line, with its state."""
    assert {child.id: child.state for child in tree.which_children("shop")} == wanted
    lines = tree.dump().splitlines()[1 : 1 + len(wanted)]
    assert [re.findall(r"\w+", line)[0] for line in lines] == list(wanted)
    for line, state in zip(lines, wanted.values(), strict=True):
        assert state in line


def asker_got(crash: Crash, tree: Tree, hang: Hang) -> BaseException | None:
    try:
        crash.act(tree, hang)
    except BaseException as error:  # noqa: BLE001 - it must be an Exception, and that is asserted
        return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize("dispatch", DISPATCHES)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("restart", RESTARTS)
@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: crash.name.replace(" ", "_"))
def test_a_worker_that_fails_is_treated_as_the_rules_say(
    crash: Crash, restart: str, strategy: str, dispatch: str
) -> None:
    diary: list[str] = []
    hang = Hang(deaf=True)
    patience_s = SHORT_S if "killed" in crash.exits else LONG_S
    x = faulty(
        "x", diary=diary, dispatch=dispatch, restart=restart, shutdown=patience_s, backoff=None, **crash.hooks(hang)
    )
    a, z = (faulty(id_, diary=diary, dispatch=dispatch) for id_ in "az")
    with running(shop(a, x, z, strategy=strategy)) as tree:
        record = Record(tree)
        diary.clear()
        error = asker_got(crash, tree, hang)
        if crash.by_itself:
            record.wait_for(ChildExited, "shop/x")
        settle(tree)
        hang.release()
        lines = hooks(diary)

        assert_one_exit_for_each_end(record, lines, crash, restart)
        assert lines == expected_hooks(crash, restart, strategy)
        assert_dump_shows(tree, expected_states(crash, restart))
        assert type(error) is (crash.asker_gets or type(None))
        assert type(error.__cause__ if error is not None else None) is (crash.cause or type(None))


@pytest.mark.parametrize("dispatch", DISPATCHES)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("restart", RESTARTS)
@pytest.mark.parametrize("how", ["on_start_raises", "on_start_hangs"])
def test_a_worker_that_does_not_start_leaves_the_others_alone(
    how: str, restart: str, strategy: str, dispatch: str
) -> None:
    diary: list[str] = []
    hang = Hang(deaf=dispatch != "loop")
    raises = how == "on_start_raises"
    x = faulty(
        "x",
        diary=diary,
        dispatch=dispatch,
        restart=restart,
        on_start="raise OSError" if raises else hang,
        start_timeout_s=LONG_S if raises else BEGUN_S,
    )
    a, z = (faulty(id_, diary=diary, dispatch=dispatch) for id_ in "az")
    clock = ManualClock()
    with running(shop(a, z, strategy=strategy), clock=clock) as tree:
        record = Record(tree)
        diary.clear()
        with meanwhile(tree.start_child, "shop", x) as starting:
            if not raises:
                hang.wait_until_entered()
                until(starting.done, clock, by=BEGUN_S)
            with pytest.raises(StartError):
                starting.result(LONG_S)
        settle(tree)
        hang.release()

        assert record.exits("shop/x") == ["crashed" if raises else "killed"]
        assert [event.started for event in record.of(ChildExited)] == [False]
        assert hooks(diary) == ["on_start x", *(["on_failure x"] if raises else [])]
        assert_dump_shows(tree, {"a": "running", "z": "running"})
