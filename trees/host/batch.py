"""Batches: many items given to a worker, a pool or a capability, and what became of each, as they end.

``Batch`` is what ``tree.map`` returns: an iterator, sync or async, of ``(item, result or error)``. It has no thread of
its own. Everything is done when its consumer asks for the next result:

1. what has ended is handed out, first come first served;
2. where nothing has, and fewer than the limit are under way, the next item is taken and given;
3. where nothing more is to be given, it waits for the first to end, or for the time of one to be up.

So no more items are held than the limit, whatever the number of items: memory is flat, and the items may have no end. A
source that takes its time holds up no result that is there. Workers go on while the consumer is busy.

::

    source --next--> (pending) --give--> given --reply completed--> arrived --handed out--> consumer
                        |                  |
                        |                  +-- its time is up: it is ended, and arrives as an error
                        +-- cannot be given (no JSON, nobody there): arrives as an error at once

What ends it: the items (then what is under way is handed out first), an error of their iterator (handed out first, then
raised), the end of the tree (likewise: what was taken is accounted for, then ``TreeDownError``), with
``on_error="raise"`` the first error, and ``close``: also by leaving a ``for`` loop, which drops the batch. Then what is
under way is let go: messages that wait are not handled, tasks are cancelled, nothing more is taken.

Threads: a batch belongs to one consumer at a time. Others only bring what has ended (``Arrivals``): they append, then
complete the signal; the consumer renews the signal, then looks. So none is missed. ``Arrivals`` and ``UnderWay`` do not
know the batch: one that is dropped in the middle is gone at once, and a thread that waits for that lets go of the rest.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sized
from functools import partial
from types import GenericAlias, TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeAlias, TypeVar

from actors.concurrency.let_go_watch import LetGoWatch
from actors.messaging.blocking import require_thread
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.validation.introspection import binds, signature_of
from actors.validation.validation_messages import is_one_of, require_callback, type_phrase, value_phrase
from trees.host.batch_targets import GivenItem, MessageTarget, TaskTarget, id_of_key
from trees.host.submission import came

ItemT = TypeVar("ItemT")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    ResultT = TypeVarWithDefault("ResultT", default=Any)
else:
    ResultT = TypeVar("ResultT")
OnError: TypeAlias = Literal["keep", "raise"]
Items: TypeAlias = "Iterable[ItemT] | AsyncIterable[ItemT]"
Progress: TypeAlias = "Callable[..., object]"

_NOTHING: Final = object()
_END: Final = object()


class Arrivals:
    """Items that have ended and are yet to be handed out; filled by whoever brings the end."""

    def __init__(self) -> None:
        self.ended: deque[GivenItem] = deque()
        self.signal = Reply()

    def bring(self, given: GivenItem) -> None:
        """Take one that has ended."""
        self.ended.append(given)
        self.signal.complete()

    def nudge(self) -> None:
        """Wake the consumer: there is something else to look at."""
        self.signal.complete()

    def renew(self) -> Reply:
        """Return the signal of the next one. Look at ``ended`` after this, and then wait."""
        if self.signal.done:
            self.signal = Reply()
        return self.signal


class UnderWay:
    """Items of a batch that have been given, and the taking of the next one: what is let go of at its end."""

    def __init__(self) -> None:
        self.given: dict[GivenItem, None] = {}
        """The oldest first."""
        self.pull: asyncio.Task[Any] | None = None
        """Takes the next item of an async source."""

    def let_go(self) -> None:
        """Let go of all of it. On any thread; never waits."""
        given, self.given = self.given, {}
        for each in given:
            each.leave()
        pull = self.pull
        if pull is not None and not pull.done():
            _cancel(pull)


_DROPPED: Final = LetGoWatch("dropped batches")
"""Lets go of what a batch has under way that nobody closed. It does not hold the batch."""


class Batch(Generic[ItemT, ResultT]):
    """Results of many items: iterate over it with ``for`` or ``async for``. Each is ``(item, result or error)``."""

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)  # Batch[str], too: in Python 3.11 no type variable has a default

    def __init__(
        self,
        target: MessageTarget | TaskTarget,
        items: Items[ItemT],
        on_error: OnError,
        progress: Progress | None,
        key: Callable[[ItemT], str] | None = None,
    ) -> None:
        self._closed = True  # what fails below leaves nothing to close
        self._source: Iterator[ItemT] | AsyncIterator[ItemT] = _source_of(items)
        self._on_error = _known(on_error)
        self._progress = _progress_of(progress)
        self._total = len(items) if isinstance(items, Sized) else None
        self._target = target
        self._key = _key_of(key, target)
        self._arrivals = Arrivals()
        self._under_way = UnderWay()
        self._first = math.inf
        """When the time of the first of them may be up."""
        self._pending: Any = _NOTHING
        """An item that was taken and is yet to be given, with what is given for it."""
        self._end: BaseException | None = None
        """Error to raise when all that was taken is handed out. ``StopIteration``: the items have ended."""
        self.done = 0
        """Results that were handed out."""
        self._watched = _DROPPED.watch(self, self._under_way.let_go)
        self._closed = False

    def __repr__(self) -> str:
        total = "" if self._total is None else f" of {self._total}"
        return f"<Batch {self._target.path} {self.done}{total} done, {len(self._under_way.given)} under way>"

    # -- sync ----------------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[ItemT, ResultT]:
        if self._closed:
            raise StopIteration
        if not isinstance(self._source, Iterator):
            raise TypeError("map: these items are async. Write: async for item, result in tree.map(...)")
        require_thread(self._target.path, "async for item, result in tree.map(...)")
        try:
            while (found := self._ended()) is None:
                if self._has_room:
                    self._take(self._source)
                    if self._pending is not _NOTHING:
                        self._give()
                else:
                    signal = self._arrivals.renew()
                    if not self._arrivals.ended:
                        signal.wait(self._left())
            return self._handed_out(found)
        except BaseException:
            self.close()
            raise

    def _give(self) -> None:
        item, prepared = self._pending
        self._pending = _NOTHING
        try:
            given = self._target.give(item, prepared)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this item's
            self._failed(item, error)
        else:
            self._is_given(given)

    # -- async ---------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[ItemT, ResultT]:
        if self._closed:
            raise StopAsyncIteration
        try:
            while (found := self._ended()) is None:
                if self._has_room and self._under_way.pull is None:
                    await self._take_async()
                    continue
                signal = self._arrivals.renew()
                if not self._arrivals.ended and (self._under_way.pull is None or not self._under_way.pull.done()):
                    await came(signal, self._left())
                self._pulled()
            return self._handed_out(found)
        except asyncio.CancelledError:
            raise  # nothing is lost: the next call goes on
        except StopIteration:
            self.close()
            raise StopAsyncIteration from None
        except BaseException:
            self.close()
            raise

    async def _take_async(self) -> None:
        """Give the next item, where it is there already; else have it taken."""
        if self._pending is _NOTHING and isinstance(self._source, AsyncIterator):
            self._under_way.pull = asyncio.ensure_future(_next_of(self._source))
            self._under_way.pull.add_done_callback(partial(_nudge, self._arrivals))
            return
        if self._pending is _NOTHING and isinstance(self._source, Iterator):
            self._take(self._source)
        if self._pending is _NOTHING:
            return
        item, prepared = self._pending
        try:
            given = await self._target.give_async(item, prepared)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this item's
            self._failed(item, error)
        else:
            self._is_given(given)
        self._pending = _NOTHING  # not where this was cancelled: it is given again

    def _pulled(self) -> None:
        """Take what the async source has brought, if it has."""
        pull = self._under_way.pull
        if pull is None or not pull.done():
            return
        self._under_way.pull = None
        try:
            item = pull.result()
        except BaseException as error:  # noqa: BLE001 - raised when all is handed out
            self._end = error
        else:
            self._taken(item)

    # -- one by one ----------------------------------------------------------------------------------------

    @property
    def _has_room(self) -> bool:
        """True where one more is to be given, or taken and given."""
        return self._pending is not _NOTHING or (self._end is None and len(self._under_way.given) < self._target.limit)

    def _take(self, source: Iterator[ItemT]) -> None:
        try:
            item = next(source, _END)
        except BaseException as error:
            if not isinstance(error, Exception):
                raise  # Ctrl-C
            self._end = error
        else:
            self._taken(item)

    def _taken(self, item: Any) -> None:
        if item is _END:
            self._end = StopIteration()
            return
        try:
            id_ = None if self._key is None else id_of_key(self._key(item), item)
        except Exception as error:  # noqa: BLE001 - as one of the iterator of the items: raised when all is handed out
            self._end = error
            return
        try:
            self._pending = (item, self._target.prepared(item, id_))
        except Exception as error:  # noqa: BLE001 - nothing can be given for it
            self._failed(item, error)

    def _is_given(self, given: GivenItem) -> None:
        self._under_way.given[given] = None
        if given.expires is not None and given.expires < self._first:
            self._first = given.expires
        given.reply.when_done(partial(self._arrivals.bring, given))

    def _failed(self, item: Any, error: Exception) -> None:
        """An item could not be given: it has ended like any other."""
        reply = Reply()
        reply.fail(error)
        self._arrivals.bring(GivenItem(item, reply, reply.outcome, lambda: None))

    def _left(self) -> float | None:
        """Seconds until the time of the first is up; ends those whose time is."""
        now = monotonic()
        if self._first <= now:
            first = math.inf
            for given in self._under_way.given:
                if given.expires is not None and given.expires <= now:
                    given.expires = given.time_is_up()
                first = min(first, math.inf if given.expires is None else given.expires)
            self._first = first
        return None if self._first == math.inf else self._first - now

    def _ended(self) -> GivenItem | None:
        """One that has ended; None: none has yet. At the end of all this raises how it ends."""
        if self._arrivals.ended:
            return self._arrivals.ended.popleft()
        if self._end is not None and not self._under_way.given and self._pending is _NOTHING:
            raise self._end
        return None

    def _handed_out(self, given: GivenItem) -> tuple[ItemT, Any]:
        self._under_way.given.pop(given, None)
        given.leave()
        self.done += 1
        failure: Exception | None = None
        try:
            result = given.result()
        except Exception as error:  # noqa: BLE001 - kept, or raised
            result = failure = _without_our_frames(error)
            if self._end is None:
                self._end = self._target.down()
        self._tell_progress()
        if failure is not None and self._on_error == "raise":
            raise failure
        return given.item, result

    def _tell_progress(self) -> None:
        progress = self._progress
        if progress is None:
            return
        try:
            progress(self.done, self._total)
        except Exception as error:  # noqa: BLE001 - what shows the work must not end it
            self._progress = None
            self._target.progress_raised(error)

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of what is under way, and take no more. Never waits; fine if it is over already."""
        if self._closed:
            return
        self._closed = True
        _DROPPED.forget(self._watched)
        self._under_way.let_go()
        self._pending = _NOTHING
        self._source = iter(())  # a generator that nobody else has is closed by this

    async def aclose(self) -> None:
        """``close``, under the name that async iterators have."""
        self.close()
        if self._under_way.pull is not None:
            await asyncio.wait([self._under_way.pull])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.close()


