"""Host with a worker in a process that spins, and has started a process itself; it waits to be killed."""

import sys
import time

from tests.actors.dispatch import process_workers as there
from trees import SupervisorSpec, WorkerSpec, start


def do(message: object) -> object:
    """Do as the others do: a function of the program itself."""
    return there.do(message)


if __name__ == "__main__":
    spec = SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=do, dispatch="process", pool=2)])
    with start(spec) as tree:
        below = tree.ref("p/w#0").ask("below")
        tree.ref("p/w#0").tell("spin")
        print(below, *(tree.child(f"p/w#{n}").pid for n in range(2)), flush=True)
        time.sleep(600)
        sys.exit(1)
