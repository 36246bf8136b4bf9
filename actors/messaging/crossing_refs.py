"""Refs that cross between processes: as the mark of a tree, and a path in it.

A tree gets its mark with the first Ref that is pickled, or with its first process. The process of a worker is told the
mark of the tree that it belongs to, and takes a Ref of that for one of its own, which goes over the wire; on its way
back it is a Ref of the tree again. A Ref of a tree that is not here cannot be rebuilt: its path would lead elsewhere.

Two threads that mark one tree at once give it one mark, and each sees to it that the tree is found under that before it
goes on. A tree that nobody holds any more is found under none.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from actors.messaging.inbox import Refusal
from actors.messaging.mailbox import Mailbox
from actors.model.weak_tables import WeakKeys, WeakValues

if TYPE_CHECKING:
    from actors.messaging.pool_address import PoolAddress
    from actors.messaging.ports import Addresses
    from actors.messaging.ref import Ref


_MARKS: Final[WeakKeys[Any, str]] = WeakKeys()
_TREES: Final[WeakValues[str, Any]] = WeakValues()
"""By their marks."""
_ADDRESSES: Final[WeakKeys[Any, Callable[[str], Any]]] = WeakKeys()
"""Functions that give what stands behind a path, of trees that are in another process."""


def mark_of(tree: object) -> str:
    """Return the mark of a tree, which nothing else has, on any machine."""
    mark = _MARKS.get(tree) or _MARKS.first(tree, uuid.uuid4().hex)
    _TREES.put(mark, tree)
    return mark


def adopt(tree: object, mark: str, address: Callable[[str], Any]) -> None:
    """Take Refs with this mark for those of ``tree``, whose addresses ``address`` gives."""
    _MARKS.put(tree, mark)
    _ADDRESSES.put(tree, address)
    _TREES.put(mark, tree)


def crossed(mark: str, path: str) -> Ref:
    """Return the Ref that has crossed.

    Raises:
        pickle.UnpicklingError: its tree is not here.
    """
    tree = _TREES.get(mark)
    if tree is None:
        raise pickle.UnpicklingError(f"{path}: a Ref of a tree that is not here")
    return ref_at(tree, path)


def ref_at(tree: Any, path: str) -> Ref:
    """Return the Ref of a path, listed or not: a message goes to what stands there when it is sent."""
    from actors.messaging.ref import Ref  # noqa: PLC0415 - that names ``crossed`` where it is pickled

    address = _ADDRESSES.get(tree)
    return Ref(tree, listed(tree, path) if address is None else address(path))


def listed(tree: Addresses, path: str) -> Mailbox | PoolAddress:
    """Return what stands behind a path; where nothing is listed there, a closed mailbox, as of a child that is gone."""
    box = tree.boxes.get(path)
    if box is None:
        box = Mailbox(path)
        box.close(Refusal.FORGOTTEN)
    return box
