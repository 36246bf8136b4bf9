"""The wire between a host and the process of a worker: frames, what is pickled, and how an error crosses.

One stream socket joins the two. Each side writes whole frames, one after the other, and reads them in that order::

    frame = kind (1 byte), number (4), buffers (4), size (8), then the sizes of the buffers (8 each), payload, buffers

The payload is a pickle of protocol 5; large buffers of objects that offer them stand behind it, not in it.

============ =========== =====================================================================================
kind         direction   what
============ =========== =====================================================================================
``HELLO``    to the host the number of the process; nothing of a user has run in it so far
``BOOT``     to the work how to set it up, and the code, pickled by itself
``STARTED``  to the host ``on_start`` has returned
``MESSAGE``  to the work one message, with what is left of its deadline; the next one follows its ``RESULT`` only
``RESULT``   to the host the outcome of the message with this number
``CANCEL``   to the work the message with this number is to end; with a payload: its threads as well
``CALL``     to the host a back-call: its name and arguments; number 0: nobody waits for its answer
``ANSWER``   to the work the outcome of the back-call with this number
``STOP``     to the work the worker is to end: ``stopping()`` is true, ``on_stop`` runs
``EXIT``     to the host how the incarnation there has ended; the process ends by itself after it
============ =========== =====================================================================================

An error crosses as its pickle, and beside it as text: the name of its type, what it says, its traceback. Here it is
rebuilt; what cannot be rebuilt is a ``RemoteError``. A signal (``Failed``, ``Later``, ``Rejected``, ``Escalated``) of a
class of the user's crosses a second time, as one of ours. That decides what becomes of an attempt, so a class that is
derived from it takes the place of one that cannot be rebuilt. Each has the traceback as its ``__cause__``, but an error
of this library that was caused by something has that, and that has its traceback. Of all that an error stems from, the
error of one who was stopped comes with it, behind its traceback: it may be why an attempt was broken off. Whatever a
side reads, it never dies of it: what cannot be unpickled is the outcome of that one message.
"""

from __future__ import annotations

import pickle
import re
import socket
import traceback
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from itertools import accumulate, islice
from struct import Struct, pack, unpack_from
from typing import Any, Final, NamedTuple, TypeAlias

from actors.messaging.envelope import PackedMessage
from actors.messaging.message_errors import ActorStoppedError
from actors.model.errors import ActorsError, Escalated, Failed, Later, Rejected, Signal
from actors.model.log_lines import Place, place_of_error
from actors.model.process_errors import NotPicklableError, RemoteError, RemoteTraceback
from actors.model.raised import StandIn, cause_of, frames_of, is_a, is_exception, origins_of, with_cause
from actors.validation.introspection import type_name
from actors.validation.stack_text import exception_text

Parts: TypeAlias = "list[Any]"
"""Pickle and the buffers that belong to it: whatever has the bytes."""

_HEAD: Final = Struct("<BIIQ")
_SIZE: Final = Struct("<Q")
CHUNK: Final = 64 * 1024
CAUSES: Final = 8
"""Causes that cross with an error of ours, at most: a chain of them may lead back to itself."""
MOST_ORIGINS: Final = 1_000
"""Errors that are looked at of those that one stems from: a group of a user may have any number."""
_MEANINGS: Final[tuple[tuple[type[Signal], Callable[[Any], Signal], Callable[[Any, str], Signal]], ...]] = (
    (Later, lambda said: Later(said.after_s, said.why), lambda said, text: Later(said.after_s, text)),
    (Rejected, lambda said: Rejected(*said.args), lambda _, text: Rejected(text)),
    (
        Escalated,
        lambda said: Escalated(said.question, state=said.state, resumes=said.resumes),
        lambda said, text: Escalated(text, state=said.state, resumes=said.resumes),
    ),
    (
        Failed,
        lambda said: Failed(said.error, retryable=said.retryable),
        lambda said, text: Failed(text, retryable=said.retryable),
    ),
)
"""By class of a signal: another one of that class that says as much, with all that is in it, and with a text only.
In the order in which ``error_facts`` looks at them: a class may be one of several."""
_SAFE: Final = re.compile(r"cannot pickle '[\w.<>]+' object")
"""Texts of the pickler that name types and nothing else."""


class Kind(IntEnum):
    """Kind of a frame; see above."""

    HELLO = 0
    BOOT = 1
    STARTED = 2
    MESSAGE = 3
    RESULT = 4
    CANCEL = 5
    CALL = 6
    ANSWER = 7
    STOP = 8
    EXIT = 9


class Frame(NamedTuple):
    """Frame that was read."""

    kind: int
    number: int
    buffers: int
    body: bytes | bytearray
    is_whole: bool = True
    """False where there was no memory for its body: that was read, and dropped."""


