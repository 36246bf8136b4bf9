"""Spans of a tree: of its tasks, and of all that is done for them.

::

    invoke_workflow office                  task, from its submission to its end
    |- plan, review, synthesis              calls of planner, reviewer, synthesizer
    |- invoke_agent writer                  attempt, current in the worker's code
    |  |- step NAME                         call of a step that was not recorded
    |  |- execute_tool search               attempt of what the worker asked for
    |  `- spans of the agent's framework
    |- invoke_workflow team                 part of the task that a team has
    |- wait for a person                    from a question to its answer
    `- undo payment

A span is begun where its work is handed over, and ended where its end is noted, both on the thread that does that, so
that it is current in time and complete when ``tree.run`` returns. Only waits for people, and what a task's span is told
of restarts, breakers and dead letters, come by the events of the tree.

How it fails: an exporter or a processor of a user may raise in any call here. That is told once for each type of error
(``CallbackRaised``), and the tree goes on.

Locking: tables are dicts, each change one step of C. Whoever takes a span out of a table is the one to end it.
"""

from __future__ import annotations

import contextvars
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar

from opentelemetry import context as otel
from opentelemetry import trace

from actors.model.clock import monotonic
from actors.model.events import CallbackRaised, ChildRestarting, DeadLetter, Event, SupervisorGaveUp
from actors.tasks.model import (
    BreakerClosed,
    BreakerHalfOpened,
    BreakerOpened,
    EscalationAnswered,
    EscalationExpired,
    EscalationRaised,
    TaskFinished,
    plain_text,
)
from trees.agents import telemetry_names as names
from trees.agents.telemetry_context import crossing_of, links_to, name_of, nanoseconds, otel_context, set_error, within

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, TracerProvider

    from actors.runtime.system import System
    from actors.tasks.journal.view import Attempt
    from actors.tasks.model import Report
    from trees.agents.telemetry_context import SpanCrossing
    from trees.agents.telemetry_metrics import TreeMetrics

_MOST_KEPT: Final = 4_096
"""Spans of a kind that wait for something; of more the oldest is dropped."""
_NOTED: Final = (ChildRestarting, SupervisorGaveUp, BreakerOpened, BreakerHalfOpened, BreakerClosed, DeadLetter)
"""Kinds that the spans of tasks are told of."""
_HEARD: Final = (*_NOTED, EscalationRaised, EscalationAnswered, EscalationExpired, TaskFinished)
_MOST_TOLD: Final = 16
"""Tasks whose spans are told of one event."""
_NO_TEXT: Final = "its text cannot be told"

ParamsP = ParamSpec("ParamsP")
ResultT = TypeVar("ResultT")


class OpenSpan(NamedTuple):
    """A span that was begun."""

    span: Span
    context: otel.Context
    """Context in which it is the current one."""
    path: str


def _guarded(method: Callable[ParamsP, ResultT]) -> Callable[ParamsP, ResultT | None]:
    """Make a method raise nothing: code of a user's provider may run in it."""

    @wraps(method)
    def guarded(*args: ParamsP.args, **kwargs: ParamsP.kwargs) -> ResultT | None:
        try:
            return method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a tree does not depend on who watches it
            spans: Any = args[0]
            spans.failed(error)
            return None

    return guarded


