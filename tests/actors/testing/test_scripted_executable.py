"""Executables and models that do as they are told, and write down what they were given."""

import threading
from typing import Any

import pytest

from actors import Escalated, Failed, Later, Rejected
from actors.testing import (
    AsyncScriptedExecutable,
    Crash,
    Echo,
    FakeModel,
    Hang,
    InTurn,
    ManualClock,
    ScriptedExecutable,
    Slow,
    settle,
)
from trees import (
    Done,
    Escalate,
    ModelPlanner,
    ModelSynthesizer,
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    TaskStatus,
    Usage,
    WorkerSpec,
    start,
)

LONG_S = 60.0
BOTH = pytest.mark.parametrize("kind", [ScriptedExecutable, AsyncScriptedExecutable], ids=["sync", "async"])
AT_ONCE = Retry(max_attempts=5, initial_s=0.0, max_s=0.0, jitter=0.0)


def tree_of(*subtasks: Subtask, script: Any, **words: Any) -> SupervisorSpec:
    words.setdefault("on_failure", [AT_ONCE])
    worker = WorkerSpec(id="worker", execute=script, **words)
    plan = subtasks or (Subtask("a", "the instruction", worker="worker"),)
    return SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan(list(plan))), children=[worker])


def run(script: Any, **words: Any) -> Report:
    with start(tree_of(script=script, **words), clock=ManualClock()) as tree:
        return tree.run(Task("the goal", inputs={"x": 1}), timeout=LONG_S)


@BOTH
def test_a_script_says_what_happens_at_each_attempt_and_the_last_step_is_repeated(kind: type[Any]) -> None:
    script = kind(ValueError("first"), OSError, Failed("third", retryable=True), {"fine": True})

    report = run(script)
    again = run(script)

    assert report.results == {"a": {"fine": True}}
    assert again.results == report.results
    assert [(call.attempt, call.ended) for call in script.calls[:4]] == [
        (1, "ValueError"),
        (2, "OSError"),
        (3, "Failed"),
        (4, "returned"),
    ]


@BOTH
def test_without_a_script_the_instruction_is_the_result(kind: type[Any]) -> None:
    assert run(kind()).results == {"a": "the instruction"}


@BOTH
def test_steps_may_be_given_by_number_and_the_rest_is_said_once(kind: type[Any]) -> None:
    script = kind(at={2: "second"}, then=ValueError("any other"))

    assert run(script).results == {"a": "second"}


@BOTH
def test_after_the_last_step_comes_what_then_says(kind: type[Any]) -> None:
    script = kind(ValueError("once"), then=Echo())

    assert run(script).results == {"a": "the instruction"}


@BOTH
def test_a_script_may_count_calls_instead_of_attempts(kind: type[Any]) -> None:
    plan = (Subtask("a", worker="worker"), Subtask("b", worker="worker", depends_on=["a"]))
    script = kind("first call", "second call", by="call")

    with start(tree_of(*plan, script=script), clock=ManualClock()) as tree:
        report = tree.run("the goal", timeout=LONG_S)

    assert report.results == {"a": "first call", "b": "second call"}


@BOTH
def test_a_call_is_written_down_with_all_that_it_was_given(kind: type[Any]) -> None:
    plan = (
        Subtask("a", "look", worker="worker", timeout_s=7),
        Subtask("b", "read", worker="worker", depends_on=["a"], inputs={"y": 2}),
    )
    script = kind()

    with start(tree_of(*plan, script=script), clock=ManualClock()) as tree:
        tree.run(Task("the goal", inputs={"x": 1}, id="t"), timeout=LONG_S)

    first, second = script.calls
    assert (first.subtask, first.instruction, first.goal, first.remaining_s) == ("a", "look", "the goal", 7.0)
    assert (first.inputs, first.results, first.feedback) == ({"x": 1}, {}, "")
    assert (second.inputs, second.results) == ({"x": 1, "y": 2}, {"a": "look"})
    assert first.idempotency_key != second.idempotency_key
    assert "the goal" not in repr(first)


