"""Calls of a worker's process to its host, where what they name, or bring, is not there as it was."""

from __future__ import annotations

import pytest

import actors
from actors import DeadLetter, NotPicklableError
from tests.actors.dispatch import process_workers as there
from tests.actors.dispatch.process_trees import running, worker
from tests.support.hardening import eventually
from trees import WorkerSpec


def test_a_ref_that_is_kept_in_a_process_behaves_as_any_when_its_path_is_deleted_and_added_again() -> None:
    temporary = WorkerSpec(id="t", handle=there.do)
    with running(worker()) as (tree, ask):
        letters: list[DeadLetter] = []
        tree.subscribe(lambda event: letters.append(event) if isinstance(event, DeadLetter) else None)
        tree.start_child("p", temporary)
        ask(("keep", "p/t"))
        assert ask(("kept", "p/t", "is_alive")) is True
        tree.terminate_child("p/t")
        tree.delete_child("p/t")
        assert ask(("kept", "p/t", "is_alive")) is False
        assert ask(("kept", "p/t", "stop")) is False
        ask(("kept", "p/t", "tell", 1))
        (letter,) = eventually(lambda: letters)
        assert (letter.path, letter.sender) == ("p/t", "p/w")
        with pytest.raises(actors.ActorStoppedError, match="deleted"):
            ask(("kept", "p/t", "ask", 1))
        tree.start_child("p", temporary)
        assert ask(("kept", "p/t", "ask", 21)) == 42
        assert tree.child("p/w").incarnation == 1


def test_an_answer_that_ends_the_program_where_it_is_rebuilt_is_an_error_of_that_one_call() -> None:
    with running(worker(), WorkerSpec(id="giver", handle=there.give)) as (tree, ask):
        with pytest.raises(NotPicklableError, match="SystemExit"):
            ask(("ask", "p/giver", "leaving"), timeout=60)
        assert ask(("ask", "p/giver", 21), timeout=60) == 42, "its wire is read as before"
        assert tree.child("p/w").incarnation == 1