class PackedError(NamedTuple):
    """Exception on its way."""

    pickled: bytes | None
    type_name: str
    text: str
    frames: str
    cause: PackedError | None = None
    """Cause of an error of this library, which says what it is about: exit code, signal, what left a handler."""
    stopped: PackedError | None = None
    """Error that it stems from, and that says that somebody was stopped: it decides what becomes of an attempt."""
    kind: bytes | None = None
    """Pickle of its class, by name."""
    meaning: bytes | None = None
    """Pickle of a signal of ours that says as much, where its own class is one of the user's."""
    place: Place | None = None
    """Place of the user's code that raised it."""


class Packed(PackedMessage):
    """Message as parts: made where it is sent, and kept so in the mailbox."""

    __slots__ = ("parts",)

    def __init__(self, parts: Parts, type_name: str) -> None:
        self.parts = parts
        self.type_name = type_name


# -- values --------------------------------------------------------------------------------------------------


def dumped(value: object, *, keeps: bool = False) -> Parts:
    """Return the parts of a value; ``keeps`` copies its buffers, because whoever has it may change it meanwhile."""
    found: list[pickle.PickleBuffer] = []
    payload = pickle.dumps(value, protocol=5, buffer_callback=found.append)
    if not found:
        return [payload]
    views = [each.raw() for each in found]
    return [payload, *([bytes(each) for each in views] if keeps else views)]


def loaded(parts: Parts) -> Any:
    """Return the value of parts."""
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - of a process of ours


def packed(path: str, message: object) -> Packed:
    """Return a message as it crosses.

    Raises:
        NotPicklableError: it cannot.
    """
    if type(message) is Packed:
        return message
    name = type_name(type(message))
    try:
        return Packed(dumped(message, keeps=True), name)
    except Exception as error:  # noqa: BLE001 - pickling runs the user's code
        why = reason(error)
    raise NotPicklableError(path, name, why)


def reason(error: BaseException) -> str:
    """Why something cannot be pickled, as far as that names types only."""
    try:
        said = _SAFE.search(str(error))
    except BaseException:  # noqa: BLE001 - it is the user's code
        said = None
    return said.group() if said is not None else type_name(type(error))


# -- errors --------------------------------------------------------------------------------------------------


def pack_error(error: BaseException, *, depth: int = CAUSES) -> PackedError:
    """Return an exception as it crosses, with up to ``depth`` causes. Its own code may run here, and raise."""
    name = type_name(type(error))
    try:
        text = str.__str__(str(error))
    except BaseException as second:  # noqa: BLE001 - it is the user's code
        text = f"<no text: its own code raised {type_name(type(second))}>"
    try:
        frames = exception_text(error, frames_of(error)).rstrip()
    except BaseException:  # noqa: BLE001 - the same
        frames = "".join(traceback.format_tb(frames_of(error))).rstrip()
    pickled = _pickled(lambda: error)
    cause = cause_of(error) if depth and is_a(error, ActorsError) else None
    told = None if cause is None or is_a(cause, RemoteTraceback) else pack_error(cause, depth=depth - 1)
    stopped = _stopped_below(error) if depth and told is None else None
    is_whole = pickled is not None and any(type(error) is kind for kind, *_ in _MEANINGS)
    meaning = _meaning_of(error, text) if is_a(error, Signal) and not is_whole else None
    place = place_of_error(error, "")
    kind = _pickled(lambda: type(error))
    return PackedError(pickled, name, text, frames, told, stopped, kind, meaning, place if place.line else None)


def _meaning_of(error: Any, text: str) -> bytes | None:
    """Pickle a signal as one of our own classes; None: it is of a class that has no meaning for an attempt.

    One of ours may hold what does not cross either: an exception, or arguments of ``Rejected``. Then its text does.
    """
    for kind, plain, as_text in _MEANINGS:
        if is_a(error, kind):
            return _pickled(partial(plain, error)) or _pickled(partial(as_text, error, text))
    return None


def _stopped_below(error: BaseException) -> PackedError | None:
    """Return what an error stems from that says that somebody was stopped, as it crosses: one says as much as many."""
    found = [each for each in islice(origins_of(error), 1, MOST_ORIGINS) if is_a(each, ActorStoppedError)]
    first = next((each for each in found if each.asker_stops_first), found[0] if found else None)
    return None if first is None else pack_error(first, depth=0)


def _pickled(make: Callable[[], object]) -> bytes | None:
    """Pickle an exception, or its class; None: its own code, or that of what it holds, does not let it cross."""
    try:
        return pickle.dumps(make(), protocol=5)
    except BaseException:  # noqa: BLE001 - it is the user's code
        return None


