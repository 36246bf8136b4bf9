"""View of a run for its dump: the run, what is known of it at this moment, and the runs of its teams' parts.

Comes in: the port of the orchestrator that has the task, and its id. Goes out: a ``RunView``. Nobody is asked: states
are read as they stand, and what has ended is read from its report or its journal. For what goes on no large value is
read from a store. A part that the store has let go of, or whose journal is damaged, is left out.
"""

from __future__ import annotations

import dataclasses

from actors.tasks.journal.fold import fold
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.report import Report
from actors.tasks.model.task import SubtaskStatus
from actors.tasks.model.task_errors import StoreError
from actors.tasks.model.task_events import SubtaskStarted
from actors.tasks.orchestration.task_runtime import OrchestratorPort
from actors.tasks.scheduling.selection import lane_of, put_off
from trees.views.run_view import RunView, view_of


def view_run(port: OrchestratorPort, run: Report | TaskState, *, deep: bool) -> RunView:
    """View a run as it stands now; ``deep``: with what its teams have of it, and theirs."""
    now = port.time()
    if isinstance(run, Report):
        view = view_of(run, now)
    else:
        nodes = list(run.nodes.values())
        live = {node.id: port.runtime.attempt_at(run, node) for node in nodes}
        told = {id_: one.progress for id_, one in live.items() if one is not None and one.progress is not None}
        progress = {id_: (event.fraction, event.text) for id_, event in told.items()}
        lanes = {node.id: lane_of(run, node, port.path) for node in nodes if node.status is SubtaskStatus.QUEUED}
        why = {lane: put_off(port.workers, lane, now) for lane in set(lanes.values())}
        waits = {id_: why[lane] for id_, lane in lanes.items()}
        reviews = port.settings.reviewer is not None
        view = view_of(run, now, progress, waits, reviews=reviews, part_of=port.runtime.part_of)
    if not deep:
        return view
    parts = {id_: view_run(its, part, deep=True) for id_, (its, part) in _parts_of(port, view).items()}
    return dataclasses.replace(view, parts=parts)


def _parts_of(port: OrchestratorPort, view: RunView) -> dict[str, tuple[OrchestratorPort, Report | TaskState]]:
    """Runs of the parts that teams have of a run, the last one of each subtask."""
    try:
        records = port.runtime.outline(view.id)
    except StoreError:
        return {}
    parts = {each.subtask: each.part for each in records if isinstance(each, SubtaskStarted) and each.part}
    found = {}
    for subtask, part in parts.items():
        standing = port.runtime.store.standing(part)
        if standing is not None and standing.owner:
            its = port.runtime.port_at(standing.owner)
            run = _run_of(its, part)
            if run is not None:
                found[subtask] = (its, run)
    return found


def _run_of(port: OrchestratorPort, id_: str) -> Report | TaskState | None:
    try:
        run = port.states.get(id_) or port.report(id_)
        if run is None and (records := port.runtime.outline(id_)):
            run = fold(id_, records)
    except StoreError:
        return None
    return run
