"""A task is taken out of its store: one that has ended, or one that nobody can go on with.

Comes in: the id. Goes out: what is to be waited for, until the store has forgotten it. A task that goes on is refused:
it is cancelled first, so that what it did is undone where that is declared. One whose supervisor is not in the tree any
more (``TaskStranded``) does not go on: nobody could cancel it. Damaged is a task whose journal cannot be read, or that
was put aside because its orchestrator has died of it. A part of a task goes with the whole only: alone it
would be begun anew, and what it did would be done twice.

Locking: ``TaskService.removing`` is held from the look at a task to its removal, and no other lock is waited for under
it but the store's own. Else a second removal of one id, which had looked before the first and acts after it, would take
out the task that somebody has begun under that id in between. The beginning and the end of a task are shown under it
as well: whoever was told of the end may remove the task, and nothing that its orchestrator, or one who waits, still
does reaches the next one of its id.
"""

from __future__ import annotations

from functools import partial

from actors.messaging.reply import Reply
from actors.tasks.engine.service import TaskService
from actors.tasks.model.task_errors import TaskError, UnknownTaskError


class NotRemovableError(TaskError):
    """The task goes on, or is a part of another one."""

    def __init__(self, task: str, why: str) -> None:
        super().__init__(task, why)
        self.task = task
        self.why = why

    def __str__(self) -> str:
        return f"task {self.task} cannot be removed: {self.why}"


def remove(service: TaskService, id_: str) -> Reply | None:
    """Have a task forgotten. None: it is; else it is being written.

    Raises:
        UnknownTaskError: the store has no task of this id.
        NotRemovableError: it goes on.
    """
    service.removing.look(partial(_remove, service, id_))
    return service.flush(id_)


def _remove(service: TaskService, id_: str) -> None:
    store = service.store
    standing = store.standing(id_)
    if standing is None or id_ in service.unkept:
        raise UnknownTaskError(id_)
    is_aside, is_held = id_ in service.aside, service.run_of(id_) is not None
    is_stranded = standing.is_ == "unfinished" and service.is_stranded(standing.owner)
    if not is_aside and not is_stranded and (standing.is_ == "unfinished" or is_held):
        raise NotRemovableError(id_, "it has not ended. Cancel it first")
    store.remove(id_)
    service.forget_former(id_)
    waits = service.done.pop(id_, None)  # where it has ended nobody waits, but who came too late to hear of that
    if waits is not None:
        waits.fail(UnknownTaskError(id_))
