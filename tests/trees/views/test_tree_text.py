"""A snapshot as text, JSON and mermaid."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import threading
from collections.abc import Callable

import pytest

import actors
from actors import ChildError, ChildStarted, UnknownPathError
from actors.testing import Fault, Hang, ManualClock, settle
from tests.support.crew import LONG_S, Record, crash, doomed, faulty, running, shop
from trees import Backoff, SupervisorSpec, Tree, WorkerSpec
from trees.views.table import TableRow, aligned
from trees.views.tree_text import DumpFormatError

SAMPLE = """\
shop                one_for_one   running   restarts 1/3 in 5 s
├─ poller           permanent     running   incarnation 2   last exit: crashed ConnectionError
├─ parse ×8         permanent     running 8
└─ billing          one_for_all   running   restarts 0/3 in 5 s
   ├─ ledger        permanent     running   incarnation 1
   └─ mailer        transient     running   incarnation 1"""


def sample(poll: Callable[[], object]) -> SupervisorSpec:
    billing = SupervisorSpec(
        id="billing", strategy="one_for_all", children=[faulty("ledger"), faulty("mailer", restart="transient")]
    )
    return shop(WorkerSpec(id="poller", run=poll), faulty("parse", pool=8), billing)


# -- text --------------------------------------------------------------------------------------------------


def test_the_text_is_the_picture_that_the_readme_promises() -> None:
    crash_now, fault = threading.Event(), Fault("crash", times=1)

    def poll() -> None:
        if fault.take() is not None and crash_now.wait(LONG_S):
            raise ConnectionError
        actors.stopping(LONG_S)

    with running(sample(poll), clock=ManualClock()) as tree:
        record = Record(tree)
        crash_now.set()
        record.wait_for(ChildStarted, "shop/poller")
        settle_supervisor(tree)

        assert tree.dump() == SAMPLE


def settle_supervisor(tree: Tree) -> None:
    """Where a body never settles: a round trip to the supervisor, which has then done all that it had to."""
    with pytest.raises(ChildError):
        tree.restart_child("shop/poller")


def test_the_text_of_a_settled_tree_is_the_same_each_time_and_before_and_after_work() -> None:
    with running(sample(lambda: actors.stopping(LONG_S))) as tree:
        before = tree.dump()
        for turn in range(50):
            tree.ref("shop/parse").ask(turn)
            tree.ref("shop/billing/ledger").tell(turn)
        settle(tree)

        assert tree.dump() == before


def test_a_crash_changes_exactly_the_lines_that_it_concerns() -> None:
    with running(sample(lambda: actors.stopping(LONG_S)), clock=ManualClock()) as tree:
        before = tree.dump().splitlines()
        crash(tree, "shop/billing/mailer")
        after = tree.dump().splitlines()

    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [
        "└─ billing          one_for_all   running   restarts 1/3 in 5 s",
        "   ├─ ledger        permanent     running   incarnation 2   last exit: shutdown",
        "   └─ mailer        transient     running   incarnation 2   last exit: crashed ValueError",
    ]


def test_what_is_under_way_or_wrong_is_said_in_words_without_times() -> None:
    clock, hang = ManualClock(), Hang()
    children = (
        faulty("busy"),
        faulty("again", backoff=Backoff(initial_s=10, jitter=0)),
        faulty("moody", on_exhausted="park"),
        faulty("off"),
    )
    with running(shop(*children, max_restarts=1), clock=clock) as tree:
        for _ in range(2):
            crash(tree, "shop/moody")
        crash(tree, "shop/again")
        tree.terminate_child("shop/off")
        tree.ref("shop/off").tell(1)
        tree.ref("shop/busy").tell(hang)
        hang.wait_until_entered()
        for _ in range(3):
            tree.ref("shop/busy").tell(1)
        text = tree.dump()
        hang.release()

    assert text == (
        "shop                one_for_one   running      restarts 1/1 in 5 s\n"
        "├─ busy             permanent     running      incarnation 1   mailbox 3\n"
        "├─ again            permanent     restarting   incarnation 1   retry pending"
        "   last exit: crashed ValueError\n"
        "├─ moody            permanent     parked       incarnation 2   parked after 2 restarts in 5 s"
        "   last exit: crashed ValueError\n"
        "└─ off              permanent     stopped      incarnation 1   last exit: shutdown   dead letters 1\n"
        "\n"
        "dead letters: stopped 1"
    )


def test_verbose_adds_the_times() -> None:
    clock, hang = ManualClock(), Hang()
    children = (faulty("busy"), faulty("again", backoff=Backoff(initial_s=10, jitter=0)), faulty("parse", pool=2))
    with running(shop(*children), clock=clock) as tree:
        crash(tree, "shop/again")
        tree.ref("shop/busy").tell(hang)
        tree.ref("shop/parse#0").tell(hang)
        hang.wait_until_entered()
        hang.wait_until_entered()
        clock.advance(4)
        text = tree.dump(verbose=True)
        hang.release()

    assert "running      incarnation 1   handles Hang for 4.0 s   up 4.0 s" in text
    assert "restarting   incarnation 1   retry in 6.0 s   last exit: crashed ValueError 4.0 s ago" in text
    assert "running 2    busy 1" in text
    assert re.search(r"^threads of the pool: \d+$", text, re.MULTILINE)


def test_a_pool_in_several_states_counts_each() -> None:
    with running(shop(faulty("parse", pool=4))) as tree:
        tree.terminate_child("shop/parse#1")
        tree.terminate_child("shop/parse#3")
        line = tree.dump().splitlines()[1]

    assert line == "└─ parse ×4         permanent     running 2, stopped 2   last exit: shutdown"


def test_a_part_of_a_tree_can_be_dumped_by_its_path() -> None:
    with running(sample(lambda: actors.stopping(LONG_S))) as tree:
        billing = tree.dump("shop/billing")
        ledger = tree.dump("shop/billing/ledger")
        parse = tree.dump("shop/parse").splitlines()

    assert billing == (
        "shop/billing        one_for_all   running   restarts 0/3 in 5 s\n"
        "├─ ledger           permanent     running   incarnation 1\n"
        "└─ mailer           transient     running   incarnation 1"
    )
    assert ledger == "shop/billing/ledger   permanent   running   incarnation 1"
    assert parse[0] == "shop/parse ×8       permanent   running 8"
    assert parse[8] == "└─ parse#7          permanent   running   incarnation 1"


def test_a_tree_that_is_down_can_be_dumped_as_often_as_one_likes() -> None:
    with running(shop(faulty("ledger"))) as tree:
        pass

    assert tree.dump() == tree.dump()
    assert tree.dump().splitlines() == [
        "shop                one_for_one   stopped   restarts 0/3 in 5 s   last exit: shutdown",
        "└─ ledger           permanent     stopped   incarnation 1   last exit: shutdown",
    ]


def test_a_root_that_gave_up_says_so_below_the_picture() -> None:
    with doomed(shop(faulty("ledger"), max_restarts=0)) as tree:
        tree.ref("shop/ledger").tell("raise OSError")
        tree._system.ended.wait(LONG_S)
        picture, said = tree.dump().split("\n\n")

    assert picture.splitlines()[0].endswith("restarts 1/0 in 5 s   last exit: shutdown RestartLimitError")
    assert said.startswith("gave up: shop: restart 1 within 5 s, limit 0. Last: 'ledger', OSError.")


def test_an_abandoned_thread_is_in_the_picture_with_its_stack_on_request() -> None:
    hang = Hang(deaf=True)
    with running(shop(faulty("stuck", shutdown=0.01))) as tree:
        tree.ref("shop/stuck").tell(hang)
        hang.wait_until_entered()
        tree.terminate_child("shop/stuck")
        tree.restart_child("shop/stuck")
        plain, with_stacks = tree.dump(), tree.dump(stacks=True)
        hang.release()

    assert plain.splitlines()[1].endswith("running   incarnation 2   last exit: killed   abandoned 1")
    assert plain.endswith("\n\nabandoned: shop/stuck 1")
    assert "\n\nshop/stuck: abandoned, still in\n" in with_stacks
    assert "in hold" in with_stacks


def test_long_names_and_states_move_the_columns_of_all_rows() -> None:
    text = aligned(
        [TableRow("a", "k", "s", ["x"]), TableRow("b" * 20, "kind", "state", ["y", "z"]), TableRow("c", "k", "t" * 30)]
    )

    assert text.splitlines() == [
        "a                      k      s       x",
        "bbbbbbbbbbbbbbbbbbbb   kind   state   y   z",
        "c                      k      " + "t" * 30,
    ]


# -- the other formats -------------------------------------------------------------------------------------


def test_json_shows_every_member_of_a_pool_and_null_for_what_is_not_known() -> None:
    with running(sample(lambda: actors.stopping(LONG_S))) as tree:
        shown = json.loads(tree.dump(format="json"))

    poller, parse, _ = shown["top"]["children"]
    assert poller["mailbox"] is None
    assert parse["mailbox"] == 0
    assert [member["path"] for member in parse["members"]] == [f"shop/parse#{number}" for number in range(8)]


def test_mermaid_draws_a_graph_with_a_class_for_each_state() -> None:
    with running(shop(faulty("end"), faulty("parse", pool=2), SupervisorSpec(id="team", children=[]))) as tree:
        tree.terminate_child("shop/end")
        graph = tree.dump(format="mermaid").splitlines()

    assert graph[:5] == [
        "graph TD",
        '  n1{{"shop<br/>one_for_one, running<br/>restarts 0/3 in 5 s"}}:::running',
        '  n1 --> n2["end<br/>permanent, stopped<br/>incarnation 1<br/>last exit: shutdown"]:::stopped',
        '  n1 --> n3[["parse ×2<br/>permanent, running 2"]]:::running',
        '  n1 --> n4{{"team<br/>one_for_one, running<br/>restarts 0/3 in 5 s"}}:::running',
    ]
    assert {line.split()[1] for line in graph[5:]} == {"running", "restarting", "stopped", "parked"}


def test_mermaid_escapes_what_would_mean_something_to_it() -> None:
    error = type('A"]<b>#', (Exception,), {})

    def handle(_: object) -> None:
        raise error

    with running(shop(WorkerSpec(id="w", handle=handle, pool=2))) as tree:
        tree.ref("shop/w#0").tell(1)
        settle(tree)
        label = tree.dump("shop/w#0", "mermaid").splitlines()[1]

    assert "w#35;0<br/>" in label
    assert "crashed A#34;#93;#60;b#62;#35;" in label


def test_an_unknown_format_and_an_unknown_path_are_said_to_be_so() -> None:
    with running(shop()) as tree:
        with pytest.raises(DumpFormatError, match=r"'xml' is not a format\. Use 'text', 'json' or 'mermaid'"):
            tree.dump(format="xml")  # type: ignore[arg-type]
        with pytest.raises(UnknownPathError):
            tree.dump("shop/nobody")


# -- on a signal -------------------------------------------------------------------------------------------


class Page(io.StringIO):
    """A file that says when a whole dump was written."""

    def __init__(self) -> None:
        super().__init__()
        self.full = threading.Event()

    def flush(self) -> None:
        self.full.set()


def test_a_signal_writes_a_verbose_dump_with_stacks_and_the_old_handler_comes_back() -> None:
    before, page, hang = signal.getsignal(signal.SIGUSR1), Page(), Hang()
    with running(shop(faulty("busy"))) as tree:
        tree.ref("shop/busy").tell(hang)
        hang.wait_until_entered()
        restore = tree.dump_on_signal(file=page)
        os.kill(os.getpid(), signal.SIGUSR1)
        written = page.full.wait(LONG_S)
        hang.release()
        restore()

    assert written
    assert "handles Hang for" in page.getvalue()
    assert "in hold" in page.getvalue()
    assert signal.getsignal(signal.SIGUSR1) == before


# -- a hundred thousand ------------------------------------------------------------------------------------
