"""Requests of one attempt of an agent of pydantic-ai: each is counted, shown piece by piece, and a step.

``AttemptModel`` wraps the model of a run and has the attempt see every request, in this order:

* a request that is recorded (``durable``) is answered by its record; it was counted and shown when it was made;
* else the model is asked, as a stream where it can be and that is wanted: its text is shown as it comes;
* what the answer has cost is told, and the answer recorded: both in one turn, so that usage counts once for each answer
  that is recorded, however often its attempt begins again.

An answer that was streamed is taken only where its provider has said that it is whole. One that ended without its last
words (a connection that was closed in the middle, a body that is no stream) is asked for once more, not as a stream;
so is one whose request the server did not take, since servers of others may not know ``stream_options``. From a
provider whose streams never tell their usage, or their end, all later answers are asked for so (``StreamHabits``).

A run itself never has to stream for that: its machinery for events costs more than all else that a run does. Where
somebody else has it stream (a handler of the user's, a capability of the agent's), the pieces are shown by a hook
(``StreamingHooks``), or, where there is none, the text when it is there.

What makes two requests the same is what the user, the model and the tools have said, in order. Times and ids of runs do
not count. Where several agents may ask side by side (``durable_model``), they are told apart by who asks: the model,
its settings, the tools, the type of the output, system prompts and instructions. Those of functions may tell the date:
they do not count where the framework says that they are dynamic.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import CompletedStreamedResponse, Model
from pydantic_ai.models.wrapper import WrapperModel

from actors.tasks.execution.attempt_steps import use_in_step
from trees.agents.model_errors import is_malformed
from trees.agents.stream_habits import StreamHabits
from trees.agents.streamed_step import StreamedStep, fingerprint_of, request_name

_VOLATILE: Final = frozenset({"conversation_id", "instructions", "metadata", "run_id", "timestamp", "tool_call_id"})
"""Fields of messages and of their parts that differ each time."""
_SCALARS: Final = (str, int, float)
"""Settings of a model that tell requests apart; others may be objects that are made anew for each."""
_LEAST_COST: Final = 1e-9
"""Costs that differ by less are the same: they are sums of floats."""


class AttemptRequests:
    """Requests of one attempt.

    Args:
        context: of the attempt.
        durable: True: each is a step of the attempt.
        stream: True: their text is shown.
        counts: True: what they cost is told as they are answered.
        habits: which models are to be asked for streams (``_identity_of``); what is found is added.
        are_of_several: True: several agents may ask side by side.
    """

    def __init__(
        self,
        context: Any,
        *,
        durable: bool,
        stream: bool,
        counts: bool = True,
        habits: StreamHabits | None = None,
        are_of_several: bool = False,
    ) -> None:
        self.context = context
        self._are_of_several = are_of_several
        self._counts = counts
        self._habits = StreamHabits() if habits is None else habits
        self.durable = durable
        self.stream = stream
        self.has_hooks = False
        """True where hooks show the pieces of a run that streams."""
        self._tokens = 0
        self._cost = 0.0

    def model(self, model: Any) -> Any:
        """Wrap the model of a run."""
        return AttemptModel(model, self)

    def count_rest(self, usage: Any) -> None:
        """Count what a run has used and nobody has counted: agents that are tools of it, answers that broke off."""
        tokens, cost = usage.total_tokens - self._tokens, float(usage.cost or 0.0) - self._cost
        if tokens > 0 or cost > _LEAST_COST:
            tokens, cost = max(0, tokens), max(0.0, cost)
            self._tokens += tokens
            self._cost += cost
            if not (self.durable and use_in_step(tokens, cost)):
                self.context.use(tokens=tokens, cost=cost)

    # -- for the model -----------------------------------------------------------------------------------------

    async def answer(self, model: Any, asked: tuple[Any, ...]) -> ModelResponse:
        """Return the answer to a request, from the model or from its record."""
        if not self.durable:
            return await self._paid(model, asked)
        made: list[ModelResponse] = []

        async def request(_: str) -> Any:
            made.append(await self._paid(model, asked))
            return dumped(made[0])

        said = self.fingerprint_of(model, *asked)
        recorded = await self.context.step(request_name(said), request, said)
        return made[0] if made else self.replayed(recorded)

    def fingerprint_of(self, model: Any, messages: Any, settings: Any, parameters: Any) -> str:
        """Return the fingerprint of a request: what was said so far, and, where several may ask, who asks."""
        said: Any = [_lasting(each) for each in ModelMessagesTypeAdapter.dump_python(messages, mode="json")]
        if self._are_of_several:
            said = {"said": said, "asker": _asker(model, messages, settings, parameters)}
        return fingerprint_of(said)

    def replayed(self, recorded: Any) -> ModelResponse:
        """Return the answer that is recorded; it was counted when it was made."""
        response = loaded(recorded)
        self._see(response)
        return response

    def count(self, response: ModelResponse) -> None:
        """Count an answer."""
        if not self._counts:
            return
        tokens, cost = self._see(response)
        if (tokens or cost) and not (self.durable and use_in_step(tokens, cost)):
            self.context.use(tokens=tokens, cost=cost)

    def shows(self, event: Any) -> None:
        """Show the text of a piece of an answer, if it has any."""
        if isinstance(event, PartDeltaEvent):
            if isinstance(event.delta, TextPartDelta):
                self.context.stream(event.delta.content_delta)
        elif isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            self.context.stream(event.part.content)

    def shows_all(self, response: ModelResponse) -> None:
        """Show the text of an answer that came in one piece."""
        for part in response.parts:
            if isinstance(part, TextPart):
                self.context.stream(part.content)

    async def _paid(self, model: Any, asked: tuple[Any, ...]) -> ModelResponse:
        identity, could_begin = "", True
        if self.stream and can_stream(model) and self._habits.streams(identity := _identity_of(model)):
            streamed = await self._streamed(model, asked)
            could_begin = streamed is not None
            if streamed is not None and self._is_answer(identity, model, streamed):
                return streamed
        response: ModelResponse = await model.request(*asked)
        if not could_begin:
            self._habits.told_nothing(identity)  # not before: a request that is wrong says nothing of streams
        if self.stream:
            self.shows_all(response)
        self.count(response)
        return response

    async def _streamed(self, model: Any, asked: tuple[Any, ...]) -> ModelResponse | None:
        """Return what a stream has told; None: the server does not take a request for one."""
        has_begun = False
        try:
            async with model.request_stream(*asked) as stream:
                has_begun = True
                try:
                    async for event in stream:
                        self.shows(event)
                except BaseException:
                    self.count(stream.get())  # what it has told so far
                    raise
                response: ModelResponse = stream.get()
        except ModelAPIError as error:
            if has_begun or not is_malformed(error):
                raise
            return None
        return response

    def _is_answer(self, identity: str, model: Any, response: ModelResponse) -> bool:
        """Count what a stream has told; return True where it is whole."""
        self.count(response)
        is_whole = _is_whole(model, response)
        if is_whole and not response.usage.unmeasured_requests:
            self._habits.told(identity)
        else:
            self._habits.told_nothing(identity, has_ended=_says_its_end(response))
        return is_whole

    def _see(self, response: ModelResponse) -> tuple[int, float]:
        tokens, cost = response.usage.total_tokens, _cost_of(response)
        self._tokens += tokens
        self._cost += cost
        return tokens, cost


def durable_model(model: Any, context: Any) -> Any:
    """Return the model with every request as a step of the attempt; ``model`` may be a name. Usage is not told."""
    return AttemptRequests(context, durable=True, stream=False, counts=False, are_of_several=True).model(model)


class AttemptModel(WrapperModel):
    """A model as one attempt uses it."""

    def __init__(self, wrapped: Any, requests: AttemptRequests) -> None:
        super().__init__(wrapped)
        self._requests = requests

    def request(
        self, messages: Any, model_settings: Any, model_request_parameters: Any
    ) -> Coroutine[Any, Any, ModelResponse]:
        """Ask the model, or take what is recorded.

        The framework wraps each coroutine function of this name twice, for what the model in this one does already.
        """
        return self._requests.answer(self.wrapped, (messages, model_settings, model_request_parameters))

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, run_context: Any = None
    ) -> AsyncIterator[Any]:
        """Stream for a run that somebody else has stream."""
        requests = self._requests
        asked = (messages, model_settings, model_request_parameters)
        said = requests.fingerprint_of(self.wrapped, *asked) if requests.durable else ""
        step = StreamedStep(requests.context, request_name(said), said) if requests.durable else None
        try:
            if step is not None and await step.is_recorded():
                response = requests.replayed(step.recorded)
                yield CompletedStreamedResponse(
                    response, model_request_parameters=model_request_parameters, replay_events=True
                )
                return
            async with self.wrapped.request_stream(*asked, run_context) as stream:
                yield stream
                response = stream.get()
            requests.count(response)
            if requests.stream and not requests.has_hooks:
                requests.shows_all(response)
            if step is not None and response.state != "interrupted":
                await step.record(dumped(response))
        finally:
            if step is not None:
                await step.give_up()


def can_stream(model: Any) -> bool:
    """Return True where a model has streamed requests."""
    return all(map(_streams, _inmost(model)))


def _streams(model: Any) -> bool:
    if hasattr(model, "stream_function"):  # a FunctionModel
        return model.stream_function is not None
    return type(model).request_stream is not Model.request_stream


def _is_whole(model: Any, response: ModelResponse) -> bool:
    """Return True where the stream of an answer has ended as its provider ends it, and was not cut off.

    Each provider says why an answer has ended. Where a Chat Completions API did not, the framework takes ``stop`` for
    granted. Of a reason that is kept nowhere as it came, what the provider tells last, the usage, must be there.
    Models of the user's and of tests need say nothing.
    """
    if response.state in {"incomplete", "suspended"}:
        return response.state == "suspended"  # of which the framework knows how to go on
    if _says_its_end(response) or not all(map(_is_of_provider, _inmost(model))):
        return True
    if response.finish_reason == "stop" and any(map(_is_chat, _inmost(model))):
        return False
    return response.finish_reason is not None and not response.usage.unmeasured_requests


def _says_its_end(response: ModelResponse) -> bool:
    return "finish_reason" in (response.provider_details or ())


def _is_of_provider(model: Any) -> bool:
    module = type(model).__module__
    return module.startswith("pydantic_ai.models.") and module.rpartition(".")[2] not in {"function", "test"}


def _is_chat(model: Any) -> bool:
    return any(base.__name__ == "OpenAIChatModel" for base in type(model).__mro__)


def _inmost(model: Any) -> list[Any]:
    """Return the models that may answer for a model, without their wrappers."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    several = getattr(model, "models", None)
    if isinstance(several, (list, tuple)):  # a FallbackModel
        return [inmost for each in several for inmost in _inmost(each)]
    return [model]


