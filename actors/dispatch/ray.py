"""Requests to Ray for workers in a cluster. Of this library only this file imports Ray.

Each incarnation is one actor, with ``max_restarts=0``: restarting is the supervisor's. Its handle is in
``actors.dispatch.host.ray_handle``. What stands here may wait for the cluster, so it runs on ``THREADS``, beside the
loop, and other work of a tree does not wait behind it. Only ``is_in`` and ``has_left`` are for the loop's thread.

Ray's core ends this process where one thread uses it while another one leaves the cluster (``ray.shutdown()``). So
whether this process is still in the session of an actor, and what the cluster has, is asked without the core. Once it
has begun to leave, nothing here uses the core, also not by dropping what Ray has made: that is kept until the core is
gone (``has_left``). What was begun before cannot be called back: an actor that is created or killed, a piece of a
message. So a host stops its tree before it leaves, or leaves while no worker there has anything to do.

``_CONNECTING`` guards the connection of this process to a cluster, which is made once; it is held while Ray is started,
for seconds, and by no other code.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from actors.concurrency.thread_state import start_thread
from actors.dispatch.worker.ray_worker import RayWorker
from actors.execution.daemon_executor import DaemonExecutor
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.model.errors import StartError

METHODS: Final = 4
"""Methods of an actor that run beside each other; three are needed."""
SLOW_S: Final = 2.0
"""Seconds after which a cluster that was asked for something does not answer."""
HAS_LEFT: Final = "this process has left the cluster"
CLIENT: Final = "ray://"
"""Beginning of the address of a proxy for Ray Client."""
MEGABYTE: Final = 1024 * 1024
THREADS: Final = DaemonExecutor("ray", idle_s=0.1)
"""Threads for calls of Ray, of all trees of this process."""
_CONNECTING: Final = threading.RLock()
_NAMED_OTHERWISE: Final = frozenset({"auto", "local"})
_NO_CLIENT: Final = "Ray Client carries no stream of bytes between a worker and its host"
_NO_CLIENT_HINT: Final = 'Connect to the cluster itself: its head has an address like "head:6379".'


@dataclass(frozen=True, slots=True)
class ActorRequest:
    """Request of a worker to a cluster, for each of its incarnations."""

    id: str
    """Id of the worker."""
    num_cpus: float
    num_gpus: float
    memory: int | None
    """Bytes."""
    resources: Mapping[str, float]
    runtime_env: Mapping[str, Any]
    address: str | None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"  # its environment may hold secrets

    @property
    def wanted(self) -> dict[str, float]:
        """Resources that each incarnation takes, by their names in Ray."""
        given = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": self.memory or 0, **self.resources}
        return {name: number for name, number in given.items() if number}

    @property
    def joins(self) -> str:
        """Address that this process joins where it is in no cluster."""
        return self.address or os.environ.get("RAY_ADDRESS") or "local"


class ClusterLook:
    """Resources of the cluster, and those that are free, as seen last: one look serves all actors that wait for room.

    ``_guard`` guards who looks: one thread at a time.
    """

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._began: float | None = None
        """Time when the present look began."""
        self._seen: tuple[Any, Mapping[str, float], Mapping[str, float]] | None = None
        """Session, resources in all, resources that are free. None: the cluster has not said it."""

    def begin(self) -> None:
        """Have another look, unless one is under way. Returns at once."""
        with self._guard:
            if self._began is not None:
                return
            self._began = monotonic()
        try:
            THREADS.submit(self._look)
        except RuntimeError:  # the machine gives no thread: the next look may have one
            self._began = None

    def _look(self) -> None:
        seen = None
        try:
            ray = _joined()
            if ray is not None:
                seen = (_session(), ray.cluster_resources(), ray.available_resources())
        except Exception:  # noqa: BLE001 - the cluster does not answer, and that is what is to be said
            seen = None
        finally:
            with self._guard:
                self._seen, self._began = seen, None

    def room(self, request: ActorRequest, session: Any) -> str:
        """Describe what an actor of this session waits for, and what there is."""
        began, seen = self._began, self._seen
        if began is not None and monotonic() - began > SLOW_S:
            return "the cluster does not answer"
        there, free = seen[1:] if seen is not None and seen[0] is session else (None, None)
        said = ", ".join(_amounts(request.wanted, there, free))
        return "the cluster has not started it" + (f": it asks for {said}" if said else "")


LOOK: Final = ClusterLook()


def _amounts(
    wanted: Mapping[str, float], there: Mapping[str, float] | None, free: Mapping[str, float] | None
) -> list[str]:
    """Say of each resource how much of it is asked for, and how much there is, where that is known."""
    found = []
    for name, number in wanted.items():
        unit, label = (MEGABYTE, "MB of memory") if name == "memory" else (1, name)
        said = f"{number / unit:.12g} {label}"
        if there is not None and free is not None:
            said += f", of which {free.get(name, 0) / unit:.12g} of {there.get(name, 0) / unit:.12g} are free"
        found.append(said)
    return found


# -- actors --------------------------------------------------------------------------------------------------

_maker: tuple[Any, Any] | None = None
"""Session, and what makes actors in it. Ray keeps each such class in the cluster, so there is one for each session. Two
threads may make one each, the first time."""


def deaths() -> tuple[type[Exception], type[Exception]]:
    """Errors of an actor that is dead, and of one that cannot be reached, which is one of the first as well.

    To import them takes half a second, the first time.
    """
    from ray import exceptions  # noqa: PLC0415 - a large package, and an extra

    return exceptions.RayActorError, exceptions.ActorUnavailableError


def actor_at(request: ActorRequest) -> tuple[Any, Any]:
    """Create an actor, which may have to wait for room; the session that it belongs to.

    The session is read before: where this process leaves meanwhile, the actor is seen to be none of a later one.

    Raises:
        ChildProcessError: this process has left the cluster.
    """
    ray = _joined()
    session = _session()
    if ray is None or session is None:
        raise ChildProcessError(HAS_LEFT)
    options = {
        "num_cpus": request.num_cpus,
        "num_gpus": request.num_gpus,
        "memory": request.memory,
        "resources": dict(request.resources) or None,
        "runtime_env": dict(request.runtime_env) or None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return _maker_in(ray, session).options(**given).remote(node_here), session


def _maker_in(ray: Any, session: Any) -> Any:
    global _maker  # noqa: PLW0603 - as long as the session
    known = _maker
    if known is not None and known[0] is session:
        return known[1]
    maker = ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=METHODS)(RayWorker)
    _maker = (session, maker)
    return maker


def kill(actor: Any, session: Any) -> bool:
    """Kill an actor; False where Ray could not be told."""
    ray = _joined()
    if ray is None or not is_in(session):
        return True  # it is lost already
    try:
        ray.kill(actor, no_restart=True)
    except Exception:  # noqa: BLE001 - the cluster is gone, and the actor with it, or it does not answer
        return False
    return True


def explained(error: Exception, request: ActorRequest) -> Exception:
    """Return why an actor could not begin, as somebody is to read it."""
    if "No module named 'actors'" not in str(error):
        return error
    what = "this library cannot be imported on the node of the cluster that was to run it"
    return StartError(request.id, what, "Install it and the worker's code on every node, or name them in runtime_env.")


# -- the cluster ---------------------------------------------------------------------------------------------


def join(request: ActorRequest) -> None:
    """See to it that this process is in a cluster: the one that it has, else the one that is named, else one here.

    Raises:
        StartError: it is in another one than the one that is named, or uses Ray Client.
        ChildProcessError: this process leaves it.
    """
    import ray  # noqa: PLC0415 - a large package, and an extra

    with _CONNECTING:
        if not ray.is_initialized():
            address = request.joins
            if address.startswith(CLIENT):
                raise StartError(request.id, f"it cannot use {address}: {_NO_CLIENT}", _NO_CLIENT_HINT)
            _on_a_thread_that_stays(lambda: ray.init(address))
        elif _session() is None:
            raise StartError(request.id, f"this process uses Ray Client: {_NO_CLIENT}", _NO_CLIENT_HINT)
        try:
            here = ray.get_runtime_context().gcs_address
        except Exception as error:
            raise ChildProcessError(HAS_LEFT) from error
    if request.address is None or request.address in _NAMED_OTHERWISE:
        return
    if not _is_same(request.address, here):
        what = f"this process is connected to the cluster at {here}, and cannot use {request.address} as well"
        raise StartError(request.id, what, "Leave address out, or start the tree in a process of its own.")


def _is_same(one: str, other: str) -> bool:
    """Return True where two addresses have one port, and hosts that have an address in common."""
    if one == other:
        return True
    (host, _, port), (host_of_other, _, port_of_other) = one.rpartition(":"), other.rpartition(":")
    return port == port_of_other and not _ips(host).isdisjoint(_ips(host_of_other))


def _ips(host: str) -> set[str]:
    """Return the addresses of a host. That of this machine by its loopback is the one that Ray knows it by, too."""
    name = host.strip("[]")
    found = {name}
    with suppress(OSError):
        found |= {str(each[4][0]) for each in socket.getaddrinfo(name, None)}
    return found | {_ip_here()} if any(map(_is_loopback, found)) else found


def _ip_here() -> str:
    """Return the address by which Ray knows this machine."""
    from ray import util  # noqa: PLC0415 - a large package, and an extra

    found: str = util.get_node_ip_address()
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _on_a_thread_that_stays(act: Callable[[], object]) -> None:
    """Call it on a thread that lives as long as this process: the system kills what Ray starts here with its thread."""
    done = Reply()

    def stay() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - it is raised where it was wanted
            done.fail(error)
            return
        done.complete()
        threading.Event().wait()

    start_thread(threading.Thread(target=stay, name="ray", daemon=True))
    done.get()


def node_here() -> str:
    """Return the id of the node that this process runs on."""
    import ray  # noqa: PLC0415 - a large package, and an extra

    found: str = ray.get_runtime_context().get_node_id()
    return found


def is_there(node: str) -> bool:
    """Return True for a node that the cluster says is alive."""
    ray = _joined()
    with suppress(Exception):
        return ray is not None and any(each["NodeID"] == node and each["Alive"] for each in ray.nodes())
    return False


def is_in(session: Any) -> bool:
    """Return True while this process is connected to a cluster, and has not left since."""
    return _joined() is not None and _session() is session


def has_left(session: Any) -> bool:
    """Return True once this process has left a cluster, and Ray's core is gone: what Ray has made may be dropped."""
    return not is_in(session) and (_session() is not None or not _has_core())


def _joined() -> Any | None:
    """Return Ray, if this process is in a cluster still; else whatever is called would join or start one by itself."""
    import ray  # noqa: PLC0415 - a large package, and an extra

    return ray if ray.is_initialized() else None


def _session() -> Any:
    """Return what stands for the present connection: an object that ``ray.init`` makes. None: one of Ray Client."""
    from ray._private.worker import global_worker  # noqa: PLC0415 - a large package, and an extra

    return global_worker.node


def _has_core() -> bool:
    """Return True while there is a core of Ray, which may be ending."""
    from ray._private.worker import global_worker  # noqa: PLC0415 - a large package, and an extra

    return hasattr(global_worker, "core_worker")