class TreeSpans:
    """Maker of the spans of one tree: a ``TaskTracer``."""

    def __init__(self, system: System, provider: TracerProvider | None, metrics: TreeMetrics, *, content: bool) -> None:
        self._system = system
        self._tracer = trace.get_tracer(names.SCOPE, tracer_provider=provider)
        self.metrics = metrics
        self.content = content
        self._tasks: dict[str, OpenSpan] = {}
        """Tasks that go on, and teams' parts, by id."""
        self._pending: OrderedDict[str, OpenSpan] = OrderedDict()
        """Spans of tasks that are being submitted, by the name of the trace."""
        self._ended: OrderedDict[str, OpenSpan] = OrderedDict()
        """Tasks that have ended, by id, until their last event is heard: those before it belong to them as well."""
        self._heard_of: set[str] = set()
        """Tasks whose last event was heard before their span has ended: events come on another thread."""
        self._attempts: dict[int, AttemptSpan] = {}
        self._waits: dict[str, tuple[str, Span]] = {}
        """Waits for people, each with the id of its task, by the id of the question."""
        self._failures: set[type[BaseException]] = set()
        self._carried: tuple[otel.Context, contextvars.Context | None] | None = None
        """Context of the last tell that had one, and what that took along."""

    def failed(self, error: Exception) -> None:
        """Tell that a provider has raised; once for each type of error."""
        if type(error) not in self._failures:
            self._failures.add(type(error))
            self._system.publish(CallbackRaised(self._system.root_path, error))

    def _text(self, error: BaseException | None) -> str:
        """Text of an error, where content is wanted; an exception of a user may have none."""
        return plain_text(error, otherwise=_NO_TEXT) if self.content and error is not None else ""

    # -- messages ------------------------------------------------------------------------------------------

    def carried(self) -> contextvars.Context | None:
        """Return the variable that a tell takes along: the current span; None: there is none.

        Tells often come from one place in a row, and whoever gets one only reads it: those share one object.
        """
        try:
            here = otel.get_current()
            if not here:
                return None
            last = self._carried
            if last is None or last[0] is not here:
                is_traced = trace.get_current_span(here).get_span_context().is_valid
                self._carried = last = here, within(None, here) if is_traced else None
            return last[1]
        except Exception as error:  # noqa: BLE001 - as in ``_guarded``, which would cost each tell as much again
            self.failed(error)
            return None

    @_guarded
    def crossing(self, variables: contextvars.Context | None = None) -> SpanCrossing | None:
        """Return the span that is current in these variables, or here, as it crosses; None: there is none."""
        return crossing_of(variables)

    # -- tasks ---------------------------------------------------------------------------------------------

    def submit(self, task: str, path: str) -> str:
        """Begin the span of a task that is about to be kept; returns the name of its trace."""
        return self._submit(task, path) or ""

    @_guarded
    def _submit(self, task: str, path: str) -> str:
        begun = self._begin_task(task, path, otel.get_current(), [])
        traceparent = name_of(begun.context)
        if traceparent:
            _keep(self._pending, traceparent, begun)
        return traceparent

    @_guarded
    def withdraw(self, trace: str, status: str) -> None:
        """End the span of a submission that becomes no task: its id was known, or it was refused."""
        begun = self._pending.pop(trace, None)
        if begun is not None:
            begun.span.set_attribute(names.STATUS, status)
            begun.span.end()

    @_guarded
    def begin_task(
        self, task: str, path: str, variables: contextvars.Context | None, trace: str
    ) -> contextvars.Context | None:
        """Go on with the span of a task that is kept now; begin one for one that is resumed."""
        begun = self._tasks.get(task) or (self._pending.pop(trace, None) if trace else None)
        if begun is None:
            begun = self._begin_task(task, path, self._around(variables), links_to(trace))
        begun = self._tasks.setdefault(task, begun)
        return within(variables, begun.context)

    @_guarded
    def variables_of(self, state: Any, unit: Any, variables: contextvars.Context | None) -> contextvars.Context | None:
        """Return what code below a unit is to see. Spans of the task and of its teams are begun, if there are none."""
        below = self.begin_task(state.id, state.path, variables, state.trace)
        for each in reversed(unit.line):
            if each.role == "work" and each.is_composite and each.status == "running":
                key = f"{state.id}@{each.path}"
                if key not in self._tasks:
                    self._tasks[key] = self._begin_task(
                        state.id, f"{each.scope}/{each.worker}", self._around(below), []
                    )
                below = within(below, self._tasks[key].context)
        return below

    @_guarded
    def end_part(self, state: Any, unit: Any) -> None:
        """End the span of what a team has done."""
        status, error = str(unit.status), "" if unit.status == "succeeded" else unit.error
        begun = self._tasks.pop(f"{state.id}@{unit.path}", None)
        if begun is None:
            return
        begun.span.set_attribute(names.STATUS, status)
        if error:
            set_error(begun.span, status, error if self.content else "")
        begun.span.end()

    def _around(self, variables: contextvars.Context | None) -> otel.Context:
        """Return the context that a task begins in."""
        return variables.run(otel.get_current) if variables is not None else otel.Context()

    def _begin_task(self, task: str, path: str, around: otel.Context, links: list[Link]) -> OpenSpan:
        named = path.rpartition("/")[2]
        attributes = {names.OPERATION: "invoke_workflow", names.WORKFLOW_NAME: named, names.PATH: path}
        span = self._tracer.start_span(
            f"invoke_workflow {named}", around, attributes={**attributes, names.TASK: task}, links=links
        )
        return OpenSpan(span, otel_context(span, around), path)

    @_guarded
    def end_task(self, report: Report) -> None:
        """End the span of a task; before those who wait for it hear of its end."""
        begun = self._tasks.get(report.task_id)
        if begun is None:
            return
        _keep(self._ended, report.task_id, begun)
        self._tasks.pop(report.task_id, None)
        if report.task_id in self._heard_of:
            self._forget_ended(report.task_id)
        span, error = begun.span, report.error
        if span.is_recording():
            span.set_attributes({names.STATUS: str(report.status), **names.of_usage(report.usage)})
            if self.content:
                span.set_attributes(names.content_of_task(report))
            if error is not None:
                set_error(span, type(error).__name__, self._text(error))
        span.end()

    # -- attempts ------------------------------------------------------------------------------------------

    @_guarded
    def begin_attempt(self, attempt: Attempt) -> AttemptSpan:
        """Begin the span of an attempt: it is current for the code that gets its variables."""
        variables = attempt.spec.variables
        around = variables.run(otel.get_current) if variables is not None else otel.Context()
        name, attributes = names.of_attempt(attempt)
        span = self._tracer.start_span(name, around, attributes=attributes)
        begun = AttemptSpan(self, span, otel_context(span, around), variables, attributes[names.OPERATION])
        self._attempts[id(begun)] = begun
        return begun

    @_guarded
    def end_attempt(self, begun: AttemptSpan, attempt: Attempt) -> None:
        """End the span of an attempt."""
        if self._attempts.pop(id(begun), None) is None:
            return
        span = begun.span
        status, error, error_type = names.of_end(attempt)
        if span.is_recording():
            incarnation, used = attempt.incarnation, names.of_usage(attempt.used)
            child = self._system.children.get(incarnation.mailbox.path) if incarnation is not None else None
            restarts = {} if child is None else {names.RESTART: child.restarts}
            span.set_attributes({names.STATUS: status, **restarts, **used})
            if self.content:
                span.set_attributes(names.content_of_attempt(attempt, begun.operation))
            if error_type:
                set_error(span, error_type, self._text(error))
        span.end()
        self.metrics.attempt_ended(attempt.spec.worker, status, monotonic() - begun.began)

    @contextmanager
    def current(self, name: str, attributes: dict[str, Any], around: otel.Context) -> Iterator[None]:
        """Have a new span be the current one."""
        begun = self._begin(name, attributes, around)
        if begun is None:
            yield
            return
        token, failed = otel.attach(begun.context), None
        try:
            yield
        except BaseException as error:
            failed = error
            raise
        finally:
            otel.detach(token)
            self._end(begun.span, failed)

    @_guarded
    def _begin(self, name: str, attributes: dict[str, Any], around: otel.Context) -> OpenSpan:
        span = self._tracer.start_span(name, around, attributes=attributes)
        return OpenSpan(span, otel_context(span, around), "")

    @_guarded
    def _end(self, span: Span, error: BaseException | None) -> None:
        if error is not None:
            set_error(span, type(error).__name__, self._text(error))
        span.end()

    # -- events --------------------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Tell the spans of tasks what happens around them, and trace waits for people."""
        if isinstance(event, _HEARD):
            self._heard(event)

    @_guarded
    def _heard(self, event: Any) -> None:
        if isinstance(event, EscalationRaised):
            begun = self._tasks.get(event.task) or self._ended.get(event.task)
            if begun is not None:
                attributes = {names.TASK: event.task, names.SUBTASK: event.subtask, names.PATH: event.path}
                wait = self._tracer.start_span(
                    "wait for a person", begun.context, attributes=attributes, start_time=nanoseconds(event.at)
                )
                self._waits[event.escalation] = event.task, wait
        elif isinstance(event, (EscalationAnswered, EscalationExpired)):
            _, wait = self._waits.pop(event.escalation, ("", None))
            if wait is not None:
                wait.set_attribute(names.STATUS, getattr(event, "answer", "expired"))
                wait.end(nanoseconds(event.at))
        elif isinstance(event, TaskFinished):
            self._heard_of.add(event.task)
            if event.task not in self._tasks:  # looked at after the mark, so one of the two threads forgets it
                self._forget_ended(event.task)
            self._end_waits(event)
        else:
            self._note(event)

    def _forget_ended(self, task: str) -> None:
        self._ended.pop(task, None)
        self._heard_of.discard(task)

    def _note(self, event: Event) -> None:
        """Tell the tasks of the supervisors above what has happened."""
        attributes: dict[str, Any] = {names.PATH: event.path}
        if isinstance(event, DeadLetter):
            attributes |= {"reason": event.reason}
        elif isinstance(event, ChildRestarting):
            attributes |= {names.RESTART: event.attempt}
            if event.error is not None:
                attributes |= {names.ERROR_TYPE: type(event.error).__name__}
        told = [each for each in self._tasks.copy().values() if event.path.startswith(f"{each.path}/")]
        for each in told[-_MOST_TOLD:]:
            each.span.add_event(f"regrow.{event.name}", attributes, nanoseconds(event.at))

    def _end_waits(self, event: TaskFinished) -> None:
        """End the waits of a task that was answered by nobody: events come in order, so an answer came before this."""
        for escalation in [each for each, (task, _) in self._waits.copy().items() if task == event.task]:
            _, wait = self._waits.pop(escalation, ("", None))
            if wait is not None:
                wait.end(nanoseconds(event.at))

    @_guarded
    def close(self) -> None:
        """End all spans that are open, as they stand."""
        self._carried = None
        attempts, tasks, waits = list(self._attempts), list(self._tasks), list(self._waits)
        open_ = [self._waits.pop(each, ("", None))[1] for each in waits]
        open_ += [new.span for each in list(self._pending) if (new := self._pending.pop(each, None)) is not None]
        open_ += [begun.span for each in attempts if (begun := self._attempts.pop(each, None)) is not None]
        open_ += [one.span for each in tasks if (one := self._tasks.pop(each, None)) is not None]
        for span in open_:
            if span is not None:
                span.set_attribute(names.STATUS, "open")
                span.end()


class AttemptSpan:
    """Span of one attempt: an ``AttemptTrace``."""

    def __init__(
        self,
        spans: TreeSpans,
        span: Span,
        context: otel.Context,
        variables: contextvars.Context | None,
        operation: str,
    ) -> None:
        self._spans = spans
        self.span = span
        self.operation = operation
        self.began = monotonic()
        self.variables = within(variables, context)

    def step(self, name: str) -> AbstractContextManager[object]:
        """Have the span of a step be the current one."""
        return self._spans.current(f"step {name}", {names.OPERATION: "step"}, otel.get_current())

    def end(self, attempt: Attempt) -> None:
        """Note that the attempt has ended."""
        self._spans.end_attempt(self, attempt)


def _keep(table: OrderedDict[str, OpenSpan], key: str, begun: OpenSpan) -> None:
    table[key] = begun
    if len(table) > _MOST_KEPT:
        table.popitem(last=False)
