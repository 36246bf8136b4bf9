"""LangChain: chat models, chains and graphs as they are, and with the options of the wrapper."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph

from actors import ConfigError
from tests.trees.agents.one_agent import report_of, result_of, tree_of
from trees import (
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    WorkerSpec,
    start,
)
from trees.agents import LangChain


def said(text: Any, tokens: int = 10) -> AIMessage:
    usage = {"input_tokens": tokens - 1, "output_tokens": 1, "total_tokens": tokens}
    return AIMessage(text, usage_metadata=usage)


def fake(*answers: AIMessage | str) -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter(answers))


class Scripted(BaseChatModel):
    """A chat model that does what a function says, and notes what it was told and on which thread."""

    script: Callable[[str], AIMessage]
    told: list[str] = []  # noqa: RUF012 - pydantic copies it
    threads: list[str] = []  # noqa: RUF012 - the same

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.told.append(str(messages[-1].content))
        self.threads.append(threading.current_thread().name)
        return ChatResult(generations=[ChatGeneration(message=self.script(self.told[-1]))])

    @property
    def _llm_type(self) -> str:
        return "scripted"


def echo(text: str) -> AIMessage:
    return said(f"echo {text}")


def graph_of(*nodes: Any, state: Any = MessagesState, **options: Any) -> Any:
    """A graph of these nodes, one after the other."""
    graph = StateGraph(state)
    names = [f"n{number}" for number, _ in enumerate(nodes)]
    for name, node in zip(names, nodes, strict=True):
        graph.add_node(name, node)
    for before, after in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(before, after)
    return graph.compile(**options)


def answering(model: Any) -> Callable[[Any], Any]:
    def node(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    return node


# -- what it takes, and what it gives ---------------------------------------------------------------------------


class Doubled(Runnable[str, str]):
    """A runnable of a user's own, sync only."""

    def invoke(self, input: str, config: Any = None, **_: Any) -> str:  # noqa: A002 - its signature
        return f"{input} {input}"


@pytest.mark.parametrize(
    ("runnable", "expected"),
    [
        (lambda: fake("hello"), "hello"),
        (lambda: Scripted(script=echo), "echo Say hello"),
        (lambda: Scripted(script=echo) | StrOutputParser(), "echo Say hello"),
        (lambda: ChatPromptTemplate.from_template("Now: {it}") | Scripted(script=echo), "echo Now: Say hello"),
        (lambda: Scripted(script=echo).with_config(tags=["a"]), "echo Say hello"),
        (Doubled, "Say hello Say hello"),
        (lambda: RunnableLambda(lambda text: {"n": len(text)}), {"n": 9}),
        (lambda: graph_of(answering(Scripted(script=echo))), "echo Say hello"),
        (lambda: fake(AIMessage([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])), "ab"),
        (lambda: fake(""), ""),
    ],
    ids=["fake", "model", "chain", "prompt", "bound", "own", "function", "graph", "blocks", "nothing"],
)
@pytest.mark.parametrize("wrap", [lambda runnable: runnable, LangChain], ids=["bare", "wrapped"])
def test_a_runnable_works_as_it_is_and_wrapped(runnable: Any, expected: Any, wrap: Any) -> None:
    # Alone the goal would stand in the prompt, too.
    with start(tree_of(wrap(runnable()))) as tree:
        assert tree.run(Task("Say hello")).results == {"w": expected}


def test_prompt_input_output_and_config_are_the_users() -> None:
    class State(TypedDict):
        question: str
        answer: str
        limit: int

    def node(state: State, config: RunnableConfig) -> dict[str, Any]:
        return {"answer": f"{state['question']} {config['tags']}", "limit": config["recursion_limit"]}

    graph = graph_of(node, state=State)
    agent = LangChain(
        graph,
        input=lambda task, context: {"question": f"{task} {context.attempt}"},
        output=lambda result: [result["answer"], result["limit"]],
        config={"tags": ["mine"], "recursion_limit": 7},
    )
    assert result_of(agent) == ["Say hello 1 ['mine']", 7]

    told = Scripted(script=echo)
    assert result_of(LangChain(told, prompt=lambda task, _context: f"<{task}>")) == "echo <Say hello>"