@BOTH
def test_a_crash_is_one_for_every_kind_of_worker_and_the_script_goes_on(kind: type[Any]) -> None:
    script = kind(Crash("boom"), "mended")

    with start(tree_of(script=script, expected=(Exception,)), clock=ManualClock()) as tree:
        report = tree.run("the goal", timeout=LONG_S)
        incarnation = tree.which_children("shop")[-1].incarnation

    assert report.results == {"a": "mended"}
    assert incarnation == 2
    assert script.calls[0].ended == "SystemExit"


@BOTH
def test_something_slow_takes_its_time_on_the_clock_of_the_tree(kind: type[Any]) -> None:
    script, clock = kind(Slow(60, then=ValueError("late")), Slow(30, then="there")), ManualClock()

    with start(tree_of(script=script), clock=clock) as tree:
        handle = tree.submit("the goal")
        script.wait_for_calls(1)
        before = handle.status
        advance_until(clock, lambda: len(script.calls) == 2, by=60)
        advance_until(clock, lambda: handle.report is not None, by=30)
        report = handle.result(timeout=LONG_S)

    assert before is TaskStatus.RUNNING
    assert report.results == {"a": "there"}
    assert report.timings["running"] >= 90


def advance_until(clock: ManualClock, done: Any, by: float) -> None:
    """Move the clock until what waits on it has been seen to happen: a sleeper may not be asleep yet."""
    pause = threading.Event()
    for _ in range(1000):
        clock.advance(by)
        pause.wait(0.01)
        if done():
            return
    raise AssertionError("it never came")


@BOTH
def test_a_hang_ends_when_it_is_released_and_what_follows_in_turn_happens(kind: type[Any]) -> None:
    with Hang() as hang:
        script = kind(InTurn(hang, "free"))
        with start(tree_of(script=script), clock=ManualClock()) as tree:
            handle = tree.submit("the goal")
            hang.wait_until_entered()
            ended = script.calls[0].ended
            hang.release()
            report = handle.result(timeout=LONG_S)

    assert ended == ""
    assert report.results == {"a": "free"}


@BOTH
def test_a_function_as_a_step_is_given_the_call_and_says_what_happens(kind: type[Any]) -> None:
    def step(task: Any, context: Any) -> object:
        return ValueError("first") if context.attempt == 1 else Slow(0, then=f"{task} of {context.goal}")

    assert run(kind(step)).results == {"a": "the instruction of the goal"}


def test_a_function_of_an_async_script_may_be_async() -> None:
    async def step(task: Any, context: Any) -> object:
        return f"{task}!"

    assert run(AsyncScriptedExecutable(step)).results == {"a": "the instruction!"}


@BOTH
@pytest.mark.parametrize("signal", [Rejected("not mine"), Escalated("who?"), Failed("no", retryable=False)])
def test_signals_are_heard_as_if_a_worker_had_raised_them(kind: type[Any], signal: Exception) -> None:
    with pytest.raises(TaskFailedError) as caught:
        run(kind(signal), on_failure=[])

    assert caught.value.report is not None
    assert str(signal) in caught.value.report.failed["a"] or isinstance(signal, Rejected)


@BOTH
def test_later_puts_an_attempt_off_until_the_clock_is_there(kind: type[Any]) -> None:
    script, clock = kind(Later(60), "now", by="call"), ManualClock()

    with start(tree_of(script=script), clock=clock) as tree:
        handle = tree.submit("the goal")
        script.wait_for_calls(1)
        settle(tree)
        before = len(script.calls)
        clock.advance(60)
        report = handle.result(timeout=LONG_S)

    assert before == 1
    assert report.results == {"a": "now"}


@BOTH
def test_done_with_its_usage_is_a_result(kind: type[Any]) -> None:
    report = run(kind(Done(3, usage=Usage(tokens=7))))

    assert (report.results, report.usage.tokens) == ({"a": 3}, 7)


