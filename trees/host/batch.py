"""Batches: many items given to a worker, a pool or a capability, and the result of each, as they end.

``Batch`` is what ``tree.map`` returns: an iterator, sync or async, of ``(item, result or error)``. It has no thread of
its own; everything is done when its consumer asks for the next result:

1. if an item has ended, it is handed out, the first that ended first;
2. else, if fewer items than the limit are under way, the next item is taken from the source and given;
3. else the consumer waits until an item ends, or the time of one is up.

So at most as many items as the limit are in memory, and the source may have no end.

A batch ends with its source, with an error of its source or of ``key``, with the end of the tree, with the first error
if ``on_error="raise"``, and with ``close``. In the first three cases all that was taken is handed out first. ``close``
lets go of what is under way: messages that wait are not handled, tasks without a key are cancelled.

A batch has one consumer at a time. Other threads only append to ``UnderWay.ended`` and then complete the signal. The
consumer renews the signal before it looks at ``ended``, so it misses nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sized
from contextlib import suppress
from functools import partial
from types import GenericAlias, TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeAlias, TypeVar

from actors.messaging.blocking import require_thread
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.validation.introspection import binds, signature_of
from actors.validation.validation_messages import is_one_of, require_callback, type_phrase, value_phrase
from trees.host.batch_targets import GivenItem, MessageTarget, TaskTarget
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


class UnderWay:
    """Items that were given and not handed out yet. It has no reference to its batch, so a dropped batch is freed."""

    def __init__(self) -> None:
        self.given: dict[GivenItem, None] = {}
        """The oldest first, so that the time of the first is up first."""
        self.ended: deque[GivenItem] = deque()
        self.signal = Reply()
        self.pull: asyncio.Future[Any] | None = None
        """Takes the next item of an async source."""

    def bring(self, given: GivenItem) -> None:
        """Note on any thread that an item has ended."""
        self.ended.append(given)
        self.signal.complete()

    def wake(self, _pull: object = None) -> None:
        """Have the consumer look again."""
        self.signal.complete()

    def next_signal(self) -> Reply:
        """Return what the next ``bring`` or ``wake`` completes. Look at ``ended`` after this call, and then wait."""
        if self.signal.done:
            self.signal = Reply()
        return self.signal

    def left(self) -> float | None:
        """Give up the items whose time is up; return the seconds until the time of the next one is. None: no limit."""
        now = monotonic()
        for given in self.given:
            if given.expires == math.inf:
                return None
            if not given.reply.done:
                if given.expires > now:
                    return given.expires - now
                given.give_up()
        return None

    def leave(self) -> None:
        """Let go of all items. Never waits."""
        given, self.given = self.given, {}
        for each in given:
            each.leave()
        pull = self.pull
        if pull is not None and not pull.done():
            with suppress(RuntimeError):  # its loop is closed, so the pull has ended
                pull.get_loop().call_soon_threadsafe(pull.cancel)


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
    ) -> None:
        self._under_way = UnderWay()  # first: ``__del__`` needs it also if an argument is wrong
        if not is_one_of({"keep", "raise"}, on_error):
            raise ValueError(f"map: on_error={value_phrase(on_error)} is unknown. Use 'keep' or 'raise'")
        self._source: Iterator[ItemT] | AsyncIterator[ItemT] = _source_of(items)
        self._on_error = on_error
        self._progress = _progress_of(progress)
        self._total = len(items) if isinstance(items, Sized) else None
        self._target = target
        self._pending: Any = _NOTHING
        """An item that was taken and is yet to be given, with what is given for it."""
        self._end: BaseException | None = None
        """Error to raise when all that was taken is handed out. ``StopIteration``: the source has ended."""
        self._closed = False
        self.done = 0
        """Results that were handed out."""

    def __repr__(self) -> str:
        total = "" if self._total is None else f" of {self._total}"
        return f"<Batch {self._target.path} {self.done}{total} done, {len(self._under_way.given)} under way>"

    def __del__(self) -> None:
        self._under_way.leave()

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
                    self._give()
                else:
                    signal = self._under_way.next_signal()
                    if not self._under_way.ended:
                        signal.wait(self._under_way.left())
            return self._handed_out(found)
        except BaseException:
            self.close()
            raise

    def _give(self) -> None:
        if self._pending is _NOTHING:
            return
        item, prepared = self._pending
        self._pending = _NOTHING
        try:
            self._is_given(self._target.give(item, prepared))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this item's
            self._failed(item, error)

    # -- async ---------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[ItemT, ResultT]:
        if self._closed:
            raise StopAsyncIteration
        under_way = self._under_way
        try:
            while (found := self._ended()) is None:
                if self._has_room and under_way.pull is None:
                    await self._give_async()
                    continue
                signal = under_way.next_signal()
                if not under_way.ended and (under_way.pull is None or not under_way.pull.done()):
                    await came(signal, under_way.left())
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

    async def _give_async(self) -> None:
        """Give the next item; if the source is async, only begin to take it."""
        if self._pending is _NOTHING:
            if isinstance(self._source, AsyncIterator):
                self._under_way.pull = asyncio.ensure_future(_next_of(self._source))
                self._under_way.pull.add_done_callback(self._under_way.wake)
                return
            self._take(self._source)
            if self._pending is _NOTHING:
                return
        item, prepared = self._pending
        try:
            self._is_given(await self._target.give_async(item, prepared))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this item's
            self._failed(item, error)
        self._pending = _NOTHING  # not if this call was cancelled: then the item is given again

    def _pulled(self) -> None:
        """Take what the async source has brought."""
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
        """True if one more item is to be given, or taken and given."""
        return self._pending is not _NOTHING or (self._end is None and len(self._under_way.given) < self._target.limit)

    def _take(self, source: Iterator[ItemT]) -> None:
        try:
            item = next(source, _END)
        except Exception as error:  # noqa: BLE001 - raised when all is handed out
            self._end = error
        else:
            self._taken(item)

    def _taken(self, item: Any) -> None:
        if item is _END:
            self._end = StopIteration()
            return
        try:
            id_ = self._target.id_of(item)
        except Exception as error:  # noqa: BLE001 - a wrong key= ends the batch as an error of the source does
            self._end = error
            return
        try:
            self._pending = (item, self._target.prepared(item, id_))
        except Exception as error:  # noqa: BLE001 - nothing can be given for this item
            self._failed(item, error)

    def _is_given(self, given: GivenItem) -> None:
        self._under_way.given[given] = None
        given.reply.when_done(partial(self._under_way.bring, given))

    def _failed(self, item: Any, error: Exception) -> None:
        """An item could not be given: it has ended like any other."""
        reply = Reply()
        reply.fail(error)
        self._under_way.bring(GivenItem(item, reply, reply.outcome, lambda: None))

    def _ended(self) -> GivenItem | None:
        """Return an item that has ended, None if none has yet. Raises the error of the end if all is handed out."""
        if self._under_way.ended:
            return self._under_way.ended.popleft()
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
        if self._progress is None:
            return
        try:
            self._progress(self.done, self._total)
        except Exception as error:  # noqa: BLE001 - what shows the work must not end it
            self._progress = None
            self._target.progress_raised(error)

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of what is under way, and take no more. Never waits; may be called again."""
        if not self._closed:
            self._closed = True
            self._under_way.leave()
            self._pending = _NOTHING
            self._source = iter(())  # a generator that has no other reference is closed by this

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
    """Return an error with the frames of the worker only, so that a kept error does not keep the batch in memory.

    The first two frames are of the batch. A frame also holds its callers (``frame.f_back``), so both have to go.
    """
    frames = error.__traceback__
    for _ in range(2):
        frames = None if frames is None else frames.tb_next
    return error.with_traceback(frames)


async def _next_of(source: AsyncIterator[Any]) -> Any:
    return await anext(source, _END)


def _source_of(items: Any) -> Iterator[Any] | AsyncIterator[Any]:
    if isinstance(items, AsyncIterable) and not isinstance(items, Iterable):
        return aiter(items)
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise TypeError(f"map: {type_phrase(items)} is not a collection of items. Give a list, a generator, ...")
    return iter(items)


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
