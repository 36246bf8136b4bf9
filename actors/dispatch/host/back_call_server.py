"""Back-calls of a worker's process: done here, in the name of the message that is being handled there.

Each runs as a task of its own in a copy of the context of the host's half, so ``Ref`` finds the request there:
ancestry, deadline and hops are those of any worker, and a circle is refused as anywhere. Calls of one process begin in
the order in which they came. What is asked of another worker in a process goes on as it came, unpickled by nobody here.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from actors.dispatch.log_relay import log_here
from actors.dispatch.remote import Frame, Kind, Packed, Parts, dumped, loaded, pack_error, parts_of, reason, rebuilt
from actors.dispatch.span_wire import taken_span
from actors.execution.incarnation import Stopping
from actors.messaging.caller_variables import borrow
from actors.messaging.crossing_refs import listed
from actors.messaging.envelope import CURRENT
from actors.messaging.inbox import Refusal
from actors.messaging.ref import Ref, ref_of
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import enter, leave
from actors.model.errors import ActorsError, RecursionDetectedError, UnknownPathError
from actors.model.process_errors import NotPicklableError
from actors.model.spec import Reason
from actors.validation.introspection import type_name

if TYPE_CHECKING:
    from actors.dispatch.host.process_incarnation import ProcessIncarnation
    from actors.messaging.envelope import CurrentMessage
    from actors.messaging.proxy import Attribute


class BackCallServer:
    """Does what one process asks of its host. Used on the loop's thread only."""

    def __init__(self, incarnation: ProcessIncarnation, send: Callable[[Kind, int, Parts], None]) -> None:
        self._incarnation = incarnation
        self._path = incarnation.mailbox.path
        self._send = send
        self.attempt: Any = None
        """Attempt that is done there; None: it is none."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[int, Reply] = {}
        """Asks that began without a wait, by the number of their call."""
        self._entered: dict[int, CurrentMessage | None] = {}
        """Waits for them there that go on now: what to leave, by the same number."""
        self._refs = {self._path: Ref(incarnation.system, incarnation.mailbox)}
        """Refs of paths that were found or have crossed: what is deleted since is to them as to any that is kept."""

    def end_work(self) -> None:
        """Let go of the attempt that was done there."""
        self.attempt = None

    @property
    def are_begun(self) -> bool:
        """True where no call waits for the loop to begin it: what is answered now is answered after all of them."""
        return not self._tasks

    def perform(self, frame: Frame) -> None:
        """Begin a call; whatever is wrong with it is its answer."""
        try:
            (name, span, *args), parts = self._call_of(frame)
            done = getattr(self, f"_do_{name}")(*args, *([parts] if parts else ()))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the worker's
            self._answer(frame.number, error, is_value=False)
            return
        if not isinstance(done, Coroutine):
            self._answer(frame.number, done, is_value=True)
            return
        context = self._incarnation.context_for_run().copy()
        crossing = taken_span(span, lambda error: self._incarnation.system.reports.callback_raised(self._path, error))
        if crossing is not None:
            context.run(borrow, crossing.variables(), CURRENT)
        task = asyncio.get_running_loop().create_task(self._awaited(frame.number, done), context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _call_of(self, frame: Frame) -> tuple[tuple[Any, ...], Parts]:
        head, *parts = parts_of(frame)
        try:
            return loaded([head]), parts
        except BaseException as error:  # noqa: BLE001 - unpickling runs the user's code
            why = f"{type_name(type(error))} while it was unpickled"
        raise NotPicklableError(self._path, "an argument of a call", why)

    async def _awaited(self, number: int, call: Coroutine[Any, Any, Any]) -> None:
        """Answer with what a call returns or raises."""
        try:
            value = await call
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the worker's
            self._answer(number, error, is_value=False)
        else:
            self._answer(number, value, is_value=True)

    def _answer(self, number: int, value: Any, *, is_value: bool) -> None:
        """Answer a call, where its answer is awaited."""
        if not number:
            return
        if is_value:
            try:
                self._send(Kind.ANSWER, number, dumped((True, value)))
            except Exception as failed:  # noqa: BLE001 - pickling runs the user's code
                value = NotPicklableError(self._path, type_name(type(value)), reason(failed))
            else:
                return
        self._send(Kind.ANSWER, number, dumped((False, pack_error(value))))

    # -- refs ----------------------------------------------------------------------------------------------

    def _do_find(self, path: str) -> tuple[str, ...] | None:
        try:
            self._refs[path] = ref_of(self._incarnation.system, path)
        except UnknownPathError:
            return self._incarnation.system.near(path)
        return None

    def _ref(self, path: str) -> Ref:
        found, system = self._refs.get(path), self._incarnation.system
        if found is None:
            found = self._refs[path] = Ref(system, listed(system, path))
        return found

    def _do_is_alive(self, path: str) -> bool:
        return self._ref(path).is_alive()

    def _do_attribute(self, path: str, names: tuple[str, ...]) -> Attribute:
        return self._ref(path).attribute(names)

    def _do_actor_class(self, path: str) -> type[Any]:
        found = self._ref(path).actor_class
        try:
            dumped(found)
        except Exception as failed:  # noqa: BLE001 - pickling runs the user's code
            why = reason(failed)
        else:
            return found
        raise NotPicklableError(path, f"its class {type_name(found)}", why)

    async def _do_stop(self, path: str) -> Any:
        return await self._ref(path).stop(block=False)

    async def _do_tell(self, path: str, kind: str, detached: bool, parts: Parts) -> None:
        ref = self._ref(path)
        try:
            await ref.tell_async(self._message(path, kind, parts), detached=detached)
        except ActorsError as error:  # a message that cannot be unpickled here
            self._incarnation.system.reports.callback_raised(self._path, error)

    async def _do_ask(self, path: str, kind: str, left: float | None, waits: bool, number: int, parts: Parts) -> Any:
        ref, message = self._ref(path), self._message(path, kind, parts)
        if waits:
            return await ref.ask_async(message, timeout=left)
        reply = self._asked[number] = ref.ask(message, timeout=left, block=False)
        try:
            # Outside of the request: it does not wait for this, until ``_do_await``.
            return await asyncio.get_running_loop().create_task(_waited(reply), context=contextvars.Context())
        finally:
            del self._asked[number]
            leave(reply, self._entered.pop(number, None))

    async def _do_await(self, number: int) -> None:
        """Code of the request begins to wait for an ask. A task, as the ask is: so that has begun before."""
        reply = self._asked.get(number)
        if reply is not None:  # else it is answered
            try:
                self._entered[number] = enter(reply)
            except RecursionDetectedError as error:
                self._answer(number, error, is_value=False)

    async def _do_await_no_more(self, number: int) -> None:
        reply = self._asked.get(number)
        if reply is not None:
            leave(reply, self._entered.pop(number, None))

    def _message(self, path: str, kind: str, parts: Parts) -> Any:
        box = self._incarnation.system.boxes.get(path)
        if box is not None and box.pack is not None:
            return Packed([bytes(each) for each in parts], kind)
        try:
            return loaded(parts)
        except Exception as error:  # noqa: BLE001 - unpickling runs the user's code
            why = f"{type_name(type(error))} while it was unpickled"
        raise NotPicklableError(path, kind, why)

    # -- an attempt ----------------------------------------------------------------------------------------

    async def _do_work(self, name: str, *args: Any) -> Any:
        """Say or ask something as the code of the attempt."""
        if self.attempt is None:
            raise RuntimeError("the attempt is over")
        done = getattr(self.attempt, name)(*args)
        if not isinstance(done, Reply):
            return done
        try:
            return await done
        except BaseException as error:
            done.fail(error)  # nobody waits for it any more
            raise

    # -- what is told --------------------------------------------------------------------------------------

    def _do_log(self, kind: str, *parts: Any) -> None:
        log_here(self._path, kind, *parts)

    def _do_beat(self) -> None:
        if self._incarnation.pulse is not None:
            self._incarnation.pulse.beat()

    def _do_wait(self, begins: bool) -> None:
        pulse = self._incarnation.pulse
        if pulse is not None:
            (pulse.enter if begins else pulse.leave)()

    def _do_stopping(self) -> None:
        """Take no more messages for it: it is in its last hook by itself, and has as long for that as for a stop."""
        if not self._incarnation.recipe.is_body:
            self._incarnation.request_stop(Reason.NORMAL)
        self._incarnation.owner.post(Stopping(self._incarnation))

    def _do_dead_letter(self, kind: str, why: str, sender: str | None) -> None:
        self._incarnation.system.letters.dead_letter(self._incarnation.mailbox, Packed([], kind), Refusal(why), sender)

    def _do_callback_raised(self, error: Any) -> None:
        self._incarnation.system.reports.callback_raised(self._path, rebuilt(error))

    def _do_hook_raised(self, hook: str, error: Any) -> None:
        self._incarnation.system.reports.hook_raised(self._path, hook, rebuilt(error))

    def _do_internal_error(self, error: Any) -> None:
        self._incarnation.system.reports.internal_error(rebuilt(error))


async def _waited(reply: Any) -> Any:
    return await reply
