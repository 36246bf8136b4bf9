"""``PydanticAI``: an agent of pydantic-ai as a worker.

Each attempt is one run of the agent, told through ``render_prompt``. Its usage is counted by a ``RunUsage`` of ours, to
which the run adds as it goes: so it counts however the run ends. Errors of models become what the ladder understands
(``outcome_of``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from actors.model.errors import Failed, Later
from actors.tasks.execution.off_loop import called
from actors.tasks.model import PutOff
from actors.validation.validation_messages import type_phrase, value_phrase
from trees.agents import packages
from trees.agents.model_errors import given_up, is_refused, raise_outcome, retry_after_s
from trees.agents.prompt import Prompt, render_prompt
from trees.agents.recognise import kind_flaw
from trees.agents.stream_habits import StreamHabits
from trees.agents.wrapper import AgentWrapper, Flaw, RoleOptions, awaited, call_flaw, class_flaw, switch_flaw

if TYPE_CHECKING:
    from trees.agents.pydantic_ai_hooks import PlainAgent


class PydanticAI(AgentWrapper):
    """An agent of pydantic-ai, with options; without them ``execute=agent`` is enough.

    Args:
        agent: the agent.
        deps: its dependencies, or ``(context) -> deps``, sync or async, which is called for each attempt.
        usage_limits: limits of one attempt.
        message_history: messages that each attempt begins with.
        model: model, or its name, in place of the agent's own.
        durable: True: requests and calls of tools that are done are not paid again after a crash of the process.
        stream: True: text and calls of tools become events while it runs.
        prompt: ``(task, context) -> str`` in place of ``render_prompt``.
    """

    requires: ClassVar = packages.PYDANTIC_AI

    def __init__(
        self,
        agent: Any,
        *,
        deps: Any = None,
        usage_limits: Any = None,
        message_history: Any = None,
        model: Any = None,
        durable: bool = True,
        stream: bool = True,
        prompt: Prompt | None = None,
    ) -> None:
        self.agent = agent
        self._deps = deps
        self._options = {"usage_limits": usage_limits, "message_history": message_history, "model": model}
        self._durable = durable
        self._stream = stream
        self._prompt = prompt or render_prompt
        self._plain: PlainAgent | None = None
        """Made at the first attempt."""
        self._habits = StreamHabits()

    @property
    def as_role(self) -> tuple[Any, RoleOptions]:
        """Return what a role asks: the agent, with further arguments of its run. Its prompt is the role's own.

        A role has no context: ``deps`` given as a function are called with None.
        """
        return self.agent, self._role_options

    async def _role_options(self) -> dict[str, Any]:
        given = {name: value for name, value in self._options.items() if value is not None}
        return {**given, "deps": await self._deps_of(None)}

    async def _deps_of(self, context: Any) -> Any:
        return await awaited(self._deps(context)) if callable(self._deps) else self._deps

    @property
    def name(self) -> str:
        """Name of the agent."""
        found = getattr(self.agent, "name", None)
        return found if isinstance(found, str) else ""

    @property
    def description(self) -> str:
        """Description of the agent, else its name."""
        said = getattr(self.agent, "description", None)
        return said if isinstance(said, str) and said else self.name

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON schema of its output; None where that is any text, or cannot be told."""
        own = getattr(self.agent, "output_type", str)
        outputs = [each for each in (own if isinstance(own, (list, tuple)) else [own]) if not _is_question(each)]
        if outputs == [str]:
            return None
        try:
            return self.agent.output_json_schema(outputs)
        except Exception:  # noqa: BLE001 - a type of the user's may have no schema, and says so in its own words
            return None

    def flaw(self) -> tuple[str, str] | None:
        """Say why it cannot be used as it is declared."""
        found = packages.package_flaw(*self.requires)
        if found is None and not (hasattr(self.agent, "output_type") and callable(getattr(self.agent, "run", None))):
            return f"{type_phrase(self.agent)} is no agent of pydantic-ai", "Write PydanticAI(Agent(...))."
        return (
            found
            or class_flaw(self.agent)
            or call_flaw("prompt", self._prompt, "task", "context")
            or (call_flaw("deps", self._deps, "context") if callable(self._deps) else None)
            or _options_flaw(**self._options)
            or switch_flaw("durable", self._durable)
            or switch_flaw("stream", self._stream)
        )

    async def execute(self, task: Any, context: Any, **options: Any) -> Any:
        """Run the agent once, or have it go on after an answer; ``options`` are further arguments of its ``run``."""
        from pydantic_ai import DeferredToolRequests, RunUsage  # noqa: PLC0415 - loaded when it is used

        from trees.agents.pydantic_ai_approval import question_of, resumed  # noqa: PLC0415 - it loads the framework
        from trees.agents.pydantic_ai_hooks import PlainAgent, hooks_of  # noqa: PLC0415 - the same
        from trees.agents.pydantic_ai_requests import AttemptRequests  # noqa: PLC0415 - the same

        usage = RunUsage()
        given = {**self._options, "deps": await self._deps_of(context), "infer_name": False, **options, "usage": usage}
        requests = AttemptRequests(context, durable=self._durable, stream=self._stream, habits=self._habits)
        before = resumed(context)
        if self._plain is None:
            self._plain = PlainAgent(self.agent)
        model = self._plain.model(given) if before is None else None
        if model is not None:
            given["model"] = requests.model(model)
        else:
            given["output_type"] = given.get("output_type") or _with_questions(self.agent, DeferredToolRequests)
            given["capabilities"] = [*given.get("capabilities", ()), hooks_of(self.agent, requests, given)]
        if before is None:
            prompt = await called(self._prompt, task, context)
        else:
            prompt, given["message_history"], given["deferred_tool_results"] = None, before.messages, before.results
        try:
            run = await self.agent.run(prompt, **given)
        except Exception as error:
            raise_outcome(error, outcome_of(error), has_steps=self._durable)
            raise
        finally:
            requests.count_rest(usage)
        if isinstance(run.output, DeferredToolRequests):
            raise question_of(run.output, run.all_messages(), context)
        return run.output


