"""Agents that ask people: a graph's interrupts and an agent's calls of tools that need approval."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from actors.testing import settle
from tests.trees.agents.one_agent import QUICK, tree_of
from trees import Approve, Edit, Escalate, Reject, Report, Respond, Task, Tree, start
from trees.agents import LangChain

LADDER = [QUICK, Escalate(max_questions=20)]


class Person:
    """Answers the questions of one task, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []

    def goes_on(self, tree: Tree) -> None:
        while True:
            settle(tree)
            open_ = tree.escalations()
            if not open_ or not self.answers:
                return
            self.questions.append(open_[0].question)
            tree.respond(open_[0].id, self.answers.pop(0))


def report_of(agent: Any, person: Person) -> Report:
    with start(tree_of(agent, on_failure=LADDER)) as tree:
        handle = tree.submit(Task("go"))
        person.goes_on(tree)
        return handle.result(60)


# -- graphs -----------------------------------------------------------------------------------------------------

SAVERS = pytest.mark.parametrize("saver", [None, InMemorySaver], ids=["no checkpointer", "checkpointer"])


class Books:
    """Notes which nodes ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def graph(self, saver: Any, *asks: Any, **options: Any) -> Any:
        """A graph that does something that is paid, asks these questions, and tells the answers."""

        def pays(_state: Any) -> Any:
            self.ran.append("pays")
            usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
            return {"messages": [AIMessage("paid", usage_metadata=usage)]}  # type: ignore[arg-type]

        def asking(_state: Any) -> Any:
            self.ran.append("asks")
            return {"messages": [AIMessage(str([interrupt(each) for each in asks]))]}

        graph = StateGraph(MessagesState)
        graph.add_node("pays", pays)
        graph.add_node("asks", asking)
        graph.add_edge(START, "pays")
        graph.add_edge("pays", "asks")
        graph.add_edge("asks", END)
        return graph.compile(checkpointer=saver and saver(), **options)


@SAVERS
@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (Approve(), True),
        (Respond("blue"), "blue"),
        (Edit({"a": [1, "b"]}), {"a": [1, "b"]}),
        (Edit(None), None),
        (Reject("no"), False),
    ],
)
def test_an_interrupt_is_a_question_and_the_answer_is_what_it_gives(saver: Any, answer: Any, value: Any) -> None:
    books, person = Books(), Person(answer)
    report = report_of(books.graph(saver, "Which colour?"), person)

    assert report.results["w"] == str([value])
    assert person.questions == ["Which colour?"]
    assert books.ran == ["pays", "asks", "asks"]
    assert report.usage.tokens == 10


@SAVERS
def test_interrupts_one_after_the_other_are_asked_in_turn_in_the_same_words_too(saver: Any) -> None:
    books, person = Books(), Person(Approve(), Approve(), Respond("x"), Reject())
    report = report_of(books.graph(saver, "Really?", "Really?", {"n": 1}, ["a"]), person)

    assert report.results["w"] == "[True, True, 'x', False]"
    assert person.questions == ["Really?", "Really?", '{"n": 1}', '["a"]']
    assert books.ran.count("pays") == 1


class Lines(TypedDict):
    lines: Annotated[list[str], operator.add]


@SAVERS
def test_of_several_interrupts_at_once_each_is_a_question_of_its_own(saver: Any) -> None:
    ran = []

    def node(name: str) -> Callable[[Any], Any]:
        def run(_state: Any) -> Any:
            answer = interrupt(f"{name}?")
            ran.append(name)
            return {"lines": [f"{name}={answer}"]}

        return run

    graph = StateGraph(Lines)
    for name in "abc":
        graph.add_node(name, node(name))
        graph.add_edge(START, name)
    agent = LangChain(graph.compile(checkpointer=saver and saver()), input=lambda *_: {"lines": []})
    person = Person(Respond("1"), Edit(2), Reject())
    report = report_of(agent, person)

    assert report.results["w"] == {"lines": ["a=1", "b=2", "c=False"]}
    assert [question[:2] for question in person.questions] == ["a?", "b?", "c?"]
    assert "1 of 3" in person.questions[0]
    assert sorted(ran) == ["a", "b", "c"]


@SAVERS
def test_nodes_that_ask_in_the_same_words_at_once_get_each_its_own_answer(saver: Any) -> None:
    def node(name: str) -> Callable[[Any], Any]:
        return lambda _state: {"lines": [f"{name}={interrupt('Are you sure?')}"]}

    graph = StateGraph(Lines)
    for name in ("pay", "delete"):
        graph.add_node(name, node(name))
        graph.add_edge(START, name)
    agent = LangChain(graph.compile(checkpointer=saver and saver()), input=lambda *_: {"lines": []})
    person = Person(Approve(), Reject())
    report = report_of(agent, person)

    assert sorted(report.results["w"]["lines"]) == ["delete=False", "pay=True"]
    assert person.questions == ["Are you sure? (1 of 2 questions)", "Are you sure?"]


class SyncSaver(InMemorySaver):
    """One that can be called from sync code only, as that of SQLite."""

    async def aget_tuple(self, config: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("saver", [None, InMemorySaver, SyncSaver])
@pytest.mark.parametrize("is_inner", [False, True], ids=["", "in a subgraph"])
def test_a_node_that_fails_after_an_answer_is_not_given_it_for_its_next_question(saver: Any, *, is_inner: bool) -> None:
    fails = ["between"]

    def node(_state: Any) -> Any:
        first = interrupt("Pay 7?")
        if fails:
            raise ConnectionError(fails.pop())
        return {"lines": [f"7={first}", f"9={interrupt('Pay 9?')}"]}

    graph = StateGraph(Lines)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    if is_inner:
        inner, graph = graph.compile(), StateGraph(Lines)
        graph.add_node("inner", inner)
        graph.add_edge(START, "inner")
    agent = LangChain(graph.compile(checkpointer=saver and saver()), input=lambda *_: {"lines": []})
    person = Person(Approve(), Reject())
    report = report_of(agent, person)

    assert person.questions == ["Pay 7?", "Pay 9?"]
    assert report.results["w"] == {"lines": ["7=True", "9=False"]}


@SAVERS
def test_an_interrupt_in_a_subgraph_is_asked_too(saver: Any) -> None:
    books = Books()
    outer = StateGraph(MessagesState)
    outer.add_node("inner", books.graph(None, "Go?"))
    outer.add_edge(START, "inner")
    person = Person(Approve())
    report = report_of(outer.compile(checkpointer=saver and saver()), person)

    assert report.results["w"] == "[True]"
    assert books.ran.count("pays") == 1


@SAVERS
@pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("answer", [Approve(), Reject()])
def test_a_graph_that_stops_at_a_node_asks_whether_it_may_go_on(saver: Any, where: str, answer: Any) -> None:
    books, person = Books(), Person(answer, Reject())
    node = "asks" if where == "interrupt_before" else "pays"
    with start(tree_of(books.graph(saver, **{where: [node]}), on_failure=LADDER)) as tree:
        handle = tree.submit(Task("go"))
        person.goes_on(tree)
        if isinstance(answer, Approve):
            assert handle.result(60).results["w"] == "[]"
            assert books.ran == ["pays", "asks"]
        else:
            settle(tree)
            assert books.ran == ["pays"]
            assert handle.report is not None
            assert handle.report.status == "failed"
    assert "asks" in person.questions[0]


def test_a_decision_that_the_middleware_does_not_allow_is_asked_again_with_the_reason() -> None:
    done: list[str] = []

    @tool
    def pay(to: str) -> str:
        """Pay."""
        done.append(to)
        return f"paid {to}"

    class Model(GenericFakeChatModel):
        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

    calls = [{"name": "pay", "args": {"to": "bob"}, "id": "1"}]
    model = Model(messages=iter([AIMessage("", tool_calls=calls), AIMessage("end")]))
    asks = HumanInTheLoopMiddleware(interrupt_on={"pay": {"allowed_decisions": ["approve", "reject"]}})
    person = Person(Edit({"to": "eve"}), Approve())
    report = report_of(create_agent(model, [pay], middleware=[asks]), person)

    assert report.results["w"] == "end"
    assert [question.partition(" (")[0] for question in person.questions] == ['May it call pay({"to": "bob"})?'] * 2
    assert "edit is not allowed for pay" in person.questions[1]
    assert done == ["bob"]


def test_checkpointer_false_says_what_to_do() -> None:
    graph = Books().graph(None, "Go?")
    graph.checkpointer = False
    with start(tree_of(graph)) as tree:
        handle = tree.submit(Task("go"))
        settle(tree)
    assert handle.report is not None
    assert "Leave checkpointer= out" in handle.report.failed["w"]


def test_a_state_that_cannot_be_kept_says_what_to_do() -> None:
    class Odd(TypedDict):
        thing: Any

    def node(_state: Any) -> Any:
        return {"thing": interrupt("Go?")}

    graph = StateGraph(Odd)
    graph.add_node("n", node)
    graph.add_edge(START, "n")
    with start(tree_of(LangChain(graph.compile(), input=lambda *_: {"thing": (each for each in "ab")}))) as tree:
        handle = tree.submit(Task("go"))
        settle(tree)
    assert handle.report is not None
    assert "compile it with a checkpointer" in handle.report.failed["w"]


# -- OpenAI -----------------------------------------------------------------------------------------------------
