"""Proxies: methods and attributes of an actor as messages, over every restart.

Pykka's ``ActorProxy`` pins the actor object that it first saw. This one is built on the Ref: it has the class, and
the object that lives now, looked at where the tree is, at each access (``attribute_of``). So it is the same in a worker
in a process, whose tree is elsewhere. Calls are Pykka's own ``CallableProxy``, so ``proxy.method()`` gives a future and
``proxy.method.defer()`` tells.

A name that neither the class nor the living object has is an ``AttributeError`` of the caller, as in Pykka: nothing is
sent. While nothing lives, a name is what it is in the class, or was when a proxy last looked at it in an object of that
class. The first proxy that looks at any name takes all of them in, as Pykka's do. So what ``__init__`` sets may be
called and traversed over a restart, too. Any other name is sent, and ``find`` looks for it in the worker. A name that
is missing there fails the request, and never the worker (``actors.execution.pykka_bridge``): it is the caller's
mistake.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Sequence
from enum import Enum
from types import GetSetDescriptorType
from typing import TYPE_CHECKING, Any, Final

import pykka
from pykka import messages

from actors.messaging.envelope import own_error
from actors.model.weak_tables import WeakKeys

if TYPE_CHECKING:
    from actors.messaging.ref import Ref

MISSING = object()
"""No attribute of this name."""


class Attribute(Enum):
    """Kind of what a proxy finds behind a name. Plain data: it crosses to a worker in a process."""

    MISSING = "missing"
    """The objects that live have no attribute of this name."""
    UNKNOWN = "unknown"
    """No object lives, and neither its class nor an object of it that has lived is known to have such an attribute:
    its ``__init__`` may set one."""
    INHERITED_STOP = "inherited_stop"
    """The ``stop`` of every actor."""
    TRAVERSABLE = "traversable"
    CALLABLE = "callable"
    VALUE = "value"


_KNOWN: Final[WeakKeys[type[Any], dict[tuple[str, ...], Attribute]]] = WeakKeys()
"""By class: names that were traversable or callable when a proxy last looked at an object of it. All else is sent as a
name that nobody knows is. Each change is one step of C; of two at once the last one counts."""

_MOST_TAKEN_IN: Final = 1000
"""Names of a class that are noted at its first look; later ones are noted as they are looked at."""
_NO_STOP_OF_ITS_OWN = frozenset({Attribute.MISSING, Attribute.UNKNOWN, Attribute.INHERITED_STOP})


class Proxy(pykka.ActorProxy[Any]):
    """``proxy.method(...)`` asks, ``proxy.method.defer(...)`` tells, ``proxy.attribute`` is a future of its value.

    Equal to every other proxy of the same path (and attribute) in the same tree.
    """

    def __init__(self, *, actor_ref: Ref, attr_path: tuple[str, ...] = ()) -> None:
        # Not pykka.ActorProxy.__init__: it would bind this to one actor object, and look at all of its attributes.
        self.actor_ref = actor_ref
        self._attr_path = attr_path

    def __repr__(self) -> str:
        return f"<Proxy of {'.'.join((self._ref.path, *self._attr_path))}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proxy) and (other._ref, other._attr_path) == (self._ref, self._attr_path)

    def __hash__(self) -> int:
        return hash((self._ref, self._attr_path))

    def __getattr__(self, name: str) -> Any:
        """A callable proxy, a proxy of a traversable attribute, or a future of the value.

        Raises:
            AttributeError: there is no such attribute, or it is private and so no part of an actor's interface.
        """
        if name.startswith("_") or name == "actor_ref":  # the last: of a copy that is not filled yet
            message = f"a proxy gives no access to the private name {name!r}"
            raise AttributeError(message)
        path = (*self._attr_path, name)
        found = self._ref.attribute(path)
        if path == ("stop",) and found in _NO_STOP_OF_ITS_OWN:
            return _Stop(self._ref)
        if found is Attribute.MISSING:
            raise own_error(AttributeError(f"{self!r} has no attribute {name!r}"))
        if found is Attribute.TRAVERSABLE:
            return Proxy(actor_ref=self._ref, attr_path=path)
        if found is Attribute.CALLABLE:
            return pykka.CallableProxy(actor_ref=self._ref, attr_path=path)
        return self._ref.ask(messages.ProxyGetAttr(attr_path=path), block=False)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the actor, and wait until it is set; a private name is one of this proxy, as in Pykka."""
        if name == "actor_ref" or name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self._ref.ask(messages.ProxySetAttr(attr_path=(*self._attr_path, name), value=value))

    def __dir__(self) -> list[str]:
        return ["actor_ref", *(name for name in dir(self._ref.actor_class) if not name.startswith("_"))]

    @property
    def _ref(self) -> Ref:
        ref: Any = self.actor_ref
        return ref  # type: ignore[no-any-return]


