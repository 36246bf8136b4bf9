"""Results of agents, as their frameworks hand them over: the answer itself, and what it took.

An agent that is known by its methods only has a result that is known by its attributes (``unwrap_result``). A function
may return anything that has such attributes, and mean it: of a function only what the class of a framework is counts
(``unwrap_returned``), alone or as the value of a ``Done``. The function of a step is one too. No framework is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final

from actors.tasks.model import NO_USAGE, Done, InvalidResultError, Usage, usage_of

_COUNTS: Final = ("total_tokens", "input_tokens", "output_tokens", "request_tokens", "response_tokens")
"""Names that frameworks give to their counts of tokens: of all, and of two halves, by either of two pairs of names."""


def unwrap_result(answer: Any) -> Any:
    """Take an agent's answer out of the record in which its framework hands it over, with the tokens that it took."""
    if hasattr(answer, "output") and hasattr(answer, "usage"):
        return _done(answer.output, answer.usage)
    if hasattr(answer, "content") and not isinstance(answer, type):
        return _done(answer.content, getattr(answer, "usage_metadata", None))
    return answer


def unwrap_returned(value: Any) -> Any:
    """Take the answer out of a framework's result that a function has returned; anything else is left as it is.

    In a ``Done`` that says what was used up, that counts, and not what the framework says.

    Raises:
        InvalidResultError: the run has no answer yet, since it waits for the approval of calls of tools.
    """
    kind = type(value)
    if kind is Done:
        found = unwrap_returned(value.value)
        if type(found) is not Done:
            return replace(value, value=found)
        return replace(value, value=found.value, usage=found.usage if value.usage == NO_USAGE else value.usage)
    read = _reader_of(kind)  # type: ignore[arg-type]  # a type is hashable
    return value if read is None else read(value)


def usage_told(usage: Any) -> Usage:
    """Tokens and cost of a record of usage, which may be a method that gives it; none if it does not say."""
    if callable(usage) and not any(hasattr(usage, name) for name in _COUNTS):  # a record may be callable, too
        usage = usage()
    told = usage.get if isinstance(usage, Mapping) else partial(getattr, usage)
    total, *parts = (found if isinstance(found := told(name, 0), int) and found > 0 else 0 for name in _COUNTS)
    tokens, cost = total or sum(parts[:2]) or sum(parts[2:]), told("cost", 0.0)
    cost = float(cost) if isinstance(cost, (int, float, Decimal)) and cost > 0 else 0.0
    return usage_of(tokens, cost, 0.0) if tokens or cost else NO_USAGE


def _done(value: Any, told: Any) -> Any:
    usage = usage_told(told)
    return value if usage is NO_USAGE else Done(value, usage)


# -- results that a function returns ----------------------------------------------------------------------------


def _of_run(result: Any) -> Any:
    """Read pydantic-ai's ``AgentRunResult``."""
    if type(result.output).__name__ == "DeferredToolRequests":
        raise _waiting([*result.output.approvals, *result.output.calls], "tool_name")
    return _done(result.output, result.usage)


def _of_runner(result: Any) -> Any:
    """Read the ``RunResult`` of the OpenAI Agents SDK."""
    if result.interruptions:
        raise _waiting(result.interruptions, "name")
    return _done(result.final_output, getattr(result.context_wrapper, "usage", None))


def _of_message(message: Any) -> Any:
    """Read a message of LangChain."""
    content = message.content
    if not isinstance(content, str):  # blocks, of which some are text
        content = str(message.text) or content
    return _done(content, getattr(message, "usage_metadata", None))


def _waiting(calls: list[Any], name: str) -> InvalidResultError:
    names = ", ".join(sorted({str(getattr(call, name, None) or "?") for call in calls}))
    return InvalidResultError(
        f"the agent waits for the approval of tools that it wants to call ({names}), and has no answer yet. "
        "Give the agent itself to execute=: it then asks a person and goes on. Or settle it before you return"
    )


_READERS: Final[dict[tuple[str, str], Callable[[Any], Any]]] = {
    ("pydantic_ai", "AgentRunResult"): _of_run,
    ("agents", "RunResultBase"): _of_runner,
    ("langchain_core", "BaseMessage"): _of_message,
}
"""By the package and the name of a class: how its objects are read."""


@lru_cache(maxsize=256)
def _reader_of(kind: type[Any]) -> Callable[[Any], Any] | None:
    names = [(str(base.__module__).partition(".")[0], base.__name__) for base in kind.__mro__]
    return next((_READERS[name] for name in names if name in _READERS), None)
