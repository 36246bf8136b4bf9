"""Models and agents of frameworks as planner, reviewer and synthesizer: ``model_call``, and the objects as they are."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent as OpenAI
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from pydantic_ai import Agent, ModelHTTPError, ModelRetry, RequestUsage
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles import ModelProfile

from actors import ConfigError
from tests.support.attempts import AT_ONCE, LONG_S
from tests.trees.agents.openai_fakes import Scripted as FakeOpenAI
from tests.trees.agents.openai_fakes import says
from trees import (
    ModelPlanner,
    ModelReviewer,
    ModelSynthesizer,
    Report,
    StaticPlan,
    Subtask,
    SubtaskRetrying,
    SupervisorSpec,
    Task,
    TaskError,
    Tasks,
    WorkerSpec,
    plan_schema,
    start,
)
from trees.agents import LangChain, OpenAIAgent, PydanticAI, model_call

PLAN = {"subtasks": [{"id": "x", "worker": "w"}]}
VERDICT = {"x": {"c1": {"feedback": "", "passed": True}}}
USED = RequestUsage(input_tokens=30, output_tokens=12)
NATIVE = ModelProfile(supports_json_schema_output=True)


class Scripted:
    """A model that says one thing after the other; the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Any, Any]] = []
        self.entered = threading.Event()
        self.model = FunctionModel(self._answer, profile=NATIVE)

    async def _answer(self, messages: Any, info: Any) -> ModelResponse:
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append((messages, info))
        self.entered.set()
        if isinstance(answer, BaseException):
            raise answer
        if answer is HANGS:
            await asyncio.Event().wait()
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return ModelResponse(parts=[TextPart(text)], usage=USED)

    @property
    def prompts(self) -> list[str]:
        return [messages[-1].parts[-1].content for messages, _ in self.asked]


HANGS = object()


def tree_of(**tasks: Any) -> SupervisorSpec:
    tasks = {"planner": StaticPlan([Subtask("x", worker="w")]), "step_retry": AT_ONCE, **tasks}
    worker = WorkerSpec(id="w", execute=lambda task, context: "done")
    return SupervisorSpec(id="p", tasks=Tasks(**tasks), children=[worker])


def ended(**tasks: Any) -> tuple[Report, list[Any]]:
    with start(tree_of(**tasks)) as tree:
        handle = tree.submit(Task("go"))
        try:
            handle.result(timeout=60.0)  # much JSON takes a while on a busy machine
        except TaskError:
            assert handle.report is not None
        report: Any = handle.report
        return report, list(handle.events())


# -- what may be given -------------------------------------------------------------------------------------------

