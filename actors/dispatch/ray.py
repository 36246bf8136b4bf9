"""Workers in a cluster: each incarnation is one actor of Ray. Of this library only this file imports Ray.

Restarting is the supervisor's, so the actors have ``max_restarts=0``. What crosses, back-calls, ancestry, deadlines and
the order of a life are those of a worker in a process (``actors.dispatch.process``): its frames are carried by Ray, as
bytes, in both directions::

    host:  WorkerHandle <socket> RayHandle  -- take(bytes), one after the other -->  RayWorker <socket> worker's half
                                         <-- told(): a stream of bytes ---------

Two tasks on the loop carry them: ``_pass_on`` waits for each ``take``, because Ray keeps no order between methods of an
actor that run beside each other; ``_pass_back`` follows the stream. What the host writes meanwhile waits in the socket,
and goes with the next piece.

The end of the actor is the end of that stream: by itself after ``EXIT``; with an error where the actor has died, was
killed, or cannot be reached, and with any other one too, because then nothing that the worker says is heard any more.
So is a ``take`` that fails for another reason. Ray tells neither exit code nor signal. Where its node is gone, or
cannot be reached, the worker is lost with it: it is killed, should it still be there, and given up.

A host that leaves its cluster (``ray.shutdown()``) has lost all actors that it had made there. Ray tells nobody: the
stream never ends, and no call is answered, also if the host has joined again. So each handle knows the session of its
actor, and looks every ``LOOK_S`` whether this process is still in it: that is an object which each ``ray.init`` makes.
Ray's core ends this process where one thread uses it while another one leaves: so this look does not use it. What
carries a message does, and nothing can be done about that here: a host stops its tree before it leaves, or leaves on
the thread of the loop.

Calls of Ray that may wait run on a thread beside the loop. ``_CONNECTING`` guards the connection of this process to a
cluster, which is made once; it is held while Ray is started, for seconds, and by no other code.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from actors.concurrency.thread_state import start_thread
from actors.dispatch.host.worker_handle import WorkerHandle
from actors.dispatch.worker.ray_worker import PIECE, RayWorker
from actors.messaging.reply import Reply
from actors.model.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.dispatch.host.worker_handle import HandleOwner

METHODS: Final = 4
"""Methods of an actor that run beside each other; three are needed."""
LOOK_S: Final = 0.5
"""Seconds between two looks: at what there is room for, while an actor waits for it; whether the host has left."""
GONE_S: Final = 10.0
"""Seconds in which the end of an actor that was killed is told. A node that cannot be reached tells nothing."""
TRIES: Final = 3
"""Actors that are created for one incarnation: Ray may choose a node that is lost, as long as it does not know that."""
_HAS_LEFT: Final = "this process has left the cluster"
_CONNECTING: Final = threading.RLock()


@dataclass(frozen=True, slots=True)
class RayPlace:
    """Place of workers whose incarnations are actors of a cluster."""

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
        return "<RayPlace>"  # its environment may hold secrets

    def handle(self, owner: HandleOwner) -> RayHandle:
        """Return the handle of one incarnation."""
        return RayHandle(owner, self)

    @property
    def wanted(self) -> dict[str, float]:
        """Resources that each incarnation takes, by their names in Ray."""
        given = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": self.memory or 0, **self.resources}
        return {name: number for name, number in given.items() if number}


class RayHandle(WorkerHandle):
    """One actor. Used on the thread of one event loop."""

    def __init__(self, owner: HandleOwner, place: RayPlace) -> None:
        super().__init__(owner)
        self._theirs.settimeout(0)
        self._place = place
        self.waits_for = "Ray has not been asked for its actor"
        self._actor: Any = None
        self._session: Any = None
        """Connection of this process that the actor belongs to."""
        self._died: type[Exception] = Exception
        """Error of an actor that is dead, or cannot be reached."""
        self._unreachable: type[Exception] = Exception
        """Error of one that cannot be reached."""
        self._lost: str | None = None
        """Node that is lost, and the actor with it."""
        self._has_ended_itself = False
        self._carries: asyncio.Task[None] | None = None
        """Task that uses the other end of the socket, and closes it."""
        self._hello: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()

    # -- its start -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Have it started; returns when it runs.

        Raises:
            StartError: this process is connected to another cluster.
            Exception: of Ray, where it cannot be started.
        """
        self._died, self._unreachable = await self._loop.run_in_executor(None, _deaths)
        for left in reversed(range(TRIES)):
            await self._create()
            try:
                self.node = await self._begun()
                break
            except self._died as error:
                self.kill()
                if error.actor_init_failed or not left:  # type: ignore[attr-defined]  # of Ray
                    raise
        self.waits_for = "its actor does not answer"
        self._listen()
        self._carries = self._loop.create_task(self._carry())
        await self._hello

    async def _create(self) -> None:
        job = self._loop.run_in_executor(None, _actor_at, self._place)
        try:
            self._actor, self._session = await asyncio.shield(job)
        except asyncio.CancelledError:
            job.add_done_callback(_kill_result)
            raise

    async def _begun(self) -> str:
        """Wait until it runs, and return the id of its node; meanwhile look what it waits for."""
        if not _is_in(self._session):
            raise ChildProcessError(_HAS_LEFT)
        begun = asyncio.ensure_future(_result(self._actor.begin.remote()))
        try:
            while not (await asyncio.wait({begun}, timeout=LOOK_S))[0]:
                if not _is_in(self._session):
                    raise ChildProcessError(_HAS_LEFT)
                self.waits_for = await self._loop.run_in_executor(None, _room, self._place)
            node: str = begun.result()
        finally:
            begun.cancel()
        return node

    def _said_hello(self, number: int) -> None:  # noqa: ARG002 - a number on its node says nothing here
        if not self._hello.done():
            self._hello.set_result(None)

    # -- its bytes -----------------------------------------------------------------------------------------

    async def _carry(self) -> None:
        """Carry both ways, up to the worker's end; then the host's end of the socket reads that there is no more."""
        back = self._loop.create_task(self._pass_back())
        on = self._loop.create_task(self._pass_on(back))
        try:
            while not (await asyncio.wait({back}, timeout=LOOK_S))[0] and _is_in(self._session):
                pass
        finally:
            on.cancel()
            back.cancel()
            await asyncio.wait({on, back})  # they use the socket
            self._theirs.close()

    async def _pass_on(self, back: asyncio.Task[None]) -> None:
        """Carry what the host writes. A death is told by ``back``; where Ray fails otherwise, that ends as well."""
        try:
            with suppress(self._died):
                while piece := await self._loop.sock_recv(self._theirs, PIECE):
                    if not _is_in(self._session):  # else Ray would join a cluster by itself
                        return  # ``_carry`` sees it, too
                    await _result(self._actor.take.remote(piece))
        except Exception as error:  # noqa: BLE001 - whatever Ray says: the worker hears nothing any more
            self._note(error)
            back.cancel()

    async def _pass_back(self) -> None:
        """Carry what the worker writes, up to its end."""
        try:
            async for piece in self._actor.told.options(num_returns="streaming").remote():
                await self._loop.sock_sendall(self._theirs, await _result(piece))
            self._has_ended_itself = True
        except self._unreachable:
            self._lost = self.node
        except self._died:
            is_there = await self._loop.run_in_executor(None, _is_there, self.node or "")
            self._lost = None if is_there else self.node
        except Exception as error:  # noqa: BLE001 - whatever Ray says: nobody hears the worker any more
            self._note(error)

    def _note(self, error: Exception) -> None:
        """Have an error told that is more than the death of the actor."""
        self._loop.call_exception_handler({"message": "an actor of Ray is given up", "exception": error})

    # -- its end -------------------------------------------------------------------------------------------

    def _wire_ended(self) -> None:
        if self._is_gone or not self._is_open:
            return
        self._is_gone = True
        self.kill()  # it has ended, or is given up
        if not self._hello.done():
            self._hello.set_exception(ChildProcessError("the actor has ended before it said anything"))
        if not self._over.done():
            self._over.set_result(None)
        self._owner.died(0 if self._has_ended_itself else None, None, self._lost)

    def kill(self) -> None:
        """Have Ray kill it; its end is told as any."""
        if self._actor is not None:
            self._loop.run_in_executor(None, _kill, self._actor, self._session)

    async def end(self) -> None:
        """Kill it, and wait until it is gone, or its node has not said so for ``GONE_S``."""
        try:
            self.kill()
            if self._carries is not None and not self._is_gone:
                await asyncio.wait({self._over}, timeout=GONE_S)
        finally:
            self._is_open = False
            if self._carries is None:
                self._theirs.close()
            else:
                self._carries.cancel()
            self._close_wire()


