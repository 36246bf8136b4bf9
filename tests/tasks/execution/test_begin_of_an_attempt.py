"""An attempt begins on its worker's thread, while orchestrators on other threads look at how long it is silent."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from actors.tasks.execution import attempt as attempts
from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.attempt_spec import AttemptSpec
from tests.support.interleaving import Scheduler, Watch, explore
from trees import Subtask

WATCH = Watch(frozenset([str(attempts.__file__), __file__]), frozenset(["incarnation", "started", "last_sign"]))


def test_in_every_order_whoever_sees_that_it_has_started_sees_its_first_sign_of_life() -> None:
    def scene(scheduler: Scheduler) -> Callable[[], None]:
        desk: Any = SimpleNamespace(post=lambda _: True)
        attempt = Attempt(AttemptSpec("t/s#1.1", desk, "t", Subtask(id="s"), "w", "r/w"))
        incarnation: Any = SimpleNamespace()
        seen = list[tuple[float | None, float]]()

        def look() -> None:
            seen.append((attempt.started, attempt.last_sign))

        def check() -> None:
            assert seen[0] in [(None, 0.0), (None, 20.0), (20.0, 20.0)]

        scheduler.spawn("worker", lambda: void(attempt.begin(incarnation, 20.0)))
        scheduler.spawn("orchestrator", look)
        return check

    assert explore(scene, WATCH, switches=2) >= 5


def void(_: object) -> None:
    """Drop a result."""
