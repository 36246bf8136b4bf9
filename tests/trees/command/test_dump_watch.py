"""``regrow dump --watch``, ``--only`` and ``--depth``: a running tree seen from outside, again and again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import WAIT_S, out, regrow, running, runtime, shop
from tests.support.programs import started
from trees.command.dump_watch import watch
from trees.host.console import ConsoleError, ConsoleGoneError

__all__ = ["runtime", "shop"]


def looks(*found: str | ConsoleError) -> Callable[[], list[str]]:
    """What is found look by look; then the tree has ended."""
    left = list(found)

    def look() -> list[str]:
        if not left:
            raise ConsoleGoneError("socket", "nobody listens there", "")
        each = left.pop(0)
        if isinstance(each, ConsoleError):
            raise each
        return [each]

    return look


def test_each_look_is_shown_until_the_tree_has_ended() -> None:
    shown: list[str] = []
    watch(looks("one", "two"), shown.append, lambda: shown.append("pause"))

    assert shown == ["one", "pause", "two", "pause", "The tree has ended."]


def test_what_cannot_be_had_just_now_is_said_and_looked_for_again() -> None:
    shown: list[str] = []
    watch(looks("one", ConsoleError("socket", "no answer in 30 s", "Try again"), "two"), shown.append, lambda: None)

    assert shown == ["one", "socket: no answer in 30 s. Try again", "two", "The tree has ended."]


def test_where_there_is_nothing_to_watch_that_is_an_error() -> None:
    with pytest.raises(ConsoleError, match="nobody listens there"):
        watch(looks(), print, print)


def test_ctrl_c_ends_it_without_an_error() -> None:
    def pause() -> None:
        raise KeyboardInterrupt

    shown: list[str] = []
    watch(looks("one", "two"), shown.append, pause)

    assert shown == ["one"]


@pytest.mark.slow
@pytest.mark.usefixtures("runtime")
def test_a_running_program_is_watched_from_outside_until_ctrl_c(shop: Path) -> None:
    with (
        running(shop) as (process, _),
        started("dump", "--pid", process.pid, "--watch", "--every", "0.1", "--depth", "0") as watching,
    ):
        seen = [out(watching).readline() for _ in range(7)]
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=WAIT_S)
        code = watching.wait(WAIT_S)

    assert [line.split()[0] for line in seen if line.strip()] == ["shop", "└─", "shop", "└─", "shop"]
    assert (code, errors) == (0, "")


@pytest.mark.slow
@pytest.mark.usefixtures("runtime")
def test_a_part_of_a_running_tree_is_asked_for_from_outside(shop: Path) -> None:
    with running(shop) as (process, _):
        flat = regrow("dump", "--pid", process.pid, "--depth", "1")
        troubled = regrow("dump", "--pid", process.pid, "--only", "troubled")
        wrong = [regrow("dump", "--pid", process.pid, *more) for more in (("--only", "x"), ("--depth", "-1"))]

    assert "└─ ... and 1 more" in flat.stdout
    assert "helper" not in flat.stdout
    assert troubled.stdout.splitlines()[1] == "└─ ... and 3 more"
    assert [each.returncode for each in wrong] == [2, 2]
