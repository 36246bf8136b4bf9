"""What an agent of any framework does as a worker: one suite, for an agent that is driven by the same words in each.

``Brain`` is the model of each agent. It says, for its n-th request, a text, or calls of tools, or it raises.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors import SubtaskStreamed
from trees import (
    Approve,
    Edit,
    Escalate,
    Reject,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)
from trees.agents import LangChain, OpenAIAgent, PydanticAI

LONG_S = 60.0
TOKENS = 10
"""Tokens of each request."""
SECRET = "sk-OF-THE-USER"  # noqa: S105 - it is looked for where it must not be


class Brain:
    """Script of a model: what it says in its n-th request, and what it was told then."""

    def __init__(self, *says: Any) -> None:
        self.says = says
        self.told: list[str] = []
        self.asked: Counter[int] = Counter()
        """How often each request came."""
        self.fails: dict[int, list[Any]] = {}
        """By the number of a request: what it raises at first, or awaits."""

    async def answer(self, number: int, told: str) -> Any:
        """Return a text, or a list of calls of tools: name and arguments."""
        self.told.append(told)
        self.asked[number] += 1
        if self.fails.get(number):
            wrong = self.fails[number].pop(0)
            if isinstance(wrong, BaseException):
                raise wrong
            await wrong()
        return self.says[number]


class Paid:
    """Tools: ``pay`` needs a person, ``look`` does not. Notes what was done."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> dict[str, Callable[..., Any]]:
        def pay(to: str) -> str:
            """Pay somebody."""
            self.done.append(to)
            return f"paid {to}"

        def look(at: str) -> str:
            """Look at something."""
            return f"saw {at}"

        return {"pay": pay, "look": look}


# -- the frameworks ----------------------------------------------------------------------------------------------


def pydantic_ai(brain: Brain, tools: dict[str, Any], approved: tuple[str, ...] = ("pay",), **options: Any) -> Any:
    from pydantic_ai import Agent, ModelHTTPError  # noqa: PLC0415 - only what a test is about is loaded
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart  # noqa: PLC0415
    from pydantic_ai.models.function import FunctionModel  # noqa: PLC0415
    from pydantic_ai.usage import RequestUsage  # noqa: PLC0415

    async def request(messages: Any, _info: Any) -> ModelResponse:
        number = sum(isinstance(each, ModelResponse) for each in messages)
        try:
            said = await brain.answer(number, repr(messages))
        except HTTPError as error:  # as the models of pydantic-ai do
            raise ModelHTTPError(error.status_code, "brainy", headers=error.response.headers) from error
        calls = [] if isinstance(said, str) else said
        parts = [ToolCallPart(name, args, f"c{number}{place}") for place, (name, args) in enumerate(calls)]
        usage = RequestUsage(input_tokens=TOKENS - 1, output_tokens=1)
        return ModelResponse(parts or [TextPart(said)], usage=usage)

    agent = Agent(FunctionModel(request))
    for name, tool in tools.items():
        agent.tool_plain(requires_approval=name in approved)(tool)
    return PydanticAI(agent, deps=lambda _: {"token": SECRET}, **options)


def openai(brain: Brain, tools: dict[str, Any], approved: tuple[str, ...] = ("pay",), **options: Any) -> Any:
    return OpenAIAgent(openai_agent(brain, tools, approved), context=lambda _: {"token": SECRET}, **options)


