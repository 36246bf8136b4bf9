"""Proxies: methods and attributes of an actor as messages, over every restart.

Pykka's ``ActorProxy`` pins the actor object that it first saw. This one is built on the Ref: it looks at the class,
and at the object that lives now, at each access. Calls are Pykka's own ``CallableProxy``, so ``proxy.method()`` gives
a future and ``proxy.method.defer()`` tells.

A name that neither the class nor the living object has is an ``AttributeError`` of the caller, as in Pykka: nothing is
sent. While nothing lives, only the class is known; then the name is sent, and ``find`` looks for it in the worker. A
name that is missing there fails the request, and never the worker (``actors.execution.pykka_bridge``): it is the
caller's mistake.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pykka
from pykka import messages

from actors.messaging.envelope import own_copy

if TYPE_CHECKING:
    from actors.messaging.ref import Ref

MISSING = object()
"""No attribute of this name."""
_UNKNOWN = object()
"""No object lives, and its class has no attribute of this name: its ``__init__`` may set one."""


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
        found = self._find(path)
        if path == ("stop",) and (found is MISSING or found is _UNKNOWN or _is_inherited_stop(found)):
            return _Stop(self._ref)
        if found is MISSING:
            raise own_copy(AttributeError(f"{self!r} has no attribute {name!r}"))
        if any(find(found, (mark,)) is True for mark in ("_pykka_traversable", "pykka_traversable")):
            return Proxy(actor_ref=self._ref, attr_path=path)
        if callable(found) or isinstance(found, classmethod):
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

    def _find(self, path: tuple[str, ...]) -> Any:
        """Look the attribute up; for a pool, in the first member that has it."""
        objects = self._ref.living_actors()
        for actor in objects:
            found = find(actor, path)
            if found is not MISSING:
                return found
        if objects:
            return MISSING
        found = find(self._ref.actor_class, path)
        return _UNKNOWN if found is MISSING else found


def _is_inherited_stop(found: Any) -> bool:
    return getattr(found, "__qualname__", "") in {"ManagedActor.stop", "Actor.stop"}


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
        raise own_copy(AttributeError(f"{type(actor).__name__!r} object has no attribute {'.'.join(path)!r}"))
