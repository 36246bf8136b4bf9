"""A task is taken out of its store: one that has ended, or one that nobody can go on with.

A task that goes on is refused: it is cancelled first, so that what it did is undone. A task whose supervisor is not in
the tree any more (``TaskStranded``) does not go on, because nobody could cancel it.

``TaskService.removing`` is held from the look at a task to its removal. Else a second removal of the id, which had
looked before the first one and acts after it, would take out the next task of the id.
"""

from __future__ import annotations

from functools import partial

from actors.messaging.reply import Reply
from actors.tasks.engine.service import TaskService
from actors.tasks.model.task_errors import TaskError, UnknownTaskError


def remove(service: TaskService, id_: str) -> Reply | None:
    """Have a task forgotten. None: it is; else it is being written.

    Raises:
        UnknownTaskError: the store has no task of this id.
        TaskError: it goes on.
    """
    service.removing.look(partial(_remove, service, id_))
    return service.store.flush()


def _remove(service: TaskService, id_: str) -> None:
    standing = service.store.standing(id_)
    if standing is None or id_ in service.unkept:
        raise UnknownTaskError(id_)
    goes_on = standing.is_ == "unfinished" and not service.is_stranded(standing.owner)
    if id_ not in service.aside and (goes_on or service.run_of(id_) is not None):
        raise TaskError(f"task {id_} cannot be removed: it has not ended. Cancel it first")
    service.store.remove(id_)
    service.forget_former(id_)
    waits = service.done.pop(id_, None)
    if waits is not None:
        waits.fail(UnknownTaskError(id_))
