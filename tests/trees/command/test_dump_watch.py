"""``regrow dump --watch``, ``--only`` and ``--depth``: a running tree seen from outside, again and again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.command import WAIT_S, out, regrow, running, runtime, shop
from tests.support.programs import started

__all__ = ["runtime", "shop"]


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
