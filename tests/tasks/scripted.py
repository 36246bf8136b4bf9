"""Workers with a script, on a thread or on the loop, and plans for them."""

from __future__ import annotations

from typing import Any

from actors.testing import AsyncScriptedExecutable, ScriptedExecutable
from trees import Subtask, WorkerSpec

ONE = (Subtask("x", worker="a"),)


CHAIN = (Subtask("x", worker="a"), Subtask("y", worker="b", depends_on=["x"]), Subtask("z", worker="b"))


def sync(id_: str, *steps: object, **words: Any) -> tuple[ScriptedExecutable, WorkerSpec]:
    script = ScriptedExecutable(*steps)
    return script, WorkerSpec(id=id_, execute=script.execute, **words)


def loop(id_: str, *steps: object, **words: Any) -> tuple[AsyncScriptedExecutable, WorkerSpec]:
    script = AsyncScriptedExecutable(*steps)
    return script, WorkerSpec(id=id_, execute=script.execute, **words)
