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
@pytest.mark.parametrize(
    ("declare", "output", "answer", "done", "told"),
    [
        (marked, None, Approve(), [100], "moved 100"),
        (asking, None, Edit(value={"amount": 7}), [7], "moved 7"),
        (escalating, None, Respond(text="Ask Anna first"), [], "Ask Anna first"),
        (marked, [str, DeferredToolRequests], Reject(reason="Too much"), [], "Too much"),
        (asking, [str, DeferredToolRequests], Reject(), [], "The tool call was denied by a person."),
        (marked, None, Edit(value="no"), [], "The tool was not called. A person has answered: no"),
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
