"""A cluster of Ray for tests: a node on this machine, and more for a while.

All tests of a run share it (``xdist_group``): it starts in seconds, and each of its nodes has processes of its own.
"""

from __future__ import annotations

import builtins
import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest

from trees import Ray

SHARE = 0.01
"""Share of a processor that a worker of a test takes: there is room for all of them."""
PLENTY = 8
SETTINGS = {
    "prestart_worker_first_driver": False,  # else each connection starts as many workers as there are processors
    "enable_worker_prestart": False,
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 3000,
    "health_check_failure_threshold": 2,
}
"""No worker is started that is not asked for; a lost node is known after a second, by default after ten.

A node that was killed refuses to be called, at once. One that is busy, and takes longer to answer, is not lost.
"""


class RayCluster:
    """The cluster that this process is connected to."""

    def __init__(self, nodes: Any) -> None:
        self._nodes = nodes
        self.address: str = nodes.address

    @contextlib.contextmanager
    def node(self, name: str, room: int = PLENTY) -> Iterator[Any]:
        """A node more, which has so much of the resource of this name, until it is removed."""
        node = self.add(name, room)
        try:
            yield node
        finally:
            if node in self._nodes.list_all_nodes():  # else it was lost before
                self.lose(node)

    def add(self, name: str, room: int = PLENTY) -> Any:
        """A node more, which has so much of the resource of this name, until it is lost, or the cluster ends."""
        return self._nodes.add_node(num_cpus=PLENTY, resources={name: room})

    def lose(self, node: Any) -> None:
        """End a node at once, with all that runs there."""
        self._nodes.remove_node(node, allow_graceful=False)


@contextlib.contextmanager
def running_cluster() -> Iterator[RayCluster]:
    """A cluster of one node that this process is connected to."""
    import ray  # noqa: PLC0415 - it may not be installed
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of what a later release does
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    head = {
        "num_cpus": PLENTY,
        "include_dashboard": False,
        "include_log_monitor": False,  # the library relays what a worker logs by itself
        "no_monitor": True,  # of the autoscaler
        "_system_config": SETTINGS,
    }
    with pytest.MonkeyPatch.context() as patches:
        nodes = Cluster(initialize_head=True, head_node_args=head)
        patches.setattr(builtins, "print", print)  # Ray puts one of its own there some time, and leaves it
        ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield RayCluster(nodes)
        finally:
            ray.shutdown()
            nodes.shutdown()


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """A cluster of Ray; without Ray the test is skipped, and says so."""
    pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
    with running_cluster() as found:
        yield found


START_S = 120.0
"""Seconds for the start of a worker there: it takes a new Python, and under load more than half a minute."""


def on_ray(**rules: Any) -> Ray:
    """A place for which there is always room."""
    return Ray(**{"num_cpus": SHARE, **rules})
