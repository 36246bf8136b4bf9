"""Every place where user code can run (the table in ``SEMANTICS.md``), and what it may do there: anything.

For each place of the table a probe raises, blocks, and calls back into the tree. A place without a probe fails.
"""

from typing import Any

import pytest

from actors import Worker
from actors.testing import settle
from tests.support.load import beside_others
from trees import SupervisorSpec, WorkerSpec, start


def prompt_s() -> float:
    """Far more than an idle machine takes for a round trip, and less than any limit in these trees."""
    return beside_others(4.0)


class Hostile:
    """Raises wherever anybody looks at it."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(name)

    def __eq__(self, other: object) -> bool:
        raise SystemExit("eq")

    def __bool__(self) -> bool:
        raise SystemExit("bool")

    def __hash__(self) -> int:
        raise SystemExit("hash")

    def __str__(self) -> str:
        raise SystemExit("str")

    __repr__ = __str__


@pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])
def test_nobody_looks_at_what_is_sent_replied_or_raised(dispatch: str) -> None:
    hostile = Hostile()

    class HostileError(Exception):
        def __eq__(self, other: object) -> bool:
            raise SystemExit("eq")

        def __bool__(self) -> bool:
            raise SystemExit("bool")

        def __hash__(self) -> int:
            raise SystemExit("hash")

        def __str__(self) -> str:
            raise SystemExit("str")

        __repr__ = __str__

    def handle(message: Any) -> Any:
        if message is hostile:
            return hostile
        if type(message) is str and message == "crash":
            raise HostileError
        return message

    async def handle_async(message: Any) -> Any:
        return handle(message)

    call = handle_async if dispatch == "loop" else handle
    victim = WorkerSpec(id="victim", handle=call, dispatch=dispatch)
    plain = WorkerSpec(id="plain", actor=Worker)
    with start(SupervisorSpec(id="t", max_restarts=1000, children=[victim, plain])) as tree:
        assert tree.ref("t/victim").ask(hostile, timeout=prompt_s()) is hostile
        tree.ref("t/plain").tell(hostile)
        for _ in range(3):
            with pytest.raises(HostileError):
                tree.ref("t/victim").ask("crash", timeout=prompt_s())
        assert tree.ref("t/victim").ask("again", timeout=prompt_s()) == "again"
        assert "last exit: crashed HostileError" in tree.dump()
        tree.terminate_child("t/victim")
        tree.ref("t/victim").tell(hostile)
        settle(tree)
        assert tree.snapshot().dead_letters == {"unhandled": 1, "stopped": 1}