def _identity_of(model: Any) -> str:
    """Return what tells a model apart, also one that is made anew from its name for each run."""
    return f"{model.system} {model.model_name} {getattr(model, 'base_url', '')}"


def dumped(response: ModelResponse) -> Any:
    """Return an answer as JSON, as it is recorded."""
    return ModelMessagesTypeAdapter.dump_python([response], mode="json", exclude_none=True)[0]


def loaded(recorded: Any) -> ModelResponse:
    """Return the answer that was recorded so."""
    [response] = ModelMessagesTypeAdapter.validate_python([recorded])
    assert isinstance(response, ModelResponse)  # noqa: S101 - it is what was recorded
    return response


def _cost_of(response: ModelResponse) -> float:
    """Return the cost of an answer: what its provider says, else what its price list says; 0: that has none.

    The run does the same for answers without a cost, and so finds this one.
    """
    usage = response.usage
    if usage.cost is None and usage.total_tokens and response.model_name:
        try:
            usage.cost = response.cost().total_price
        except (LookupError, ValueError):
            return 0.0
    return float(usage.cost or 0.0)


def _asker(model: Any, messages: Any, settings: Any, parameters: Any) -> Any:
    """Return what tells the agent of a request apart from others that say the same, as JSON."""
    parts = (part for message in messages for part in message.parts)
    prompts = [part.content for part in parts if part.part_kind == "system-prompt" and part.dynamic_ref is None]
    output = parameters.output_object
    return [
        type(model).__name__,
        _identity_of(model),
        {name: value for name, value in (settings or {}).items() if isinstance(value, _SCALARS)},
        prompts,
        [part.content for part in parameters.instruction_parts or () if not part.dynamic],
        sorted(tool.name for tool in parameters.function_tools),
        parameters.output_mode,
        [[tool.name, tool.parameters_json_schema] for tool in parameters.output_tools],
        None if output is None else output.json_schema,
    ]


def _lasting(message: dict[str, Any]) -> dict[str, Any]:
    parts = [
        {key: value for key, value in part.items() if key not in _VOLATILE}
        for part in message["parts"]
        if part.get("part_kind") != "system-prompt"
    ]
    return {"kind": message["kind"], "parts": parts}
