"""Longer defaults for what a test waits for.

The library gives an ask five seconds and ``settle`` ten. That is much where a program runs alone. Here many processes
share each core, and the start of a worker's process alone may take longer. So what is not told how long to wait waits a
minute. None of these waits takes longer for it, unless what it waits for never comes. A test that wants an ask to end
after its time says the time.

So it is with how long the library itself waits for something that is alive, and may get no time of the processor: it
has longer here (``OF_THE_RUNTIME``). A test that wants it to give up sets the time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from actors.dispatch.host import forked_handle, ray_handle
from actors.messaging.ref import Ref
from actors.runtime import system
from actors.supervision import child_control, hung_children
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

OF_THE_RUNTIME: list[tuple[Any, str, float]] = [
    (child_control, "GRACE_S", 5.0),  # a killed coroutine, or process, that is not gone
    (hung_children, "GRACE_S", 5.0),
    (system, "CLOSE_S", 5.0),  # the last events, at the end of a tree
    (forked_handle, "CODE_S", 20.0),  # the exit code of a process that is gone
    (ray_handle, "CALLS_S", 20.0),
]
"""Seconds of the runtime's own, by module and name."""


settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For Hypothesis, which fails a test that has to wait for its core."""


def be_patient(more: Iterable[tuple[Any, str, float]] = ()) -> dict[str, float]:
    """Set the defaults for this process, and ``more`` than the runtime's; return what the library itself gives."""
    settings.load_profile("busy")
    before: dict[str, float] = {}
    for function, parameter in WAITS.items():
        parameters = inspect.signature(function).parameters
        before[function.__qualname__] = parameters[parameter].default
        longer = {each.name: PATIENT_S if each.name == parameter else each.default for each in parameters.values()}
        of_order = [each for each in parameters.values() if each.kind is not each.KEYWORD_ONLY]
        changed: Any = function
        changed.__defaults__ = tuple(longer[each.name] for each in of_order if each.default is not each.empty)
        if parameter in (changed.__kwdefaults__ or ()):
            changed.__kwdefaults__[parameter] = PATIENT_S
    for module, name, seconds in (*OF_THE_RUNTIME, *more):
        before[f"{module.__name__}.{name}"] = getattr(module, name)
        setattr(module, name, seconds)
    return before
