"""``Batch``: what ``tree.map`` returns, an iterator, sync or async, of ``(item, result or error)``.

A batch has no thread of its own. Everything is done when its consumer asks for the next result: an item that has ended
is handed out, the first that ended first; else, if there is room, the next item is taken and given; else the consumer
waits. So at most as many items as the limit are in memory, and the source may have no end.

A batch has one consumer at a time. Other threads only append to ``_ended`` and then complete ``_signal``. The consumer
renews the signal before it looks at ``_ended``, so it misses nothing.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sized
from contextlib import suppress
from functools import partial
from types import GenericAlias, TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeAlias, TypeVar

from actors.messaging.blocking import require_thread
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.model.errors import ConfigError
from actors.validation.validation_messages import is_one_of, require_callback, type_phrase, value_phrase
from trees.host.batch_targets import GivenItem, MessageTarget, TaskTarget, failed_item
from trees.host.submission import came

ItemT = TypeVar("ItemT")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    ResultT = TypeVarWithDefault("ResultT", default=Any)
else:
    ResultT = TypeVar("ResultT")
OnError: TypeAlias = Literal["keep", "raise"]
_END: Final = object()


class Batch(Generic[ItemT, ResultT]):
    """Results of many items: iterate over it with ``for`` or ``async for``. Each is ``(item, result or error)``."""

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)  # Batch[str], too: in Python 3.11 no type variable has a default

    def __init__(
        self,
        target: MessageTarget | TaskTarget,
        items: Iterable[ItemT] | AsyncIterable[ItemT],
        on_error: OnError,
        progress: Callable[..., object] | None,
    ) -> None:
        self._given: dict[GivenItem, None] = {}
        """Items that were given and not handed out yet, the oldest first."""
        self._pull: asyncio.Future[Any] | None = None
        """Takes the next item of an async source."""
        if not is_one_of({"keep", "raise"}, on_error):
            raise ValueError(f"map: on_error={value_phrase(on_error)} is unknown. Use 'keep' or 'raise'")
        if progress is not None:
            require_callback("map: progress:", progress, "Give a function of (done, total)")
        self._source: Iterator[ItemT] | AsyncIterator[ItemT] = _source_of(items)
        self._on_error = on_error
        self._progress = progress
        self._total = len(items) if isinstance(items, Sized) else None
        self._target = target
        self._ended: deque[GivenItem] = deque()
        self._signal = Reply()
        self._pending: tuple[Any, Any] | None = None
        """An item that was taken and is yet to be given, with what is given for it."""
        self._end: BaseException | None = None
        """Error to raise when all that was taken is handed out. ``StopIteration``: the source has ended."""
        self.done = 0
        """Results that were handed out."""

    def __repr__(self) -> str:
        total = "" if self._total is None else f" of {self._total}"
        return f"<Batch {self._target.path} {self.done}{total} done, {len(self._given)} under way>"

    def __del__(self) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[ItemT, ResultT]:
        source = self._source
        if not isinstance(source, Iterator):
            raise TypeError("map: these items are async. Write: async for item, result in tree.map(...)")
        require_thread(self._target.path, "async for item, result in tree.map(...)")
        try:
            while (found := self._first_ended()) is None:
                if not self._has_room:
                    signal = self._renewed_signal()
                    if not self._ended:
                        signal.wait(self._left())
                elif self._pending is None:
                    self._taken(partial(next, source, _END))
                else:
                    item, prepared = self._pending
                    self._pending = None
                    try:
                        self._is_given(self._target.give(item, prepared))
                    except Exception as error:  # noqa: BLE001 - whatever it is, it is this item's
                        self._is_given(failed_item(item, error))
            return self._handed_out(found)
        except BaseException:
            self.close()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[ItemT, ResultT]:
        try:
            while (found := self._first_ended()) is None:
                await self._goes_on_async()
            return self._handed_out(found)
        except asyncio.CancelledError:
            raise  # nothing is lost: the next call goes on
        except StopIteration:
            self.close()
            raise StopAsyncIteration from None
        except BaseException:
            self.close()
            raise

    async def _goes_on_async(self) -> None:
        """Do what is next: take an item, give an item, or wait."""
        pull, source = self._pull, self._source
        if pull is not None and pull.done():
            self._pull = None
            self._taken(pull.result)
        elif pull is not None or not self._has_room:
            signal = self._renewed_signal()
            if not self._ended and (pull is None or not pull.done()):
                await came(signal, self._left())
        elif self._pending is not None:
            item, prepared = self._pending
            try:
                self._is_given(await self._target.give_async(item, prepared))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this item's
                self._is_given(failed_item(item, error))
            self._pending = None  # not if this call was cancelled: then the item is given again
        elif isinstance(source, AsyncIterator):
            self._pull = asyncio.ensure_future(anext(source, _END))
            self._pull.add_done_callback(partial(_bring, weakref.ref(self), None))
        else:
            self._taken(partial(next, source, _END))

    @property
    def _has_room(self) -> bool:
        """True if one more item is to be given, or taken and given."""
        return self._pending is not None or (self._end is None and len(self._given) < self._target.limit)

    def _taken(self, take: Callable[[], Any]) -> None:
        """Take an item of the source, and make what is given for it."""
        item = _END
        try:
            item = take()
            if item is _END:
                self._end = StopIteration()
            else:
                self._pending = item, self._target.prepared(item)
        except ConfigError as error:
            if item is _END:
                self._end = error
            else:
                self._is_given(failed_item(item, error))
        except Exception as error:  # noqa: BLE001 - of the source or the key: raised when all is handed out
            self._end = error

    def _is_given(self, given: GivenItem) -> None:
        self._given[given] = None
        given.reply.when_done(partial(_bring, weakref.ref(self), given))

    def _renewed_signal(self) -> Reply:
        if self._signal.done:
            self._signal = Reply()
        return self._signal

    def _left(self) -> float | None:
        """Give up the items whose time is up; return the seconds until the time of the next one is. None: no limit."""
        for given in self._given:
            if not given.reply.done:
                if given.expires is None:
                    return None
                left = given.expires - monotonic()
                if left > 0:
                    return left
                given.give_up()
        return None

    def _first_ended(self) -> GivenItem | None:
        """Return an item that has ended, None if none has yet. Raises the error of the end if all is handed out."""
        if self._ended:
            return self._ended.popleft()
        if self._end is not None and not self._given and self._pending is None:
            raise self._end
        return None

    def _handed_out(self, given: GivenItem) -> tuple[ItemT, Any]:
        del self._given[given]
        given.leave()
        self.done += 1
        failure: Exception | None = None
        try:
            result = given.result()
        except Exception as error:  # noqa: BLE001 - kept, or raised
            result = failure = _without_our_frames(error)
            system = self._target.system
            if self._end is None and system.is_down:
                self._end = system.down_error(self._target.path)
        if self._progress is not None:
            try:
                self._progress(self.done, self._total)
            except Exception as error:  # noqa: BLE001 - what shows the work must not end it
                self._progress = None
                self._target.system.reports.callback_raised(self._target.path, error)
        if failure is not None and self._on_error == "raise":
            raise failure
        return given.item, result

    def close(self) -> None:
        """Let go of what is under way, and take no more. Never waits; may be called again."""
        given, self._given = self._given, {}
        for each in given:
            each.leave()
        if self._pull is not None and not self._pull.done():
            with suppress(RuntimeError):  # its loop is closed, so the pull has ended
                self._pull.get_loop().call_soon_threadsafe(self._pull.cancel)
        self._ended, self._pending, self._end = deque(), None, StopIteration()
        self._source = iter(())  # a generator that has no other reference is closed by this

    async def aclose(self) -> None:
        """``close``, under the name that async iterators have."""
        self.close()
        if self._pull is not None:
            await asyncio.wait([self._pull])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.close()


def _bring(batch: weakref.ref[Batch[Any, Any]], given: GivenItem | None, _pull: object = None) -> None:
    """Note on any thread that an item has ended (None: that one was pulled). A batch that was dropped is not kept."""
    found = batch()
    if found is not None:
        if given is not None:
            found._ended.append(given)  # noqa: SLF001 - of the same room
        found._signal.complete()  # noqa: SLF001


def _without_our_frames(error: Exception) -> Exception:
    """Return an error without its first two frames: of the batch, which they would keep in memory, and its reply."""
    frames = error.__traceback__ and error.__traceback__.tb_next
    return error.with_traceback(frames and frames.tb_next)


def _source_of(items: Any) -> Iterator[Any] | AsyncIterator[Any]:
    if isinstance(items, AsyncIterable) and not isinstance(items, Iterable):
        return aiter(items)
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise TypeError(f"map: {type_phrase(items)} is not a collection of items. Give a list, a generator, ...")
    return iter(items)
