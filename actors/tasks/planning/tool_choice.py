"""Which tool is meant where words, or capabilities, mean a worker that has several, such as an MCP server.

A plan has to name the tool of such a worker. The words that mean the worker choose among its tools as they choose among
workers: by the names of the tools, and by their descriptions. Where they mean none of them the tool stays open, and the
check of the plan says which there are. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.task import Subtask
from actors.tasks.planning.goal_matching import CatalogueIndex, Found, Match
from actors.tasks.planning.goal_reading import Reading
from actors.tasks.planning.verb_families import Verbs

_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_.-]")


def has_several(row: ExecutableInfo) -> bool:
    """Return True for a worker whose tool has to be named."""
    return len(row.tools or ()) > 1


class ToolChoice:
    """Tools of all workers of a catalogue that have several, each under a name of its own."""

    def __init__(self, catalogue: Catalogue, verbs: Verbs) -> None:
        self._verbs = verbs
        self._rows = {row.id: row for row in catalogue if has_several(row)}
        self._indexes: dict[str, CatalogueIndex] = {}
        self._tools: dict[str, tuple[str, str]] = {}
        """By the name of its own: worker and tool."""

    def chosen(self, readings: Sequence[Reading], found: Found) -> Found:
        """Return the matches with the tools that are meant, under their own names, in place of their workers."""
        if not self._rows:
            return found
        return [[self._of(match, reading) for match in has] for reading, has in zip(readings, found, strict=True)]

    def named(self, subtasks: Iterable[Subtask]) -> list[Subtask]:
        """Return the subtasks with worker and tool for each name of a tool."""
        return [self._named(subtask) for subtask in subtasks]

    def _of(self, match: Match, reading: Reading) -> Match:
        if match.worker not in self._rows or match.capability is not None:
            return match
        tool = self._index_of(match.worker).match(reading)
        return match if tool is None else replace(match, worker=tool.worker, is_tie=tool.is_tie, rivals=tool.rivals)

    def _index_of(self, worker: str) -> CatalogueIndex:
        index = self._indexes.get(worker)
        if index is None:
            row = self._rows[worker]
            made = []
            for tool in row.tools or ():
                name = f"{worker}.{_NOT_IN_IDS.sub('_', tool.name)}"
                self._tools[name] = (worker, tool.name)
                own = frozenset({tool.name})
                said = replace(row, id=name, description=tool.description, capabilities=own)
                made.append(replace(said, tools=None, members=(), backup=None))
            index = self._indexes[worker] = CatalogueIndex(tuple(made), self._verbs)
        return index

    def _named(self, subtask: Subtask) -> Subtask:
        found = self._tools.get(subtask.worker or "")
        return subtask if found is None else subtask.model_copy(update={"worker": found[0], "tool": found[1]})
