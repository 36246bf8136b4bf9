"""Incarnation of user code that belongs to no worker: of a detached call, or of a call off the loop.

It has the crash boundary of every worker, and a mailbox that takes nothing. Its owner is no supervisor: it is never
restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.execution.crash_boundary import WorkerIncarnation
from actors.execution.incarnation_ports import IncarnationHost, IncarnationOwner
from actors.messaging.mailbox import Mailbox, Refusal
from actors.model.spec import ChildSpec, DispatcherKind
from actors.worker import body_recipe


def detached_incarnation(
    system: IncarnationHost,
    path: str,
    name: str,
    run: Callable[..., Any],
    code: object,
    where: DispatcherKind,
    owner: IncarnationOwner,
) -> WorkerIncarnation:
    """Make an incarnation that runs ``run(code)`` once it is started.

    ``path`` is where its code is said to run, in dumps and errors. An exception of ``run`` ends only this incarnation,
    and ``owner`` hears of its end.
    """
    recipe = body_recipe(run, (code,), {}, where=where, expected=(Exception,))
    box = Mailbox(path)
    box.close(Refusal.BODY)
    return WorkerIncarnation(system, ChildSpec(id=name, recipe=recipe), box, owner)