@BOTH
def test_an_undo_has_a_script_of_its_own_and_its_calls_are_written_down(kind: type[Any]) -> None:
    plan = (Subtask("a", worker="worker"), Subtask("b", worker="worker", depends_on=["a"]))
    script = kind("paid", Failed("no stock", retryable=False), by="call", undo=[ValueError("not yet"), None])
    spec, clock = tree_of(*plan, script=script, undo=script.undo), ManualClock()

    with start(spec, clock=clock) as tree:
        handle = tree.submit("the goal")
        settle(tree)
        advance_until(clock, lambda: handle.report is not None, by=60)
        with pytest.raises(TaskFailedError) as caught:
            handle.result(timeout=LONG_S)

    assert caught.value.report is not None
    assert caught.value.report.compensated == ["a"]
    assert [(call.subtask, call.result, call.ended) for call in script.undos] == [
        ("a", "paid", "ValueError"),
        ("a", "paid", "returned"),
    ]


@BOTH
def test_a_script_counts_how_many_calls_ran_at_once(kind: type[Any]) -> None:
    plan = [Subtask(f"s{n}", worker="worker") for n in range(5)]
    with Hang() as hang:
        script = kind(hang)
        with start(tree_of(*plan, script=script, pool=3), clock=ManualClock()) as tree:
            handle = tree.submit("the goal")
            script.wait_for_calls(3)
            hang.release()
            handle.result(timeout=LONG_S)

    assert script.most_at_once == 3


def test_waiting_for_calls_that_do_not_come_says_how_many_there_were() -> None:
    with pytest.raises(TimeoutError, match=r"0 calls within 0.01 s, wanted 1"):
        ScriptedExecutable().wait_for_calls(1, 0.01)


# -- settling ----------------------------------------------------------------------------------------------


def test_a_tree_has_settled_while_its_tasks_wait_for_the_clock_or_for_a_person() -> None:
    clock, script = ManualClock(), ScriptedExecutable(OSError("down"))

    with start(
        tree_of(script=script, on_failure=[Retry(2, 60.0, max_s=60.0, jitter=0.0), Escalate()]), clock=clock
    ) as tree:
        handle = tree.submit("the goal")
        settle(tree)
        first = handle.status
        clock.advance(60)
        settle(tree)
        second = handle.status

    assert (first, second) == (TaskStatus.RUNNING, TaskStatus.WAITING)


# -- models ------------------------------------------------------------------------------------------------

GOOD = {"subtasks": [{"id": "a", "instruction": "x", "worker": "worker"}]}


def with_model(planner: Any = None, **settings: Any) -> SupervisorSpec:
    planner = planner or StaticPlan([Subtask("a", "x", worker="worker")])
    tasks = Tasks(planner=planner, **settings)
    return SupervisorSpec(id="shop", tasks=tasks, children=[WorkerSpec(id="worker", execute=ScriptedExecutable())])


def test_a_fake_model_answers_in_order_and_remembers_prompts_and_schemas() -> None:
    model = FakeModel("that is no plan", ConnectionError("rate limit"), GOOD)

    with start(with_model(ModelPlanner(model), step_retry=AT_ONCE), clock=ManualClock()) as tree:
        report = tree.run("find the cats", timeout=LONG_S)

    assert report.results == {"a": "x"}
    assert len(model.prompts) == 3
    assert "find the cats" in model.prompts[0]
    assert "no JSON" in model.prompts[1]
    assert "rate limit" in model.prompts[2]
    assert model.schemas[0] is not None
    assert "subtasks" in model.schemas[0]["properties"]


def test_a_fake_model_repeats_its_last_answer_and_writes_outputs_too() -> None:
    model = FakeModel("well said")

    with start(with_model(synthesizer=ModelSynthesizer(model)), clock=ManualClock()) as tree:
        outputs = [tree.run("find it", timeout=LONG_S).output for _ in range(2)]

    assert outputs == ["well said", "well said"]
    assert model.schemas == [None, None]


def test_a_fake_model_may_compute_its_answer_from_the_prompt() -> None:
    model = FakeModel(lambda prompt, schema: GOOD if "refused" in prompt else "{")

    with start(with_model(ModelPlanner(model)), clock=ManualClock()) as tree:
        tree.run("find it", timeout=LONG_S)

    assert len(model.prompts) == 2