# -- calls of Ray, which may wait ----------------------------------------------------------------------------


async def _result(reference: Any) -> Any:
    """Await what Ray has promised."""
    return await reference


def _deaths() -> tuple[type[Exception], type[Exception]]:
    """Errors of an actor that is dead, and of one that cannot be reached, which is one of the first as well.

    To import them takes half a second, the first time.
    """
    from ray import exceptions  # noqa: PLC0415 - a large package, and an extra

    return exceptions.RayActorError, exceptions.ActorUnavailableError


def _actor_at(place: RayPlace) -> tuple[Any, Any]:
    """Create an actor, which may have to wait for room; the session that it belongs to.

    The session is read before: where this process leaves meanwhile, the actor is seen to be none of a later one.
    """
    ray = _connected(place)
    session = _session()
    options = {
        "num_cpus": place.num_cpus,
        "num_gpus": place.num_gpus,
        "memory": place.memory,
        "resources": dict(place.resources) or None,
        "runtime_env": dict(place.runtime_env) or None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    maker = ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=METHODS, **given)(RayWorker)
    return maker.remote(node_here), session


def _connected(place: RayPlace) -> Any:
    """Return Ray, connected to the cluster: the one that the host has, else the one that is named, else one here."""
    import ray  # noqa: PLC0415 - a large package, and an extra

    with _CONNECTING:
        if not ray.is_initialized():
            _on_a_thread_that_stays(lambda: ray.init(place.address or os.environ.get("RAY_ADDRESS") or "local"))
        here = ray.get_runtime_context().gcs_address
    if place.address not in {None, "auto", "local", here}:
        what = f"this process is connected to the cluster at {here}, and cannot use {place.address} as well"
        raise StartError(place.id, what, "Leave address out, or start the tree in a process of its own.")
    return ray


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


