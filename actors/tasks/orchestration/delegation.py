"""Delegation (``context.ask``): an attempt that runs asks for one more subtask of its task, with its own ladder.

Whoever waits holds its worker but no slot. The ask itself (``actors.tasks.orchestration.task_runtime``) lives in the
tree: its answer is found by its key, also by an orchestrator that was not there when it was asked.

An attempt that is lost with its process runs once more, and probably asks for the same. Until then what it had asked
for waits: nobody waits for it. Then it is answered from the journal, or goes on, and is not done a second time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.messaging.pool_address import PoolAddress
from actors.messaging.wait_graph import circle_error
from actors.model.errors import ConfigError, RecursionDetectedError
from actors.tasks.execution.attempt import STOP, Attempt
from actors.tasks.journal.reopening import stays_ended
from actors.tasks.journal.subtask_state import SubtaskState, asker_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.task import Subtask, SubtaskStatus
from actors.tasks.model.task_errors import SubtaskFailedError
from actors.tasks.orchestration.messages import Delegate, DelegationAnswered, DelegationCancelled, WaitsChanged
from actors.tasks.orchestration.task_waits import TaskWait
from actors.tasks.orchestration.waits_at_a_stop import waits_at, waits_in_vain
from actors.tasks.orchestration.waits_of_teams import dead_end_of, look_again, wait_cycle_from, wait_cycle_of
from actors.tasks.recovery.classify import is_broken_off

if TYPE_CHECKING:
    from actors.messaging.message_errors import ActorStoppedError
    from actors.messaging.reply import Reply
    from actors.tasks.orchestration.delegation_calls import OpenDelegation
    from actors.tasks.orchestration.lifecycle import TaskLifecycle
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.recording import Recording

_MAY_ASK_AGAIN: Final = frozenset({SubtaskStatus.QUEUED, SubtaskStatus.RUNNING})
"""Where a subtask stands whose attempt was lost, or whose team has an attempt that was."""


class Delegation:
    """The open asks that concern one orchestrator."""

    def __init__(
        self,
        core: OrchestratorCore,
        recording: Recording,
        lifecycle: TaskLifecycle,
        tell_result: Callable[[TaskState, SubtaskState], None],
    ) -> None:
        """Make it for one incarnation; ``tell_result`` answers the asker of a subtask that has ended."""
        self._core, self._recording, self._lifecycle = core, recording, lifecycle
        self._tell_result = tell_result
        core.port.asked, core.port.attempts = {}, core.attempts
        self._nodes: dict[str, tuple[TaskState, SubtaskState]] = core.port.asked
        """Subtasks that were asked for, by the key of the ask, until a ``DelegationCancelled`` says that nobody waits
        for them. One that is not listed ends with its present attempt, or at once."""
        self.unclaimed: dict[str, tuple[TaskState, SubtaskState]] = {}
        """Listed subtasks whose asker was broken off, or lost with its process: perhaps it asks for them once more."""
        self._looks_at_all = False
        """True while a message is under way that has all asks looked at."""
        self.returning: deque[str] = deque()
        """Asks of attempts here that another orchestrator has answered."""

    def track(self, state: TaskState, node: SubtaskState) -> None:
        """A subtask that was asked for."""
        if node.ask is None:
            return
        open_ask = self._core.runtime.asks.get(node.ask)
        if open_ask is not None or not node.is_done:
            self._nodes[node.ask] = (state, node)
        if node.is_done:
            return
        if open_ask is None:
            self.unclaimed[node.ask] = (state, node)
        elif open_ask.due is not None:
            ends = partial(self._too_late, state, node, node.ask)
            self._core.at(self._core.runtime.epoch + open_ask.due, ends)

    def is_wanted(self, node: SubtaskState) -> bool:
        """True if somebody waits for it, or may again: it is in the plan, or asked for, be it by a run broken off."""
        return node.ask is None or node.ask in self._nodes

    def drop_unclaimed(self, state: TaskState) -> None:
        """End what was asked for by attempts that will not run once more."""
        dropped = {
            ask: node
            for ask, (of, node) in self.unclaimed.items()
            if of is state and state.nodes[node.parent or ""].status not in _MAY_ASK_AGAIN
        }
        for ask in dropped:
            del self.unclaimed[ask], self._nodes[ask]
        for node in dropped.values():
            self._lifecycle.withdraw(state, node)

    def delegate(self, message: Delegate) -> None:
        """An attempt asks for something more."""
        core, ask = self._core, message.ask
        if message.attempt.owner is core.port and ask in core.runtime.asks:
            if message.attempt.done:
                self._attempt_is_over(ask, message.attempt)
                return
            core.attempts.waits_for(message.attempt, ask)
        if core.closing:
            self.close()
        elif not message.only_waits and ask in core.runtime.asks and ask not in self._nodes:
            self._delegate(message)  # else whoever asked is gone, or it is known already

    def _delegate(self, message: Delegate) -> None:
        core, ask = self._core, message.ask
        state = core.states.get(message.host.task)
        host = state.nodes.get(message.host.subtask.id) if state is not None else None
        if state is None or host is None or core.attempts.of(host) is not message.host or state.ending is not None:
            self.answer(ask, None, SubtaskFailedError(message.host.task, message.spec.id, "the task has ended"))
            return
        node = host.asked_before(ask, message.spec, state.nodes)
        if node is not None:
            self._ask_again(state, node, message)
            return
        try:
            id_ = Subtask(id=self._new_id(state, host)).id
        except ConfigError as error:
            self.answer(ask, None, error)
            return
        self._record(state, message, message.spec.model_copy(update={"id": id_}))
        node = state.nodes[id_]
        self.track(state, node)
        if not self._refused(state, node):
            self._lifecycle.advance(state)

    @staticmethod
    def _new_id(state: TaskState, host: SubtaskState) -> str:
        """Unique in its task, whatever process has asked before."""
        number = state.delegations + 1
        while f"{host.id}.{number}" in state.nodes:
            number += 1
        return f"{host.id}.{number}"

    def _record(self, state: TaskState, message: Delegate, spec: Subtask, *, anew: bool = False) -> None:
        host = message.host.subtask.id
        self._recording.emit(
            state, task_events.SubtaskDelegated, spec.id, host, spec, message.ask, message.chain, message.lineage, anew
        )

    def _ask_again(self, state: TaskState, node: SubtaskState, message: Delegate) -> None:
        """An earlier run of the same act had asked for it: it goes on from where it stands, with the same key.

        A result is told once more. What had failed for a run that was lost is told once more, too: for the attempt
        that runs again nothing has changed. So is what nobody does again. All else that had failed is tried anew for
        the next attempt, as is what nobody waited for.
        """
        for known in (self.unclaimed, self._nodes):
            known.pop(node.ask or "", None)
        same = asker_of(node.ask or "") == asker_of(message.ask) and node.status is SubtaskStatus.FAILED
        anew = node.is_done and node.status is not SubtaskStatus.SUCCEEDED and not (same or stays_ended(node))
        self._record(state, message, node.spec, anew=anew)
        self.track(state, node)
        if node.is_done:
            self._tell_result(state, node)
        elif not self._refused(state, node):
            self._lifecycle.asked_again(state, node)

    def look_at_all(self) -> None:
        """Have all open asks of the tree looked at again: of many changes that come one after the other once."""
        if not self._looks_at_all:
            self._looks_at_all = True
            self._core.port.post(WaitsChanged(None))

    def waits_changed(self, message: WaitsChanged) -> None:
        """Look at an ask again, or have all of the tree looked at."""
        if message.ask is not None:
            self.recheck(message.ask)
            return
        self._looks_at_all = False
        for each in self._core.runtime.asks.copy():
            look_again(self._core.runtime, each)

    def recheck(self, key: str) -> None:
        """Refuse an ask, or the wait for a task, that can only last for ever, now that something has changed."""
        state, node = self._nodes.get(key, (None, None))
        if state is not None and node is not None and not self._core.is_idle(node) and not node.is_done:
            self._refused(state, node)
        elif (ask := self._core.runtime.asks.get(key)) is not None and ask.task:
            self._refuse_wait(key, ask)

    def _refuse_wait(self, key: str, ask: OpenDelegation) -> None:
        """Refuse the wait for a task of an attempt that can only wait for ever."""
        chain = wait_cycle_from(self._core.runtime, ask.attempt)
        if chain:
            self._refuse(ask.task, key, ask.reply, RecursionDetectedError((*chain, chain[0])))

    def refuse_joined(self, attempt: Attempt) -> None:
        """Refuse the waits for a task of a worker that is to do something of it: it was not kept from that.

        The ancestry of a task has the first one who waits for it, and no other who has joined him.
        """
        for wait in self._core.runtime.waits.joined(attempt):
            errors = [error for current in set(wait.waiters) if (error := circle_error(wait, current)) is not None]
            if errors:
                self._refuse(attempt.task, wait.ask, wait, errors[0])

    def _refuse(self, task: str, ask: str, reply: Reply, error: BaseException) -> None:
        """Fail what somebody waits for, once all is kept of a task; ``ask`` is its key, where an attempt does."""
        self._core.act(task, partial(self.answer, ask, None) if ask else reply.fail, error)

    def recheck_deadlocks(self) -> None:
        """Refuse, in a new incarnation, the asks that could only wait for ever."""
        for state, node in list(self._nodes.values()):
            if not self._core.is_idle(node) and not node.is_done:
                self._refused(state, node)
        asks = self._core.runtime.asks
        for key, ask in asks.copy().items():
            if ask.attempt.done and ask.attempt.owner is self._core.port:
                self._attempt_is_over(key, ask.attempt)
            elif ask.task and ask.port is self._core.port:
                self._refuse_wait(key, ask)
        for key in list(self._core.runtime.answers):
            if key in asks and asks[key].attempt.owner is self._core.port:
                self.answered(DelegationAnswered(key))

    def _refused(self, state: TaskState, node: SubtaskState) -> bool:
        port = self._core.port
        error: BaseException | None = None
        chain, open_ask = wait_cycle_of(port, state, node), self._core.runtime.asks.get(node.ask or "")
        if chain:
            error = RecursionDetectedError((*chain, node.spec.worker or node.spec.capability or "?"))
        elif open_ask is not None:
            error = dead_end_of(port, state, node, open_ask.reply)
        if error is not None:
            self._core.act(state.id, self.answer, node.ask, None, error)
        if chain:
            self._lifecycle.withdraw(state, node)
        return error is not None

    def met_dead_end(self, state: TaskState, node: SubtaskState, error: ActorStoppedError) -> None:
        """Refuse what was asked for where an attempt of it was cut off by a dead end of those who wait for it.

        It would begin again and again, and be cut off, until whoever is to stop first is killed. Where only the attempt
        itself is to stop, or somebody whom it has asked, it begins again after that, and those who wait are answered.
        """
        for key, reply in self._waits_above(state, node):
            if not _held_up(reply).isdisjoint(error.stop_first):
                self._refuse(state.id, key, reply, error)

    def _waits_above(self, state: TaskState, node: SubtaskState) -> list[tuple[str, Reply]]:
        """Return what those wait for whom a subtask is done for, be it by way of teams, with the keys of their asks.

        It is one ask, or the waits for its task.
        """
        runtime, of, found = self._core.runtime, state, node
        while found.ask is None:
            above = runtime.attempt_of(of)
            port = None if above is None else runtime.ports.get(above.owner.path)
            whole = None if above is None or port is None else port.states.get(above.task)
            further = None if above is None or whole is None else whole.nodes.get(above.subtask.id)
            if whole is None or further is None:
                return [(wait.ask, wait) for wait in runtime.waits.of(of.id)]
            of, found = whole, further
        open_ask = runtime.asks.get(found.ask)
        return [] if open_ask is None else [(found.ask, open_ask.reply)]

    def _too_late(self, state: TaskState, node: SubtaskState, ask: str) -> None:
        if not node.is_done:
            self.answer(ask, None, SubtaskFailedError(state.id, node.id, "no result in the time there was"))

    def withdraw(self, message: DelegationCancelled) -> None:
        """An ask has its answer, or whoever asked waits no longer.

        Whoever was broken off probably asks again, as after a loss: what was asked for stands as it is until then, or
        until it is known that there will be no other run. What runs of it goes on.
        """
        core, ask, asker = self._core, message.ask, message.asker
        others = core.attempts.waits_no_longer(ask)
        if others:
            look_again(core.runtime, next(iter(others)))  # it waits for all of them, so one says it
        state, node = self._nodes.get(ask, (None, None))
        if state is None or node is None:
            return
        if not node.is_done and self._may_ask_again(state, node, message):
            self.unclaimed[ask] = state, node
            if not asker.done:
                port, look = core.port, DelegationCancelled(ask, asker)
                asker.when_done(lambda: port.tell(look))
            self._lifecycle.set_aside(state, node)
            return
        for known in (self.unclaimed, self._nodes):
            known.pop(ask, None)
        if not node.is_done:
            self._lifecycle.withdraw(state, node)

    def _may_ask_again(self, state: TaskState, node: SubtaskState, message: DelegationCancelled) -> bool:
        """True where the asker was broken off and is to run once more, or that will be known when it has ended."""
        core, asker = self._core, message.asker
        if state.ending is not None or state.nodes[node.parent or ""].status not in _MAY_ASK_AGAIN:
            return False
        meets_end = message.met_dead_end and not asker.done
        return core.closing or meets_end or is_broken_off(asker, is_ending=core.is_ending)

    def close(self) -> None:
        """All is being stopped: nobody will do what is asked for, so nobody is held up by waiting for it.

        A task that was submitted goes on when this is up again.
        """
        port = self._core.port
        for open_ask in list(self._core.runtime.asks.values()):
            if port is open_ask.attempt.owner or (port is open_ask.port and not open_ask.task):
                open_ask.attempt.end_for(STOP)
                open_ask.reply.fail(port.down())

        self.give_up_all()

    def give_up_all(self) -> None:
        """Look at all waits for tasks, now that all is being stopped, or that a team has stopped with that."""
        for task in {wait.task for wait in waits_at(self._core)}:
            self.give_up(task)

    def give_up(self, task: str, heard: Attempt | None = None) -> None:
        """While all is being stopped, fail the waits for a task, and for its news, where it does not go on in time.

        ``heard``: an attempt of it has ended, and what follows from that is done.
        """
        for wait in waits_in_vain(self._core, task, heard):
            self._refuse(task, wait.ask if isinstance(wait, TaskWait) else "", wait, self._core.port.down())

    def put_aside(self, state: TaskState) -> None:
        """Answer all that was asked for in a task that nobody goes on with: who waits for it holds a worker."""
        for node in state.nodes.values():
            if node.ask is not None:
                self.answer(node.ask, None, SubtaskFailedError(state.id, node.id, "its orchestrator died of its task"))

    def attempt_ended(self, attempt: Attempt) -> None:
        """End the asks of an attempt that has ended, and waits in some."""
        for key in attempt.asks.copy():
            self._attempt_is_over(key, attempt)

    def _attempt_is_over(self, key: str, attempt: Attempt) -> None:
        """End an ask of an attempt that has ended; code of it that waits for a task still does so by itself."""
        ask = self._core.runtime.asks.get(key)
        self.answer(key, None, None if ask is None or ask.task else _too_late_for(attempt))

    def answer(self, ask: str, value: Any, error: BaseException | None = None) -> None:
        """Tell whoever asked."""
        runtime = self._core.runtime
        open_ask = runtime.asks.get(ask)
        if open_ask is None:
            return
        if open_ask.attempt.owner is not self._core.port:
            runtime.answers.setdefault(ask, (value, error))  # the first counts: why it was refused, and not that it was
            runtime.port_at(open_ask.attempt.owner.path).tell(DelegationAnswered(ask))
        elif error is None:
            open_ask.reply.complete(value)
        else:
            open_ask.reply.fail(error)

    def answered(self, message: DelegationAnswered) -> None:
        """Another orchestrator has what an attempt waits for."""
        if message.ask not in self.returning:
            self.returning.append(message.ask)

    def let_return(self) -> None:
        """Hand the oldest answer from another orchestrator to the attempt that asked, if that still waits."""
        core, ask = self._core, self.returning.popleft()
        open_ask, answer = core.runtime.asks.get(ask), core.runtime.answers.pop(ask, None)
        if open_ask is not None and answer is not None:
            core.attempts.waits_no_longer(ask)
            core.act(open_ask.attempt.task, self.answer, ask, *answer)

    def wait_is_over(self, ask: str) -> None:
        """An ask is about to be answered: whoever waits in it needs its slot before others get one."""
        open_ask = self._core.runtime.asks.get(ask)
        if open_ask is not None and open_ask.attempt.owner is self._core.port:
            self._core.attempts.waits_no_longer(ask)


def _held_up(reply: Reply) -> set[str]:
    """Return the paths of those who wait while this reply is waited for; of a pool, those of all members."""
    boxes = {box for current in set(reply.waiters) for box in current.held_up()}
    return {member.path for box in boxes for member in (box.members if isinstance(box, PoolAddress) else (box,))}


def _too_late_for(attempt: Attempt) -> SubtaskFailedError:
    return SubtaskFailedError(attempt.task, attempt.subtask.id, "its attempt has ended")
