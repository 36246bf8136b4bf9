"""Every exception of the library, grouped by who must act on it.

    ActorsError
      ConfigError            the author of the tree       .problems: all of them
        DepthError
      StartError             the author of the worker     the cause chain names each level
      ChildError             the caller of a child call   .code
      MessageError           the asker
        ReplyTimeoutError    nothing came back in time; the worker may still finish
        ActorStoppedError    the target is down and stays down
          ParkedError        ... because its own restart limit is used up
          TreeDownError      ... because its whole tree is down
        UnknownPathError     no such path is listed
        MailboxFullError     a bounded mailbox had no room
        RecursionDetectedError  the request would have waited for its own asker
            HopLimitError       too many tells and tasks have led to each other
        BlockingAskError     a blocking call on the thread of a tree's event loop
        WorkerCrashedError   the handler left with something that is no Exception
      RestartLimitError      the operator
      ProcessDiedError       the operator                 the process of a worker ended as it should not

Errors pickle with all of their fields, without a call of their ``__init__``. No error ever shows a payload, only types,
sizes and paths. Those that are also Pykka's own errors stand in ``actors.messaging.message_errors``.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

ChildErrorCode: TypeAlias = Literal[
    "already_started", "already_present", "running", "restarting", "not_found", "max_children", "owned"
]


def _remade(kind: type[BaseException], args: tuple[object, ...]) -> BaseException:
    """Make an error of its class and ``args`` only: its ``__init__`` may take other arguments than these."""
    made = kind.__new__(kind, *args)
    made.args = args
    return made


class ActorsError(Exception):
    """The base of every error that this library raises. Its ``repr`` has its text, not the arguments it is made of."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _remade, (type(self), self.args), vars(self)


# -- the author of the tree --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a declaration: where, what, and what to do about it."""

    path: str
    """Where: the path of the spec, and the field where there is one (``shop/ledger.restart``)."""
    what: str
    """Description of the mistake, with the value's type or number; never a payload."""
    hint: str
    """Remedy: what to do."""

    def __str__(self) -> str:
        return f"{self.path}: {self.what.removesuffix('.')}. {self.hint}"