def openai_agent(brain: Brain, tools: dict[str, Any], approved: tuple[str, ...] = ("pay",), name: str = "clerk") -> Any:
    from agents import Agent, Model, ModelResponse, Usage, function_tool  # noqa: PLC0415
    from openai.types.responses import (  # noqa: PLC0415
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    class Brainy(Model):
        async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002 - its signature
            items = [] if isinstance(input, str) else input
            number = len({each["call_id"][1] for each in items if each.get("type") == "function_call"})
            said = await brain.answer(number, repr(input))
            output: list[Any]
            if isinstance(said, str):
                part = ResponseOutputText(text=said, type="output_text", annotations=[])
                output = [
                    ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")
                ]
            else:
                output = [
                    ResponseFunctionToolCall(
                        call_id=f"c{number}{place}{name}", name=tool, arguments=json.dumps(args), type="function_call"
                    )
                    for place, (tool, args) in enumerate(said)
                ]
            usage = Usage(requests=1, input_tokens=TOKENS - 1, output_tokens=1, total_tokens=TOKENS)
            return ModelResponse(output=output, usage=usage, response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    made = [
        function_tool(tool, needs_approval=tool_name in approved, failure_error_function=None)
        for tool_name, tool in tools.items()
    ]
    return Agent(name=name, model=Brainy(), tools=made)


def graph(brain: Brain, tools: dict[str, Any], approved: tuple[str, ...] = ("pay",), **options: Any) -> Any:
    return LangChain(created(brain, tools, approved), config={"configurable": {"token": SECRET}}, **options)


def kept_graph(brain: Brain, tools: dict[str, Any], approved: tuple[str, ...] = ("pay",)) -> Any:
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415

    return LangChain(created(brain, tools, approved, checkpointer=InMemorySaver()))


def created(brain: Brain, tools: dict[str, Any], approved: tuple[str, ...] = ("pay",), **options: Any) -> Any:
    """LangChain's ``create_agent``, with its own middleware for approvals."""
    from langchain.agents import create_agent  # noqa: PLC0415
    from langchain.agents.middleware import HumanInTheLoopMiddleware  # noqa: PLC0415
    from langchain_core.language_models.chat_models import BaseChatModel  # noqa: PLC0415
    from langchain_core.messages import AIMessage  # noqa: PLC0415
    from langchain_core.outputs import ChatGeneration, ChatResult  # noqa: PLC0415
    from langchain_core.tools import tool as made  # noqa: PLC0415

    class Brainy(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "brainy"

        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

        def _generate(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def _agenerate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            number = sum(isinstance(each, AIMessage) for each in messages)
            said = await brain.answer(number, repr(messages))
            calls = [] if isinstance(said, str) else said
            named = [
                {"name": name, "args": args, "id": f"c{number}{place}"} for place, (name, args) in enumerate(calls)
            ]
            usage: Any = {"input_tokens": TOKENS - 1, "output_tokens": 1, "total_tokens": TOKENS}
            text = said if isinstance(said, str) else ""
            return ChatResult(
                generations=[ChatGeneration(message=AIMessage(text, tool_calls=named, usage_metadata=usage))]
            )

    asks = [HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(approved, True))] if approved else []
    return create_agent(Brainy(), [made(each) for each in tools.values()], middleware=asks, **options)


FRAMEWORKS = {"pydantic-ai": pydantic_ai, "openai": openai, "graph": graph, "graph with a checkpointer": kept_graph}
every = pytest.mark.parametrize("make", FRAMEWORKS.values(), ids=FRAMEWORKS)
AGAIN = Retry(max_attempts=2, initial_s=0.0, max_s=0.0, jitter=0.0)


def tree_of(agent: Any, **worker: Any) -> SupervisorSpec:
    worker.setdefault("on_failure", [AGAIN, Escalate(max_questions=20)])
    planner = StaticPlan([Subtask("w", "Pay the bill")])
    return SupervisorSpec(
        id="office", tasks=Tasks(planner=planner), children=[WorkerSpec(id="w", execute=agent, **worker)]
    )


def answered(handle: Any, answers: dict[str, Any]) -> list[str]:
    """Answer each question with the answer whose key is in it; the questions."""
    asked = []
    for question in handle.questions():
        asked.append(question.question)
        handle.respond(question.id, next(answer for key, answer in answers.items() if key in question.question))
    return asked


class HTTPError(Exception):
    """As the clients of providers raise it."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        self.response: Any = type("Response", (), {"status_code": status, "headers": headers})()


# -- what each does ----------------------------------------------------------------------------------------------


@every
def test_it_runs_is_told_the_work_counts_its_tokens_and_shows_what_it_says(make: Any) -> None:
    brain = Brain([("look", {"at": "bill"})], "All paid.")
    with start(tree_of(make(brain, Paid().tools()))) as tree:
        handle = tree.submit(Task("Keep the books", inputs={"sum": 77}))
        shown = "".join(handle.stream())
        report = handle.result(LONG_S)
        events = [(each.kind, each.text) for each in handle.events() if isinstance(each, SubtaskStreamed)]
    assert report.results["w"] == shown == "All paid."
    assert report.usage.tokens == 2 * TOKENS
    assert all(said in brain.told[0] for said in ("Pay the bill", "Keep the books", "77"))
    assert "saw bill" in brain.told[1]
    assert [kind for kind, _ in events] == ["tool_call", "tool_result", "text"] or not events


@every
def test_a_broken_connection_is_tried_again_and_a_wrong_request_is_not(make: Any) -> None:
    for error, attempts in ((ConnectionError("reset"), 2), (HTTPError(500), 2), (HTTPError(400), 1)):
        brain = Brain([("look", {"at": "bill"})], "All paid.")
        brain.fails[1] = [error] * 9
        agent = make(brain, Paid().tools())
        with start(tree_of(agent, on_failure=[AGAIN])) as tree, pytest.raises(TaskFailedError) as failed:
            tree.run("go", timeout=LONG_S)
        assert brain.asked[1] == attempts
        assert failed.value.report is not None
        assert failed.value.report.usage.tokens == brain.asked[0] * TOKENS


@every
def test_a_provider_says_when_to_come_back_and_what_was_answered_is_not_paid_twice(
    make: Any,
) -> None:
    brain = Brain([("look", {"at": "bill"})], "All paid.")
    brain.fails[1] = [HTTPError(429, **{"retry-after": "0"})]
    with start(tree_of(make(brain, Paid().tools()), on_failure=[])) as tree:
        report = tree.run("go", timeout=LONG_S)
    assert report.results["w"] == "All paid."
    again = make is graph  # it has nothing that keeps what was answered
    assert report.usage.tokens == (3 if again else 2) * TOKENS


@every
@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_model_that_hangs_is_cancelled_and_what_was_used_counts(make: Any, how: str) -> None:
    hangs, left = threading.Event(), []

    async def forever() -> None:
        hangs.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.append("left")

    brain = Brain([("look", {"at": "bill"})], "never")
    brain.fails[1] = [forever]
    limits: dict[str, Any] = {"timeout_s": 0.3} if how == "timeout" else {}
    with start(tree_of(make(brain, Paid().tools()), on_failure=[], **limits)) as tree:
        handle = tree.submit("go")
        if how == "cancel":
            assert hangs.wait(LONG_S)
            handle.cancel()
        with pytest.raises((TaskCancelledError, TaskFailedError)):
            handle.result(LONG_S)
        assert handle.report is not None
        assert handle.report.usage.tokens == TOKENS
    assert left == ["left"]


# -- questions ---------------------------------------------------------------------------------------------------

ANSWERS = {
    "Approve": (Approve(), ["bob"], "paid bob"),
    "Edit": (Edit({"to": "ann"}), ["ann"], "paid ann"),
    "Respond": (Respond("ask me later"), [], "ask me later"),
    "Reject": (Reject("too much"), [], "too much"),
}


@every
@pytest.mark.parametrize(("answer", "done", "told"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_decides_about_the_call_that_was_asked(make: Any, answer: Any, done: list[str], told: str) -> None:
    brain, paid = Brain([("pay", {"to": "bob"})], "The end."), Paid()
    if make is openai and isinstance(answer, Edit):
        done, told = [], "ann"  # the SDK takes no other arguments: the model sees the value
    with start(tree_of(make(brain, paid.tools()))) as tree:
        handle = tree.submit("go")
        asked = answered(handle, {'pay({"to": "bob"})': answer})
        report = handle.result(LONG_S)
    assert len(asked) == 1
    assert report.results["w"] == "The end."
    assert paid.done == done
    assert told in brain.told[1]
    assert len(brain.told) == 2
    assert report.usage.tokens == 2 * TOKENS


@every
@pytest.mark.parametrize("first", ["bob", "eve"])
def test_of_two_calls_each_has_its_own_question_and_its_own_answer(make: Any, first: str) -> None:
    second = {"bob": "eve", "eve": "bob"}[first]
    brain, paid = Brain([("pay", {"to": first}), ("pay", {"to": second})], "The end."), Paid()
    with start(tree_of(make(brain, paid.tools()))) as tree:
        handle = tree.submit("go")
        asked = answered(handle, {"bob": Approve(), "eve": Reject("never")})
        handle.result(LONG_S)
    assert [re.findall("bob|eve", each) for each in asked] == [[first], [second]]
    assert paid.done == ["bob"]
    assert "never" in brain.told[1]


@every
def test_an_answer_to_another_question_lets_no_call_pass(make: Any) -> None:
    """The time of the approval is up, its ladder asks what is to be done, and a person says: try it again."""
    brain, paid = Brain([("pay", {"to": "bob"})], "The end."), Paid()
    ladder = [Escalate(timeout_s=0.2), Escalate(max_questions=9)]
    asked: list[str] = []
    with start(tree_of(make(brain, paid.tools()), on_failure=ladder)) as tree:
        handle = tree.submit("go")
        for question in handle.questions():
            asked.append("ladder" if "What now?" in question.question else "pay")
            if asked == ["pay"]:
                continue
            handle.respond(question.id, Approve() if asked[-1] == "ladder" else Reject("no"))
        handle.result(LONG_S)
    assert asked == ["pay", "ladder", "pay"]
    assert paid.done == []


@every
def test_what_was_approved_is_not_asked_again_where_the_run_fails_after_it(make: Any) -> None:
    brain, paid = Brain([("pay", {"to": "bob"})], "The end."), Paid()
    brain.fails[1] = [ConnectionError("reset")]
    with start(tree_of(make(brain, paid.tools()))) as tree:
        handle = tree.submit("go")
        asked = answered(handle, {"bob": Approve()})
        assert handle.result(LONG_S).results["w"] == "The end."
    assert len(asked) == 1
    assert paid.done == (["bob", "bob"] if make is graph else ["bob"])  # without a checkpointer nothing keeps it


@every
def test_a_question_outlives_the_process_and_holds_no_secret(make: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    brain, paid = Brain([("pay", {"to": "bob"})], "The end."), Paid()
    agent = make(brain, paid.tools())  # with its checkpointer, if it has one: that outlives as a database would
    with start(tree_of(agent), store=url) as tree:
        next(tree.submit(Task("go", id="t")).questions())
    with start(tree_of(agent), store=url) as tree:
        handle = tree.task("t")
        assert len(answered(handle, {"bob": Approve()})) == 1
        report = handle.result(LONG_S)
    assert report.results["w"] == "The end."
    assert report.usage.tokens == 2 * TOKENS
    assert paid.done == ["bob"]
    assert SECRET not in _texts(tmp_path)


def _texts(folder: Path) -> str:
    """All that stands in the files of a folder, also what is coded as base64 in them."""
    found = "".join(each.read_bytes().decode("latin-1") for each in folder.iterdir())
    coded = re.findall("(?:[A-Za-z0-9+/]{4}){10,}", found)
    return found + "".join(base64.b64decode(each).decode("latin-1") for each in coded)


def _nested(kind: str, brain: Brain, outer: Brain, paid: Paid) -> Any:
    if kind == "openai":
        inner = openai_agent(brain, paid.tools(), name="inner")
        clerk = openai_agent(outer, {})
        clerk.tools = [inner.as_tool("ask_inner", "Asks the other one.")]
        return OpenAIAgent(clerk, context=lambda _: {"token": SECRET})
    inner = created(brain, paid.tools())

    async def ask_inner(input: str) -> str:  # noqa: A002 - as the tools of the SDK have it
        """Ask the other one."""
        found = await inner.ainvoke({"messages": [("user", input)]})
        return str(found["messages"][-1].content)

    return graph(outer, {"ask_inner": ask_inner}, ())


@pytest.mark.parametrize("kind", ["openai", "graph"])
@pytest.mark.parametrize("answer", [Approve(), Reject("never")], ids=["Approve", "Reject"])
def test_a_question_of_an_agent_that_is_a_tool_is_asked_too(kind: str, answer: Any, tmp_path: Path) -> None:
    brain, paid = Brain([("pay", {"to": "bob"})], "inner end"), Paid()
    outer = Brain([("ask_inner", {"input": "pay"})], "outer end")
    with start(tree_of(_nested(kind, brain, outer, paid)), store=f"sqlite:///{tmp_path}/tasks.db") as tree:
        handle = tree.submit("go")
        asked = answered(handle, {'pay({"to": "bob"})': answer})
        assert handle.result(LONG_S).results["w"] == "outer end"
    assert len(asked) == 1
    assert paid.done == (["bob"] if isinstance(answer, Approve) else [])
    assert SECRET not in _texts(tmp_path)


@every
def test_a_function_that_calls_its_agent_itself_may_return_what_that_returns(make: Any) -> None:
    brain = Brain("All paid.")
    agent = make(brain, {}, ())

    async def work(task: Any, context: Any) -> Any:
        if make is pydantic_ai:
            return await agent.agent.run(str(task))
        if make is openai:
            from agents import RunConfig, Runner  # noqa: PLC0415

            return await Runner.run(agent.agent, str(task), run_config=RunConfig(tracing_disabled=True))
        found = await agent.runnable.ainvoke({"messages": [("user", str(task))]}, {"configurable": {"thread_id": "t"}})
        return found["messages"][-1]

    with start(tree_of(work)) as tree:
        report = tree.run("go", timeout=LONG_S)
    assert report.results["w"] == "All paid."
    assert report.usage.tokens == TOKENS
