"""A tree ends, and those who wait for that hear of it, whatever a step of its end meets."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Event
from actors.model.events import InternalError
from tests.support.hardening import LONG_S, eventually, threads_named, worker
from trees import SupervisorSpec, start

STEPS = {
    "answers to what was left in mailboxes": lambda system: (system.leftovers, "finish"),
    "the last events": lambda system: (system.bus, "flush"),
    "timers": lambda system: (system.timers, "close"),
    "dispatchers": lambda system: (system.dispatchers, "close"),
    "Pykka's registry": lambda system: (system, "_unregister"),
    "the pool": lambda system: (system.pool, "close"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_the_end_that_fails_holds_up_neither_the_others_nor_those_who_wait(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = list[Event]()
    error = RuntimeError("this step fails")
    tree = start(SupervisorSpec(id="t", children=[worker("w", lambda message: message)]))
    tree.subscribe(heard.append)
    assert tree.ref("t/w").ask(1, timeout=LONG_S) == 1
    part, name = STEPS[step](tree._system)
    real = getattr(part, name)

    def fails(*given: Any) -> None:
        real(*given)
        raise error

    monkeypatch.setattr(part, name, fails)

    assert tree.stop(LONG_S)
    eventually(lambda: not threads_named("t-"), "the end of its threads")
    if step != "the pool":  # after that no subscriber is called any more
        assert [event.error for event in heard if isinstance(event, InternalError)][:1] == [error]
