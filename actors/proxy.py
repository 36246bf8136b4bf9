"""Proxies: methods and attributes of an actor as messages, over every restart.

Pykka's ``ActorProxy`` pins the actor object that it first saw. This one is built on the Ref: it looks at the class,
and at the object that lives now, at each access. Calls are Pykka's own ``CallableProxy``, so ``proxy.method()`` gives
a future and ``proxy.method.defer()`` tells.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pykka
from pykka import messages

if TYPE_CHECKING:
    from actors.ref import Ref

_MISSING = object()


class Proxy:
    """``proxy.method(...)`` asks, ``proxy.method.defer(...)`` tells, ``proxy.attribute`` is a future of its value."""

    def __init__(self, ref: Ref, attr_path: tuple[str, ...] = ()) -> None:
        object.__setattr__(self, "actor_ref", ref)
        object.__setattr__(self, "_attr_path", attr_path)

    def __repr__(self) -> str:
        return f"<Proxy of {'.'.join((self.actor_ref.path, *self._attr_path))}>"

    def __getattr__(self, name: str) -> Any:
        """A callable proxy, a proxy of a traversable attribute, or a future of the value.

        Raises:
            AttributeError: a private name; they are not part of an actor's interface.
        """
        if name.startswith("_"):
            message = f"{self!r} gives no access to the private name {name!r}"
            raise AttributeError(message)
        path = (*self._attr_path, name)
        found = self._find(path)
        if getattr(found, "_pykka_traversable", False) or getattr(found, "pykka_traversable", False):
            return Proxy(self.actor_ref, path)
        if path == ("stop",) and found.__qualname__ in {"Hardened.stop", "Actor.stop"}:
            return _Stop(self.actor_ref)
        if _is_method(found):
            return pykka.CallableProxy(actor_ref=self.actor_ref, attr_path=path)
        return self.actor_ref.ask(messages.ProxyGetAttr(attr_path=path), block=False)

    def __setattr__(self, name: str, value: Any) -> None:
        self.actor_ref.ask(messages.ProxySetAttr(attr_path=(*self._attr_path, name), value=value))

    def __dir__(self) -> list[str]:
        return ["actor_ref", *(name for name in dir(self.actor_ref.actor_class) if not name.startswith("_"))]

    def _find(self, path: tuple[str, ...]) -> Any:
        """What the attribute is, without running any of its code (a property is not evaluated)."""
        actor = self.actor_ref._actor_weakref()  # noqa: SLF001 - ours, under Pykka's name
        found: Any = actor if actor is not None else self.actor_ref.actor_class
        for name in path:
            found = inspect.getattr_static(found, name, _MISSING)
            if found is _MISSING:
                return None
        return found


class _Stop:
    """``proxy.stop()``: a future of the real end, after on_stop. Pykka's is done once the order was heard."""

    def __init__(self, ref: Ref) -> None:
        self._ref = ref

    def __call__(self) -> Any:
        return self._ref.stop(block=False)

    def defer(self) -> None:
        self._ref.stop(block=False)


def _is_method(found: Any) -> bool:
    return isinstance(found, (staticmethod, classmethod, Callable)) and not isinstance(found, property)  # type: ignore[arg-type]
