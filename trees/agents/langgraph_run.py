"""Run of a graph of LangGraph in an attempt: where it begins, what it asks people, and where it goes on after that.

Its thread (``thread_id``) is the idempotency key of the attempt, so a graph with a checkpointer finds what an attempt
before this one has kept, in whatever process that ran:

* an interrupt waits for an answer, and a person has given it: the graph goes on with that (``resume_value``);
* an interrupt waits, and nobody has answered: the same question is asked (again); the graph is not run;
* nodes are left to run: the graph goes on with them, and what is done is not done again;
* this very attempt has run it to its end, and its process died then: its result is taken as it is;
* anything else: it begins, with its input. A revision has another key, and so a thread of its own.

A graph without a checkpointer begins anew in each attempt, but for the answer of a person: the state that it was in
when it asked comes back with the answer (``trees.agents.langgraph_state``).

One question at a time: of several interrupts the first is asked, the graph goes on with its answer, and asks the next.

An answer is given to a node once. Where that fails after it, the checkpointer has the answer with the node, which goes
on with it by itself: given again, it would be taken for the answer to the next question that the node asks. So a
question notes how many answers its node had by then.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, StateSnapshot
from pydantic_core import to_json

from actors.model.errors import Escalated
from actors.tasks.execution.off_loop import off_loop
from actors.tasks.model.policy import Answer, Approve, Edit, Respond
from trees.agents.langchain_events import AttemptEvents
from trees.agents.langgraph_saver import CountedFirst, ToldUsage
from trees.agents.langgraph_state import HeldState
from trees.agents.model_errors import given_up
from trees.agents.wrapper import question_state

INTERRUPTS: Final = "__interrupt__"
_RESUME: Final = "__resume__"
"""Channel in which a checkpointer has the answers that a node was given."""
_MARK: Final = "regrow_attempt"
"""Key of a checkpoint's metadata: the attempt that has made it."""
_BREAKPOINT: Final = "breakpoint"
"""Stands for the id of an interrupt where the graph stops at a node, as it was compiled to do."""


def resume_value(answer: Answer | None) -> Any:
    """Return the value that ``interrupt()`` gives in the graph when a person has answered so."""
    if isinstance(answer, Approve):
        return True
    if isinstance(answer, Edit):
        return answer.value
    return answer.text if isinstance(answer, Respond) else False