def test_its_thread_is_the_idempotency_key_and_callbacks_of_the_user_are_called() -> None:
    ended = []

    class Mine(BaseCallbackHandler):
        def on_llm_end(self, response: Any, **_: Any) -> None:
            ended.append(response)

    keys = []

    def node(state: Any, config: RunnableConfig) -> Any:
        keys.append(config["configurable"]["thread_id"])
        return answering(fake(said("x")))(state)

    def asked(task: Any, context: Any) -> Any:
        keys.append(context.idempotency_key)
        return {"messages": [HumanMessage(str(task))]}

    report = report_of(LangChain(graph_of(node), input=asked, config={"callbacks": [Mine()]}))

    assert keys[0] == keys[1]
    assert len(ended) == 1
    assert report.usage.tokens == 10


# -- what a declaration says ------------------------------------------------------------------------------------


class Form(TypedDict):
    question: str
    answer: str


@pytest.mark.parametrize(
    ("runnable", "words"),
    [
        (lambda: graph_of(lambda _: {"answer": "x"}, state=Form), ("question", "messages", "LangChain(graph, input=")),
        (lambda: ChatPromptTemplate.from_template("{a} {b}") | fake("x"), ("2 variables", "LangChain(chain, input=")),
        (lambda: LangChain(StateGraph(MessagesState)), ("StateGraph", "compile()")),
        (lambda: StateGraph(MessagesState), ("StateGraph", "compile()")),
        (lambda: LangChain(object()), ("object", "chat model")),
    ],
    ids=["state", "variables", "builder", "bare builder", "object"],
)
def test_what_cannot_be_told_is_a_problem_of_the_check_that_says_what_to_write(runnable: Any, words: Any) -> None:
    with pytest.raises(ConfigError) as caught, start(tree_of(runnable())):
        pass

    (problem,) = caught.value.problems
    assert problem.path == "office/w.execute"
    assert all(word in f"{problem.what} {problem.hint}" for word in words)


# -- usage ------------------------------------------------------------------------------------------------------


# -- where it runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda model: model, lambda model: model | StrOutputParser(), LangChain])
def test_what_is_only_sync_runs_on_the_pool_and_the_loop_goes_on(make: Any) -> None:
    freed, began, done = threading.Event(), threading.Event(), threading.Event()

    def waits(_text: str) -> AIMessage:
        began.set()
        assert freed.wait(60)
        return said("done")

    async def quick(_task: Any, _context: Any) -> str:
        assert await asyncio.to_thread(began.wait, 20)
        done.set()
        return "quick"

    model = Scripted(script=waits)
    plan = StaticPlan([Subtask("slow", worker="slow"), Subtask("quick", worker="quick")])
    children = [WorkerSpec(id="slow", execute=make(model)), WorkerSpec(id="quick", execute=quick)]
    with start(SupervisorSpec(id="office", tasks=Tasks(planner=plan), children=children)) as tree:
        handle = tree.submit(Task("go"))
        assert began.wait(60)
        assert done.wait(60)
        freed.set()
        assert handle.result(60).results == {"slow": "done", "quick": "quick"}
    (thread,) = model.threads
    assert "loop" not in thread


# -- hard moments -----------------------------------------------------------------------------------------------


def test_a_graph_that_loops_ends_at_its_limit_and_is_not_tried_again() -> None:
    steps = []

    def again(_state: Any) -> Any:
        steps.append(1)
        return {"messages": [said("again", 1)]}

    graph = StateGraph(MessagesState)
    graph.add_node("n", again)
    graph.add_edge(START, "n")
    graph.add_conditional_edges("n", lambda _: "n")
    report = report_of(LangChain(graph.compile(), config={"recursion_limit": 8}))

    assert "Recursion limit of 8" in report.failed["w"]
    assert len(steps) == 8
    assert report.usage.tokens == 8


# -- streams ----------------------------------------------------------------------------------------------------
