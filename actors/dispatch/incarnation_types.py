"""Forms of a child: which incarnation, and which mailbox, a recipe asks for. Its supervisor knows none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.dispatch.command.command_incarnation import CommandIncarnation
from actors.dispatch.host.process_incarnation import ProcessIncarnation
from actors.dispatch.remote import packed
from actors.execution.crash_boundary import WorkerIncarnation
from actors.messaging.envelope import SystemMessage, own_copy
from actors.messaging.mailbox import Mailbox
from actors.messaging.pool_address import PoolAddress
from actors.model.process_errors import NotPicklableError

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation
    from actors.messaging.inbox import Inbox
    from actors.model.spec import WorkerRecipe


def incarnation_type(recipe: WorkerRecipe) -> type[Incarnation]:
    """Return what runs a worker."""
    if recipe.program is not None:
        return CommandIncarnation
    return WorkerIncarnation if recipe.process is None else ProcessIncarnation


def mailbox_of(recipe: WorkerRecipe, path: str, pool: PoolAddress | None = None) -> Mailbox:
    """Return a mailbox for a worker."""
    kind = Mailbox if recipe.process is None else _PackingMailbox
    return kind(path, recipe.bounds, pool)


def address_of(recipe: WorkerRecipe, path: str) -> PoolAddress:
    """Return the address of a pool."""
    kind = PoolAddress if recipe.process is None else _PackingPool
    return kind(path, recipe.bounds)


class _PackingMailbox(Mailbox):
    """Mailbox whose messages are pickled by whoever sends them."""

    __slots__ = ()

    def pack(self, message: Any) -> Any:
        return _packed(self, message)


class _PackingPool(PoolAddress):
    """Address of a pool whose messages are pickled by whoever sends them."""

    __slots__ = ()

    def pack(self, message: Any) -> Any:
        return _packed(self, message)


def _packed(box: Inbox, message: Any) -> Any:
    if issubclass(type(message), SystemMessage):
        return message
    try:
        return packed(box.path, message)
    except NotPicklableError as error:
        raise own_copy(error) from None
