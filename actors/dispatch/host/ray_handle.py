"""One actor of Ray, as the host of its worker holds it: how it is started, and how its end is seen.

What crosses, back-calls, ancestry, deadlines and the order of an incarnation are those of a worker in a process
(``actors.dispatch.process``): its frames are carried by Ray, as bytes, in both directions::

    host:  WorkerHandle <socket> RayHandle  -- take(bytes), one after the other -->  RayWorker <socket> worker's half
                                         <-- told(): a stream of bytes ---------

Two tasks on the loop carry them: ``_pass_on`` waits for each ``take``, because Ray keeps no order between methods of an
actor that run beside each other; ``_pass_back`` follows the stream. What the host writes meanwhile waits in the socket,
and goes with the next piece.

The end of the actor is the end of that stream: by itself after ``EXIT``; with an error where the actor has died, was
killed, or cannot be reached, and with any other one too, because then nothing that the worker says is heard any more.
So is a ``take`` that fails, where the stream says nothing within ``GONE_S``. Ray tells neither exit code nor signal.
Where its node is gone, or cannot be reached, the worker is lost with it: it is killed, should it still be there, and
given up.

A host that leaves its cluster (``ray.shutdown()``) has lost all actors that it had made there. Ray tells nobody: the
stream never ends, and no call is answered, also if the host has joined again. So each handle knows the session of its
actor, and one timer looks for all handles of a loop whether this process has left it (``SessionWatch``).

The end of a handle waits for the calls of Ray that it has begun on other threads: a host that leaves its cluster once
its tree is stopped must not meet one of them. It waits ``CALLS_S`` only, for a cluster that does not answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, ParamSpec, TypeVar

from actors.dispatch import ray as door
from actors.dispatch.host.worker_handle import HandleOwner, WorkerHandle
from actors.dispatch.ray import ActorRequest
from actors.dispatch.worker.ray_worker import PIECE
from actors.model.weak_tables import WeakKeys

P = ParamSpec("P")
T = TypeVar("T")

LOOK_S: Final = 0.5
"""Seconds between two looks: whether the host has left; and at what there is room for, while an actor waits for it."""
GONE_S: Final = 10.0
"""Seconds in which the end of an actor that was killed is told. A node that cannot be reached tells nothing."""
CALLS_S: Final = 1.0
"""Seconds in which a call of Ray comes back, from a cluster that answers."""
TRIES: Final = 3
"""Actors that are created for one incarnation: Ray may choose a node that is lost, as long as it does not know that."""


class RayPlace(ActorRequest):
    """Place of workers whose incarnations are actors of a cluster."""

    __slots__ = ()

    def handle(self, owner: HandleOwner) -> RayHandle:
        """Return the handle of one incarnation."""
        return RayHandle(owner, self)


class SessionWatch:
    """One timer that looks for all handles of one loop. Used on the thread of that loop."""

    def __init__(self) -> None:
        self._handles: set[RayHandle] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, handle: RayHandle) -> None:
        """Look for this one from now on."""
        self._handles.add(handle)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def discard(self, handle: RayHandle) -> None:
        """Look for it no longer."""
        self._handles.discard(handle)
        if not self._handles and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        sessions = {id(each.session): each.session for each in self._handles}
        left = {number for number, session in sessions.items() if door.has_left(session)}
        for each in tuple(self._handles) if left else ():
            if id(each.session) in left:
                each.has_left()
        if any(each.waits_for_room for each in self._handles):
            door.LOOK.begin()


_WATCHES: Final[WeakKeys[asyncio.AbstractEventLoop, SessionWatch]] = WeakKeys()
_WATCHES_GUARD: Final = threading.RLock()
"""Guards the table of watches: each loop has a thread of its own."""


def _watch_of(loop: asyncio.AbstractEventLoop) -> SessionWatch:
    with _WATCHES_GUARD:
        return _WATCHES.first(loop, SessionWatch())


class RayHandle(WorkerHandle):
    """One actor. Used on the thread of one event loop."""

    def __init__(self, owner: HandleOwner, place: RayPlace) -> None:
        super().__init__(owner)
        self._theirs.settimeout(0)
        self._place = place
        self._stage = "Ray is being imported"
        self.waits_for_room = False
        """True while its actor is not started."""
        self._actor: Any = None
        self.session: Any = None
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
        self._calls: set[asyncio.Future[Any]] = set()
        """Calls of Ray on other threads that have not come back."""
        self._kill: asyncio.Future[bool] | None = None
        """Order to kill the actor."""
        self._watch = _watch_of(self._loop)
        self._left: asyncio.Future[None] = self._loop.create_future()
        """Completed once this process has left the cluster of its actor."""
        self._hello: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()

    @property
    def waits_for(self) -> str:
        """Description of what its start waits for."""
        return door.LOOK.room(self._place, self.session) if self.waits_for_room else self._stage

    def has_left(self) -> None:
        """Take note that this process has left the cluster of its actor."""
        if not self._left.done():
            self._left.set_result(None)

    def _call(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Begin a call of Ray on another thread."""
        begun: asyncio.Future[T] = self._loop.run_in_executor(door.THREADS, lambda: call(*args, **kwargs))
        self._calls.add(begun)
        begun.add_done_callback(self._calls.discard)
        return begun

    # -- its start -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Have it started; returns when it runs.

        Raises:
            StartError: this process is connected to another cluster, or this library is not on the node.
            Exception: of Ray, where it cannot be started.
        """
        self._died, self._unreachable = await self._loop.run_in_executor(door.THREADS, door.deaths)
        for left in reversed(range(TRIES)):
            await self._create()
            try:
                self.node = await self._begun()
                break
            except self._died as error:
                self.kill()
                if error.actor_init_failed:  # type: ignore[attr-defined]  # of Ray
                    raise door.explained(error, self._place) from error
                if not left:
                    raise
        self._stage = "its actor does not answer"
        self._listen()
        self._carries = self._loop.create_task(self._carry())
        await self._hello

    async def _create(self) -> None:
        """Join a cluster, and create the actor there. One that comes after the start was called off is killed."""
        self.waits_for_room = False
        self._stage = f"this process has not joined its cluster of Ray, {self._place.joins}"
        await self._loop.run_in_executor(door.THREADS, door.join, self._place)  # the end of a handle waits for none
        self._stage = "Ray has not created its actor"
        job = self._call(door.actor_at, self._place)
        try:
            self._actor, self.session = await asyncio.shield(job)
        except asyncio.CancelledError:
            if job.done():
                self._kill_late(job)
            else:
                job.add_done_callback(self._kill_late)
            raise
        self._kill = None

    def _kill_late(self, job: asyncio.Future[tuple[Any, Any]]) -> None:
        """Kill an actor that nobody wants any more."""
        if not job.cancelled() and job.exception() is None:
            self._call(door.kill, *job.result())

    async def _begun(self) -> str:
        """Wait until it runs, and return the id of its node."""
        if not door.is_in(self.session):
            raise ChildProcessError(door.HAS_LEFT)
        begun = asyncio.ensure_future(_result(self._actor.begin.remote()))
        self.waits_for_room = True
        self._watch.add(self)
        try:
            await asyncio.wait({begun, self._left}, return_when=asyncio.FIRST_COMPLETED)
            if not begun.done():
                raise ChildProcessError(door.HAS_LEFT)
            node: str = begun.result()
        finally:  # whoever calls it off asks afterwards what it waited for
            begun.cancel()
        self.waits_for_room = False
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
            await asyncio.wait({back, self._left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            on.cancel()
            back.cancel()
            await asyncio.wait({on, back})  # they use the socket
            self._theirs.close()

    async def _pass_on(self, back: asyncio.Task[None]) -> None:
        """Carry what the host writes. A death is told by ``back`` as a rule; where it is not, that ends as well."""
        try:
            while piece := await self._loop.sock_recv(self._theirs, PIECE):
                if not door.is_in(self.session):  # else Ray would join a cluster by itself
                    return  # ``_carry`` sees it, too
                await _result(self._actor.take.remote(piece))
        except self._died:
            await asyncio.wait({back}, timeout=GONE_S)
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
            self._lost = None if await self._is_there() else self.node
        except Exception as error:  # noqa: BLE001 - whatever Ray says: nobody hears the worker any more
            self._note(error)

    async def _is_there(self) -> bool:
        """Return True where its node is alive. A cluster that does not answer knows of none."""
        asked = self._call(door.is_there, self.node or "")
        await asyncio.wait({asked}, timeout=door.SLOW_S)
        return asked.done() and asked.result()

    def _note(self, error: Exception) -> None:
        """Have an error told that is more than the death of the actor."""
        self._loop.call_exception_handler({"message": "an actor of Ray is given up", "exception": error})

    # -- its end -------------------------------------------------------------------------------------------

    def _wire_ended(self) -> None:
        if self._is_gone or not self._is_open:
            return
        self._is_gone = True
        if not self._hello.done():
            self._hello.set_exception(ChildProcessError("the actor has ended before it said anything"))
        if not self._over.done():
            self._over.set_result(None)
        self._owner.died(0 if self._has_ended_itself else None, None, self._lost)
        self.kill()  # Ray keeps its process, also where the worker's half has ended by itself

    def kill(self) -> None:
        """Have Ray kill it, unless it was told to; its end is told as any."""
        told = self._kill
        if self._actor is not None and (told is None or (told.done() and not told.result())):
            self._kill = self._call(door.kill, self._actor, self.session)

    async def end(self) -> None:
        """Kill it, and wait until it is gone, or its node has not said so for ``GONE_S``."""
        try:
            self.kill()
            if self._carries is not None and not self._is_gone:
                await asyncio.wait({self._over}, timeout=GONE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(CALLS_S):
                    while self._calls:  # one that comes back may begin another
                        await asyncio.wait(self._calls)
        finally:
            self._is_open = False
            self._watch.discard(self)
            if self._carries is None:
                self._theirs.close()
            else:
                self._carries.cancel()
            self._close_wire()


async def _result(reference: Any) -> Any:
    """Await what Ray has promised."""
    return await reference
