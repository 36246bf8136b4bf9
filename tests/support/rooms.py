"""The rooms of the house: which file stands in which, and which rooms it may know. See ``test_layering``.

A room knows those of the levels below its own; rooms of one level do not know each other. Annotations count as much
as imports that run.
"""

LEVELS: tuple[tuple[str, ...], ...] = (
    ("actors/model",),
    ("actors/validation",),
    ("actors/concurrency",),
    ("actors/messaging",),
    ("actors/execution",),
    ("actors/dispatch/groups", "actors/dispatch/wire"),
    ("actors/dispatch/command", "actors/dispatch/worker"),
    ("actors/dispatch/host",),
    ("actors/dispatch",),
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
    ("trees/agents",),
    ("trees/declaration", "trees/store"),
    ("trees/views",),
    ("trees/ha",),
    ("trees/observe",),
    ("trees/host",),
    ("trees/command",),
    ("trees",),
)
"""From the lowest to the highest."""

PURE = frozenset(
    {"actors/model", "actors/validation", "actors/tasks/model", "actors/tasks/journal", "actors/tasks/planning"}
)
"""Rooms that only decide: they load no threads, no event loop, no Pykka and no log."""

NOT_PURE = frozenset({"actors/tasks/journal/store.py", "actors/tasks/journal/local_lease.py"})
"""Files of these rooms that do nevertheless."""

FILES: dict[str, str] = {
    "actors/model": "model/",
    "actors/validation": "validation/",
    "actors/concurrency": "concurrency/",
    "actors/messaging": "messaging/",
    "actors/execution": "execution/",
    "actors/dispatch/groups": "dispatch/groups/",
    "actors/dispatch/wire": "dispatch/remote dispatch/log_relay dispatch/span_wire",
    "actors/dispatch/command": "dispatch/command/",
    "actors/dispatch/worker": "dispatch/worker/",
    "actors/dispatch/host": "dispatch/host/ dispatch/process dispatch/ray",
    "actors/dispatch": "dispatch/ worker",
    "actors/supervision": "supervision/",
    "actors/runtime": "runtime/",
    "actors/tasks/model": "tasks/model/",
    "actors/tasks/journal": "tasks/journal/",
    "actors/tasks/planning": "tasks/planning/",
    "actors/tasks/scheduling": "tasks/scheduling/",
    "actors/tasks/results": "tasks/results/",
    "actors/tasks/execution": "tasks/execution/",
    "actors/tasks/recovery": "tasks/recovery/",
    "actors/tasks/orchestration": "tasks/orchestration/",
    "actors/tasks": "tasks/__init__ tasks/public",
    "actors": "__init__",
    "actors/testing": "testing/",
    "trees/agents": "agents/",
    "trees/declaration": "declaration/",
    "trees/store": "store/",
    "trees/views": "views/",
    "trees/ha": "ha/",
    "trees/observe": "observe/",
    "trees/host": "host/",
    "trees/command": "command/ cli __main__",
    "trees": "__init__",
}
"""The files of each room, from the package on; a folder with a slash at its end."""


def room_of(name: str) -> str | None:
    """The room of a file: that of its name, or of the innermost folder around it; None: it has none."""
    package, _, inner = name.removesuffix(".py").partition("/")
    found = [
        (len(each), room)
        for room, files in FILES.items()
        if room.split("/")[0] == package
        for each in files.split()
        if each == inner or (each.endswith("/") and inner.startswith(each))
    ]
    return max(found)[1] if found else None


def level_of(room: str) -> int:
    """How high a room stands."""
    return next(at for at, rooms in enumerate(LEVELS) if room in rooms)
