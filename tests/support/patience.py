"""Longer defaults for what a test waits for.

The library gives an ask five seconds and ``settle`` ten. That is much where a program runs alone. Here many processes
share each core, and the start of a worker's process alone may take longer. So what is not told how long to wait waits a
minute. None of these waits takes longer for it, unless what it waits for never comes. A test that wants an ask to end
after its time says the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from actors.messaging.ref import Ref
from actors.testing import Hang, ScriptedExecutable, settle
from actors.testing.leak_check import leaving_nothing_behind

PATIENT_S = 60.0
OWN_WAITS = pytest.StashKey[dict[str, float]]()
"""Of the configuration of pytest: what the library itself gives."""
WAITS: dict[Callable[..., Any], str] = {
    Ref.ask: "timeout",
    Ref.ask_async: "timeout",
    settle: "timeout_s",
    Hang.wait_until_entered: "timeout_s",
    ScriptedExecutable.wait_for_calls: "timeout_s",
    leaving_nothing_behind.__wrapped__: "patience_s",  # type: ignore[attr-defined]
}
"""The functions, each with the parameter that says how many seconds it waits."""


settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For Hypothesis, which fails a test that has to wait for its core."""


def be_patient() -> dict[str, float]:
    """Set the defaults for this process; return what the library itself gives, by the names of the functions."""
    settings.load_profile("busy")
    before: dict[str, float] = {}
    for function, parameter in WAITS.items():
        by_name: Any = function.__kwdefaults__ or {}
        of_order: Any = function.__defaults__ or ()  # type: ignore[attr-defined]
        code = function.__code__  # type: ignore[attr-defined]
        names = code.co_varnames[: code.co_argcount][-len(of_order) :] if of_order else ()
        given = {**dict(zip(names, of_order, strict=True)), **by_name}
        before[function.__qualname__] = given[parameter]
        if parameter in by_name:
            by_name[parameter] = PATIENT_S
        else:
            values = (PATIENT_S if name == parameter else given[name] for name in names)
            function.__defaults__ = tuple(values)  # type: ignore[attr-defined]
    return before
