"""Traces and metrics: ``instrument(tree)`` with the SDK of OpenTelemetry, in memory."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.test import TestModel

import actors
from actors import ConfigError, Escalated
from actors.testing import settle
from tests.support.attempts import AT_ONCE, LONG_S
from tests.tasks.resuming import NotingStore
from trees import (
    Approve,
    Escalate,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    TaskSubmitted,
    WorkerSpec,
    start,
)
from trees.agents import instrument
from trees.agents.tree_meter import UNLABELLED

SECRET = "sk-SECRET-42"  # noqa: S105 - no password


class Telescope:
    """A provider of the SDK, and what it has seen."""

    def __init__(self, *processors: SpanProcessor) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.provider, self.meters = TracerProvider(), MeterProvider([self.reader])
        for each in (*processors, SimpleSpanProcessor(self.exporter)):
            self.provider.add_span_processor(each)
        self.user = self.provider.get_tracer("user")

    def watch(self, tree: Any, **more: Any) -> Any:
        return instrument(tree, self.provider, self.meters, **more)

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def tree(self) -> list[str]:
        """Names of all spans, indented by who is above."""
        by_parent: dict[int | None, list[ReadableSpan]] = {}
        known = {span.context.span_id for span in self.spans if span.context is not None}
        for span in self.spans:
            above = span.parent.span_id if span.parent is not None and span.parent.span_id in known else None
            by_parent.setdefault(above, []).append(span)

        def lines(above: int | None, depth: int) -> list[str]:
            return [
                line
                for span in by_parent.get(above, [])
                for line in ["  " * depth + span.name, *lines(span.context.span_id if span.context else 0, depth + 1)]
            ]

        return lines(None, 0)

    def numbers(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Metrics by name and labels."""
        data: Any = self.reader.get_metrics_data()
        return {
            metric.name: {
                tuple(str(value) for _, value in sorted(point.attributes.items())): getattr(
                    point, "value", getattr(point, "count", 0)
                )
                for point in metric.data.data_points
            }
            for metric in data.resource_metrics[0].scope_metrics[0].metrics
        }


def tree_of(plan: list[Subtask], *children: Any, **tasks: Any) -> SupervisorSpec:
    return SupervisorSpec(id="p", tasks=Tasks(**{"planner": StaticPlan(plan), **tasks}), children=children)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


# -- spans -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sync", "async", "thread"])
def test_the_span_of_an_attempt_is_current_in_the_workers_code_and_below_what_the_caller_has(kind: str) -> None:
    seen = Telescope()

    def work(task: Any, context: Any) -> str:
        with seen.user.start_as_current_span("framework"):
            return "ok"

    async def work_async(task: Any, context: Any) -> str:
        await asyncio.sleep(0)
        with seen.user.start_as_current_span("framework"):
            await asyncio.sleep(0)
            return "ok"

    more: dict[str, Any] = {"dispatch": "thread"} if kind == "thread" else {}
    worker = WorkerSpec(id="w", execute=work_async if kind == "async" else work, type="agent", **more)
    with start(tree_of([Subtask("a", worker="w")], worker)) as tree:
        seen.watch(tree)
        with seen.user.start_as_current_span("request"):
            tree.run(Task("go", id="t"), timeout=LONG_S)
        got = seen.tree()

    assert got == [
        "request",
        "  invoke_workflow p",
        "    invoke_agent w",
        "      framework",
    ]
    told = attributes(seen.named("invoke_agent w"))
    assert told == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "w",
        "regrow.path": "p/w",
        "regrow.task": "t",
        "regrow.subtask": "a",
        "regrow.attempt": 1,
        "regrow.restart": 0,
        "regrow.status": "succeeded",
    }
    assert attributes(seen.named("invoke_workflow p"))["gen_ai.workflow.name"] == "p"
    assert len({span.context.trace_id for span in seen.spans if span.context}) == 1


def test_what_a_worker_asks_for_and_what_a_team_does_stand_below_it() -> None:
    seen = Telescope()

    async def lead(task: Any, context: Any) -> Any:
        with seen.user.start_as_current_span("framework"):
            return await context.ask("helper", "help")

    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("m", worker="member")])),
        children=[WorkerSpec(id="member", execute=lambda task, context: "m")],
    )
    workers = WorkerSpec(id="lead", execute=lead), WorkerSpec(id="helper", execute=lambda task, context: "h")
    plan = [Subtask("a", worker="lead"), Subtask("b", worker="team", depends_on=["a"])]
    with start(tree_of(plan, *workers, team)) as tree:
        seen.watch(tree)
        tree.run(Task("go", id="t"), timeout=LONG_S)

    assert seen.tree() == [
        "invoke_workflow p",
        "  execute_tool lead",
        "    framework",
        "      execute_tool helper",
        "  invoke_workflow team",
        "    execute_tool member",
    ]


