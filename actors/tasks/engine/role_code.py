"""Code of a planner, a reviewer or a synthesizer: what is called, and with what.

It is a function, an object with the one method, or a model, which is asked by a planner, a reviewer or a synthesizer of
this library. One that has a parameter called ``feedback`` is told what was wrong with its last answer, or what a person
says; a planner always is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

from actors.tasks.execution.off_loop import called
from actors.tasks.model import copied, recognised_model, with_usage
from actors.tasks.planning.model_planner import ModelPlanner
from actors.tasks.results.model_reviewer import ModelReviewer
from actors.tasks.results.synthesis import ModelSynthesizer
from actors.validation.introspection import signature_of

_ROLES: Final[dict[str, Callable[[Any], Any]]] = {
    "plan": ModelPlanner,
    "review": ModelReviewer,
    "combine": ModelSynthesizer,
}
"""By the verb of a role: what asks a model, or an agent, that stands for it."""


Code: TypeAlias = Callable[[Any, Any], Coroutine[Any, Any, Any]]
"""Code that a detached call runs."""


def code_of(code: Any, verb: str, args: tuple[Any, ...], feedback: str = "") -> Code:
    """Return the code of a role as a detached call makes it, with arguments that it may change.

    Sync code runs off the loop, and so do the copies.

    Args:
        code: a callable, an object with the one method, or a model or an agent.
        verb: name of that method.
        args: its arguments.
        feedback: for code that has a parameter of this name.
    """
    if recognised_model(code) is not None:
        code = _ROLES[verb](code)
    method = getattr(code, verb, None)
    call: Callable[..., Any] = method if callable(method) and not inspect.isfunction(code) else code
    signature = signature_of(call)
    takes_feedback = signature is not None and "feedback" in signature.parameters
    named = {"feedback": feedback} if feedback and takes_feedback else {}

    async def run(_work: Any, _context: Any) -> Any:
        return with_usage(await called(lambda: call(*map(copied, args), **named)))

    return run