def _options_flaw(usage_limits: object, message_history: object, model: object) -> Flaw:
    """Say what is wrong with arguments of a run, which would fail each attempt."""
    found = kind_flaw("usage_limits", usage_limits, ("pydantic_ai", "UsageLimits"))
    if found is None and not isinstance(model, str):
        found = kind_flaw("model", model, ("pydantic_ai", "Model"))
    is_list = isinstance(message_history, Sequence) and not isinstance(message_history, (str, bytes))
    if found is None and message_history is not None and not is_list:
        found = f"message_history= got {value_phrase(message_history)}", "Give a list of messages of pydantic-ai."
    return found


def _is_question(output: Any) -> bool:
    """Return True for the output by which a run says that calls of tools wait for somebody."""
    return getattr(output, "__name__", "") == "DeferredToolRequests"


def _with_questions(agent: Any, question: Any) -> Any:
    """Return the type of output that lets an agent ask; None: its own does, or it may have no other."""
    own = agent.output_type
    outputs = list(own) if isinstance(own, (list, tuple)) else [own]
    while hasattr(agent, "wrapped"):
        agent = agent.wrapped
    if question in outputs or getattr(agent, "_output_validators", None):
        return None
    return [*outputs, question]


def outcome_of(error: Exception) -> Exception:
    """Return what an error of a run means for its attempt: itself, where that is tried again like any other.

    A limit of usage, a request that is wrong, a quota that is used up: it would fail again. A provider that says when
    to come back gets that; of several models that have failed, the first of those that may do better later.
    """
    from pydantic_ai import exceptions  # noqa: PLC0415 - loaded when it is used

    if isinstance(error, ExceptionGroup):  # every model of a FallbackModel has failed
        meanings = [outcome_of(each) for each in error.exceptions]
        left = [each for each in meanings if not (isinstance(each, Failed) and not each.retryable)]
        delays = [each.after_s for each in left if isinstance(each, Later)]
        if not left:
            return given_up(error)
        return PutOff(min(delays)) if len(delays) == len(left) else error
    final = (exceptions.UsageLimitExceeded, exceptions.UserError, exceptions.ModelQuotaExceededError)
    if isinstance(error, final):
        return given_up(error)
    if not isinstance(error, exceptions.ModelAPIError):
        return error
    if is_refused(getattr(error, "status_code", None)) or isinstance(error, exceptions.ModelRequestRejectedError):
        return given_up(error)
    after_s = error.retry_after if error.retry_after is not None else retry_after_s(error)
    return error if after_s is None else PutOff(after_s)  # which also reads fractions and dates
