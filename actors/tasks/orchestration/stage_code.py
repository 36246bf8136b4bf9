"""Code of a step of a task: what is called, with what, and what reads its answer.

A planner, a reviewer or a synthesizer is a function, an object with the one method, or one of those of this library
that ask a model. One that has a parameter called ``feedback`` is told what was wrong with its last answer, or what a
person says; a planner always is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from actors.tasks.execution.off_loop import off_loop
from actors.tasks.model.shared_values import copied
from actors.tasks.planning.planners import ModelPlanner
from actors.tasks.results.synthesis import ModelSynthesizer
from actors.validation.introspection import is_async, signature_of

_OURS: Final = frozenset({ModelPlanner.plan, ModelSynthesizer.combine})


def _as_it_is(said: Any) -> Any:
    return said


@dataclass(frozen=True, slots=True)
class StageCode:
    """A callable of the user's, and the reader of what it returns."""

    call: Callable[..., Any]
    read: Callable[[Any], Any] = _as_it_is
    named: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that it gets by name."""

    def with_args(self, args: tuple[Any, ...]) -> tuple[Callable[[Any, Any], Any], bool]:
        """Return the code as an errand calls it, and whether that is async; it may change what it is given."""
        call, named = self.call, self.named

        def sync(_subtask: Any, _context: Any) -> Any:
            return call(*map(copied, args), **named)

        async def on_loop(_subtask: Any, _context: Any) -> Any:
            return await call(*(await off_loop(lambda: [copied(each) for each in args])), **named)

        return (on_loop, True) if is_async(call) else (sync, False)


def code_of(code: Any, verb: str, feedback: str = "") -> StageCode:
    """Return the code of a step. Steps that ask a model have a call and a reader as methods.

    Args:
        code: a callable, or an object with the one method.
        verb: name of that method.
        feedback: for code that has a parameter of this name.
    """
    if isinstance(code, (ModelPlanner, ModelSynthesizer)) and getattr(type(code), verb, None) in _OURS:
        return StageCode(code.ask, code.read)
    call = _method(code, verb)
    return StageCode(call, named={"feedback": feedback} if feedback and takes_feedback(call) else {})


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
