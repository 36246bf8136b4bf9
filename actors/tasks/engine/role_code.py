"""Code of a step of a task: what is called, with what, and what reads its answer.

A planner, a reviewer or a synthesizer is a function, an object with the one method, or one of those of this library
that ask a model. One that has a parameter called ``feedback`` is told what was wrong with its last answer, or what a
person says; a planner always is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from actors.tasks.execution.off_loop import off_loop
from actors.tasks.execution.packing import NO_NOTES, Notes, Shown, showing
from actors.tasks.model.model_call import recognised_model, reporting, with_usage
from actors.tasks.model.shared_values import copied
from actors.tasks.model.task import Usage
from actors.tasks.planning.model_planner import ModelPlanner
from actors.tasks.results.model_reviewer import ModelReviewer
from actors.tasks.results.synthesis import ModelSynthesizer
from actors.validation.introspection import is_async, signature_of

_OURS: Final = frozenset({ModelPlanner.plan, ModelReviewer.review, ModelSynthesizer.combine})
_ROLES: Final[dict[str, Callable[[Any], Any]]] = {
    "plan": ModelPlanner,
    "review": ModelReviewer,
    "combine": ModelSynthesizer,
}
"""By the verb of a step: what asks a model, or an agent, that stands for it."""


def _as_it_is(said: Any) -> Any:
    return said


@dataclass(frozen=True, slots=True)
class RoleCode:
    """A callable of the user's, and the reader of what it returns."""

    call: Callable[..., Any]
    read: Callable[[Any], Any] = _as_it_is
    named: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that it gets by name."""
    notes: Notes = field(default_factory=dict)
    """Notes on the results that it sees."""

    def with_args(self, args: tuple[Any, ...]) -> Callable[[Any, Any], Coroutine[Any, Any, Any]]:
        """Return the code as a detached call makes it, with arguments that it may change. Sync code is off the loop."""
        call, named = self.call, self.named

        async def sync(_subtask: Any, context: Any) -> Any:
            def aside() -> Any:
                with reporting(partial(_use, context)), showing(Shown(context.context_tokens, self.notes)):
                    return call(*map(copied, args), **named)

            said = await off_loop(aside)
            with reporting(partial(_use, context)):
                return with_usage(await said if hasattr(type(said), "__await__") else said)

        async def on_loop(_subtask: Any, context: Any) -> Any:
            copies = await off_loop(lambda: [copied(each) for each in args])
            with reporting(partial(_use, context)), showing(Shown(context.context_tokens, self.notes)):
                return with_usage(await call(*copies, **named))

        return on_loop if is_async(call) else sync


def code_of(
    code: Any, verb: str, feedback: str = "", subtasks: Collection[str] = (), notes: Notes = NO_NOTES
) -> RoleCode:
    """Return the code of a step. Steps that ask a model have a call and a reader as methods.

    Args:
        code: a callable, an object with the one method, or a model or an agent.
        verb: name of that method.
        feedback: for code that has a parameter of this name.
        subtasks: those that a reviewer is to speak of.
        notes: on the results that it sees.
    """
    model = recognised_model(code)
    if model is not None:
        code = _ROLES[verb](model)
    call = _method(code, verb)
    read: Callable[[Any], Any] = _as_it_is
    if isinstance(code, (ModelPlanner, ModelReviewer, ModelSynthesizer)) and getattr(type(code), verb, None) in _OURS:
        call = code.ask
        read = partial(code.read, subtasks=subtasks) if isinstance(code, ModelReviewer) else code.read
    return RoleCode(call, read, {"feedback": feedback} if feedback and takes_feedback(call) else {}, notes)


def _use(context: Any, usage: Usage) -> None:
    context.use(tokens=usage.tokens, cost=usage.cost)


def takes_feedback(call: Callable[..., Any]) -> bool:
    """True where it has a parameter ``feedback`` that can be given by name."""
    signature = signature_of(call)
    parameter = signature.parameters.get("feedback") if signature is not None else None
    return parameter is not None and parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}


def _method(code: Any, verb: str) -> Callable[..., Any]:
    """A callable, or the one method of an object that has it."""
    method = getattr(code, verb, None)
    if callable(method) and not inspect.isfunction(code):
        found: Callable[..., Any] = method
        return found
    plain: Callable[..., Any] = code
    return plain
