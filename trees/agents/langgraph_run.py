"""Run of a graph of LangGraph in an attempt: where it begins, what it asks people, and where it goes on after that.

Its thread (``thread_id``) is the idempotency key of the attempt, so a graph with a checkpointer finds what an attempt
before this one has kept, in whatever process that ran:

* an interrupt waits for an answer, and a person has given it: the graph goes on with that (``langgraph_answers``);
* an interrupt waits, and nobody has answered: the same question is asked (again); the graph is not run;
* nodes are left to run: the graph goes on with them, and what is done is not done again;
* this very attempt has run it to its end, and its process died then: its result is taken as it is;
* anything else: it begins, with its input. A revision has another key, and so a thread of its own.

A graph without a checkpointer begins anew in each attempt, but for the answer of a person: the state that it was in
when it asked comes back with the answer (``trees.agents.langgraph_state``).

One question at a time: of several interrupts the first is asked, the graph goes on with its answer, and asks the next.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver

from actors.model.errors import Escalated
from actors.tasks.execution.off_loop import off_loop
from trees.agents.langchain_events import AttemptEvents
from trees.agents.langgraph_answers import GivenAnswers, resume_value
from trees.agents.langgraph_saver import CountedFirst, ToldUsage
from trees.agents.langgraph_state import HeldState
from trees.agents.model_errors import given_up
from trees.agents.wrapper import question_state

INTERRUPTS: Final = "__interrupt__"
_MARK: Final = "regrow_attempt"
"""Key of a checkpoint's metadata: the attempt that has made it."""


class GraphRun:
    """One attempt of a graph."""

    def __init__(self, graph: Any, config: dict[str, Any], context: Any, events: AttemptEvents) -> None:
        self._context = context
        self._events = events
        self._asked: dict[str, Any] = question_state(context) or {}
        """State of the last question, if there was one."""
        self._given = GivenAnswers(self._asked, context.answer)
        self._passed: str | None = self._asked.get("passed")
        """Checkpoint before or after which the graph stops, as it was compiled to, and a person has let it go on."""
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
                self._ask_first(found)
                return await self._run(None)
            if found.values and (found.metadata or {}).get(_MARK) == self._mark:
                return found.values
        return await self._run(await told())

    async def _run(self, given: Any) -> Any:
        # What is held in memory is of use where the graph asks, which is an exit; and nowhere before.
        kept = {"durability": "sync" if self._held is None else "exit"} if self._graph.checkpointer else {}
        if self._is_sync:
            result = await off_loop(lambda: self._invoke(given, **kept))
        else:
            with self._given.answering():
                result = await self._graph.ainvoke(given, self._config, **kept)
        interrupts = result.get(INTERRUPTS) if isinstance(result, Mapping) else None
        if interrupts:
            await self._ask(interrupts)
        if self._graph.interrupt_before_nodes or self._graph.interrupt_after_nodes:
            found = await self._snapshot()
            if found is not None and found.next:
                self._ask_to_pass(found)
        return result

    def _invoke(self, given: Any, **kept: Any) -> Any:
        with self._given.answering():
            return self._graph.invoke(given, self._config, **kept)

    async def _snapshot(self) -> Any:
        """Return what is kept of the thread; None: nothing."""
        if self._graph.checkpointer is False or (self._held is not None and self._held.is_empty):
            return None
        try:
            found = await self._graph.aget_state(self._config)
        except NotImplementedError:
            self._is_sync = self._usage.is_sync = True
            found = await off_loop(partial(self._graph.get_state, self._config))
        return found if found.created_at is not None else None

    # -- questions --------------------------------------------------------------------------------------------

    def _ask_first(self, found: Any) -> None:
        """Ask where the graph cannot go on before somebody has answered: no answer was given to anything that waits."""
        if found.interrupts:
            if not any(self._given.is_answered(each) for each in found.interrupts):
                self._ask_one(found.interrupts)
        elif self._is_breakpoint(found.next) and self._passed != _checkpoint(found):
            answer = self._context.answer
            if answer is None or self._asked.get("stopped") != _checkpoint(found):
                self._ask_to_pass(found)
            if not resume_value(answer):
                raise given_up(PermissionError(f"a person did not let the graph go on with {', '.join(found.next)}"))
            self._passed = _checkpoint(found)

    async def _ask(self, interrupts: Iterable[Any]) -> None:
        """Ask the first of these, which stand in the order in which their nodes came to them: any order at all."""
        asked = list(interrupts)
        found = await self._snapshot() if len(asked) > 1 and self._graph.checkpointer else None
        order = [each.id for each in found.interrupts] if found is not None else []
        self._ask_one(sorted(asked, key=lambda each: order.index(each.id) if each.id in order else len(order)))

    def _ask_one(self, interrupts: Iterable[Any]) -> None:
        """Ask a person the first of these questions."""
        distinct = {tuple(asked): question for question, asked in map(self._given.asking, interrupts)}
        more = f" (1 of {len(distinct)} questions)" if len(distinct) > 1 else ""
        asked, question = next(iter(distinct.items()))
        self._escalate(f"{question}{more}", asked=list(asked))

    def _ask_to_pass(self, found: Any) -> None:
        """Ask a person whether the graph may go on at a node before or after which it stops."""
        question = f"The graph has stopped before {', '.join(found.next)}. Is it to go on?"
        self._escalate(question, stopped=_checkpoint(found))

    def _escalate(self, question: str, **asked: Any) -> None:
        answers = len(self._context.answers)
        state = {**asked, "given": self._given.rows, "passed": self._passed, "answers": answers}
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


def _checkpoint(found: Any) -> str:
    """Return the id of the checkpoint at which a graph stands."""
    return str(found.config["configurable"]["checkpoint_id"])
