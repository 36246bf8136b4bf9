"""Refs that cross between processes: as the mark of a tree, and a path in it.

A tree gets its mark with the first Ref that is pickled, or with its first process. The process of a worker is told the
mark of the tree that it belongs to, and takes a Ref of that for one of its own, which goes over the wire; on its way
back it is a Ref of the tree again. A Ref of a tree that is not here cannot be rebuilt: its path would lead elsewhere.

``_TREES`` is changed in one step of C each. Two threads that mark one tree at once may give it two marks: both name it.
"""

from __future__ import annotations

import pickle
import uuid
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors.messaging.inbox import Refusal
from actors.messaging.mailbox import Mailbox

if TYPE_CHECKING:
    from actors.messaging.pool_address import PoolAddress
    from actors.messaging.ports import Addresses
    from actors.messaging.ref import Ref


class _MarkedTree(NamedTuple):
    tree: weakref.ref[Any]
    address: Callable[[str], Any] | None
    """Gives what stands behind a path. None: the tree itself is here."""


_TREES: Final[dict[str, _MarkedTree]] = {}
"""Trees by their marks. An ended one is swept out when another one comes."""


def mark_of(tree: object) -> str:
    """Return the mark of a tree, which nothing else has, on any machine."""
    for mark, marked in _TREES.copy().items():
        if marked.tree() is tree:
            return mark
    mark = uuid.uuid4().hex
    adopt(tree, mark, None)
    return mark


def adopt(tree: object, mark: str, address: Callable[[str], Any] | None) -> None:
    """Take Refs with this mark for those of ``tree``, whose addresses ``address`` gives."""
    for old, marked in _TREES.copy().items():
        if marked.tree() is None:
            _TREES.pop(old, None)
    _TREES[mark] = _MarkedTree(weakref.ref(tree), address)


def crossed(mark: str, path: str) -> Ref:
    """Return the Ref that has crossed.

    Raises:
        pickle.UnpicklingError: its tree is not here.
    """
    from actors.messaging.ref import Ref  # noqa: PLC0415 - that names this function where it is pickled

    marked = _TREES.get(mark)
    tree = None if marked is None else marked.tree()
    if marked is None or tree is None:
        raise pickle.UnpicklingError(f"{path}: a Ref of a tree that is not here")
    return Ref(tree, listed(tree, path) if marked.address is None else marked.address(path))


def listed(tree: Addresses, path: str) -> Mailbox | PoolAddress:
    """Return what stands behind a path; where nothing is listed there, a closed mailbox, as of a child that is gone."""
    box = tree.boxes.get(path)
    if box is None:
        box = Mailbox(path)
        box.close(Refusal.FORGOTTEN)
    return box
