"""A short ``tests.faults.kill_workers``, and its books; ``--seconds 60`` is the long one."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from actors import ChildExited, ChildStarted, DeadLetter
from actors.model.spec import Reason
from tests.faults.kill_workers.books import Books
from tests.faults.kill_workers.rampage import Rampage

PATH = "k/w"


@pytest.fixture
def books(tmp_path: Path) -> Books:
    return Books(tmp_path / "notes")


def note(books: Books, *lines: str) -> list[str]:
    books.notes.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    return books.problems()


def exit_with(books: Books, lost: int) -> None:
    books.hear(ChildStarted(PATH, 1))
    books.hear(ChildExited(PATH, Reason.CRASHED, 1, None, None, started=True, lost=lost))


def test_a_tell_that_was_done_refused_or_lost_in_a_crash_is_accounted_for(books: Books) -> None:
    for _ in range(3):
        books.tell(PATH, "work", PATH)
    books.hear(DeadLetter(PATH, "stopped", "Told", None))
    exit_with(books, lost=1)
    assert note(books, "begun 1", "done 1") == []


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([], "1 tells are unaccounted for"),
        (["begun 1"], "1 were cut off"),
        (["begun 1", "raised 1"], "1 raised"),
        (["begun 1", "done 1", "begun 1", "done 1"], "was begun 2 times"),
    ],
)
def test_a_tell_of_which_no_exit_told_and_one_that_came_twice_are_found(
    books: Books, lines: list[str], wrong: str
) -> None:
    books.tell(PATH, "work", PATH)
    (problem,) = note(books, *lines)
    assert wrong in problem


def test_a_dead_letter_that_was_begun_is_found(books: Books) -> None:
    books.tell(PATH, "work", PATH)
    books.hear(DeadLetter(PATH, "stopped", "Told", None))
    exit_with(books, lost=1)
    (problem,) = note(books, "begun 1", "done 1", "begun -1")
    assert "1 tells are dead letters, 0 were not begun" in problem


def test_an_ask_that_has_not_ended_an_answer_of_nobody_and_an_exit_without_a_start_are_found(books: Books) -> None:
    books.ask(PATH, "work", PATH)
    books.answered.add(1)
    books.hear(ChildStarted(PATH, 1))
    found = note(books)
    assert [each.partition(" ")[0] for each in found] == ["ask", "ask", f"{PATH}:"]
    assert "never exited" in found[-1]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the system shows no process by /proc")
@pytest.mark.usefixtures("quiet_log")
def test_the_books_balance_after_two_seconds_in_which_processes_are_killed_and_stopped() -> None:
    run = Rampage(seed=secrets.randbelow(10**6), seconds=2.0)
    assert run.run(), "\n".join([*run.problems, run.summary])
    assert run.books.answered, "nothing was handled: the run shows nothing"
    assert run.strikes