class ConfigError(ActorsError):
    """The declaration is wrong. Raised before anything runs; ``problems`` holds every mistake that was found."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        return f"{len(self.problems)} problems in the declaration:\n{lines}"


class DepthError(ConfigError):
    """Something stands deeper than level 3 (the root is level 1), or a supervisor on level 3."""


# -- the author of the worker ------------------------------------------------------------------------------


class StartError(ActorsError):
    """A child did not start, and nothing of it is left running.

    ``__cause__`` is the next level down (another ``StartError``), and at the end of the chain the exception that
    the worker raised, if it raised one: a start that was ended by a stop has no cause, nor has one that took too long,
    but what the ``ready`` of a command raised when it was asked last.
    """

    def __init__(self, path: str, what: str, hint: str = "", *, said: str = "") -> None:
        super().__init__(path, what, hint)
        self.path = path
        self.what = what
        self.hint = hint
        self.said = said
        """Reason that the worker has given itself, by raising a ``StartError``, or how its process has died; each level
        above repeats it."""

    def __str__(self) -> str:
        return f"{self.path}: {self.what}." + (f" {self.hint}" if self.hint else "")


# -- the caller of a child call ----------------------------------------------------------------------------

_CHILD_ERRORS: dict[str, str] = {
    "already_started": "is already running. Use another id, or terminate_child and delete_child first.",
    "already_present": "is already listed and not running. Use restart_child, or delete_child first.",
    "running": "is running. Use terminate_child first.",
    "restarting": "is restarting. Wait until it is up, or use terminate_child first.",
    "not_found": "is not a child. See which_children; a temporary child is forgotten when it ends.",
    "max_children": "would be more children than max_children allows. Raise it, or delete a child first.",
    "no_child": "is no path of a child: write its supervisor's before it, as 'shop/ledger'. tree.stop() ends the root.",
    "owned": "belongs to its supervisor. To end what it does use handle.cancel() of its tasks, or stop the supervisor.",
}


class ChildError(ActorsError):
    """start_child, terminate_child, restart_child or delete_child was refused; ``code`` says why."""

    def __init__(self, path: str, code: ChildErrorCode) -> None:
        super().__init__(path, code)
        self.path = path
        self.code: ChildErrorCode = code

    def __str__(self) -> str:
        said = "no_child" if self.code == "not_found" and "/" not in str(self.path) else self.code
        return f"{self.path}: {_CHILD_ERRORS[said]} [{self.code}]"


# -- the asker ---------------------------------------------------------------------------------------------


class MessageError(ActorsError):
    """A message got no reply, and why."""


class UnknownPathError(MessageError):
    """No child of this path is listed now; or, where ``is_worker``, a worker, and a supervisor is needed."""

    def __init__(self, path: str, known: tuple[str, ...] = (), *, is_worker: bool = False) -> None:
        super().__init__(path, known)
        self.path = path
        self.known = known
        self.is_worker = is_worker

    def __str__(self) -> str:
        if self.is_worker:
            above = self.path.rpartition("/")[0]
            return f"{self.path}: is a worker, and this needs a supervisor. Name one, for example {above!r}."
        known = f" Listed there: {', '.join(self.known)}." if self.known else ""
        by_name = {each.rpartition("/")[2]: each for each in reversed(self.known)}
        close = get_close_matches(str(self.path).rpartition("/")[2], by_name, n=1)  # paths have much in common
        meant = f" Did you mean {by_name[close[0]]!r}?" if close else ""
        return f"{self.path}: no such path in this tree.{known}{meant} See tree.dump() for all of them."


class MailboxFullError(MessageError):
    """A bounded mailbox had no room for an ask (a tell becomes a dead letter instead)."""

    def __init__(self, path: str, capacity: int) -> None:
        super().__init__(path, capacity)
        self.path = path
        self.capacity = capacity

    def __str__(self) -> str:
        return (
            f"{self.path}: its mailbox holds {self.capacity} messages and is full. "
            "Send slower, raise Mailbox(capacity=...), or give the worker a pool."
        )


class RecursionDetectedError(MessageError):
    """The target of a request is one of those who wait for it; or what is asked for is asked for in the chain already.

    An ask raises it in the sender, before anything is sent. After ``block=False`` the wait that closes the circle does.
    """

    def __init__(self, chain: tuple[str, ...], *, same_words: bool = False) -> None:
        super().__init__(chain)
        self.chain = chain
        self.same_words = same_words

    def __str__(self) -> str:
        way, target = " > ".join(self.chain), self.chain[-1]
        if self.same_words:
            return (
                f"{way}: {target!r} would be asked for what is asked for already, in the same words. "
                "Return a result instead of handing the same work on, or say what is to be done differently."
            )
        return (
            f"{way}: {target!r} would wait for itself. "
            "Return a result instead of asking upwards, or use tell, which waits for nobody."
        )


class HopLimitError(RecursionDetectedError):
    """Too many tells and tasks have led to each other in a row: the hop limit, ``start(..., max_hops=...)``."""

    def __init__(self, path: str, hops: int, max_hops: int) -> None:
        super().__init__((path,))
        self.args = (path, hops, max_hops)
        self.path = path
        self.hops = hops
        self.max_hops = max_hops

    def __str__(self) -> str:
        return (
            f"{self.path}: refused by the hop limit: this would be hop {self.hops} of a chain of tells and tasks, and "
            f"max_hops={self.max_hops}. Find out whether they go round; if the chain is meant to be that long, raise "
            "start(..., max_hops=...) or begin a new chain with tell(..., detached=True)."
        )


class BlockingAskError(MessageError):
    """A blocking call on the thread of a tree's event loop, or on that of its store.

    It would hold up every async worker of the tree, or wait for what only this thread can do. So would one in a
    finalizer, or in a signal handler, that runs in the middle of a change or a look of this library, or on a thread
    that runs a supervisor or serves the whole tree (``is_in_between``): whoever is to reply may need that, and it goes
    on only when that code returns. A task is not submitted either where its thread changes the store.
    """

    def __init__(self, path: str, instead: str = "await ref.ask_async(...)", is_in_between: bool = False) -> None:
        super().__init__(path, instead, is_in_between)
        self.path = path
        self.instead = instead
        self.is_in_between = is_in_between

    def __str__(self) -> str:
        if self.is_in_between:
            return (
                f"{self.path}: this is a signal handler or a finalizer that has come in between, in the middle of a "
                "change, a look or a supervisor's run of this library. That goes on only when it returns, and whoever "
                f"it would wait for may need it. Write '{self.instead}', and have that thread wait."
            )
        return (
            f"{self.path}: to wait for it here would hold up the event loop of all async workers of the tree, or its "
            "store. "
            f"Write '{self.instead}', or wait on a thread of your own."
        )


class HostLoopClosedError(ActorsError):
    """The event loop of the host, on which the async workers of a tree ran, was closed before the tree had ended."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"{self.path}: the event loop of the host was closed while workers of this tree ran on it (loop='host'). "
            "End the tree before the loop: leave 'async with start_async(...)', or await asyncio.to_thread(tree.stop)."
        )


