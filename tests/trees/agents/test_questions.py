"""Agents that ask people: a graph's interrupts and an agent's calls of tools that need approval."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import mcp.types
import pytest
from agents import Agent, function_tool
from agents.mcp import MCPServer
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from actors.testing import settle
from tests.trees.agents.one_agent import QUICK, tree_of
from tests.trees.agents.openai_fakes import Scripted, calls, says
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


@SAVERS
def test_an_answer_reaches_the_tool_that_was_asked_about_whichever_asks_first_when_they_run_again(saver: Any) -> None:
    """LangGraph gives it to the one that comes first: the approval of a payment deleted everything."""
    runs, done = {"pay": 0, "delete": 0}, []

    async def looks_up(name: str, slow: list[bool]) -> Any:
        runs[name] += 1
        await asyncio.sleep(0.1 if slow[min(runs[name], 2) - 1] else 0.0)
        answer = interrupt(f"{name}?")
        done.append((name, answer))
        return str(answer)

    async def pay() -> str:
        """Pay."""
        return await looks_up("pay", [False, True])

    async def delete() -> str:
        """Delete."""
        return await looks_up("delete", [True, False])

    def model(state: Any) -> Any:
        if any(message.type == "tool" for message in state["messages"]):
            return {"messages": [AIMessage("end")]}
        named = [{"name": name, "args": {}, "id": name} for name in runs]
        return {"messages": [AIMessage("", tool_calls=named)]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([pay, delete]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    asked = []
    with start(tree_of(graph.compile(checkpointer=saver and saver()), on_failure=LADDER)) as tree:
        handle = tree.submit("go")
        for question in handle.questions():
            asked.append(question.question)
            handle.respond(question.id, Approve() if "pay" in question.question else Reject("never"))
        assert handle.result(60).results["w"] == "end"
    assert asked == ["pay?", "delete?"]
    assert set(done) == {("pay", True), ("delete", False)}


@SAVERS
def test_a_question_that_is_another_one_when_its_node_runs_again_is_asked_again(saver: Any) -> None:
    drafts = ["draft 1", "draft 2", "draft 2"]

    def node(_state: Any) -> Any:
        return {"messages": [AIMessage(str(interrupt(f"Send {(draft := drafts.pop(0))}?")) + draft)]}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
    person = Person(Reject(), Approve())
    report = report_of(graph.compile(checkpointer=saver and saver()), person)

    assert person.questions == ["Send draft 1?", "Send draft 2?"]
    assert report.results["w"] == "Truedraft 2"


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


@pytest.mark.parametrize("needs", [True, "a function"])
def test_a_call_that_was_approved_is_made_once_though_the_run_fails_after_it(needs: Any) -> None:
    done: list[int] = []

    async def always(*_: Any) -> bool:
        return True

    @function_tool(needs_approval=True if needs is True else always)
    def pay(amount: int) -> str:
        """Pay."""
        done.append(amount)
        return f"paid {amount}"

    def asks(amount: int, id_: str) -> Any:
        return calls(("pay", {"amount": amount}), id_=id_)

    model = Scripted(asks(7, "c"), ConnectionError("cut"), asks(9, "d"), ConnectionError("cut"), says("end"))
    person = Person(Approve(), Approve())
    report = report_of(Agent("clerk", model=model, tools=[pay]), person)

    assert report.results["w"] == "end"
    assert done == [7, 9]
    assert len(person.questions) == 2
    assert [each["output"] for each in model.told[-1] if "output" in each] == ["paid 7", "paid 9"]


@pytest.mark.parametrize(("given", "paid"), [(Approve(), 1), (Respond("Take the other account."), 2)])
def test_a_person_who_lets_a_run_of_the_sdk_be_tried_again_does_not_pay_twice_but_one_who_says_more_is_heard(
    given: Any, paid: int
) -> None:
    done: list[int] = []

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        done.append(amount)
        return f"paid {amount}"

    asks = calls(("pay", {"amount": 7}), id_="c")
    cuts = [ConnectionError("cut") for _ in range(QUICK.max_attempts)]
    model = Scripted(asks, *cuts, *([asks] if paid > 1 else []), says("end"))
    person = Person(Approve(), given, Approve())
    report = report_of(Agent("clerk", model=model, tools=[pay]), person)

    assert report.results["w"] == "end"
    assert person.questions[1] == "w failed. What now?"
    assert len(person.questions) == 1 + paid
    assert done == [7] * paid
    assert "paid 7" in str(model.told[-1])
    assert ("other account" in str(model.told[-1])) is (paid > 1)


class PayServer(MCPServer):
    """An MCP server with one tool, whose calls need approval."""

    name = "bank"

    def __init__(self, *, pays: bool = True) -> None:
        super().__init__(require_approval="always" if pays else "never")
        self.paid: list[int] = []

    async def connect(self) -> None:
        """Connect: there is nothing to connect to."""

    async def cleanup(self) -> None:
        """Let go of nothing."""

    async def list_tools(self, *_: Any) -> list[Any]:
        schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
        return [mcp.types.Tool(name="pay", description="Pay.", inputSchema=schema)]

    async def call_tool(self, tool_name: str, arguments: Any, *_: Any, **__: Any) -> Any:
        self.paid.append(arguments["amount"])
        said = mcp.types.TextContent(type="text", text=f"{tool_name} {arguments['amount']}")
        return mcp.types.CallToolResult(content=[said])

    async def list_prompts(self) -> Any:
        raise NotImplementedError

    async def get_prompt(self, *_: Any) -> Any:
        raise NotImplementedError


def test_a_call_of_an_mcp_tool_that_was_approved_is_made_once_though_the_run_fails_after_it() -> None:
    def asks(amount: int, id_: str) -> Any:
        return calls(("pay", {"amount": amount}), id_=id_)

    server, person = PayServer(), Person(Approve(), Approve())
    model = Scripted(asks(7, "c"), ConnectionError("cut"), asks(9, "d"), ConnectionError("cut"), says("end"))
    report = report_of(Agent("clerk", model=model, mcp_servers=[server]), person)

    assert report.results["w"] == "end"
    assert server.paid == [7, 9]
    assert len(person.questions) == 2
    assert ["pay 7" in str(model.told[-1]), "pay 9" in str(model.told[-1])] == [True, True]


def test_an_mcp_tool_that_needs_no_approval_is_called_as_ever() -> None:
    server = PayServer(pays=False)
    model = Scripted(calls(("pay", {"amount": 7}), id_="c"), says("end"))
    agent = Agent("clerk", model=model, mcp_servers=[server])

    assert report_of(agent, Person()).results["w"] == "end"
    assert (server.paid, type(agent)) == ([7], Agent)


def test_two_calls_of_one_id_are_paid_once_each_and_only_if_approved() -> None:
    """The SDK refuses the second one; the attempt after that does not make the first one again."""
    done: list[int] = []

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        done.append(amount)
        return f"paid {amount}"

    model = Scripted(calls(("pay", {"amount": 7})), calls(("pay", {"amount": 9})), says("end"))
    report = report_of(Agent("clerk", model=model, tools=[pay]), Person(Approve()))

    assert report.results["w"] == "end"
    assert done == [7]
