"""For tests, ours and users': time by hand, workers that fail on command, and proof that nothing is left or goes on.

* ``ManualClock``: ``start(TREE, clock=clock)``, then ``clock.advance(60)``: backoffs, limits and periods pass at once.
* ``FaultyWorker`` and ``AsyncFaultyWorker``: put them where your own workers will be and rehearse what breaks.
  ``Fault`` says how often, ``Hang`` holds a worker up until it is released.
* ``ScriptedExecutable`` and ``AsyncScriptedExecutable``: what ``execute=`` does, said for each attempt (values, errors,
  signals, ``Crash``, ``Echo``, ``Hang``, ``InTurn``, ``Slow``), and a record of what it was given.
* ``FakeModel``: the same for what ``ModelPlanner``, ``ModelReviewer`` and ``ModelSynthesizer`` call.
* ``settle(tree)``: returns when all that was set off has been handled. So "nothing happened" is proved by a later
  reply, never by a sleep.
* ``no_stray_actors``: a pytest fixture that fails a test which leaves a tree, an actor or a thread behind. Import it
  into a ``conftest.py``. ``leaving_nothing_behind()`` is the same as a context manager, for those without pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.model.names import missing
from actors.testing.fake_model import FakeModel
from actors.testing.faulty_workers import AsyncFaultyWorker, Fault, FaultyWorker, Hang
from actors.testing.leak_check import leaving_nothing_behind
from actors.testing.manual_clock import ManualClock
from actors.testing.quiescence import settle
from actors.testing.script import Crash, Echo, InTurn, Slow
from actors.testing.scripted_executable import AsyncScriptedExecutable, Call, ScriptedExecutable

if TYPE_CHECKING:
    from actors.testing.pytest_plugin import no_stray_actors


def __getattr__(name: str) -> Any:
    """The fixture needs pytest, which need not be installed for the rest."""
    if name != "no_stray_actors":
        raise missing(__name__, name)
    from actors.testing.pytest_plugin import no_stray_actors  # noqa: PLC0415 - only where it is used

    return no_stray_actors


__all__ = [
    "AsyncFaultyWorker",
    "AsyncScriptedExecutable",
    "Call",
    "Crash",
    "Echo",
    "FakeModel",
    "Fault",
    "FaultyWorker",
    "Hang",
    "InTurn",
    "ManualClock",
    "ScriptedExecutable",
    "Slow",
    "leaving_nothing_behind",
    "no_stray_actors",
    "settle",
]
