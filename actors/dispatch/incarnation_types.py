"""Forms of a child: which incarnation, and which mailbox, a recipe asks for. Its supervisor knows none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from actors.dispatch.command.command_incarnation import CommandIncarnation
from actors.dispatch.host.process_incarnation import ProcessIncarnation
from actors.dispatch.remote import packed
from actors.execution.crash_boundary import WorkerIncarnation
from actors.execution.incarnation import Incarnation
from actors.messaging.envelope import SystemMessage, own_error
from actors.messaging.inbox import Inbox
from actors.messaging.mailbox import Mailbox, Refusal
from actors.messaging.pool_address import PoolAddress
from actors.model.process_errors import NotPicklableError
from actors.model.spec import ChildSpec, MailboxLimit, WorkerRecipe


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
        raise own_error(error) from None


class ChildForm(NamedTuple):
    """One of the few forms of a child: what its supervisor makes for it."""

    incarnation: Callable[[Any, ChildSpec, Any, Any], Incarnation]
    """Makes an incarnation: of the tree, the spec, the mailbox, and the mailbox of its supervisor."""
    mailbox: Callable[[str, MailboxLimit, PoolAddress | None], Mailbox]
    """Makes its mailbox: of the path, the bound and the pool."""
    refusal: Refusal | None
    """Why it takes no messages, ever; None: it takes some while it is open."""


def form_of(recipe: WorkerRecipe) -> ChildForm:
    """Return the form of a worker."""
    if recipe.program is not None:
        return _COMMAND
    if recipe.process is None:
        return _BODY if recipe.is_body else _WORKER
    return _BODY_ELSEWHERE if recipe.is_body else _WORKER_ELSEWHERE


_WORKER: Final = ChildForm(WorkerIncarnation, Mailbox, None)
_BODY: Final = ChildForm(WorkerIncarnation, Mailbox, Refusal.BODY)
_COMMAND: Final = ChildForm(CommandIncarnation, Mailbox, Refusal.BODY)
_WORKER_ELSEWHERE: Final = ChildForm(ProcessIncarnation, _PackingMailbox, None)
_BODY_ELSEWHERE: Final = ChildForm(ProcessIncarnation, _PackingMailbox, Refusal.BODY)
