"""The rooms of the house: which file stands in which, and which rooms it may know. Read by ``tests.test_layering``.

A room knows those of the levels below its own; rooms of one level do not know each other. Annotations count as much
as imports that run.
"""

LEVELS: tuple[tuple[str, ...], ...] = (
    ("actors/model",),
    ("actors/validation",),
    ("actors/concurrency",),
    ("actors/messaging",),
    ("actors/execution",),
    ("actors/supervision",),
    ("actors/runtime",),
    ("actors/tasks/model",),
    ("actors/tasks/journal",),
    ("actors/tasks/planning", "actors/tasks/scheduling", "actors/tasks/results"),
    ("actors/tasks/execution",),
    ("actors/tasks/recovery",),
    ("actors/tasks/orchestration",),
    ("actors/tasks",),
    ("actors", "actors/testing"),
    ("trees/declaration", "trees/store"),
    ("trees/views",),
    ("trees/ha",),
    ("trees/host",),
    ("trees/command",),
    ("trees",),
)
"""From the lowest to the highest."""

PURE = frozenset(
    {"actors/model", "actors/validation", "actors/tasks/model", "actors/tasks/journal", "actors/tasks/planning"}
)
"""Rooms that only decide: they load no threads, no event loop, no Pykka and no log."""

NOT_PURE = frozenset({"actors/tasks/journal.py", "actors/tasks/lease.py"})
"""Files of these rooms that do nevertheless."""

FILES: dict[str, str] = {
    "actors/model": "spec strategy limit errors clock events child_state",
    "actors/validation": "fields problems words callables error_text",
    "actors/concurrency": "thread_state collector frames dispatch/wakeup dispatch/disposal dispatch/arrival",
    "actors/messaging": (
        "ports message_errors messages mailbox inbox places poolbox supervisor_mailbox reply ref proxy dead_letters "
        "here wait_graph leftovers"
    ),
    "actors/execution": (
        "dispatch/__init__ dispatch/pool dispatch/pool_thread dispatch/loop dispatch/thread dispatch/timers "
        "dispatch/executor life orders boundary base worker"
    ),
    "actors/supervision": "registry supervisor plan ownership child roster hands restarts calls supervision",
    "actors/runtime": "system bus event_log reports services living",
    "actors/tasks/model": (
        "tasks/task tasks/policy tasks/outcome tasks/executable tasks/errors tasks/events tasks/breaker_events "
        "tasks/store_events tasks/task_event tasks/step_events tasks/naming tasks/attempt_end tasks/writable "
        "tasks/sharing"
    ),
    "actors/tasks/journal": (
        "tasks/journal tasks/written tasks/state tasks/node tasks/reopening tasks/step_folding tasks/folding "
        "tasks/report tasks/lease"
    ),
    "actors/tasks/planning": (
        "tasks/settings tasks/planner tasks/keywords tasks/meaning tasks/check tasks/doubts tasks/estimates"
    ),
    "actors/tasks/scheduling": (
        "tasks/schedule tasks/selection tasks/staff tasks/breaker tasks/deadlock tasks/slots tasks/suspects"
    ),
    "actors/tasks/results": (
        "tasks/holding tasks/context_store tasks/tokens tasks/review tasks/synthesis tasks/report_cache"
    ),
    "actors/tasks/execution": "tasks/attempt tasks/context tasks/perform tasks/adapters tasks/aside tasks/errand",
    "actors/tasks/recovery": "tasks/classify tasks/ladder tasks/trying tasks/people tasks/undoing tasks/follow",
    "actors/tasks/orchestration": (
        "tasks/orchestrator tasks/hears tasks/course tasks/steps tasks/launching tasks/giving tasks/teamwork "
        "tasks/delegating tasks/ground tasks/desk tasks/effects tasks/liaison tasks/feed tasks/guard "
        "tasks/recipe tasks/turns tasks/recording "
        "tasks/command_handlers tasks/deciding tasks/undo_dispatch"
    ),
    "actors/tasks": "tasks/__init__ tasks/public",
    "actors": "__init__",
    "actors/testing": "testing/",
    "trees/declaration": (
        "config work kind kind_actor kind_run kind_handle kind_execute kinds check check_tasks resolve build offer"
    ),
    "trees/store": "store/ ha/leases",
    "trees/views": (
        "task_parts snapshot look look_tasks dump dump_tasks runs run_view declared picture stacks worst command/seen"
    ),
    "trees/ha": "ha/",
    "trees/host": ("tree start tasking submitting handle storing console signals options removing following"),
    "trees/command": "command/ cli __main__",
    "trees": "__init__",
}
"""The files of each room, as they are called today, from the package on; a folder with a slash at its end."""


def room_of(name: str) -> str | None:
    """The room of a file (``actors/spec.py``): that of its name, or of the folder around it; None: it has none."""
    package, _, inner = name.removesuffix(".py").partition("/")
    folder = ""
    for room, files in FILES.items():
        if room.split("/")[0] == package:
            for each in files.split():
                if each == inner:
                    return room
                if each.endswith("/") and inner.startswith(each):
                    folder = room
    return folder or None


def level_of(room: str) -> int:
    """How high a room stands."""
    return next(at for at, rooms in enumerate(LEVELS) if room in rooms)