class WorkerCrashedError(MessageError):
    """The handler left with something that is no ``Exception`` (SystemExit, CancelledError ...): ``__cause__``.

    It is wrapped so that it can neither end the asker nor look like the asker's own cancellation.
    """

    def __init__(self, path: str, error_type: str) -> None:
        super().__init__(path, error_type)
        self.path = path
        self.error_type = error_type

    def __str__(self) -> str:
        return f"{self.path}: left its handler with {self.error_type} and was restarted or stopped."


class StalledError(ActorsError):
    """The worker at ``path`` gave no sign of life for ``silent_s`` seconds: it was taken to be hung, and replaced."""

    def __init__(self, path: str, silent_s: float) -> None:
        super().__init__(path, silent_s)
        self.path = path
        self.silent_s = silent_s

    def __str__(self) -> str:
        return (
            f"{self.path}: gave no sign of life for {self.silent_s:.3g} s and was taken to be hung. In long code call "
            "actors.heartbeat(), or raise stall_s; in async code wait with await, and never with time.sleep()."
        )


# -- the operator ------------------------------------------------------------------------------------------


class RestartLimitError(ActorsError):
    """A supervisor restarted more often than its limit allows, stopped its children and gave up.

    ``__cause__`` is what the last child died of, where that is known.
    """

    def __init__(self, path: str, restarts: int, limit: int, period_s: float, child: str, last: str) -> None:
        super().__init__(path, restarts, limit, period_s, child, last)
        self.path = path
        self.restarts = restarts
        self.limit = limit
        self.period_s = period_s
        self.child = child
        self.last = last

    def __str__(self) -> str:
        advice = "Repair that child, give it a backoff or on_exhausted='park', or raise max_restarts."
        if self.last == "normal":
            advice = (
                "It has ended by itself, and a permanent worker is started again. Let its body go on until "
                "actors.sleep(seconds) returns True, or declare it with restart='transient'."
            )
        return (
            f"{self.path}: restart {self.restarts} within {self.period_s:g} s, limit {self.limit}. "
            f"Last: {self.child!r}, {self.last}. {self.path!r} stopped its children and gave up. {advice}"
        )


# -- what a worker raises to say something -----------------------------------------------------------------


class Signal(Exception):  # noqa: N818 - not an error of ours
    """Base of what a worker raises to say something about the request: the worker lives."""


class Failed(Signal):
    """Raised by a worker: this request failed, I did not. The asker gets it; the worker lives.

    Args:
        error: what went wrong: a text, or an exception.
        retryable: False: it would fail again, so an attempt is not retried.
    """

    def __init__(self, error: object = "", *, retryable: bool = True) -> None:
        super().__init__(error)
        self.error = error
        self.retryable = retryable

    def __reduce__(self) -> tuple[object, ...]:
        return _remade, (type(self), self.args), vars(self)


class UnknownEffectError(Exception):
    """Raised in the middle of something that is not to be done twice, and may have been done: nobody tries it again."""


class Rejected(Signal):
    """Raised in an attempt: this is not mine. The next candidate gets it."""


class Later(Signal):
    """Raised in an attempt: not now. It is put back for ``after_s`` seconds, at most 10 times; no attempt counts.

    Args:
        after_s: seconds.
        why: what keeps it, for people. Empty: the text of the exception that it is raised from, if there is one.
    """

    why: str = ""

    def __init__(self, after_s: float = 1.0, why: str = "") -> None:
        super().__init__(after_s)
        self.after_s = after_s
        self.why = why

    def __str__(self) -> str:
        return f"not now, but in {self.after_s} s{f': {self.why}' if self.why else ''}"


class Escalated(Signal):
    """Raised in an attempt: ask a person. Without an ``Escalate`` rung on its ladder it is a failed attempt.

    Args:
        question: what the person reads.
        state: JSON, of any size, that the same worker finds in ``context.state`` when it is called again after the
            answer, also in another process. No dump, log line or error shows it.
        resumes: True: it goes on from ``state`` with every answer, and finds that in ``context.answers``: ``Edit`` is
            not its result, and ``Reject`` not its end, but what it makes of them. It stands on its ladder, and has its
            idempotency key, as if it had not asked; it may ask as often as it has to, also in the same words.
    """

    private_text = True
    """Mark of errors with a question to people, or with what has become of it: it stands in no log line."""

    def __init__(self, question: str = "", *, state: Any = None, resumes: bool = False) -> None:
        super().__init__(question)
        self.question = question
        self.state = state
        self.resumes = resumes


class Ignore(Exception):  # noqa: N818 - a signal, not an error of ours
    """Raised by a worker in ``on_start``: do not run me here. It is kept as stopped (temporary: forgotten)."""
