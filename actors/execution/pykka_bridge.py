"""The bridge to Pykka: the one place that touches its internals.

``ManagedActor`` goes over a Pykka actor class, ours or a user's ``pykka.ThreadingActor``, and takes the reins:
messages, stops and the end go through a ``Incarnation`` and its ``Mailbox`` instead of Pykka's loop, inbox and
registry. Everything a Pykka actor may use of itself keeps working: ``actor_ref``, ``actor_urn``, ``actor_inbox``,
``actor_stopped``, ``stop()``, proxies.

Nothing is patched: a stock class is subclassed, and the subclass cached as long as somebody uses it. Only hooks that
Pykka names for "implementors of new actor types" and the attributes its ``Actor.__init__`` sets are overridden.

What is kept on a user's object or class has names that begin with ``_regrow_``: a user's own ``self._handler`` or
``self._life`` changes nothing here. It is set past the class's own ``__setattr__``, so a frozen dataclass can be a
worker.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pykka
from pykka import messages

from actors.messaging.envelope import SystemMessage
from actors.messaging.proxy import require_attribute
from actors.messaging.ref import Ref
from actors.messaging.reply import Reply
from actors.model.spec import Reason
from actors.model.weak_tables import WeakKeys

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation

_PYKKA_MESSAGES = frozenset(
    {messages.ProxyCall, messages.ProxyGetAttr, messages.ProxySetAttr, messages._ActorStop}  # noqa: SLF001
)


if TYPE_CHECKING:

    class _Actor:
        """``pykka.Actor`` as type checkers are to see it: its own hooks are ``-> None``, which no async one can be."""

        def on_receive(self, message: Any) -> Any: ...
        def _handle_receive(self, message: Any) -> Any: ...
else:
    _Actor = pykka.Actor


class ManagedActor(_Actor):
    """A Pykka actor that an incarnation of this library runs."""

    _regrow_incarnation: Incarnation | None = None

    # -- what Pykka's Actor.__init__ sets; the setters drop what it brings --------------------------------------

    @property
    def actor_urn(self) -> str:
        """The URN is made of the path: it survives restarts, as the Ref does."""
        return f"urn:regrow:{_incarnation_of(self).mailbox.path}"

    @actor_urn.setter
    def actor_urn(self, _: str) -> None: ...

    @property
    def actor_inbox(self) -> Any:
        """Inbox that a stock ``pykka.ActorRef`` puts envelopes into."""
        return PykkaInbox(self.actor_ref)

    @actor_inbox.setter
    def actor_inbox(self, _: Any) -> None: ...

    @property
    def actor_stopped(self) -> Any:
        """Set once this incarnation was asked to end: reads like a ``threading.Event``."""
        return StopFlag(_incarnation_of(self))

    @actor_stopped.setter
    def actor_stopped(self, _: Any) -> None: ...

    @property
    def actor_ref(self) -> Ref:
        """The address of this worker; valid over restarts."""
        incarnation = _incarnation_of(self)
        return Ref(incarnation.system, incarnation.mailbox)

    # -- Pykka's hooks for implementors -------------------------------------------------------------------------

    @staticmethod
    def _create_actor_inbox() -> Any:
        return None

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return Reply()

    def _start_actor_loop(self) -> None:
        _incarnation_of(self)

    def stop(self) -> None:
        """End after the message being handled: a normal exit."""
        _incarnation_of(self).request_stop(Reason.NORMAL)

    def _stop(self) -> None:
        self.stop()

    # -- ours ---------------------------------------------------------------------------------------------------

    def _regrow_handler(self) -> Callable[[Any], Any]:
        """Return the callable that a message is given to."""
        return self._regrow_receive

    def _regrow_receive(self, message: Any) -> Any:
        kind = type(message)
        if kind not in _PYKKA_MESSAGES:
            return message.handle(self) if issubclass(kind, SystemMessage) else self.on_receive(message)
        if kind is messages._ActorStop:  # noqa: SLF001
            _incarnation_of(self).request_stop(Reason.NORMAL)
            return None
        require_attribute(self, message)
        return _Actor._handle_receive(self, message)  # noqa: SLF001 - Pykka's own, whatever the user calls so


class StockActor(ManagedActor):
    """Base laid over a ``pykka.ThreadingActor``, whose ``__init__`` sets one attribute more."""

    @property
    def _actor_ref(self) -> Any:
        return self.actor_ref

    @_actor_ref.setter
    def _actor_ref(self, _: Any) -> None: ...


def _incarnation_of(actor: ManagedActor) -> Incarnation:
    incarnation = actor._regrow_incarnation  # noqa: SLF001
    if incarnation is None:
        kind = type(actor).__name__
        message = (
            f"this {kind} is not in a tree. Declare it with WorkerSpec(id=..., actor={kind}) and start the tree; "
            "to test it alone, call its methods"
        )
        raise RuntimeError(message)
    return incarnation


def build(cls: type[Any], incarnation: Incarnation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make an object of a managed class, one that belongs to ``incarnation`` before its ``__init__`` runs."""
    actor = cls.__new__(cls, *args, **kwargs)
    object.__setattr__(actor, "_regrow_incarnation", incarnation)
    actor.__init__(*args, **kwargs)
    if sys.version_info < (3, 12):  # proxies of other threads look at its dict: see actors.concurrency.shared_fields
        try:
            object.__getattribute__(actor, "__dict__")  # it is made here, where nobody else knows the actor
        except AttributeError:
            return actor  # it has none
    return actor


