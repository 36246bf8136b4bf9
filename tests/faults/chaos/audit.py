"""The invariants: what must be true of a tree that has come to rest, and of one that is down.

Each function gives the sentences that are not true. ``books`` compares what was sent with what became of it; ``lives``
compares what runs with what is listed; ``events`` compares both with what was published; ``answers`` asks everybody.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from actors import ActorsError, ChildError, ChildInfo, Failed
from actors.testing import settle
from tests.faults.chaos.ledger import Ledger, Sender, base
from tests.faults.chaos.workers import BoomError, Ground

ANSWER_S = 20.0
"""What takes longer than this stands still. Long: the machine may have other things to do."""
SHOWN = 8
"""Messages that are named where many are wrong."""


def come_to_rest(ground: Ground) -> list[str]:
    """Wait until nothing moves and nothing restarts any more; what did not come to an end.

    Bodies come first: none takes an order any more, and ``settle`` waits for whatever an end that was heard sets off.
    Looked at afterwards, one could have ended since ``settle`` returned, and its supervisor would not know of it. A
    restart may end between ``settle`` and the look at it: so the events of that are waited for as well.
    """
    tree, end = ground.tree, time.monotonic() + ANSWER_S
    while True:
        moving = [f"the order to {path} does not end" for path in obeying(ground)]
        late = _settled(tree, end)
        moving += [f"the restart of {info.path} does not end" for info in listed(tree) if info.state == "restarting"]
        if not late and not moving:
            late = _settled(tree, end)
        if late or not moving or not tree.is_alive:
            return late
        if time.monotonic() > end:
            return moving


def _settled(tree: Any, end: float) -> list[str]:
    try:
        settle(tree, max(1.0, end - time.monotonic()))
    except TimeoutError as late:
        return [f"it does not come to rest: {late}"]
    return []


def obeying(ground: Ground) -> list[str]:
    """Bodies that have taken an order, and of which no supervisor has heard that they ended of it."""
    children = ground.tree._system.children
    return [
        path
        for path, incarnation in ground.obeying.copy().items()
        if not incarnation.is_over or (path in children and children[path].incarnation is incarnation)
    ]


def listed(tree: Any, path: str = "r") -> list[ChildInfo]:
    """All children, as ``which_children`` shows them."""
    found = []
    for info in tree.which_children(path):
        found.append(info)
        if info.kind == "supervisor":
            try:
                found += listed(tree, info.path)
            except ActorsError:  # it was never started
                continue
    return found


def at_rest(ground: Ground) -> list[str]:
    """Everything that must be true of a tree in which nothing moves."""
    infos = listed(ground.tree)
    return [
        *lives(ground, infos),
        *events(ground, infos),
        *pools(ground),
        *answers(ground, infos),
        *books(ground.ledger, at_the_end=False),
        *counts(ground),
    ]


def when_down(ground: Ground) -> list[str]:
    """Everything that must be true when a tree is down."""
    ledger = ground.ledger
    problems = [
        f"{incarnation.mailbox.path}: an incarnation runs on, {incarnation!r}"
        for incarnation in list(ledger.lives.values())
        if not incarnation.is_over
    ]
    if not ledger.events_lost:
        problems += [
            f"{path}: incarnation {record.up} never exited"
            for path, record in ledger.records.copy().items()
            if record.up is not None
        ]
        problems += _exits_of_all(ledger)
    return [*problems, *books(ledger, at_the_end=True), *counts(ground)]


def _exits_of_all(ledger: Ledger) -> list[str]:
    """Each incarnation whose code has run has an exit of its own."""
    ran = Counter(incarnation.mailbox.path for incarnation in list(ledger.lives.values()))
    return [
        f"{path}: {count} incarnations ran, {ledger.record(path).exits} exits were told"
        for path, count in ran.items()
        if ledger.record(path).exits < count
    ]


# -- what runs -----------------------------------------------------------------------------------------------


def lives(ground: Ground, infos: list[ChildInfo]) -> list[str]:
    """Nothing runs that is not listed, nothing twice, and what is shown as running runs."""
    system, problems = ground.tree._system, []
    shown = {info.path: info for info in infos}
    running = [incarnation for incarnation in list(ground.ledger.lives.values()) if not incarnation.is_over]
    for incarnation in running:
        path = incarnation.mailbox.path
        child = system.children.get(path)
        if path not in shown:
            problems.append(f"{path}: runs and is not listed")
        elif child is None or child.incarnation is not incarnation:
            problems.append(f"{path}: an incarnation runs that is not the child's")
        elif shown[path].state != "running":
            problems.append(f"{path}: runs and is shown as {shown[path].state}")
    twice = [path for path, count in Counter(incarnation.mailbox.path for incarnation in running).items() if count > 1]
    problems += [f"{path}: runs twice" for path in twice]
    for path, info in shown.items():
        child = system.children.get(path)
        alive = child is not None and child.incarnation is not None and not child.incarnation.is_over
        if alive is not (info.state == "running"):
            problems.append(f"{path}: is shown as {info.state}, has {'a' if alive else 'no'} life")
    problems += [
        f"{path}: can be found and is not listed" for path in list(system.children) if path not in {*shown, "r"}
    ]
    return problems


def pools(ground: Ground) -> list[str]:
    """A pool whose members stay has all of them, and its address leads to those that are listed."""
    problems = []
    for path, supervisor in ground.tree._system.supervisors.copy().items():
        members = Counter(child.pool for child in supervisor.table if child.pool is not None)
        specs = {child.pool: child.spec for child in supervisor.table if child.pool is not None}
        for id_, count in members.items():
            if specs[id_].restart != "temporary" and count != specs[id_].pool:
                problems.append(f"{path}/{id_}: {count} of {specs[id_].pool} members are listed")
        if {id_ for id_, pool in supervisor.table.pools.items() if pool.members} != set(members):
            problems.append(f"{path}: its pools are {sorted(supervisor.table.pools)}, listed {sorted(members)}")
    return problems


def answers(ground: Ground, infos: list[ChildInfo]) -> list[str]:
    """Every supervisor answers a call, and every worker that runs answers an ask."""
    tree, ledger, problems = ground.tree, ground.ledger, []
    sender = Sender(f"the audit {next(ledger.numbers)}")
    replies = [
        (info.path, ledger.ask_later(sender, info.ref, "work", ANSWER_S))
        for info in infos
        if info.state == "running" and info.kind == "worker" and not is_body(tree, info.path)
    ]
    for path, reply in replies:
        try:
            reply.get(timeout=ANSWER_S)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no answer
            problems.append(f"{path}: runs and does not answer: {error!r}")
    for path in ["r", *(info.path for info in infos if info.kind == "supervisor" and info.state == "running")]:
        try:
            tree.delete_child(f"{path}/nobody")
        except ChildError as refused:
            if refused.code != "not_found":
                problems.append(f"{path}: a call for nobody gave {refused.code}")
        except ActorsError as error:
            problems.append(f"{path}: runs and refuses calls: {error!r}")
    return problems


def is_body(tree: Any, path: str) -> bool:
    """True for a ``run=`` body, which takes no messages."""
    child = tree._system.children.get(path)
    return child is not None and child.spec.recipe.is_body


# -- what was published ----------------------------------------------------------------------------------------


def events(ground: Ground, infos: list[ChildInfo]) -> list[str]:
    """What the starts and exits say is up is what is shown as running, in the same incarnation."""
    ledger = ground.ledger
    if ledger.events_lost:
        return []
    up = {path: record.up for path, record in ledger.records.copy().items() if record.up is not None}
    shown = {info.path: info.incarnation for info in infos if info.state == "running"}
    return [
        f"{path}: by its events incarnation {up.get(path)} is up, shown is {shown.get(path)}"
        for path in sorted({*up, *shown})
        if up.get(path) != shown.get(path)
    ]


def counts(ground: Ground) -> list[str]:
    """The dead letters that the dump counts are those that were published."""
    system, ledger = ground.tree._system, ground.ledger
    counted = Counter({str(reason): count for reason, count in system.dead_letters.items()})
    if ledger.events_lost or counted == ledger.reasons:
        return []
    return [f"the tree counts the dead letters {dict(counted)}, published were {dict(ledger.reasons)}"]


# -- what became of the messages -------------------------------------------------------------------------------


def books(ledger: Ledger, *, at_the_end: bool) -> list[str]:
    """Told = handled + lost with a kill + dead letters, for each path; and every ask has ended."""
    begun, dead = Counter(ledger.begun), Counter(ledger.dead)
    problems = [f"m{number} was handled {count} times" for number, count in begun.items() if count > 1]
    problems += [f"m{number} became {count} dead letters" for number, count in dead.items() if count > 1]
    problems += [f"m{number} was handled, and is a dead letter" for number in begun.keys() & dead.keys()]
    problems += _asks(ledger, begun)
    if not ledger.events_lost:
        problems += _tells(ledger, begun, dead, at_the_end=at_the_end)
    return problems


def _tells(ledger: Ledger, begun: Counter[int], dead: Counter[int], *, at_the_end: bool) -> list[str]:
    # A kill may hit between the moment when a message is taken and the first line of its handler: such a one is lost
    # with its worker and not begun. There can be no more of them than killed exits that told of a loss.
    excused: Counter[str] = Counter()
    for path, record in ledger.records.copy().items():
        excused[base(path)] += record.killed_and_lost
    missing: dict[str, list[int]] = {}
    for number, path in ledger.told.copy().items():
        if number in begun or number in dead or number in ledger.unsure:
            continue
        if at_the_end or number not in ledger.telling:
            missing.setdefault(path, []).append(number)
    unsent = [number for number in begun if number not in ledger.told and number not in ledger.asked]
    return [f"m{number} was handled, though its sender was given up before it was sent" for number in unsent] + [
        f"{path}: {len(numbers)} tells are unaccounted for (excused: {excused[path]}): "
        + ", ".join(f"m{number}" for number in numbers[:SHOWN])
        for path, numbers in missing.items()
        if len(numbers) > excused[path]
    ]


def _asks(ledger: Ledger, begun: Counter[int]) -> list[str]:
    problems = []
    for number, reply in ledger.asking.copy().items():
        path = ledger.asked[number]
        if reply is None:
            continue  # somebody waits for it in a thread or a task, and notices when it takes too long
        if not reply.done:
            problems.append(f"{path}: the ask m{number} has not ended")
            continue
        ledger.asking.pop(number, None)
        try:
            ledger.fetched(number, reply.get(timeout=0))
        except (ActorsError, BoomError, Failed):
            continue
        except BaseException as error:  # noqa: BLE001 - it is named
            problems.append(f"{path}: the ask m{number} ended with {error!r}")
    problems += [f"m{number} was answered and never handled" for number in ledger.answered if number not in begun]
    return problems
