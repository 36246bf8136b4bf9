"""What must hold of a run, read off its journals, its events and what its workers have noted.

A second reading of the contract: nothing here asks the orchestrator what it thinks, only what is written down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from actors.supervision.child import ChildState
from actors.tasks.journal.fold import fold
from actors.tasks.journal.reporting import report_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from tests.random_plans.declared import Job, Run, Sub
from tests.random_plans.world import CLEAN, Act, World
from trees import Report, SubtaskStatus, TaskStatus, Tree

ENDS = (
    task_events.SubtaskSucceeded,
    task_events.SubtaskFailed,
    task_events.SubtaskSkipped,
    task_events.SubtaskCancelled,
)
STATUS_AFTER = {
    task_events.SubtaskSucceeded: SubtaskStatus.SUCCEEDED,
    task_events.SubtaskFailed: SubtaskStatus.FAILED,
    task_events.SubtaskSkipped: SubtaskStatus.SKIPPED,
    task_events.SubtaskCancelled: SubtaskStatus.CANCELLED,
}
STOPS = (
    *ENDS,
    task_events.SubtaskRetrying,
    task_events.SubtaskQueued,
    task_events.SubtaskPreempted,
    task_events.EscalationRaised,
)
"""After these an attempt is over."""
UNDOS = (task_events.Compensating, task_events.CompensationRetrying, task_events.Compensated)
PEOPLE = (task_events.EscalationRaised, task_events.EscalationAnswered, task_events.EscalationExpired)


# -- at every quiet moment -----------------------------------------------------------------------------------


def nothing_is_idle(tree: Tree, run: Run) -> list[str]:
    """Subtasks that could run, and do not."""
    ground = tree._system.services["tasks"]
    states = ground.ports["r"].states
    live = [each for each in ground.attempts.values() if each.spec.role == "work" and not each.done]
    if len(live) >= run.max_parallel:
        return [] if len(live) == run.max_parallel else [f"{len(live)} attempts at once: {live}"]
    busy = {each.target.path for each in live if each.target is not None}
    idle = []
    for state in states.values():
        for node in state.nodes.values():
            needed = [state.nodes[each] for each in node.spec.depends_on]
            if node.status is SubtaskStatus.PENDING and all(_lets_pass(each) for each in needed):
                idle.append(f"{state.id}/{node.id} is not even queued")
            if node.status is SubtaskStatus.QUEUED and (free := _free(tree, run, node, busy)):
                idle.append(f"{state.id}/{node.id} waits, and {free} is free")
            if node.status is SubtaskStatus.RETRYING and node.due is not None and node.due <= ground.time():
                idle.append(f"{state.id}/{node.id} was to be tried again")
    return idle


def _lets_pass(node: Any) -> bool:
    return node.status is SubtaskStatus.SUCCEEDED or (node.is_done and not node.spec.required)


def _free(tree: Tree, run: Run, node: Any, busy: set[str]) -> str:
    """A member that is up, has nothing, and whose breaker admits, among those whose turn it would be."""
    standing, spec = node.standing, node.spec
    if standing.target is not None and standing.target not in standing.rejected:
        able = [standing.target]
    elif spec.worker is not None:
        able = [spec.worker]
    else:
        able = [hand.id for hand in run.hands if spec.capability in hand.can]
        behind = {hand.backup for hand in run.hands if hand.id in able and hand.id not in standing.rejected}
        able = [each for each in able if each not in behind] or able
    for id_ in able:
        entry = tree._system.services["tasks"].ports["r"].workers.get(id_)
        if entry is None or id_ in standing.rejected or (id_ != standing.target and id_ in standing.tried):
            continue
        if entry.breaker is not None and not entry.breaker.admits(tree._system.services["tasks"].time()):
            continue
        for child in list(tree._system.children.values()):
            if child.spec.id == id_ and child.standing is ChildState.UP and child.path not in busy:
                return child.path
    return ""


# -- at the end of a task ------------------------------------------------------------------------------------


def journal_is_right(job: Job, records: Sequence[Any], report: Report, world: World) -> list[str]:
    """What is wrong with what is written down of one task."""
    state = fold(report.task_id, records)
    subs = {sub.id: sub for sub in job.subs}
    planned = any(isinstance(each, task_events.Planned) for each in records)
    wrong = [*_report_is_right(state, report, records), *_ends_once(records, list(subs) if planned else [])]
    wrong += _needs_are_kept(records, subs)
    return [*wrong, *_undone_in_reverse(records, report), *_effects_are_undone(records, report, world)]


def _report_is_right(state: TaskState, report: Report, records: Sequence[Any]) -> Iterable[str]:
    if report_of(state, lambda: records) != report:
        yield f"the journal says {report_of(state, lambda: records)}, the report {report}"
    last = {each.subtask: each for each in records if isinstance(each, ENDS)}
    kept = {id_: each.value for id_, each in last.items() if isinstance(each, task_events.SubtaskSucceeded)}
    if kept != report.results:
        yield f"results {report.results}, not {kept}"
    if set(report.failed) != {id_ for id_, each in last.items() if isinstance(each, task_events.SubtaskFailed)}:
        yield f"failed: {report.failed}"
    missing = [each for each in report.graph if each.status not in _final(each.id, records)]
    if missing:
        yield f"not ended: {missing}"


def _final(id_: str, records: Sequence[Any]) -> set[SubtaskStatus]:
    ends = {STATUS_AFTER[type(each)] for each in records if isinstance(each, ENDS) and each.subtask == id_}
    return ends | {SubtaskStatus.COMPENSATED} if SubtaskStatus.SUCCEEDED in ends else ends


def _ends_once(records: Sequence[Any], ids: list[str]) -> Iterable[str]:
    ended = Counter(each.subtask for each in records if isinstance(each, ENDS))
    if dict(ended) != dict.fromkeys(ids, 1):
        yield f"ends: {dict(ended)}"
    if [type(each) for each in records].count(task_events.TaskFinished) != 1 or not isinstance(
        records[-1], task_events.TaskFinished
    ):
        yield "it did not finish once, at the end"
    over: set[str] = set()
    for each in records:
        if (
            isinstance(each, task_events.SubtaskEvent)
            and each.subtask in over
            and not isinstance(each, (*UNDOS, *PEOPLE))
        ):
            yield f"{each} after its end"
        if isinstance(each, ENDS):
            over.add(each.subtask)


def _needs_are_kept(records: Sequence[Any], subs: dict[str, Sub]) -> Iterable[str]:
    passed: set[str] = set()
    running: set[str] = set()
    for each in records:
        if isinstance(each, task_events.SubtaskStarted):
            missing = set(subs[each.subtask].needs) - passed
            if missing:
                yield f"{each.subtask} started before {missing} had ended"
            if each.subtask in running:
                yield f"{each.subtask} started twice"
            running.add(each.subtask)
        elif isinstance(each, STOPS):
            running.discard(each.subtask)
        if isinstance(each, ENDS) and (
            isinstance(each, task_events.SubtaskSucceeded) or not subs[each.subtask].required
        ):
            passed.add(each.subtask)


def _undone_in_reverse(records: Sequence[Any], report: Report) -> Iterable[str]:
    starts: dict[tuple[str, str, int], int] = {}
    undos: list[tuple[str, str, int]] = []
    ended: Counter[tuple[str, str, int]] = Counter()
    for each in records:
        if isinstance(each, task_events.SubtaskStarted):
            starts.setdefault((each.subtask, each.worker, each.act), len(starts))
        elif isinstance(each, task_events.Compensating) and (each.subtask, each.worker, each.act) not in undos:
            undos.append((each.subtask, each.worker, each.act))
        elif isinstance(each, task_events.Compensated):
            ended[each.subtask, each.worker, each.act] += 1
    order = [starts[each] for each in undos]
    if order != sorted(order, reverse=True):
        yield f"undone in the order {undos}"
    if ended != Counter(undos):
        yield f"undos begun: {undos}, ended: {dict(ended)}"
    if undos and report.status is TaskStatus.SUCCEEDED:
        yield f"it succeeded, and {undos} were undone"


def _effects_are_undone(records: Sequence[Any], report: Report, world: World) -> Iterable[str]:
    """What has had an effect is undone where its worker has an undo; what has said that it has none is not."""
    run = world.run
    undoable = {hand.id for hand in run.hands if hand.undo}
    undone = Counter(act for act in world.undone if act.task == report.task_id)
    deeds: dict[Act, list[str]] = {}
    for act, deed in world.done:
        if act.task == report.task_id:
            deeds.setdefault(act, []).append(deed)
    for act, count in undone.items():
        if count > 1:
            yield f"{act} was undone {count} times"
    if report.status is TaskStatus.SUCCEEDED:
        return
    asked = {each.subtask for each in records if isinstance(each, task_events.EscalationRaised) and each.undoing}
    for act, done in deeds.items():
        if act.worker not in undoable or act.subtask in report.undo_errors or act.subtask in asked:
            continue  # or a person says that it is undone
        if set(done) - CLEAN - {"lost"} and not undone[act]:
            yield f"{act} had an effect ({done}) and was not undone"
        if undone[act] and len(done) == world.begun[act] and CLEAN.issuperset(done):
            yield f"{act} had no effect ({done}) and was undone"


# -- over all tasks ------------------------------------------------------------------------------------------


def most_at_once(stream: Iterable[Any]) -> int:
    """So many attempts ran at the same time, as the events tell it."""
    running: set[tuple[str, str]] = set()
    most = 0
    for each in stream:
        if isinstance(each, task_events.SubtaskStarted):
            running.add((each.task, each.subtask))
            most = max(most, len(running))
        elif isinstance(each, STOPS):
            running.discard((each.task, each.subtask))
    return most