def managed(cls: type[Any]) -> type[Any]:
    """The class itself if it is ours, else the subclass of it that is; it lives as long as somebody holds it."""
    if ManagedActor in cls.__mro__:  # issubclass() would have Pykka's ABCMeta ask each class about each other
        return cls
    known = _MANAGED.get(cls)
    hardened = known() if known is not None else None
    if hardened is None:
        names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        hardened = type(cls.__name__, (StockActor, cls), names)
        _MANAGED.put(cls, weakref.ref(hardened))
    return hardened


_MANAGED: Final[WeakKeys[type[Any], weakref.ref[type[Any]]]] = WeakKeys()
"""Weak on both sides: a subclass keeps its base alive."""


class PykkaInbox:
    """A mailbox with the face of a Pykka inbox, for code that holds a stock ``pykka.ActorRef``."""

    def __init__(self, ref: Ref) -> None:
        self._ref = ref

    def put(self, envelope: Any, /) -> None:
        """Take a Pykka envelope; what cannot be taken fails its future at once, or is a dead letter."""
        self._ref.deliver((envelope.message, envelope.reply_to, None))

    def empty(self) -> bool:
        """True when nothing waits."""
        return self._ref.depth == 0


class StopFlag:
    """``actor_stopped``: an event that an incarnation sets."""

    def __init__(self, incarnation: Incarnation) -> None:
        self._incarnation = incarnation

    def is_set(self) -> bool:
        """True once the actor was asked to end."""
        return self._incarnation.must_stop

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the actor is asked to end; True if it was."""
        return self._incarnation.stop_signal().wait(timeout)

    def set(self) -> None:
        """End the actor, as ``stop()`` does."""
        self._incarnation.request_stop(Reason.NORMAL)


class RootRef(pykka.ActorRef[Any]):
    """Entry of a tree in Pykka's registry, so that ``pykka.ActorRegistry.stop_all()`` stops it in order."""

    def __init__(self, ref: Ref, actor_class: type[ManagedActor]) -> None:
        # Not pykka.ActorRef.__init__: it would bind this to one actor object.
        self._ref = ref
        self.actor_class = actor_class
        self.actor_urn = ref.actor_urn

    def __str__(self) -> str:
        return f"the tree {self._ref.path}"

    def is_alive(self) -> bool:
        """True while the tree runs."""
        return self._ref.is_alive()

    def tell(self, message: Any) -> None:
        """A tell to a supervisor is a dead letter."""
        self._ref.tell(message)

    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """An ask of a supervisor fails at once."""
        return self._ref.ask(message, timeout=timeout, block=block)

    def stop(self, *, block: bool = True, timeout: float | None = None) -> Any:
        """Stop the tree."""
        return self._ref.stop(block=block, timeout=timeout)


def register_root(ref: Ref, actor_class: type[ManagedActor]) -> Callable[[], None]:
    """Make the root known to Pykka's registry; returns how to take it out again."""
    root = RootRef(ref, actor_class)
    pykka.ActorRegistry.register(root)
    return functools.partial(pykka.ActorRegistry.unregister, root)
