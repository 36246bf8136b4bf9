"""The table of a supervisor's children: listed in start order, found by id, registered in the tree by path.

One place adds to it (``add``) and one takes away (``remove``), so a child that is forgotten leaves nothing behind.
An id says nothing about which child is meant, because it may be used again: only this child itself is taken away, and
it is ``GONE`` from then on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from actors.dispatch.incarnation_types import ChildForm, address_of, form_of
from actors.messaging.mailbox import Mailbox, Refusal
from actors.messaging.pool_address import PoolAddress
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.model.spec import UNBOUNDED, ChildSpec, MailboxLimit, SupervisorRecipe, WorkerRecipe
from actors.supervision.child import Child, ChildState
from actors.supervision.supervisor_incarnation import SupervisorIncarnation

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation
    from actors.supervision.registry import Registry


class ChildTable:
    """The children of one incarnation of a supervisor."""

    def __init__(self, system: Registry, path: str) -> None:
        self._system = system
        self.path = path
        self.children: dict[str, Child] = {}
        self.pools: dict[str, PoolAddress] = {}
        self.significant: dict[str, Child] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self.children)

    def __iter__(self) -> Iterator[Child]:
        return iter(self.children.values())

    def newest_first(self) -> Iterator[Child]:
        """All children, the last started first."""
        return reversed(self.children.values())

    def of(self, incarnation: Incarnation) -> Child | None:
        """Return the child whose present incarnation this is; None for late news of an old one."""
        child = self.children.get(incarnation.mailbox.path[len(self.path) + 1 :])
        return child if child is not None and child.incarnation is incarnation else None

    def find(self, id_: str) -> list[Child]:
        """The child of this id, or the members of the pool of this id; empty where there is none."""
        child = self.children.get(id_)
        if child is not None:
            return [child]
        pool = self.pools.get(id_)
        if pool is None:
            return []
        start = len(self.path) + 1
        found = [self.children[member.path[start:]] for member in pool.members]
        return sorted(found, key=lambda child: child.seq)

    def add(self, spec: ChildSpec, *, dynamic: bool = False) -> list[Child]:
        """List the child, or the members of the pool, that the spec stands for; with the mailboxes they had.

        What a supervisor declares gets its mailboxes with it: messages may be sent there before that has begun.
        """
        form = child_form(spec)
        boxes, pool = _boxes_of(self._system, self.path, spec, form)
        if pool is not None:
            self.pools[spec.id] = pool
        added = [
            self._add_one(spec, id_, box, form, dynamic=dynamic)
            for id_, box in zip(spec.member_ids(), boxes, strict=True)
        ]
        recipe = spec.recipe
        if isinstance(recipe, SupervisorRecipe):
            for each in recipe.children:
                _boxes_of(self._system, f"{self.path}/{spec.id}", each, child_form(each))
        return added

    def _add_one(self, spec: ChildSpec, id_: str, box: Mailbox, form: ChildForm, *, dynamic: bool) -> Child:
        child = Child(spec, id_, box, next(self._numbers), dynamic=dynamic, form=form)
        self.children[id_] = child
        if spec.significant:
            self.significant[id_] = child
        self._system.children[box.path] = child
        return child

    def remove(self, child: Child) -> None:
        """Take a child off the list; nothing of it stays, and a namesake stays as it is."""
        child.standing = ChildState.GONE
        child.plan = child.added_by = None
        path, system = child.path, self._system
        tables: tuple[tuple[dict[str, Any], str, object], ...] = (
            (self.children, child.id, child),
            (self.significant, child.id, child),
            (system.children, path, child),
            (system.boxes, path, child.mailbox),
        )
        for table, key, entry in tables:
            if table.get(key) is entry:
                del table[key]
        if child.pool is not None:
            self._remove_member(child, child.pool)

    def closed_mailbox(self, id_: str) -> Mailbox:
        """The address of a child that is not listed: temporary, and ended already."""
        box = Mailbox(f"{self.path}/{id_}")
        box.close(Refusal.FORGOTTEN)
        return box

    def _remove_member(self, child: Child, id_: str) -> None:
        pool = self.pools.get(id_)
        if pool is None:
            return
        pool.remove(child.mailbox)
        if not pool.members:
            del self.pools[id_]
            if self._system.boxes.get(pool.path) is pool:
                del self._system.boxes[pool.path]


def _boxes_of(
    system: Registry, above: str, spec: ChildSpec, form: ChildForm
) -> tuple[list[Mailbox], PoolAddress | None]:
    """Return the mailboxes of a child, or of the members of a pool with its address; made where there is none yet."""
    pool = None if spec.pool is None else _pool_address(system, f"{above}/{spec.id}", spec)
    boxes = [_mailbox(system, f"{above}/{id_}", spec, form, pool) for id_ in spec.member_ids()]
    if pool is not None:
        pool.refill(boxes)
    return boxes, pool


def _pool_address(system: Registry, path: str, spec: ChildSpec) -> PoolAddress:
    box = system.boxes.get(path)
    if not isinstance(box, PoolAddress):
        recipe = spec.recipe
        box = address_of(recipe, path) if isinstance(recipe, WorkerRecipe) else PoolAddress(path)
        system.boxes[path] = box
    return box


def _mailbox(system: Registry, path: str, spec: ChildSpec, form: ChildForm, pool: PoolAddress | None) -> Mailbox:
    box = system.boxes.get(path)
    if not isinstance(box, Mailbox):
        recipe = spec.recipe
        bounds = recipe.bounds if isinstance(recipe, WorkerRecipe) else UNBOUNDED
        box = system.boxes[path] = form.mailbox(path, bounds, pool)  # its pool hears of it: see ``refill``
        if form.refusal is not None:
            box.open(form.refusal)
    return box


def declared(system: Registry, path: str) -> ChildSpec | None:
    """Return the spec of a path that is listed, or that a listed supervisor declares which has not begun."""
    child = system.children.get(path)
    if child is not None:
        return child.spec
    above, _, id_ = path.rpartition("/")
    parent = system.children.get(above)
    recipe = None if parent is None or above in system.supervisors else parent.spec.recipe
    if not isinstance(recipe, SupervisorRecipe):
        return None
    return next((spec for spec in recipe.children if spec.id == id_.partition("#")[0]), None)


def mailboxes_below(system: Registry, child: Child) -> list[Mailbox]:
    """Return the mailboxes of what a supervisor declares that has never begun: nobody else knows of them."""
    recipe = child.spec.recipe
    declares = recipe.children if isinstance(recipe, SupervisorRecipe) else ()
    paths = [f"{child.path}/{id_}" for spec in declares for id_ in spec.member_ids()]
    return [box for path in paths if isinstance(box := system.boxes.get(path), Mailbox)]


def child_form(spec: ChildSpec) -> ChildForm:
    """Return the form of a child: what its supervisor makes for it."""
    recipe = spec.recipe
    return form_of(recipe) if isinstance(recipe, WorkerRecipe) else _SUPERVISOR


def _supervisor_mailbox(path: str, _: MailboxLimit, __: PoolAddress | None) -> Mailbox:
    return SupervisorMailbox(path)


_SUPERVISOR: Final = ChildForm(SupervisorIncarnation, _supervisor_mailbox, None)