def attribute_of(
    actors: Sequence[Any], actor_class: type[Any], path: tuple[str, ...], *, has_objects: bool = True
) -> Attribute:
    """Look up what stands behind a name, as a proxy sees it. None of the actor's code runs.

    Args:
        actors: objects that live now, several for a pool: the first that has the attribute counts.
        actor_class: their class. Where none lives, that is looked at, and what was found in those that have lived.
        path: the name, after those of the attributes that lead to it.
        has_objects: False where objects live in other processes only: what was found in one here says nothing of them.
    """
    found = _attribute_of(actors or [actor_class], path)
    known = _KNOWN.get(actor_class) if has_objects else None
    if not actors:
        known_as = None if known is None else known.get(path)
        return found if found is not Attribute.MISSING else known_as or Attribute.UNKNOWN
    if known is None:
        known = _KNOWN.first(actor_class, {})
        for actor in actors:
            _take_in(known, actor)
    if found is Attribute.TRAVERSABLE or found is Attribute.CALLABLE:
        known[path] = found
    else:
        known.pop(path, None)
    return found


def _take_in(known: dict[tuple[str, ...], Attribute], actor: Any) -> None:
    """Note what can be called or traversed of an actor, and of what it leads to: the nearest first.

    Traversable objects that know each other are met on many ways, so there is a limit.
    """
    waiting: deque[tuple[tuple[str, ...], Any, set[int]]] = deque([((), actor, {id(actor)})])
    while waiting and len(known) < _MOST_TAKEN_IN:
        path, thing, seen = waiting.popleft()
        own = find(thing, ("__dict__",))  # a descriptor of Python's, unless the class has something else of this name
        tables = [own.__get__(thing)] if type(own) is GetSetDescriptorType else []
        tables += [each.__dict__ for each in type(thing).__mro__ if path]  # the class of an actor is known without this
        for name in {name for table in tables for name in list(table) if isinstance(name, str)}:
            at = (*path, name)
            inner = MISSING if name.startswith("_") else find(thing, (name,))
            kind = Attribute.MISSING if inner is MISSING else _kind_of(inner, at)
            if kind is Attribute.CALLABLE or kind is Attribute.TRAVERSABLE:
                known.setdefault(at, kind)
            if kind is Attribute.TRAVERSABLE and id(inner) not in seen:
                waiting.append((at, inner, seen | {id(inner)}))


def _attribute_of(looked_at: Sequence[Any], path: tuple[str, ...]) -> Attribute:
    found = next((found for each in looked_at if (found := find(each, path)) is not MISSING), MISSING)
    return Attribute.MISSING if found is MISSING else _kind_of(found, path)


def _kind_of(found: Any, path: tuple[str, ...]) -> Attribute:
    if path == ("stop",) and getattr(found, "__qualname__", "") in {"ManagedActor.stop", "Actor.stop"}:
        return Attribute.INHERITED_STOP
    if any(find(found, (mark,)) is True for mark in ("_pykka_traversable", "pykka_traversable")):
        return Attribute.TRAVERSABLE
    return Attribute.CALLABLE if callable(found) or isinstance(found, classmethod) else Attribute.VALUE


class _Stop:
    """``proxy.stop()``: a future of the real end, after on_stop. Pykka's is done once the order was heard."""

    def __init__(self, ref: Ref) -> None:
        self._ref = ref

    def __call__(self) -> Any:
        return self._ref.stop(block=False)

    def defer(self) -> None:
        self._ref.stop(block=False)


def find(root: Any, path: tuple[str, ...]) -> Any:
    """Look an attribute up without running any of its code (a property is not evaluated); or ``MISSING``."""
    found = root
    for name in path:
        found = inspect.getattr_static(found, name, MISSING)
        if found is MISSING:
            break
    return found


def require_attribute(actor: Any, message: Any) -> None:
    """Refuse a message of a proxy for something that the actor does not have: a failed request, and no crash.

    Raises:
        AttributeError: the actor has no such attribute.
    """
    path = message.attr_path[:-1] if type(message) is messages.ProxySetAttr else message.attr_path
    if find(actor, path) is MISSING:
        raise own_error(AttributeError(f"{type(actor).__name__!r} object has no attribute {'.'.join(path)!r}"))
