"""Answers of people in a graph: each reaches only the ``interrupt()`` that asks what the person was asked.

LangGraph gives answers by position: the first ``interrupt()`` that a node comes to when it runs again gets the first
answer, whatever it asks. So an attempt does not resume a graph with an answer. It runs the graph again, and there
``interrupt(value)`` looks up the answers that were given to this very value; without one, it asks.

For that the code of ``langgraph.types.interrupt`` is replaced when the first graph runs, since programs hold that
function under names of their own. In code that no attempt runs, it does what it always did.

A value with ``action_requests`` (LangChain's ``HumanInTheLoopMiddleware``) has a question for each of them, and
``interrupt()`` gives ``{"decisions": [...]}``. One of the type ``tool_approval`` gets one such decision.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import Any, Final

from langgraph import types
from langgraph.config import get_config
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from actors.tasks.model import ANSWERS, Answer, Approve, Edit, Reject, Respond, answer_of

_WORDS: Final = {kind: word for word, (kind, _) in ANSWERS.items()}


class GivenAnswers:
    """Questions of one subtask's graph, and the answers to them.

    Args:
        state: state of the last question: ``rows`` as ``given``, and what ``asking`` has returned as ``asked``. Empty:
            nothing was asked.
        answer: the answer to that question; None: it has none.
    """

    def __init__(self, state: dict[str, Any], answer: Answer | None) -> None:
        self.rows: list[list[Any]] = list(state.get("given", ()))
        """Each with the id of an interrupt, a hash of what it asked, and the answer, as its word and its value."""
        asked = state.get("asked")
        if asked is not None and answer is not None:
            word = _WORDS[type(answer)]
            field = ANSWERS[word][1]
            self.rows.append([*asked, word, getattr(answer, field) if field else None])
        self._taken: dict[tuple[int, str, str], Iterator[int]] = {}
        self._pads: list[Any] = []
        """Objects whose ids are keys of ``_taken``: kept, so that no other one gets the same."""
        self._unfit: dict[str, str] = {}
        """Why an answer was not taken, by the id of its interrupt."""

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Have the interrupts of graphs get these answers in code that runs meanwhile, and in what that begins."""
        token = GIVEN.set(self)
        try:
            yield
        finally:
            GIVEN.reset(token)

    def asking(self, interrupt: Any) -> tuple[str, list[str]]:
        """Return the next question of an interrupt that waits, and what its answer is kept with."""
        _, part = self._given(interrupt.id, interrupt.value)
        actions = _actions(interrupt.value)
        question = _text(interrupt.value) if actions is None else _text_of_action(actions[len(part)])
        if actions is not None and len(actions) > 1:
            question += f" ({len(part) + 1} of {len(actions)} calls)"
        if interrupt.id in self._unfit:
            question += f" (The last answer was not taken: {self._unfit[interrupt.id]})"
        return question, [interrupt.id, _hash(interrupt.value)]

    def is_answered(self, interrupt: Any) -> bool:
        """True where an interrupt that waits has an answer that it can go on with."""
        return bool(self._given(interrupt.id, interrupt.value)[0])

    def take(self, value: Any, conf: Any, schema: Any) -> list[Any]:
        """Return the answer to an ``interrupt()`` of the graph, in a list; an empty one: it has none, and is to ask."""
        id_ = types.Interrupt.from_ns(value=value, ns=conf["checkpoint_ns"]).id
        given, _ = self._given(id_, value)
        values = [each for answers in given if (each := self._value(id_, value, answers, schema)) is not _UNFIT]
        if not values:
            return []
        pad = conf.get("__pregel_scratchpad")  # one for each time that a node runs
        self._pads.append(pad)
        place = next(self._taken.setdefault((id(pad), id_, _hash(value)), itertools.count()))
        return values[place : place + 1]

    def _given(self, id_: str, value: Any) -> tuple[list[list[Answer]], list[Answer]]:
        """Return the answers to an interrupt: a list for each time that it asked; and those of a time that goes on."""
        size, hashed = len(_actions(value) or "1"), _hash(value)
        whole: list[list[Answer]] = []
        part: list[Answer] = []
        for row in self.rows:
            if row[:2] == [id_, hashed]:
                part.append(answer_of(*row[2:]))
                if len(part) == size or _is_whole(part[-1]):
                    whole.append(part)
                    part = []
        return whole, part

    def _value(self, id_: str, value: Any, answers: list[Answer], schema: Any) -> Any:
        """Return what ``interrupt()`` gives for these answers; ``_UNFIT``: they are none that it takes."""
        actions = _actions(value)
        self._unfit.pop(id_, None)
        if _is_whole(answers[-1]) or actions is None:
            found = resume_value(answers[-1])
        else:
            allowed = {each["action_name"]: each["allowed_decisions"] for each in value.get("review_configs", ())}
            decisions = [_decision(*each, allowed) for each in zip(answers, actions, strict=True)]
            for action, each in zip(actions, decisions, strict=True):
                if each["type"] not in allowed.get(action["name"], (each["type"],)):
                    self._unfit[id_] = f"{each['type']} is not allowed for {action['name']}"
                    return _UNFIT
            found = decisions[0] if value.get("type") == _APPROVAL else {"decisions": decisions}
        if schema is None or isinstance(schema, dict):
            return found
        try:
            return TypeAdapter(schema).validate_python(found)
        except ValidationError as error:
            self._unfit[id_] = "; ".join(each["msg"] for each in error.errors())
            return _UNFIT