def _without_our_frames(error: Exception) -> Exception:
    """Return an error with the frames of the worker only: whoever keeps it does not keep the batch.

    The first two are of who has caught it and of what has raised it. A frame also holds those that have called it, and
    what is in them (``frame.f_back``), so both have to go.
    """
    frames = error.__traceback__
    for _ in range(2):
        frames = None if frames is None else frames.tb_next
    return error.with_traceback(frames)


async def _next_of(source: AsyncIterator[Any]) -> Any:
    """Return the next item of an async source, or the mark of its end."""
    return await anext(source, _END)


def _nudge(arrivals: Arrivals, _: object) -> None:
    """Wake the consumer of a batch; whoever holds this does not hold the batch."""
    arrivals.nudge()


def _cancel(pull: asyncio.Task[Any]) -> None:
    """End the taking of an item; from any thread."""
    try:
        pull.get_loop().call_soon_threadsafe(pull.cancel)
    except RuntimeError:  # its loop is closed, and it has ended with that
        return


def _source_of(items: Any) -> Iterator[Any] | AsyncIterator[Any]:
    if isinstance(items, AsyncIterable) and not isinstance(items, Iterable):
        return aiter(items)
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise TypeError(f"map: {type_phrase(items)} is not a collection of items. Give a list, a generator, ...")
    return iter(items)


def _known(on_error: Any) -> OnError:
    if not is_one_of({"keep", "raise"}, on_error):
        raise ValueError(f"map: on_error={value_phrase(on_error)} is unknown. Use 'keep' or 'raise'")
    known: OnError = on_error
    return known


def _key_of(key: Any, target: MessageTarget | TaskTarget) -> Callable[[Any], Any] | None:
    if key is None:
        return None
    known: Callable[[Any], Any] = key
    require_callback("map: key:", key, "Give a function of an item that returns a text")
    if isinstance(target, MessageTarget):
        what = f"map: key= makes the id of a task, and {target.path} takes messages, which are recorded nowhere"
        raise TypeError(f"{what}. Leave key= out, or give the items to a worker with execute=")
    target.has_keys = True
    return known


def _progress_of(progress: Any) -> Progress | None:
    """Take ``progress(done, total)``, and also a callable that wants only ``done``."""
    if progress is None:
        return None
    known: Progress = progress
    require_callback("map: progress:", progress, "Give a function of (done, total)")
    signature = signature_of(progress)
    if signature is None or binds(signature, 1, 1) or not binds(signature, 1):
        return known
    return lambda done, _total: known(done)