def _joined() -> Any | None:
    """Return Ray, if this process is in a cluster still; else whatever is called would join or start one by itself."""
    import ray  # noqa: PLC0415 - a large package, and an extra

    return ray if ray.is_initialized() else None


def _is_in(session: Any) -> bool:
    """Return True while this process is connected to a cluster, and has not left since."""
    return _joined() is not None and _session() is session


def _session() -> Any:
    """Return what stands for the present connection: an object that ``ray.init`` makes."""
    from ray._private.worker import global_worker  # noqa: PLC0415 - a large package, and an extra

    return global_worker.node


def _is_there(node: str) -> bool:
    ray = _joined()
    with suppress(Exception):
        return ray is not None and any(each["NodeID"] == node and each["Alive"] for each in ray.nodes())
    return False


def _room(place: RayPlace) -> str:
    """Describe what an actor waits for, and what there is."""
    ray = _joined()
    if ray is None:
        return _HAS_LEFT
    try:
        there, free = ray.cluster_resources(), ray.available_resources()
    except Exception:  # noqa: BLE001 - the cluster does not answer, and that is what is to be said
        return "the cluster does not answer"
    said = ", ".join(
        f"{number:g} {name}, of which {free.get(name, 0):g} of {there.get(name, 0):g} are free"
        for name, number in place.wanted.items()
    )
    return "the cluster has not started it" + (f": it asks for {said}" if said else "")


def _kill(actor: Any, session: Any) -> None:
    ray = _joined()
    with suppress(Exception):  # the cluster is gone, and the actor with it
        if ray is not None and _is_in(session):
            ray.kill(actor, no_restart=True)


def _kill_result(job: asyncio.Future[Any]) -> None:
    """Kill an actor that nobody wants any more."""
    if not job.cancelled() and job.exception() is None:
        job.get_loop().run_in_executor(None, _kill, *job.result())