def resume_value(answer: Answer | None) -> Any:
    """Return the value that ``interrupt()`` gives in the graph when a person has answered so."""
    if isinstance(answer, Approve):
        return True
    if isinstance(answer, Edit):
        return answer.value
    return answer.text if isinstance(answer, Respond) else False


# -- LangChain's requests for approval ---------------------------------------------------------------------------

_UNFIT: Final = object()
_APPROVAL: Final = "tool_approval"


def _actions(value: Any) -> list[Any] | None:
    """Return the calls of tools that an interrupt asks about; None: it asks about none."""
    if isinstance(value, dict) and value.get("type") == _APPROVAL and "args" in value:
        return [value]
    found = value.get("action_requests") if isinstance(value, dict) else None
    return found if isinstance(found, list) and found else None


def _is_whole(answer: Answer) -> bool:
    """True for an answer that holds the decisions about all calls."""
    return isinstance(answer, Edit) and isinstance(answer.value, dict) and answer.value.keys() == {"decisions"}


def _decision(answer: Answer, action: Any, allowed: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as LangChain's decision about a call."""
    if isinstance(answer, Approve):
        return {"type": "approve"}
    if isinstance(answer, Edit) and isinstance(answer.value, dict):
        return {"type": "edit", "edited_action": {"name": action["name"], "args": answer.value}}
    if isinstance(answer, Reject):
        return {"type": "reject", "message": answer.reason} if answer.reason else {"type": "reject"}
    said = answer.text if isinstance(answer, Respond) else _text(answer.value)
    takes = "respond" in allowed.get(action["name"], ("respond",))
    return {"type": "respond" if takes else "reject", "message": said}


def _text_of_action(action: Any) -> str:
    said = action.get("description") or ""
    own = "" if not said or "\nArgs: " in said else f" {said}"  # LangChain's own words name the call once more
    return f"May it call {action['name']}({_text(action['args'])})?{own}"


def _text(value: Any) -> str:
    """Return a question as text; anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(json.loads(to_json(value, fallback=repr)), ensure_ascii=False)
    except ValueError:
        return repr(value)


def _hash(value: Any) -> str:
    return hashlib.sha256(_text(value).encode("utf-8", "surrogatepass")).hexdigest()


# -- the code of interrupt() -------------------------------------------------------------------------------------

GIVEN: Final[ContextVar[GivenAnswers | None]] = ContextVar("GIVEN", default=None)
"""Answers of the attempt whose graph runs."""
_alone: Final = FunctionType(types.interrupt.__code__, types.__dict__)
_alone.__kwdefaults__ = types.interrupt.__kwdefaults__


def answer_or_ask(value: Any, **options: Any) -> Any:
    """Do what ``interrupt(value)`` does in a graph."""
    given = GIVEN.get()
    found = [] if given is None else given.take(value, get_config()["configurable"], options.get("response_schema"))
    return found[0] if found else _alone(value, **options)


def _interrupt(value: Any, **options: Any) -> Any:
    from trees.agents.langgraph_answers import answer_or_ask  # noqa: PLC0415 - it runs in the module of LangGraph

    return answer_or_ask(value, **options)


types.interrupt.__code__ = _interrupt.__code__
types.interrupt.__kwdefaults__ = None
