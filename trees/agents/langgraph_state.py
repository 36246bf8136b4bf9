"""State of a graph that has no checkpointer, kept while a person is asked.

LangGraph goes on after an ``interrupt()`` only where a checkpointer has kept what is done. A graph that was compiled
without one gets one of these for each attempt. It holds the newest state as it is, and makes nothing of it while the
graph runs. Only where that asks a person is it made text, which goes with the question into the journal, so that the
attempt after the answer goes on from there in any process.

One object is used by one attempt, one call at a time: there is no lock.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cache
from inspect import signature
from typing import Any, TypeAlias

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    copy_checkpoint,
    get_checkpoint_id,
)

_Writes: TypeAlias = dict[tuple[str, int], tuple[str, str, Any]]
"""By task and place: task, channel and value."""
_AllWrites: TypeAlias = dict[tuple[str, str], _Writes]


@cache
def _made_by_base() -> dict[str, Any]:
    """Return what the base makes of itself: it looks at the same serializer each time, and that takes a while."""
    return vars(BaseCheckpointSaver())


class _Hold:
    """The saver's ``put_writes``: holds what a task has written.

    An object with a signature of its own: LangGraph asks for it in each run, and that of a method is made each time.
    """

    __slots__ = ("_writes",)

    def __init__(self, writes: _AllWrites) -> None:
        self._writes = writes

    def __call__(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> Any:
        del task_path  # the order of tasks, for savers that keep them all
        held = self._writes.setdefault((_space(config), config["configurable"]["checkpoint_id"]), {})
        for place, (channel, value) in enumerate(writes):
            key = (task_id, WRITES_IDX_MAP.get(channel, place))
            if key[1] < 0 or key not in held:
                held[key] = (task_id, channel, value)


class _HoldAsync(_Hold):
    """The saver's ``aput_writes``: the same, awaited."""

    __slots__ = ()

    async def __call__(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        super().__call__(config, writes, task_id, task_path)


for _kind in (_Hold, _HoldAsync):
    _kind.__signature__ = signature(_kind({}))  # type: ignore[attr-defined]


class HeldState(BaseCheckpointSaver):
    """Checkpoints of one run, the newest of each graph and subgraph, in memory.

    Args:
        text: made by ``to_text`` in an attempt before this one.
    """

    def __init__(self, text: str = "[]") -> None:
        self._writes: _AllWrites = {}
        """By namespace and checkpoint: what tasks of this run have written since."""
        self.__dict__.update(_made_by_base(), put_writes=_Hold(self._writes), aput_writes=_HoldAsync(self._writes))
        rows = json.loads(text)
        self._kept = {space: (kind, base64.b64decode(data)) for space, kind, data in rows}
        """Rows that came with an answer, as they were stored: LangGraph changes what it is given."""
        self._newest: dict[str, tuple[str, Any, Any]] = {}
        """By the namespace of the graph: the checkpoint's id, itself, and its metadata, where this run has made it."""

    @property
    def is_empty(self) -> bool:
        """True where nothing was held yet."""
        return not self._kept and not self._newest

    # -- as text ----------------------------------------------------------------------------------------------

    def to_text(self) -> str:
        """Make text of it.

        Raises:
            TypeError: a value of the state cannot be stored.
        """
        rows = []
        for space in {**self._kept, **self._newest}:
            *found, writes = self._row(space)
            kind, data = self.serde.dumps_typed([*found, [[*key, *write] for key, write in writes.items()]])
            rows.append([space, kind, base64.b64encode(data).decode("ascii")])
        return json.dumps(rows)

    def _row(self, space: str) -> tuple[str, Any, Any, _Writes]:
        """Return the newest checkpoint of a graph: its id, a copy of it, its metadata, and what was written since."""
        before: _Writes = {}
        found = self._newest.get(space)
        if found is None:
            id_, checkpoint, metadata, rows = self.serde.loads_typed(self._kept[space])
            before = {(task, place): (task, channel, value) for task, place, _, channel, value in rows}
        else:
            id_, checkpoint, metadata = found[0], copy_checkpoint(found[1]), found[2]
        return id_, checkpoint, metadata, {**before, **self._writes.get((space, id_), {})}

    # -- as LangGraph calls it --------------------------------------------------------------------------------

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """Return the newest checkpoint of a graph, with what was written since."""
        space, wanted = _space(config), get_checkpoint_id(config)
        if space not in self._newest and space not in self._kept:
            return None
        id_, checkpoint, metadata, writes = self._row(space)
        if wanted not in {None, id_}:
            return None
        own = {"configurable": {**config["configurable"], "checkpoint_ns": space, "checkpoint_id": id_}}
        return CheckpointTuple(own, checkpoint, metadata, None, list(writes.values()))

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:  # noqa: ARG002 - its signature
        """Hold a checkpoint in place of the one before."""
        space, id_ = _space(config), checkpoint["id"]
        before = self._newest.get(space)
        if before is not None and before[0] != id_:
            self._writes.pop((space, before[0]), None)
        self._newest[space] = (id_, checkpoint, metadata)
        return {"configurable": {**config["configurable"], "checkpoint_ns": space, "checkpoint_id": id_}}

    def list(self, config: Any, **_: Any) -> Iterator[CheckpointTuple]:
        """Yield the newest checkpoint: older ones are not held."""
        found = None if config is None else self.get_tuple(config)
        if found is not None:
            yield found

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        """As ``get_tuple``."""
        return self.get_tuple(config)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """As ``put``."""
        return self.put(config, checkpoint, metadata, new_versions)

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """As ``list``."""
        for found in self.list(config, **options):
            yield found


def _space(config: Any) -> str:
    """Namespace of the graph within its parents; empty: it is the outermost."""
    return str(config["configurable"].get("checkpoint_ns", ""))
