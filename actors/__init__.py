"""The runtime: workers and supervisors, their messages, and the tools to test them.

A worker is a ``Worker`` (or any Pykka actor, or a plain function); a supervisor owns workers and restarts them. You
declare both with ``trees`` and start the tree in your own program. What you may rely on:

 1. One message at a time per worker; messages from one sender to one target arrive in order.
 2. A crash loses the message being handled and nothing else: the mailbox survives the restart. Whoever asked gets the
    exception at once.
 3. A restarted worker is a new object built from its spec: no state of the old one, no overlap with it.
 4. No sender is ever hurt by a target's crash. Every dropped message is a dead letter with a reason, counted.
 5. An ask always ends: reply, error, or timeout.
 6. Any exception raised in a worker, ``SystemExit`` and ``KeyboardInterrupt`` included, ends that worker only.
 7. A supervisor answers at all times.
 8. Restart, shutdown and escalation follow Erlang/OTP; where they differ, it says so.
 9. A request whose target waits for it raises ``RecursionDetectedError`` in the sender, before it is sent (after
    ``block=False`` where the wait begins); a chain of tells is limited.
10. An ask's remaining time travels with it: what a handler asks inherits it and may only shorten it.
11. A worker that cannot be stopped in time is abandoned: replaced, named in the dump, its late reply dropped.
"""

from typing import TYPE_CHECKING, Any

from actors.messaging.envelope import carry
from actors.messaging.message_errors import ActorStoppedError, ParkedError, ReplyTimeoutError, TreeDownError
from actors.messaging.ref import Ref
from actors.messaging.reply import Reply
from actors.messaging.worker_api import heartbeat, ref, resource, sleep, stopping
from actors.model.child_state import ChildCounts, LastExit
from actors.model.clock import Clock, SystemClock
from actors.model.errors import (
    ActorsError,
    BlockingAskError,
    ChildError,
    ConfigError,
    DepthError,
    Escalated,
    Failed,
    HopLimitError,
    HostLoopClosedError,
    Ignore,
    Later,
    MailboxFullError,
    MessageError,
    Problem,
    RecursionDetectedError,
    Rejected,
    RestartLimitError,
    StalledError,
    StartError,
    UnknownEffectError,
    UnknownPathError,
    WorkerCrashedError,
)
from actors.model.events import (
    CallbackRaised,
    ChildAbandoned,
    ChildExited,
    ChildParked,
    ChildRestarting,
    ChildStarted,
    ChildStopAbnormal,
    DeadLetter,
    Event,
    EventsLost,
    InternalError,
    LoopBlocked,
    PoolNearCap,
    RecursionRefused,
    RecursionSuspected,
    RequestFailed,
    SubscriberDropped,
    SupervisorGaveUp,
    TreeFailed,
    TreeLeftRunning,
    TreeStarted,
    TreeStopped,
)
from actors.model.names import missing
from actors.model.process_errors import NotPicklableError, ProcessDiedError, RemoteError, WorkerLostError
from actors.model.worker_events import ChildStalled, CommandOutput, CommandOutputLost
from actors.supervision.child import ChildInfo
from actors.worker import Worker

if TYPE_CHECKING:
    from actors.tasks.public import *

__version__ = "0.1.0"

__all__ = [
    "ActorStoppedError",
    "ActorsError",
    "BlockingAskError",
    "BreakerClosed",
    "BreakerHalfOpened",
    "BreakerOpened",
    "CallbackRaised",
    "ChildAbandoned",
    "ChildCounts",
    "ChildError",
    "ChildExited",
    "ChildInfo",
    "ChildParked",
    "ChildRestarting",
    "ChildStalled",
    "ChildStarted",
    "ChildStopAbnormal",
    "Clock",
    "CommandOutput",
    "CommandOutputLost",
    "Compensated",
    "Compensating",
    "ConfigError",
    "Context",
    "DeadLetter",
    "DepthError",
    "Done",
    "Escalated",
    "EscalationAnswered",
    "EscalationExpired",
    "EscalationRaised",
    "Event",
    "EventsLost",
    "Failed",
    "HopLimitError",
    "HostLoopClosedError",
    "Ignore",
    "InternalError",
    "LastExit",
    "Later",
    "LoopBlocked",
    "MailboxFullError",
    "MessageError",
    "NotPicklableError",
    "ParkedError",
    "PlanRefused",
    "Planned",
    "PoolNearCap",
    "Problem",
    "ProcessDiedError",
    "RecursionDetectedError",
    "RecursionRefused",
    "RecursionSuspected",
    "Ref",
    "Rejected",
    "RemoteError",
    "Replanning",
    "Reply",
    "ReplyTimeoutError",
    "RequestFailed",
    "RestartLimitError",
    "Reviewed",
    "SentBack",
    "StalledError",
    "StartError",
    "StepMismatchError",
    "SubscriberDropped",
    "SubtaskCancelled",
    "SubtaskDelegated",
    "SubtaskEvent",
    "SubtaskFailed",
    "SubtaskProgressed",
    "SubtaskQueued",
    "SubtaskRequeued",
    "SubtaskRetrying",
    "SubtaskSkipped",
    "SubtaskStarted",
    "SubtaskStepped",
    "SubtaskStreamed",
    "SubtaskSucceeded",
    "SupervisorGaveUp",
    "Synthesized",
    "SystemClock",
    "TaskEnding",
    "TaskEvent",
    "TaskFinished",
    "TaskJoined",
    "TaskPriorityChanged",
    "TaskRetried",
    "TaskSubmitted",
    "TreeDownError",
    "TreeFailed",
    "TreeLeftRunning",
    "TreeStarted",
    "TreeStopped",
    "UnknownEffectError",
    "UnknownPathError",
    "Usage",
    "UsageTold",
    "Work",
    "Worker",
    "WorkerCrashedError",
    "WorkerLostError",
    "carry",
    "heartbeat",
    "ref",
    "resource",
    "sleep",
    "stopping",
]


if not TYPE_CHECKING:  # a type checker that saw this would let any name be imported

    def __getattr__(name: str) -> Any:
        """Find a name of ``actors.tasks``, which is loaded when it is asked for: the runtime needs none."""
        if name not in __all__:
            raise missing(__name__, name)
        from actors.tasks import public  # noqa: PLC0415 - see above

        found = globals()[name] = getattr(public, name)
        return found
