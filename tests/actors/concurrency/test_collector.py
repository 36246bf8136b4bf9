"""The pause of the cyclic collector: what it finds and leaves, whoever else pauses it, and in the child of a fork."""

import gc
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.concurrency import collector
from actors.concurrency.collector import paused
from tests.support.hatchery import ran

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _on() -> Iterator[None]:
    yield
    gc.enable()


def test_it_is_off_within_and_on_after_it_also_where_that_fails() -> None:
    found: list[bool] = []

    @paused()
    def fails() -> None:
        found.append(gc.isenabled())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()

    assert (found, gc.isenabled()) == ([False], True)


def test_a_user_who_turned_it_off_finds_it_off() -> None:
    gc.disable()

    with paused():
        assert not gc.isenabled()

    assert not gc.isenabled()


def test_it_is_on_where_a_signal_handler_has_raised_as_soon_as_it_was_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def disable() -> None:
        gc.disable()
        raise ZeroDivisionError

    monkeypatch.setattr(collector, "gc", SimpleNamespace(isenabled=gc.isenabled, enable=gc.enable, disable=disable))

    with pytest.raises(ZeroDivisionError), paused():
        raise AssertionError

    assert gc.isenabled()


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_in_whatever_order_pauses_end_it_is_on_after_the_last_one(order: tuple[int, ...]) -> None:
    pauses = [paused() for _ in order]
    for each in pauses:
        each.__enter__()

    for number in order:
        pauses[number].__exit__(None, None, None)

    assert gc.isenabled()


FORKS = """
import gc, os
from actors.concurrency import collector
from actors.concurrency.collector import paused
with paused():
    child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), gc.isenabled())
"""


def test_in_the_child_of_a_fork_it_is_on() -> None:
    done = ran("-c", FORKS, cwd=ROOT)

    assert (done.stdout, done.stderr) == ("0 False\n", "")
