"""Recognition of agents: whatever a user gives as ``execute=`` in, the wrapper of its framework out.

An agent is known by the module and the name of one of its classes, and by a method that every version of it has: a
package of the user's may well be called ``agents``. Nothing is imported that the user has not imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, NamedTuple

from actors.validation.validation_messages import value_phrase
from trees.agents.wrapper import AgentWrapper, Flaw

__all__ = ["AgentWrapper", "is_agent", "wrapped"]


class _Agent(NamedTuple):
    """Agents of one framework."""

    package: str
    """First part of the module of the class."""
    base: str
    """Name of the class from which all of them derive."""
    method: str
    """A method that they have."""
    module: str
    """Module of the wrapper, in this package."""
    wrapper: str


_AGENTS: Final = (
    _Agent("pydantic_ai", "AbstractAgent", "run", "pydantic_ai", "PydanticAI"),
    _Agent("langchain_core", "Runnable", "ainvoke", "langchain", "LangChain"),
    _Agent("langgraph", "StateGraph", "compile", "langchain", "LangChain"),
    _Agent("agents", "Agent", "as_tool", "openai_agents", "OpenAIAgent"),
)


def wrapped(target: Any) -> Any:
    """Wrap the agent of a framework; anything else, and what has an ``execute`` of its own, is returned as it is."""
    found = _agent_of(target)
    return target if found is None else getattr(import_module(f"{__package__}.{found.module}"), found.wrapper)(target)


def is_agent(target: Any) -> bool:
    """Return True for what ``wrapped`` wraps."""
    return _agent_of(target) is not None


def _agent_of(target: Any) -> _Agent | None:
    if isinstance(target, type) or callable(getattr(target, "execute", None)):
        return None
    bases = bases_of(type(target))
    found = next((each for each in _AGENTS if (each.package, each.base) in bases), None)
    return found if found is not None and callable(getattr(target, found.method, None)) else None


def kind_flaw(name: str, value: object, *kinds: tuple[str, str]) -> Flaw:
    """Say that an option is no object of one of these classes, given as (package, class); None: it was left out."""
    if value is None or not bases_of(type(value)).isdisjoint(kinds):
        return None
    wanted = " or ".join(kind for _, kind in kinds)
    return f"{name}= got {value_phrase(value)}", f"Give a {wanted} of {kinds[0][0]}."


def bases_of(cls: type[Any]) -> set[tuple[str, str]]:
    """Return package and name of a class, and of each from which it derives: what a framework is known by."""
    return {(str(base.__module__).partition(".")[0], base.__name__) for base in cls.__mro__}