class GraphRun:
    """One attempt of a graph."""

    def __init__(self, graph: Any, config: dict[str, Any], context: Any, events: AttemptEvents) -> None:
        self._context = context
        self._events = events
        self._asked: dict[str, Any] = question_state(context) or {}
        """State of the last question, if there was one."""
        self._mark = f"{context.idempotency_key} {context.revision}.{context.attempt}"
        self._config = {**config, "metadata": {**config.get("metadata", {}), _MARK: self._mark}}
        self._held: HeldState | None = None
        self._usage = ToldUsage(context, events)
        self._graph = graph
        if graph.checkpointer is None:
            self._held = HeldState(self._asked.get("held", "[]"))
            self._graph = copy.copy(graph)
            self._graph.checkpointer = self._held
        elif isinstance(graph.checkpointer, BaseCheckpointSaver):
            self._graph = copy.copy(graph)
            self._graph.checkpointer = CountedFirst(graph.checkpointer, self._usage)
        self._is_sync = False
        """True where its checkpointer can only be called from sync code: the graph then runs on the pool."""

    async def result(self, told: Callable[[], Awaitable[Any]]) -> Any:
        """Run it to its end.

        Args:
            told: gives the input of a graph that begins.

        Raises:
            Escalated: it asks a person.
        """
        found = await self._snapshot()
        if found is not None:
            self._events.knows(found.values)
            if found.interrupts or found.next:
                return await self._run(await self._answered(found))
            if found.values and (found.metadata or {}).get(_MARK) == self._mark:
                return found.values
        return await self._run(await told())

    async def _answered(self, found: Any) -> Any:
        """Return what it goes on with; asks where an answer is needed, and not there."""
        pending = {interrupt.id: interrupt for interrupt in found.interrupts}
        place, answers = self._asked.get("answers", 0), self._context.answers
        given = answers[place] if len(answers) > place and self._asked else None
        asked = self._asked.get("interrupt")
        if pending:
            if given is None or asked not in pending:
                await self._ask(found.interrupts)
            before, now = self._asked.get("received"), await self._received(str(asked))
            if before is not None and now is not None and now > before:
                return None  # its node has it, and has failed since
            return Command(resume={asked: resume_value(given)})
        if self._is_breakpoint(found.next):
            if given is None or asked != _BREAKPOINT or self._asked.get("next") != list(found.next):
                self._ask_to_pass(found.next)
            if not resume_value(given):
                raise given_up(PermissionError(f"a person did not let the graph go on with {', '.join(found.next)}"))
        return None

    async def _run(self, given: Any) -> Any:
        # What is held in memory is of use where the graph asks, which is an exit; and nowhere before.
        kept = {"durability": "sync" if self._held is None else "exit"} if self._graph.checkpointer else {}
        if self._is_sync:
            code = partial(self._graph.invoke, given, self._config, **kept)
            result = await off_loop(code)
        else:
            result = await self._graph.ainvoke(given, self._config, **kept)
        interrupts = result.get(INTERRUPTS) if isinstance(result, Mapping) else None
        if interrupts:
            await self._ask_first(interrupts)
        if self._graph.interrupt_before_nodes or self._graph.interrupt_after_nodes:
            found = await self._snapshot()
            if found is not None and found.next:
                self._ask_to_pass(found.next)
        return result

    async def _snapshot(self, *, subgraphs: bool = False) -> Any:
        """Return what is kept of the thread, and with it of subgraphs; None: nothing."""
        if self._graph.checkpointer is False or (self._held is not None and self._held.is_empty):
            return None
        try:
            found = await self._graph.aget_state(self._config, subgraphs=subgraphs)
        except NotImplementedError:
            self._is_sync = self._usage.is_sync = True
            found = await off_loop(partial(self._graph.get_state, self._config, subgraphs=subgraphs))
        return found if found.created_at is not None else None

    # -- questions --------------------------------------------------------------------------------------------

    async def _ask_first(self, interrupts: Sequence[Any]) -> None:
        """Ask the first of these, which stand in the order in which their nodes came to them: any order at all."""
        found = await self._snapshot() if len(interrupts) > 1 and self._graph.checkpointer else None
        await self._ask(found.interrupts if found is not None and found.interrupts else interrupts)

    async def _ask(self, interrupts: Iterable[Any]) -> None:
        """Ask a person the first of these questions."""
        distinct = list({interrupt.id: interrupt for interrupt in interrupts}.values())
        more = f" (1 of {len(distinct)} questions)" if len(distinct) > 1 else ""
        first = distinct[0]
        self._escalate(
            f"{_text(first.value)}{more}", {"interrupt": first.id, "received": await self._received(first.id)}
        )

    async def _received(self, interrupt: str) -> int | None:
        """Return how many answers the node was given that waits at an interrupt; None: that is not known."""
        saver = self._graph.checkpointer
        if not isinstance(saver, BaseCheckpointSaver):
            return None
        place = _place_of(await self._snapshot(subgraphs=True), interrupt)
        if place is None:
            return None
        config, task = place
        kept = await (off_loop(partial(saver.get_tuple, config)) if self._is_sync else saver.aget_tuple(config))
        writes = () if kept is None else kept.pending_writes or ()
        return sum(len(value) for of, channel, value in writes if (of, channel) == (task, _RESUME))

    def _ask_to_pass(self, nodes: Iterable[str]) -> None:
        """Ask a person whether the graph may go on at a node before or after which it stops."""
        names = list(nodes)
        question = f"The graph has stopped before {', '.join(names)}. Is it to go on?"
        self._escalate(question, {"interrupt": _BREAKPOINT, "next": names})

    def _escalate(self, question: str, state: dict[str, Any]) -> None:
        state["answers"] = len(self._context.answers)
        if self._graph.checkpointer is False:
            wrong = "the graph asks a person, and checkpointer=False keeps nothing of it. Leave checkpointer= out."
            raise given_up(TypeError(wrong))
        if self._held is not None:
            try:
                state["held"] = self._held.to_text()
            except Exception as error:
                wrong = "the graph asks a person, and its state cannot be kept till the answer: compile it with a "
                raise given_up(TypeError(f"{wrong}checkpointer, or keep values in it that can be stored")) from error
        raise Escalated(question, state=state, resumes=True)

    def _is_breakpoint(self, nodes: Iterable[str]) -> bool:
        """True where it may be that the graph stopped here because it was compiled to."""
        before, after = self._graph.interrupt_before_nodes, self._graph.interrupt_after_nodes
        return bool(after) or before == "*" or any(node in before for node in nodes)


def _place_of(found: Any, interrupt: str) -> tuple[Any, str] | None:
    """Return the task that waits at an interrupt, the innermost, and the config of its graph; None: none does."""
    for task in () if found is None else found.tasks:
        if any(each.id == interrupt for each in task.interrupts):
            inner = _place_of(task.state, interrupt) if isinstance(task.state, StateSnapshot) else None
            return inner or (found.config, task.id)
    return None


def _text(value: Any) -> str:
    """Return a question as text; anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(json.loads(to_json(value, fallback=repr)), ensure_ascii=False)
    except ValueError:
        return repr(value)