def test_planner_reviewer_synthesizer_undo_and_the_wait_for_a_person_have_spans() -> None:
    seen, asked = Telescope(), threading.Event()

    def note(name: str, result: Any) -> Any:
        def code(*_: Any) -> Any:
            with seen.user.start_as_current_span(f"in {name}"):
                return result

        return code

    def risky(task: Any, context: Any) -> str:
        if not context.answers:
            raise Escalated("may I?")
        raise ValueError("after all")

    spec = tree_of(
        [],
        WorkerSpec(id="pay", execute=lambda task, context: "paid", undo=note("undo", None)),
        WorkerSpec(id="risky", execute=risky, on_failure=[Escalate()]),
        planner=note("plan", [Subtask("a", worker="pay"), Subtask("b", worker="risky", depends_on=["a"])]),
    )
    with start(spec) as tree:
        tree.subscribe(lambda event: asked.set() if event.name == "escalation_raised" else None)
        seen.watch(tree)
        handle = tree.submit(Task("go", id="t"))
        assert asked.wait(LONG_S)
        (question,) = handle.escalations
        handle.respond(question.id, Approve())
        while not handle.report:
            for each in handle.escalations:
                handle.cancel() if each.id != question.id else None
            settle(tree)
    names = seen.tree()

    assert names[:3] == ["invoke_workflow p", "  plan", "    in plan"]
    assert [name for name in names if "undo" in name] == ["  undo pay", "    in undo"]
    waits = [span for span in seen.spans if span.name == "wait for a person"]
    assert attributes(waits[0])["regrow.status"] == "approve"
    assert "  wait for a person" in names


def test_the_spans_that_a_framework_makes_itself_stand_below_the_attempt() -> None:
    seen = Telescope()
    settings = InstrumentationSettings(tracer_provider=seen.provider)
    agent = Agent(TestModel(custom_output_text="hello"), name="writer")
    agent.instrument = settings
    with start(tree_of([Subtask("a", worker="w")], WorkerSpec(id="w", execute=agent))) as tree:
        seen.watch(tree)
        tree.run("go", timeout=LONG_S)

    attempt = seen.named("invoke_agent w").context
    assert attempt is not None
    own = next(span for span in seen.spans if attributes(span).get("gen_ai.agent.name") == "writer")
    assert own.parent is not None
    assert own.parent.span_id == attempt.span_id
    assert len({span.context.trace_id for span in seen.spans if span.context}) == 1


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_step_has_a_span_below_its_attempt_which_is_current_in_its_function(kind: str) -> None:
    seen = Telescope()

    def fetch(url: str) -> str:
        with seen.user.start_as_current_span(f"get {url}"):
            if url == "bad":
                raise ValueError(SECRET)
            return url

    async def fetch_async(url: str) -> str:
        await asyncio.sleep(0)
        return fetch(url)

    def work(task: Any, context: Any) -> Any:
        with pytest.raises(ValueError, match="SECRET"):
            context.step_sync("fetch", fetch, "bad")
        return context.step_sync("fetch", fetch, "good")

    async def work_async(task: Any, context: Any) -> Any:
        with pytest.raises(ValueError, match="SECRET"):
            await context.step("fetch", fetch_async, "bad")
        return await context.step("fetch", fetch_async, "good")

    worker = WorkerSpec(id="w", execute=work_async if kind == "async" else work)
    with start(tree_of([Subtask("a", worker="w")], worker)) as tree:
        seen.watch(tree)
        tree.run("go", timeout=LONG_S)

    assert seen.tree()[1:] == [
        "  execute_tool w",
        "    step fetch",
        "      get bad",
        "    step fetch",
        "      get good",
    ]
    bad, good = [span for span in seen.spans if span.name == "step fetch"]
    assert (attributes(bad)["error.type"], bad.status.description) == ("ValueError", None)
    assert good.status.status_code is trace.StatusCode.UNSET


