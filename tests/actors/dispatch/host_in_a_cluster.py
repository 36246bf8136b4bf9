"""``python -m tests.actors.dispatch.host_in_a_cluster stays|goes|leaves``: a host of two trees, one after the other.

Their worker runs in the cluster of the environment's ``RAY_ADDRESS``. It prints numbers: of the worker's process; and
where it ``leaves``, of the next one and its incarnation.
"""

from __future__ import annotations

import sys
import threading

from actors import ChildExited
from tests.actors.dispatch import process_workers as there
from trees import Ray, SupervisorSpec, WorkerSpec, start


async def leave(_: object) -> None:
    """Leave the cluster, while its worker there has nothing to do."""
    import ray  # noqa: PLC0415 - where it is used

    ray.shutdown()


def main(how: str) -> None:
    """Run both."""
    spec = SupervisorSpec(
        id="p",
        children=[
            WorkerSpec(id="w", handle=there.do, dispatch=Ray(num_cpus=0.01), start_timeout_s=120.0),
            WorkerSpec(id="leaver", handle=leave),
        ],
    )
    for _ in range(2):
        with start(spec) as tree:
            print(tree.ref("p/w").ask("pid", timeout=60), flush=True)
            if how == "stays":
                sys.stdin.read()
            if how == "leaves":
                crashed = threading.Event()
                tree.subscribe(lambda event, crashed=crashed: isinstance(event, ChildExited) and crashed.set())
                tree.ref("p/leaver").ask(None, timeout=60)
                crashed.wait(60)  # nobody has asked it anything
                print(tree.ref("p/w").ask("pid", timeout=60), tree.child("p/w").incarnation, flush=True, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
