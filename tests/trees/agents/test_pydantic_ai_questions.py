"""Tools of an agent that need a person: the question, the answer, and the run that goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent, ApprovalRequired, CallDeferred, DeferredToolRequests, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from actors import Escalated
from trees import (
    Approve,
    Edit,
    Escalate,
    EscalationRaised,
    Reject,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskStatus,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)


class Bank:
    """An agent with a tool, and what was called."""

    def __init__(self, calls: list[tuple[str, dict[str, Any]]] | None = None, **options: Any) -> None:
        self.requests = 0
        self.done: list[Any] = []
        self.returned: list[Any] = []
        self.prompts: list[str] = []
        self.calls = [("transfer", {"amount": 100})] if calls is None else calls
        self.agent: Agent[Any, Any] = Agent(FunctionModel(self._answer), **options)

    def _answer(self, messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        self.requests += 1
        usage = RequestUsage(input_tokens=10)
        parts = [part for message in messages for part in message.parts]
        self.prompts = [str(part.content) for part in parts if isinstance(part, UserPromptPart)]
        self.returned = [part.content for part in parts if isinstance(part, (ToolReturnPart, RetryPromptPart))]
        if self.returned:
            return ModelResponse(parts=[TextPart(f"told {self.returned}")], usage=usage)
        return ModelResponse(parts=[ToolCallPart(name, args) for name, args in self.calls], usage=usage)


def marked(bank: Bank) -> None:
    @bank.agent.tool_plain(requires_approval=True)
    def transfer(amount: int) -> str:
        bank.done.append(amount)
        return f"moved {amount}"


def asking(bank: Bank) -> None:
    @bank.agent.tool
    def transfer(ctx: RunContext[None], amount: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        bank.done.append(amount)
        return f"moved {amount}"


def escalating(bank: Bank) -> None:
    @bank.agent.tool
    def transfer(ctx: RunContext[None], amount: int) -> str:
        if not ctx.tool_call_approved:
            raise Escalated("Move the money?")
        bank.done.append(amount)
        return f"moved {amount}"


def tree(execute: Any, *rungs: Any) -> SupervisorSpec:
    tasks = Tasks(planner=StaticPlan([Subtask("w")]), on_failure=list(rungs) or [Escalate()])
    return SupervisorSpec(id="r", tasks=tasks, children=[WorkerSpec(id="w", execute=execute)])


def run(execute: Any, *answers: Any, rungs: tuple[Any, ...] = ()) -> tuple[Any, list[str]]:
    """Run a task, and answer its questions in order."""
    left, asked = list(answers), []
    with start(tree(execute, *rungs)) as running:
        handle = running.submit(Task("Pay the bill"))
        for event in handle.events():
            if isinstance(event, EscalationRaised):
                asked.append(event.question)
                handle.respond(event.escalation, left.pop(0))
        try:
            return handle.result(60), asked
        except TaskFailedError as error:
            return error.report, asked


@pytest.mark.slow
@pytest.mark.parametrize("declare", [marked, asking, escalating])
@pytest.mark.parametrize("output", [None, [str, DeferredToolRequests]])
@pytest.mark.parametrize(
    ("answer", "done", "told"),
    [
        (Approve(), [100], "moved 100"),
        (Edit(value={"amount": 7}), [7], "moved 7"),
        (Respond(text="Ask Anna first"), [], "Ask Anna first"),
        (Reject(reason="Too much"), [], "Too much"),
        (Reject(), [], "The tool call was denied by a person."),
        (Edit(value="no"), [], "The tool was not called. A person has answered: no"),
    ],
)
def test_an_answer_resumes_the_run_with_its_messages(
    declare: Callable[[Bank], None], output: Any, answer: Any, done: list[int], told: str
) -> None:
    bank = Bank() if output is None else Bank(output_type=output)
    declare(bank)

    report, asked = run(bank.agent, answer)

    assert report.results == {"w": f"told {[told]}"}
    assert bank.done == done
    assert bank.requests == 2
    assert bank.prompts == ["Pay the bill"]
    assert report.usage.tokens == 20
    (question,) = asked
    assert 'transfer({"amount": 100})' in question
    assert ("Move the money?" in question) is (declare is escalating)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Edit(value={"rate": 2}), {"rate": 2}),
        (Respond(text="two"), "two"),
        (Approve(), "approved"),
        (Reject(reason="Nobody knows"), "Nobody knows"),
    ],
)
def test_a_call_that_is_done_elsewhere_is_given_what_the_person_says(answer: Any, told: Any) -> None:
    bank = Bank()

    @bank.agent.tool_plain
    def transfer(amount: int) -> str:
        raise CallDeferred({"amount": amount})

    run(bank.agent, answer)

    assert bank.returned == [told]


def test_a_tool_that_asks_again_although_it_was_approved_fails_and_asks_no_third_time() -> None:
    bank = Bank()

    @bank.agent.tool_plain
    def transfer(amount: int) -> str:
        bank.done.append(amount)
        raise Escalated("Again?")

    report, asked = run(bank.agent, Approve(), Reject())

    assert report.graph[0].status is SubtaskStatus.FAILED
    assert len(asked) == 2
    assert bank.done == [100, 100]


def test_an_agent_whose_output_is_checked_by_a_function_asks_with_the_output_that_it_declares() -> None:
    bank = Bank(output_type=[str, DeferredToolRequests])
    marked(bank)

    @bank.agent.output_validator
    def loud(found: Any) -> Any:
        return found.upper() if isinstance(found, str) else found

    report, _ = run(bank.agent, Approve())

    assert report.results == {"w": "TOLD ['MOVED 100']"}


def breaks_after_its_question(bank: Bank, times: int) -> list[ConnectionError]:
    """Have its model fail so often once a person has answered; what it has yet to fail with."""
    marked(bank)
    left = [ConnectionError("gone") for _ in range(times)]
    answer = bank._answer

    def flaky(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if bank.requests == 1 and left:
            raise left.pop()
        return answer(messages, info)

    bank.agent.model = FunctionModel(flaky)
    return left


@pytest.mark.parametrize(("given", "moved"), [(Approve(), 1), (Respond("Take the other account."), 2)])
def test_a_person_who_lets_a_resumed_run_be_tried_again_does_not_pay_twice_but_one_who_says_more_is_heard(
    given: Any, moved: int
) -> None:
    bank = Bank()
    breaks_after_its_question(bank, times=1)

    report, asked = run(bank.agent, Approve(), given, Approve())

    assert asked[1] == "w failed. What now?"
    assert len(bank.done) == moved
    assert len(asked) == 1 + moved
    assert ("other account" in bank.prompts[0]) is (moved == 2)
    assert report.results == {"w": "told ['moved 100']"}


@pytest.mark.parametrize("amounts", [(7, 7), (7, 9), (7, 7, 9)])
def test_each_approval_is_one_call_also_where_the_model_gives_all_its_calls_the_same_id(
    amounts: tuple[int, ...],
) -> None:
    done, broken = list[int](), [ConnectionError("gone") for _ in amounts]

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        made = [part for each in messages for part in each.parts if isinstance(part, ToolReturnPart)]
        if len(made) + len(broken) > len(amounts):  # once after each call: the run that goes on is tried again
            raise broken.pop()
        if len(made) == len(amounts):
            return ModelResponse(parts=[TextPart(str([part.content for part in made]))])
        return ModelResponse(parts=[ToolCallPart("pay", {"amount": amounts[len(made)]}, tool_call_id="call_0")])

    agent = Agent(FunctionModel(answer))

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int) -> int:
        done.append(amount)
        return amount

    report, asked = run(agent, *[Approve() for _ in amounts], rungs=(Retry(max_attempts=9, initial_s=0.0), Escalate()))

    assert len(asked) == len(amounts)
    assert tuple(done) == amounts
    assert not broken
    assert report.results == {"w": str([*amounts])}


def test_a_revision_makes_a_call_that_is_approved_anew_though_it_has_the_id_of_the_one_before() -> None:
    done = list[int]()

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        if any(isinstance(part, ToolReturnPart) for each in messages for part in each.parts):
            return ModelResponse(parts=[TextPart("paid")])
        return ModelResponse(parts=[ToolCallPart("pay", {"amount": 7}, tool_call_id="call_0")])

    agent = Agent(FunctionModel(answer))

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int) -> int:
        done.append(amount)
        return amount

    def review(task: Any, plan: Any, results: Any) -> Any:
        return len(done) > 1, "pay again"

    planner = StaticPlan([Subtask("w", instruction="Pay the bill")])
    children = [WorkerSpec(id="w", execute=agent, on_failure=[Escalate()])]
    with start(
        SupervisorSpec(id="office", tasks=Tasks(planner=planner, reviewer=review), children=children)
    ) as running:
        handle = running.submit(Task("Pay"))
        for event in handle.events():
            if isinstance(event, EscalationRaised):
                handle.respond(event.escalation, Approve())
        assert handle.result(60).results == {"w": "paid"}
    assert done == [7, 7]
