"""A worker in a process: where the process comes from, what is imported once, and the way of large values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import StartError
from actors.testing import ManualClock
from tests.actors.dispatch import process_workers as there
from tests.actors.dispatch.process_trees import running, runs, spec_of, worker
from tests.support.hardening import eventually
from trees import Process, WorkerSpec, start

# -- 1.2: started from a fork server ---------------------------------------------------------------------------


# -- 1.3: large buffers, and the log ---------------------------------------------------------------------------


def test_a_start_in_a_folder_that_is_not_there_says_which_field_and_shows_no_folder() -> None:
    process, said = Process(cwd="/no/such/SECRET"), r"^p/w: cwd of its process is not a folder\. Give one that exists"
    with pytest.raises(StartError) as caught, start(spec_of(worker(dispatch=process))):
        pass
    chain = [caught.value, *causes(caught.value)]
    assert any(re.match(said, str(each)) for each in chain)
    assert not [each for each in chain if "SECRET" in str(each)]


def causes(error: BaseException) -> Iterator[BaseException]:
    while (cause := error.__cause__) is not None:
        yield cause
        error = cause


def test_a_start_that_takes_too_long_says_what_it_waits_for() -> None:
    clock = ManualClock()
    hears = WorkerSpec(id="hears", handle=lambda _: clock.advance(1.0))
    slow = worker(actor=there.Broken, args=("tell, and spin",), start_timeout_s=0.5)
    with pytest.raises(StartError) as caught, start(spec_of(hears, slow), clock=clock):
        pass
    assert "p/w: did not start within 0.5 s (its code is being imported there, or on_start still running)" in str(
        caught.value
    )


# -- 1.6: stopping is real -------------------------------------------------------------------------------------


def test_a_loop_in_c_that_holds_the_gil_is_killed_at_the_end_of_shutdown(tmp_path: Path) -> None:
    up = tmp_path / "up"
    with running(worker(shutdown=0.2)) as (tree, ask):
        pid = ask("pid")
        tree.ref("p/w").tell(("hold the gil", str(up)))
        assert eventually(up.exists)
        tree.terminate_child("p/w")
        assert eventually(lambda: not runs(pid))