def test_each_attempt_has_a_span_with_its_number_the_restarts_and_the_usage() -> None:
    seen = Telescope()

    class Agent:
        def execute(self, task: Any, context: Any) -> str:
            context.use(tokens=10, cost=0.5)
            if context.attempt == 1:
                raise ValueError(SECRET)
            assert tree._system.bus.flush(LONG_S)  # what happens to its worker is told while the task goes on
            return SECRET

    class Worker(actors.Worker):
        def execute(self, task: Any, context: Any) -> str:
            return Agent().execute(task, context)

    with start(tree_of([Subtask("a", worker="w")], WorkerSpec(id="w", actor=Worker, on_failure=[AT_ONCE]))) as tree:
        seen.watch(tree)
        tree.run(Task(SECRET, id="t"), timeout=LONG_S)

    first, second = [attributes(span) for span in seen.spans if span.name == "execute_tool w"]
    assert (first["regrow.attempt"], first["regrow.status"], first["error.type"]) == (1, "crashed", "ValueError")
    assert (second["regrow.attempt"], second["regrow.status"], second["regrow.restart"]) == (2, "succeeded", 1)
    assert second["regrow.usage.tokens"] == 10
    whole = seen.named("invoke_workflow p")
    assert attributes(whole)["regrow.usage.tokens"] == 20
    assert "regrow.child_restarting" in [event.name for event in whole.events]
    assert SECRET not in json.dumps([span.to_json() for span in seen.spans])


def test_with_content_goal_instruction_result_and_the_text_of_an_error_are_told() -> None:
    seen = Telescope()

    def work(task: Any, context: Any) -> str:
        if context.attempt == 1:
            raise ValueError("no such thing")
        return "the answer"

    worker = WorkerSpec(id="w", execute=work, type="agent", on_failure=[AT_ONCE])
    with start(tree_of([Subtask("a", "do this", worker="w")], worker)) as tree:
        seen.watch(tree, content=True)
        tree.run(Task("the goal", id="t"), timeout=LONG_S)

    first, second = [span for span in seen.spans if span.name == "invoke_agent w"]
    assert first.status.description == "no such thing"
    assert "do this" in attributes(second)["gen_ai.input.messages"]
    assert "the answer" in attributes(second)["gen_ai.output.messages"]
    assert "the goal" in attributes(seen.named("invoke_workflow p"))["gen_ai.input.messages"]


@pytest.mark.parametrize("how", ["ask", "tell", "tell from outside"])
def test_the_current_span_crosses_ask_and_tell(how: str) -> None:
    seen, told = Telescope(), threading.Event()

    def handle(_: Any) -> None:
        with seen.user.start_as_current_span("handler"):
            told.set()

    async def forward(_: Any) -> None:
        with seen.user.start_as_current_span("forward"):
            if how == "tell":
                actors.ref("p/h").tell(1)
            else:
                await actors.ref("p/h").ask_async(1)

    workers = WorkerSpec(id="h", handle=handle), WorkerSpec(id="f", handle=forward)
    with start(SupervisorSpec(id="p", children=workers)) as tree:
        seen.watch(tree)
        with seen.user.start_as_current_span("sender"):
            if how == "tell from outside":
                tree.ref("p/h").tell(1)
            else:
                tree.ref("p/f").ask(1)
        assert told.wait(LONG_S)
        settle(tree)
        told.clear()
        tree.ref("p/h").tell(2)
        assert told.wait(LONG_S)
        settle(tree)

    middle = [] if how == "tell from outside" else ["  forward"]
    assert seen.tree() == ["sender", *middle, f"{'  ' * (len(middle) + 1)}handler", "handler"]


def test_a_task_that_is_resumed_links_to_the_trace_of_the_process_that_had_it() -> None:
    store, begun, first, second = NotingStore(), threading.Event(), Telescope(), Telescope()
    goes_on, is_traced = threading.Event(), threading.Event()

    async def work(task: Any, context: Any) -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.get_running_loop().create_future()
        goes_on.set()
        assert await asyncio.to_thread(is_traced.wait, LONG_S)
        return "done"

    plan = [Subtask("a", worker="w"), Subtask("b", worker="w", depends_on=["a"])]
    spec = tree_of(plan, WorkerSpec(id="w", execute=work))
    with start(spec, store=store) as tree:
        first.watch(tree)
        tree.submit(Task("go", id="t"))
        assert begun.wait(LONG_S)
    with start(spec, store=NotingStore(store.changes)) as tree:
        assert goes_on.wait(LONG_S)
        second.watch(tree)
        is_traced.set()
        tree.task("t").result(LONG_S)

    before = first.named("invoke_workflow p").context
    whole = second.named("invoke_workflow p")
    assert before is not None
    assert [(link.context.trace_id, link.context.span_id) for link in whole.links] == [
        (before.trace_id, before.span_id)
    ]
    assert attributes(first.named("invoke_workflow p"))["regrow.status"] == "open"
    assert second.tree() == ["invoke_workflow p", "  execute_tool w"]
    record = store.journals["t"][0]
    assert isinstance(record, TaskSubmitted)
    assert record.trace == f"00-{before.trace_id:032x}-{before.span_id:016x}-{before.trace_flags:02x}"


