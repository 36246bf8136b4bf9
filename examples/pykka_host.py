"""An ordinary Pykka actor, put under supervision without a change to it.

    python examples/pykka_host.py

Alone, a Pykka actor that raises in a message that nobody waits for is gone, with its inbox. Here it is started again,
and the proxy that the host already holds goes on working. Needs no extras.
"""

import pykka
from loguru import logger

from actors.testing import settle
from trees import SupervisorSpec, WorkerSpec, start


class Counter(pykka.ThreadingActor):
    """As you may have it already: it knows nothing of trees."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step
        self.total = 0

    def add(self, times: int) -> int:
        """Count; a method like any other."""
        self.total += self.step * times
        return self.total

    def on_receive(self, message: object) -> None:
        """Cannot handle anything: a crash."""
        raise TypeError(f"no use for a {type(message).__name__}")


# The whole of it: what to run, with which arguments, and (by default) at most 3 restarts in 5 s.
TREE = SupervisorSpec(id="app", children=[WorkerSpec(id="counter", actor=Counter, kwargs={"step": 10})])


def main() -> None:
    """Use the actor, crash it, use it again."""
    logger.disable("actors")  # the crash is logged with its traceback; here we want to read the output
    with start(TREE) as tree:
        counter = tree.ref("app/counter").proxy()
        print("before the crash:", counter.add(1).get(), counter.add(1).get())

        tree.ref("app/counter").tell(b"crash")
        print("after the crash: ", counter.add(1).get(), "(the same proxy; a new Counter, so it counts from 0)")

        settle(tree)  # only so that the dump is the same each time: the supervisor has heard of the start, too
        print(tree.dump())


if __name__ == "__main__":
    main()