def rebuilt(packed_error: PackedError) -> BaseException:
    """Return the exception that crossed, with its traceback there as its cause; an error of ours keeps its own."""
    error = _unpickled(packed_error.pickled)
    if not is_a(error, BaseException):
        kind, meaning = _unpickled(packed_error.kind), _unpickled(packed_error.meaning)
        known = kind if is_a(kind, type) and is_exception(kind) else None
        if is_a(meaning, Signal):
            error = _standing_for(meaning, packed_error.type_name, known)
        else:
            error = RemoteError(packed_error.type_name, packed_error.text, known)
    if is_a(error, ActorsError) and cause_of(error) is not None:
        return error
    cause = packed_error.cause
    return with_cause(error, _traceback_of(packed_error) if cause is None else rebuilt(cause))


def _standing_for(signal: Signal, name: str, known: type[BaseException] | None) -> Signal:
    """Return a signal that says the same, is called as the class that it stands for, and counts as one of that."""
    base = type(signal)
    if known is base:  # what it held did not cross
        return signal
    kind = type(name, (base, StandIn), {"__module__": base.__module__, "stands_for": known})
    made: Signal = kind.__new__(kind, *signal.args)
    vars(made).update(vars(signal))
    return made


def _unpickled(pickled: bytes | None) -> object:
    """Rebuild what was pickled; None: there is nothing, or it cannot be rebuilt here."""
    try:
        return None if pickled is None else pickle.loads(pickled)  # noqa: S301 - of our own process
    except BaseException:  # noqa: BLE001 - rebuilding runs the user's code
        return None


def _traceback_of(packed_error: PackedError) -> RemoteTraceback:
    """Return the traceback of an error; what that stems from stands behind it, and in its text, so it is shown once."""
    told = RemoteTraceback(packed_error.frames, packed_error.place)
    if packed_error.stopped is not None:
        told.__context__, told.__suppress_context__ = rebuilt(packed_error.stopped), True
    return told


# -- frames --------------------------------------------------------------------------------------------------


def frame(kind: Kind, number: int, parts: Parts) -> Parts:
    """Return the pieces of a frame, to be written one after the other: one piece, unless it is large.

    Each write of a piece may wake the other side, so a small frame is worth a copy.
    """
    payload, *buffers = parts
    size = len(payload)
    if not buffers:
        head = _HEAD.pack(kind, number, 0, size)
        return [head + payload] if size <= CHUNK else [head, payload]
    sizes = [len(each) for each in buffers]
    size += _SIZE.size * len(sizes) + sum(sizes)
    head = _HEAD.pack(kind, number, len(sizes), size) + pack(f"<{len(sizes)}Q", *sizes)
    if size <= CHUNK:
        return [b"".join((head, *parts))]
    return [head + payload, *buffers] if len(payload) <= CHUNK else [head, *parts]


def parts_of(read: Frame) -> Parts:
    """Return the parts that a frame has brought.

    Raises:
        MemoryError: there was no memory for them.
    """
    if not read.is_whole:
        raise MemoryError
    if not read.buffers:
        return [read.body]
    view, at = memoryview(read.body), read.buffers * _SIZE.size
    sizes = unpack_from(f"<{read.buffers}Q", view)
    ends = accumulate(sizes, initial=len(view) - sum(sizes))
    return [view[at : (at := end)] for end in ends]


class FrameReader:
    """Puts frames together from what a socket brings."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._rest = b""
        self._large: tuple[tuple[int, int, int], int, bytearray | None] | None = None
        """Head, size and body of a large frame that is being read; no body: there is no memory for it."""
        self._filled = 0
        self.frames: deque[Frame] = deque()
        """Frames that are complete."""

    def receive(self) -> bool:
        """Read once; False at the end of the stream."""
        if self._large is not None:
            head, size, body = self._large
            if body is None:
                count = len(self._socket.recv(min(CHUNK, size - self._filled)))
            else:
                count = self._socket.recv_into(memoryview(body)[self._filled :])
            self._filled += count
            if self._filled == size:
                self._large = None
                self.frames.append(Frame(*head, b"", is_whole=False) if body is None else Frame(*head, body))
            return count > 0
        data = self._socket.recv(CHUNK)
        if not data:
            return False
        self._rest = self._rest + data if self._rest else data
        self._split()
        return True

    def _split(self) -> None:
        rest, at, head = self._rest, 0, _HEAD.size
        while len(rest) - at >= head:
            kind, number, buffers, size = _HEAD.unpack_from(rest, at)
            end = at + head + size
            if end > len(rest):
                if size > CHUNK:
                    self._begin_large((kind, number, buffers), size, rest[at + head :])
                    at = len(rest)
                break
            self.frames.append(Frame(kind, number, buffers, rest[at + head : end]))
            at = end
        self._rest = rest[at:] if at else rest

    def _begin_large(self, head: tuple[int, int, int], size: int, begun: bytes) -> None:
        body: bytearray | None
        try:
            body = bytearray(size)
        except MemoryError:  # the limit of a process, as a rule: it is the outcome of this one frame
            body = None
        else:
            body[: len(begun)] = begun
        self._large, self._filled = (head, size, body), len(begun)