def test_an_attempt_that_is_ended_from_outside_has_a_span_that_says_so() -> None:
    seen, begun, gate = Telescope(), threading.Event(), threading.Event()

    def hangs(task: Any, context: Any) -> None:
        begun.set()
        gate.wait(LONG_S)

    worker = WorkerSpec(id="w", execute=hangs, timeout_s=0.05, on_failure=[])
    with start(tree_of([Subtask("a", worker="w")], worker)) as tree:
        seen.watch(tree)
        with pytest.raises(TaskFailedError):
            tree.run("go", timeout=LONG_S)
        told = attributes(seen.named("execute_tool w"))
        gate.set()

    assert (told["regrow.status"], told["error.type"]) == ("timeout", "timeout")


# -- metrics ---------------------------------------------------------------------------------------------------


def test_metrics_have_the_names_and_labels_of_the_page() -> None:
    seen = Telescope()

    def work(task: Any, context: Any) -> str:
        context.use(tokens=7)
        if context.attempt == 1:
            raise ValueError("no")
        return "ok"

    worker = WorkerSpec(id="w", execute=work, pool=2, on_failure=[AT_ONCE])
    with start(tree_of([Subtask("a", worker="w")], worker, WorkerSpec(id="h", handle=int, pool=2))) as tree:
        seen.watch(tree)
        tree.run("go", timeout=LONG_S)
        tree.ref("p/h").tell("no number")
        settle(tree)
        tree._system.bus.flush(LONG_S)
        numbers = seen.numbers()

    assert numbers["regrow_tasks_total"] == {("succeeded",): 1}
    assert numbers["regrow_subtasks_total"] == {("succeeded", "w"): 1}
    assert [numbers[f"regrow_{name}_total"] for name in UNLABELLED] == [{(): 0}] * len(UNLABELLED)
    assert numbers["regrow_retries_total"] == {("w",): 1}
    assert numbers["regrow_tokens_total"] == {("w",): 14}
    assert numbers["regrow_child_exits_total"] == {("p/h", "crashed"): 1}
    assert numbers["regrow_child_restarts_total"] == {("p/h",): 1}
    assert numbers["regrow_attempt_seconds"] == {("failed", "w"): 1, ("succeeded", "w"): 1}
    assert numbers["regrow_task_seconds"] == {("succeeded",): 1}
    assert numbers["regrow_queue_wait_seconds"]["w",] >= 1
    assert numbers["regrow_children"]["running",] >= 5
    assert numbers["regrow_handling_seconds_count"].items() >= {("p/h",): 1, ("p/w",): 2}.items()
    assert 0.0 < numbers["regrow_handling_seconds_sum"]["p/w",] < LONG_S


# -- whoever watches hurts nobody ------------------------------------------------------------------------------


def test_stop_ends_it_and_the_end_of_the_tree_does() -> None:
    seen, again = Telescope(), Telescope()
    with start(tree_of([Subtask("a", worker="w")], WorkerSpec(id="w", execute=lambda task, context: "ok"))) as tree:
        subscribers = len(tree._system.bus._subscriptions)
        watch = seen.watch(tree)
        with pytest.raises(ConfigError, match="p is instrumented already"):
            seen.watch(tree)
        tree.run("go", timeout=LONG_S)
        watch.stop()
        watch.stop()
        count = len(seen.spans)
        tree.run("go", timeout=LONG_S)
        assert len(seen.spans) == count > 0
        assert len(tree._system.bus._subscriptions) == subscribers
        again.watch(tree)
        tree.run("go", timeout=LONG_S)
    assert tree._system.tracer is None
    assert "invoke_workflow p" in again.tree()


def test_nothing_of_opentelemetry_is_loaded_before_a_tree_is_instrumented() -> None:
    code = (
        "import sys, trees, trees.agents.telemetry\n"
        "loaded = [name for name in sys.modules if name.startswith('opentelemetry')]\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"content": "no"}, "content: expected a bool"),
        ({"content": None}, "content: expected a bool"),
        ({"tracer_provider": "otlp"}, "tracer_provider: expected a TracerProvider, got a str"),
        ({"meter_provider": TracerProvider()}, "meter_provider: expected a MeterProvider, got a TracerProvider"),
    ],
)
def test_what_is_no_provider_and_no_yes_or_no_is_refused_and_nothing_is_instrumented(
    wrong: dict[str, Any], says: str
) -> None:
    with start(SupervisorSpec(id="p")) as tree:
        with pytest.raises(ConfigError, match=re.escape(says)):
            instrument(tree, **wrong)
        assert tree._system.tracer is None