FORMS: dict[str, Callable[[Scripted], Any]] = {
    "model": lambda scripted: scripted.model,
    "agent": lambda scripted: Agent(scripted.model),
    "call of a model": lambda scripted: model_call(scripted.model),
    "call of an agent": lambda scripted: model_call(Agent(scripted.model)),
    "wrapper": lambda scripted: PydanticAI(Agent(scripted.model), deps=lambda _: 1),
    "call of a wrapper": lambda scripted: model_call(PydanticAI(Agent(TestModel()), model=scripted.model)),
}
ROLES: dict[str, tuple[str, Callable[[Any], Any], Any]] = {
    "planner": ("planner", ModelPlanner, PLAN),
    "reviewer": ("reviewer", ModelReviewer, VERDICT),
    "synthesizer": ("synthesizer", ModelSynthesizer, "all of it"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("role", "made", "answer"), ROLES.values(), ids=ROLES)
def test_a_role_takes_a_model_an_agent_and_a_model_call(
    role: str, made: Callable[[Any], Any], answer: Any, form: Callable[[Scripted], Any]
) -> None:
    scripted = Scripted(answer)
    report, _ = ended(**{role: made(form(scripted))})

    assert (report.error, report.results) == (None, {"x": "done"})
    assert len(scripted.asked) == 1
    assert report.usage_by_role[role].tokens == report.usage.tokens == 42


def _openai(*answers: Any) -> Any:
    said = [each if isinstance(each, BaseException) else says(json.dumps(each), tokens=42) for each in answers]
    return OpenAI(name="it", model=FakeOpenAI(*said))


@pytest.mark.parametrize("wrap", [lambda agent: agent, OpenAIAgent, model_call], ids=["agent", "wrapper", "call"])
@pytest.mark.parametrize(("role", "made", "answer"), ROLES.values(), ids=ROLES)
def test_a_role_takes_an_agent_of_the_openai_agents_sdk(role: str, made: Any, answer: Any, wrap: Any) -> None:
    report, _ = ended(**{role: made(wrap(_openai(answer)))})

    assert (report.error, report.results) == (None, {"x": "done"})
    assert report.usage_by_role[role].tokens == report.usage.tokens == 42


def test_a_role_takes_a_chat_model_in_its_wrapper() -> None:
    chat = GenericFakeChatModel(messages=iter([AIMessage("all of it")]))
    report, _ = ended(synthesizer=LangChain(chat))

    assert (report.error, report.output) == (None, "all of it")


@pytest.mark.parametrize("form", [FORMS["model"], FORMS["agent"]], ids=["model", "agent"])
@pytest.mark.parametrize(("role", "made", "answer"), ROLES.values(), ids=ROLES)
def test_tasks_take_a_model_or_an_agent_as_it_is(
    role: str, made: Any, answer: Any, form: Callable[[Scripted], Any]
) -> None:
    scripted = Scripted(answer)
    report, _ = ended(**{role: form(scripted)})

    assert (report.error, report.results, len(scripted.asked)) == (None, {"x": "done"}, 1)
    assert report.usage_by_role[role].tokens == 42


def test_a_role_takes_the_name_of_a_model() -> None:
    report, _ = ended(planner=ModelPlanner("test", slots=1), reviewer="test", synthesizer="test", max_iterations=1)

    assert set(report.usage_by_role) == {"planner", "reviewer", "synthesizer", "workers"}
    assert report.results == {"s1": "done"}
    assert report.output == "success (no tool calls)"


def test_every_role_has_a_model_of_its_own() -> None:
    planner, reviewer, synthesizer = Scripted(PLAN), Scripted(VERDICT), Scripted("text")
    report, _ = ended(planner=planner.model, reviewer=Agent(reviewer.model), synthesizer=model_call(synthesizer.model))

    assert (report.output, report.usage.tokens) == ("text", 3 * 42)
    assert [len(each.asked) for each in (planner, reviewer, synthesizer)] == [1, 1, 1]


def chat(text: str) -> Any:
    usage = {"input_tokens": 30, "output_tokens": 12, "total_tokens": 42}
    return GenericFakeChatModel(messages=iter([AIMessage(text, usage_metadata=usage)]))


@pytest.mark.parametrize(("role", "made", "answer"), ROLES.values(), ids=ROLES)
@pytest.mark.parametrize("bare", [True, False], ids=["as it is", "in its role"])
def test_a_role_takes_a_chat_model_of_langchain(
    role: str, made: Callable[[Any], Any], answer: Any, *, bare: bool
) -> None:
    model = chat(answer if isinstance(answer, str) else f"Here:\n```json\n{json.dumps(answer)}\n```")
    report, _ = ended(**{role: model if bare else made(model)})

    assert (report.error, report.results) == (None, {"x": "done"})
    assert report.usage_by_role[role].tokens == 42


@pytest.mark.parametrize("model", ["", "gpt", "a model", 3, None, object(), TestModel, lambda prompt: ""])
def test_what_is_no_model_is_refused_in_words_that_help(model: Any) -> None:
    with pytest.raises(ConfigError, match=r"model_call: expected a model or an agent.*'openai:gpt-"):
        model_call(model)


@pytest.mark.parametrize("options", [{"instructions": 3}, {"settings": "hot"}])
def test_options_that_are_none_are_refused(options: Any) -> None:
    with pytest.raises(ConfigError, match=r"model_call\.(instructions|settings)"):
        model_call("test", **options)


@pytest.mark.parametrize("field", ["planner", "reviewer", "synthesizer"])
def test_tasks_refuse_a_text_that_names_no_model(field: str) -> None:
    with pytest.raises(ConfigError, match="is no name of a model"):
        Tasks(**{field: "gpt"})


# -- a call ------------------------------------------------------------------------------------------------------


def call(model: Any, schema: Any = None, **options: Any) -> Any:
    return asyncio.run(model_call(model, **options)("prompt", schema))


def test_a_call_outside_of_a_tree_returns_the_answer_and_its_usage() -> None:
    answer, usage = call(Scripted("hello").model)

    assert (answer, usage.tokens) == ("hello", 42)


def test_a_function_that_returns_what_a_framework_returns_is_a_call_too_and_its_usage_counts() -> None:
    scripted = Scripted(json.dumps(PLAN))

    async def ask(prompt: str, schema: Any) -> Any:
        return await Agent(scripted.model).run(prompt)

    spec = SupervisorSpec(
        id="p", tasks=Tasks(planner=ModelPlanner(ask)), children=[WorkerSpec(id="w", execute=lambda task: "done")]
    )
    with start(spec) as tree:
        report = tree.run("go", timeout=LONG_S)

    assert report.results == {"x": "done"}
    assert report.usage_by_role["planner"].tokens == 42


def test_the_schema_reaches_the_model_as_its_native_output() -> None:
    scripted, schema = Scripted(PLAN), plan_schema((), None)
    answer, _ = call(scripted.model, schema)

    parameters = scripted.asked[0][1].model_request_parameters
    assert (answer, parameters.output_mode) == (PLAN, "native")
    assert set(parameters.output_object.json_schema["properties"]) == {"subtasks"}


def test_a_model_without_native_output_is_given_a_tool() -> None:
    answer, usage = call(TestModel(), plan_schema((), None))

    assert list(answer) == ["subtasks"]
    assert usage.tokens > 0


def test_instructions_and_settings_reach_the_model() -> None:
    scripted = Scripted("hello")
    call(scripted.model, instructions="Answer in French.", settings={"temperature": 0.5})
    messages, info = scripted.asked[0]

    assert "Answer in French." in (messages[-1].instructions or "")
    assert info.model_settings["temperature"] == 0.5


def test_an_agent_with_validators_of_its_own_is_shown_the_schema_in_words() -> None:
    scripted = Scripted(PLAN)
    agent = Agent(scripted.model)

    @agent.output_validator
    def check(output: str) -> str:
        if "subtasks" not in output:
            raise ModelRetry("no plan")
        return output

    report, _ = ended(planner=agent)
    assert report.results == {"x": "done"}
    assert "The JSON schema of the answer" in scripted.prompts[0]
    assert scripted.prompts[0].count("JSON schema") == 1


# -- hard moments ------------------------------------------------------------------------------------------------

MUCH = 100_000
"""So many items, of ten characters each."""
RUBBISH: dict[str, Any] = {
    "rubbish": "I would rather not",
    "nothing": "",
    "another schema": {"answer": {"text": "x"}},
    "long text": "x" * (10 * MUCH),
    "503": ModelHTTPError(503, "m"),
}


FAILS_ONCE = {
    f"{role}: {name}": (role, first, answer)
    for role, _, answer in ROLES.values()
    for name, first in RUBBISH.items()
    if role != "synthesizer" or not first or isinstance(first, BaseException)  # any text is an output
}


@pytest.mark.slow
@pytest.mark.parametrize(("role", "first", "answer"), FAILS_ONCE.values(), ids=FAILS_ONCE)
def test_a_model_that_fails_once_is_asked_again(role: str, first: Any, answer: Any) -> None:
    scripted = Scripted(first, answer)
    report, _ = ended(**{role: scripted.model})

    assert (report.error, report.results, report.best_effort) == (None, {"x": "done"}, False)
    assert len(scripted.asked) == 2
    assert len(scripted.prompts[-1]) < 20_000
    was_told = "was refused. Correct all of this" in scripted.prompts[-1]
    is_an_answer = not isinstance(first, BaseException) and first != ""
    assert was_told == (role == "planner" or (role == "reviewer" and is_an_answer))  # a planner hears of all


@pytest.mark.parametrize(
    "text", ["```json\n{}\n```", "Sure!\n{}\nBye", "```\nno\n```\nthen\n{}", "``````json\n{}\n```"]
)
@pytest.mark.parametrize("role", ["planner", "reviewer"])
def test_a_text_with_fences_or_prose_around_the_answer_is_read(role: str, text: str) -> None:
    _, _, answer = ROLES[role]
    scripted = Scripted(text.replace("{}", json.dumps(answer)))
    report, _ = ended(**{role: scripted.model})

    assert (report.error, report.results, len(scripted.asked)) == (None, {"x": "done"}, 1)


def test_a_model_that_hangs_is_ended_and_asked_again() -> None:
    role, _, answer = ROLES["planner"]
    scripted = Scripted(HANGS, answer)
    report, events = ended(**{role: scripted.model}, step_timeout_s=3.0)

    assert (report.error, report.results) == (None, {"x": "done"})
    assert [type(event) for event in events].count(SubtaskRetrying) == 1


@pytest.mark.parametrize(("role", "made", "answer"), ROLES.values(), ids=ROLES)
def test_a_model_that_is_asked_is_left_when_its_task_is_cancelled(role: str, made: Any, answer: Any) -> None:
    scripted = Scripted(HANGS)
    with start(tree_of(**{role: scripted.model})) as tree:
        handle = tree.submit("go")
        assert scripted.entered.wait(LONG_S)
        handle.cancel()
        with pytest.raises(TaskError):
            handle.result(timeout=LONG_S)


def test_a_stream_of_tasks_shares_one_call() -> None:
    scripted = Scripted(PLAN)
    with start(tree_of(planner=scripted.model)) as tree:
        reports = [handle.result(timeout=LONG_S) for handle in [tree.submit("go") for _ in range(8)]]

    assert [report.usage_by_role["planner"].tokens for report in reports] == [42] * 8
