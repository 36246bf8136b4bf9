"""The order of the code, read off its imports with `ast`: who may import whom, and which file is the door to what.

Each rule is a function from one file to what that file breaks; it is tried on every file of the library, and on a small
planted breach, so that a rule that sees nothing is found out. To open a door for one more file, add it to the table
with the reason.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.support.rooms import FILES, LEVELS, NOT_PURE, PURE, level_of, room_of
from tests.support.syntax import MODULES, ROOT, TOGETHER, Source, library

pytestmark = [pytest.mark.always, TOGETHER]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
WAIVED = "# Longer than the house's limit because"


@dataclass(frozen=True)
class Door:
    """Some modules, and the only files that may import them."""

    modules: frozenset[str]
    """Top-level names: ``asyncio`` stands for ``asyncio.tasks`` too."""
    files: dict[str, str]
    """File, or folder with a slash at its end, and why it may."""


DOORS = (
    Door(
        frozenset({"pykka"}),
        {
            "actors/execution/pykka_bridge.py": "our actors are Pykka actors; the one place that touches Pykka's internals",  # noqa: E501
            "actors/execution/": "a stock Pykka actor keeps a thread, and Pykka's loop, of its own",
            "actors/messaging/message_errors.py": "ReplyTimeoutError and ActorStoppedError are Pykka's errors too",
            "actors/messaging/proxy.py": "a proxy keeps to the rules of Pykka's: traversable, proxy_field, proxy_method",  # noqa: E501
            "actors/messaging/ref.py": "a Ref is a Pykka ActorRef",
            "actors/messaging/reply.py": "a reply is a Pykka Future",
            "actors/testing/": "asks the registry of Pykka what a test left behind",
            "actors/worker.py": "a Worker has the hooks of a Pykka actor",
        },
    ),
    Door(
        frozenset({"_thread", "asyncio", "concurrent", "multiprocessing", "queue", "threading"}),
        {
            "actors/execution/crash_boundary.py": "the crash boundary, where a thread or a task enters user code",
            "actors/execution/incarnation.py": "what runs a life: its thread, its task, its gate",
            "actors/concurrency/": "wake-ups, disposal and arrivals, for threads and event loops",
            "actors/execution/": "where handlers run: threads and the event loop",
            "actors/execution/incarnation_orders.py": "asks which thread a pinned life runs on",
            "actors/dispatch/": "one thread reads what all processes of this host write, and sees them end",
            "actors/messaging/handled.py": "the lock of the times that all workers of a tree add to",
            "actors/messaging/inbox.py": "the lock of a mailbox, or of a pool and its members",
            "actors/messaging/mailbox.py": "on which thread a run is",
            "actors/messaging/ref.py": "the async ways to tell and ask",
            "actors/concurrency/thread_state.py": "what a thread is, and the one place that starts one",
            "actors/messaging/reply.py": "waits in a thread, and in any event loop",
            "actors/messaging/dead_letters.py": "the lock of the books",
            "actors/runtime/abandoned_incarnations.py": "the lock of what was left to itself",
            "actors/runtime/system.py": "new locks of the mailboxes in the child of a fork",
            "actors/tasks/execution/attempt.py": "the beginning of an attempt, against its withdrawal at the same moment",  # noqa: E501
            "actors/tasks/execution/attempt_steps.py": "the numbers of the steps, which any thread of the attempt may make",  # noqa: E501
            "actors/tasks/execution/attempt_stream.py": "the pieces of a stream, which any thread of the attempt may add to",  # noqa: E501
            "actors/tasks/orchestration/stream_relay.py": "the order of all streams, and what is recalled of them",
            "actors/tasks/orchestration/task_runtime.py": "the look at a task and its removal, against another removal",
            "actors/tasks/journal/local_lease.py": "the end of the right to start something, against a renewal at the same moment",  # noqa: E501
            "actors/tasks/execution/run_attempt.py": "tells a cancelled attempt from a worker's own CancelledError",
            "actors/tasks/execution/work_elsewhere.py": "the same, in the process of a worker",
            "actors/testing/": "holds threads and tasks up on command, and lists those that a test left behind",
            "trees/agents/": "agents run on event loops and on threads, as their frameworks have it",
            "trees/host/console/": "the console answers while everything else of the tree is stuck",
            "trees/host/batch.py": "is iterated over on any event loop",
            "trees/host/start.py": "a start that is cancelled waits until what was up has been stopped",
            "trees/host/event_follower.py": "reads the events of a task on any event loop",
            "trees/ha/lease_keeper.py": "keeps the lease of a leader while everything else of the tree is stuck",
            "trees/command/run.py": "runs an async main",
            "trees/command/serve.py": "ends a server on its event loop when a signal comes",
            "trees/host/signals.py": "a signal handler may only start a bare thread",
            "trees/observe/child_history.py": "the lock of what threads of the bus write and browsers read",
            "trees/observe/alert_notifier.py": "alerts are watched and told on threads of their own",
            "trees/observe/alert_threads.py": "the threads of the alerts, which come back when they have crashed",
            "trees/observe/metrics.py": "the lock of the trees that a registry shows",
            "trees/observe/web/": "the page has a thread and an event loop of its own, which cannot hurt the tree",
            "trees/store/sql_lease.py": "the lock of its connection: a keeper's requests may come from several threads",
            "trees/store/memory.py": "the lock of its tables: callers and orchestrators write to it",
            "trees/store/sql.py": "the lock of its index: callers, orchestrators and its writer look at it",
            "trees/store/writer.py": "the one thread that writes, because nobody else may wait for a disk",
            "trees/store/value_reader.py": "the one thread that reads large values back, for the same reason",
        },
    ),
    Door(
        frozenset({"agents", "anyio", "httpx", "langchain_core", "langgraph", "mcp", "opentelemetry", "pydantic_ai"}),
        {"trees/agents/": "one file for each framework, which its extra installs"},
    ),
    Door(frozenset({"prometheus_client"}), {"trees/observe/metrics.py": "what the extra `metrics` installs"}),
    Door(
        frozenset({"sse_starlette", "starlette", "uvicorn"}),
        {
            "trees/agents/serving.py": "the MCP server over HTTP",
            "trees/observe/web/": "what the extra `web` installs",
        },
    ),
    Door(
        frozenset({"subprocess"}),
        {
            "actors/dispatch/": "starts the processes of workers",
            "trees/command/top/target_run.py": "starts a program whose output must stay off the screen",
        },
    ),
    Door(
        frozenset({"socket"}),
        {
            "actors/dispatch/": "the wire to a worker's process",
            "trees/agents/serving.py": "a server's port",
            "trees/observe/web/web_server.py": "the port of the page",
            "trees/host/console/": "both ends of the console",
        },
    ),
    Door(
        frozenset({"signal"}),
        {
            "actors/dispatch/": "ends process groups",
            "trees/agents/mcp_process.py": "the names of the signals that a server is ended with",
            "trees/declaration/command.py": "the names of signals",
            "trees/command/run.py": "a clean end on SIGTERM as on Ctrl-C",
            "trees/command/serve.py": "the same for a server",
            "trees/host/signals.py": "a dump on a signal, when the host asks for it",
        },
    ),
    Door(frozenset({"ray"}), {"actors/dispatch/ray.py": "workers in a cluster, which the extra `ray` installs"}),
    Door(
        frozenset({"rich"}),
        {"trees/command/live_view.py": "the live view of the command line", "trees/command/top/": "texts of its cells"},
    ),
    Door(frozenset({"textual"}), {"trees/command/top/": "the program on a terminal, which the extra `cli` installs"}),
    Door(frozenset({"psycopg", "sqlalchemy", "sqlite3"}), {"trees/store/": "what the extra `sql` installs"}),
    Door(
        frozenset({"typer"}),
        {
            "trees/command/app.py": "the command line",
            "trees/command/task_commands.py": "its part that has to do with tasks",
            "trees/command/top_command.py": "its part that shows a tree live",
        },
    ),
    Door(
        frozenset({"loguru"}),
        {
            "trees/observe/alerts.py": "an alert that is told to the log",
            "actors/runtime/event_log.py": "one subscriber of the event stream writes the log",
            "actors/dispatch/log_relay.py": "lines of a worker's process go to the log of its host",
            "trees/command/live_view.py": "log lines go above the live view",
        },
    ),
    Door(
        frozenset({"datetime", "time"}),
        {
            "actors/model/clock.py": "everything else is given a Clock",
            "actors/tasks/execution/fingerprint.py": "names the types of dates among the arguments of a step",
        },
    ),
    Door(
        frozenset({"random"}),
        {"actors/runtime/system.py": "makes the one seeded Random of a tree; the rest is given it"},
    ),
)
"""One door for each dependency that is hard to test or may be replaced."""

IMPURE = frozenset({"_thread", "asyncio", "concurrent", "loguru", "multiprocessing", "pykka", "queue", "threading"})
"""What no pure room loads."""


def _top(dotted: str) -> str:
    return dotted.partition(".")[0]


# -- the rules: what a file breaks, one text a breach --------------------------------------------------------


def imports_the_wrong_way(file: Source) -> list[str]:
    """`trees` stands on `actors`, and neither knows the tests or the examples."""
    wrong = {"tests", "examples"} | ({"trees"} if file.name.startswith("actors/") else set())
    return [f"{file.name}:{line}: imports {name}" for line, name in file.imports() if _top(name) in wrong]


def opens_a_door_of_others(file: Source) -> list[str]:
    """What stands behind a door is imported by the files of that door only; its types may be named anywhere."""
    return [
        f"{file.name}:{line}: imports {name}; only these may: {', '.join(door.files)}"
        for line, name in file.imports(when_run=True)
        for door in DOORS
        if _top(name) in door.modules and not file.stands_in(door.files)
    ]


def knows_a_room_above(file: Source) -> list[str]:
    """A file knows the rooms below its own, and its own; what stands under ``if TYPE_CHECKING:`` counts as well."""
    room = room_of(file.name)
    if room is None:
        return [f"{file.name}: stands in no room; give it one in tests/support/rooms.py"]
    found = []
    for target, line in file.arrows:
        other = room_of(target)
        if other is not None and other != room and level_of(other) >= level_of(room):
            found.append(f"{file.name}:{line}: of {room}, knows {target}, of {other}")
    return found


def is_not_as_pure_as_it_says(file: Source) -> list[str]:
    """A file of a pure room loads no threads, no event loop, no Pykka and no log."""
    if room_of(file.name) not in PURE or file.name in NOT_PURE:
        return []
    return [f"{file.name}:{line}: imports {name}" for line, name in file.imports(when_run=True) if _top(name) in IMPURE]


def draws_from_the_global_random(file: Source) -> list[str]:
    """Randomness comes from a `random.Random` that somebody seeded, never from the module's own functions."""
    used = [(line, name) for line, name in file.imports() if _top(name) == "random" and name != "random"]
    used += [
        (node.lineno, f"random.{node.attr}")
        for node in file.of(ast.Attribute)
        if isinstance(node.value, ast.Name) and node.value.id == "random"
    ]
    return [f"{file.name}:{line}: uses {name}" for line, name in used if name != "random.Random"]


def lists_the_items_of_a_dict(file: Source) -> list[str]:
    """What others change meanwhile is walked through in a copy, which is made in one step of C.

    ``list(d.items())`` makes a tuple for each item. There CPython 3.11 may collect garbage: a finalizer runs, and other
    threads get their turn and change the dict.
    """
    return [
        f"{file.name}:{node.lineno}: {ast.unparse(node)}; write d.copy().items()"
        for node in file.of(ast.Call)
        if isinstance(node.func, ast.Name)
        and node.func.id in ("list", "tuple", "set")
        and re.fullmatch(r"[\w.]+\.items\(\)", "".join(map(ast.unparse, node.args)))
    ]


def is_too_long(file: Source) -> list[str]:
    """A file stays under 400 lines and a function under 50, docstrings included, or the top of the file says why."""
    if re.search(rf"^{WAIVED} \S", _top_of(file), re.MULTILINE):
        return []
    lines = file.text.count("\n")
    found = [f"{file.name}: {lines} lines, limit {MAX_FILE_LINES - 1}"] if lines >= MAX_FILE_LINES else []
    for node in (*file.of(ast.FunctionDef), *file.of(ast.AsyncFunctionDef)):
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length >= MAX_FUNCTION_LINES:
            found.append(f"{file.name}:{node.lineno}: {node.name} has {length} lines, limit {MAX_FUNCTION_LINES - 1}")
    return found


def _top_of(file: Source) -> str:
    """What stands above the first statement that is not the docstring."""
    body = file.tree.body
    has_docstring = bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    rest = body[1:] if has_docstring else body
    return "\n".join(file.text.splitlines()[: rest[0].lineno - 1 if rest else None])


# -- the rules, tried --------------------------------------------------------------------------------------

Rule = Callable[[Source], list[str]]

LONG_FUNCTION = "def f():\n" + "    pass\n" * (MAX_FUNCTION_LINES - 1)
BREACHES: list[tuple[Rule, str, str]] = [
    (imports_the_wrong_way, "actors/messaging/ref.py", "import trees.host.tree"),
    (imports_the_wrong_way, "actors/messaging/ref.py", "def f():\n    from trees import start"),
    (imports_the_wrong_way, "trees/cli.py", "from tests.faults import soak"),
    (opens_a_door_of_others, "actors/supervision/supervisor.py", "import pykka"),
    (opens_a_door_of_others, "actors/supervision/supervisor.py", "from threading import Lock"),
    (opens_a_door_of_others, "trees/host/tree.py", "import concurrent.futures"),
    (opens_a_door_of_others, "actors/dispatch/worker/ray_worker.py", "def f():\n    import ray"),
    (opens_a_door_of_others, "actors/execution/pykka_bridge.py", "from loguru import logger"),
    (opens_a_door_of_others, "actors/model/restart_window.py", "from time import monotonic"),
    (opens_a_door_of_others, "actors/model/restart_window.py", "if TYPE_CHECKING:\n    x = 1\nelse:\n    import time"),
    (is_not_as_pure_as_it_says, "actors/model/spec.py", "import asyncio"),
    (is_not_as_pure_as_it_says, "actors/validation/spec_model.py", "def f():\n    import pykka"),
    (knows_a_room_above, "actors/model/spec.py", "from actors.messaging.mailbox import Mailbox"),
    (knows_a_room_above, "actors/model/spec.py", "from ..messaging import mailbox"),
    (knows_a_room_above, "actors/model/spec.py", "from actors import Worker"),
    (knows_a_room_above, "actors/model/spec.py", "if TYPE_CHECKING:\n    from actors.tasks.model.task import Task"),
    (
        knows_a_room_above,
        "actors/tasks/planning/plan_validation.py",
        "from actors.tasks.scheduling.worker_registry import WorkerRegistry",
    ),
    (
        knows_a_room_above,
        "actors/dispatch/worker/worker_main.py",
        "from actors.dispatch.host.worker_handle import WorkerHandle",
    ),
    (
        knows_a_room_above,
        "actors/dispatch/remote.py",
        "if TYPE_CHECKING:\n    from actors.dispatch.process import ProcessCode",
    ),
    (knows_a_room_above, "actors/new.py", "import math"),
    (draws_from_the_global_random, "actors/runtime/system.py", "import random\nrandom.random()"),
    (draws_from_the_global_random, "actors/runtime/system.py", "from random import uniform"),
    (lists_the_items_of_a_dict, "actors/runtime/system.py", "for path, box in list(self.boxes.items()): pass"),
    (is_too_long, "actors/messaging/ref.py", "x = 1\n" * MAX_FILE_LINES),
    (is_too_long, "actors/messaging/ref.py", LONG_FUNCTION),
    (is_too_long, "actors/messaging/ref.py", f"import re\n{WAIVED} it is not at the top\n{LONG_FUNCTION}"),
    (is_too_long, "actors/messaging/ref.py", f"{WAIVED}\n{LONG_FUNCTION}"),
]
LEGAL: list[tuple[Rule, str, str]] = [
    (imports_the_wrong_way, "trees/host/tree.py", "import actors"),
    (opens_a_door_of_others, "actors/execution/loop.py", "import asyncio, pykka"),
    (opens_a_door_of_others, "actors/supervision/supervisor.py", "from actors.model.clock import Clock"),
    (opens_a_door_of_others, "actors/messaging/mailbox.py", "if TYPE_CHECKING:\n    from random import Random"),
    (is_not_as_pure_as_it_says, "actors/model/strategy.py", "import math\nif TYPE_CHECKING:\n    import asyncio"),
    (knows_a_room_above, "actors/model/strategy.py", "import math\nfrom actors.model.spec import Strategy"),
    (knows_a_room_above, "actors/model/strategy.py", "from actors.model import spec\nfrom . import limit"),
    (knows_a_room_above, "trees/host/tree.py", "from actors import Worker\nfrom trees.views.capture import capture"),
    (draws_from_the_global_random, "actors/runtime/system.py", "import random\nrandom.Random(7).random()"),
    (lists_the_items_of_a_dict, "actors/runtime/system.py", "for path, box in self.boxes.copy().items(): list(path)"),
    (is_too_long, "actors/messaging/ref.py", "x = 1\n" * (MAX_FILE_LINES - 1)),
    (is_too_long, "actors/messaging/ref.py", LONG_FUNCTION.replace("    pass\n", "", 1)),
    (is_too_long, "actors/messaging/ref.py", f'"""Doc."""\n\n{WAIVED} it must.\n\n{LONG_FUNCTION}'),
]


def _ids(rows: list[tuple[Rule, str, str]]) -> list[str]:
    return [f"{rule.__name__}-{number}" for number, (rule, _, _) in enumerate(rows)]


def _assert_kept(rule: Rule) -> None:
    breaches = [breach for file in library() for breach in rule(file)]
    assert not breaches, "\n".join(["", *breaches])


def test_trees_imports_actors_and_never_the_other_way_round() -> None:
    _assert_kept(imports_the_wrong_way)


def test_each_dependency_is_imported_only_by_the_files_of_its_door() -> None:
    _assert_kept(opens_a_door_of_others)


def test_pure_files_import_no_threads_no_loop_no_pykka_and_no_log() -> None:
    _assert_kept(is_not_as_pure_as_it_says)


def test_pure_files_load_nothing_that_does() -> None:
    """In an interpreter of its own, without the packages' own ``__init__``, which load everything."""
    names = [name for name in MODULES.values() if room_of(name) in PURE and name not in NOT_PURE]
    done = subprocess.run(
        [sys.executable, "-c", LOADS, str(ROOT), *(name.removesuffix(".py").replace("/", ".") for name in names)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert not loaded, f"of {len(names)} pure files some load {sorted(loaded)}"
    assert len(names) > 20


LOADS = """
import importlib, sys, types
import pydantic, pydantic_core, traceback, inspect, weakref, email.utils, statistics
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter
TypeAdapter(BaseModel)
root, *names = sys.argv[1:]
sys.path.insert(0, root)
for package in ("actors", "actors.tasks"):
    bare = types.ModuleType(package)
    bare.__path__ = [f"{root}/{package.replace('.', '/')}"]
    sys.modules[package] = bare
before = set(sys.modules)
for name in names:
    importlib.import_module(name)
impure = {"asyncio", "loguru", "pykka", "threading", "concurrent.futures", "multiprocessing", "queue"}
print(*(impure & (set(sys.modules) - before)))
"""
"""Prints what impure modules these files load that pydantic and the standard library have not loaded before."""


def wrong_arrows() -> Iterator[tuple[str, str]]:
    """Each file that knows one of a room above its own, and that one."""
    for file in library():
        room = room_of(file.name)
        for target, _ in file.arrows:
            other = room_of(target)
            if room is not None and other is not None and other != room and level_of(other) >= level_of(room):
                yield file.name, target


def test_each_file_stands_in_a_room_and_each_room_on_one_level() -> None:
    homeless = [file.name for file in library() if room_of(file.name) is None]
    assert not homeless, f"give them a room in tests/support/rooms.py: {homeless}"
    rooms = [room for level in LEVELS for room in level]
    assert sorted(rooms) == sorted(FILES)
    gone = [
        f"{room}: {each}"
        for room, files in FILES.items()
        for each in files.split()
        if not (ROOT / room.split("/")[0] / (each if each.endswith("/") else f"{each}.py")).exists()
    ]
    assert not gone, gone


def test_no_file_knows_one_of_a_room_above_its_own() -> None:
    wrong = [f"{file} -> {target}" for file, target in wrong_arrows()]
    assert not wrong, "\n".join(["", *wrong])


def test_no_part_of_an_orchestrator_has_the_orchestrator_in_its_hands() -> None:
    orchestrator, room = "actors/tasks/orchestration/orchestrator.py", "actors/tasks/orchestration/"
    files = [file for file in library() if file.name.startswith(room)]
    knowing = {file.name for file in files if orchestrator in {target for target, _ in file.arrows}}
    assert knowing == {f"{room}orchestrator_recipe.py"}
    assert not [file.name for file in files if "self._to." in (ROOT / file.name).read_text(encoding="utf-8")]


def test_a_supervisor_knows_no_kind_of_incarnation_by_name() -> None:
    known = {
        target
        for file in library()
        if room_of(file.name) in {"actors/supervision", "actors/runtime"}
        for target, _ in file.arrows
        if target.startswith("actors/dispatch/")
    }
    assert known == {"actors/dispatch/incarnation_types.py"}


def test_no_framework_is_loaded_before_it_is_used() -> None:
    """In an interpreter of its own, which loads the whole library but for what belongs to one framework."""
    frameworks = {name for door in DOORS for name in door.modules if not name.startswith("_")} & LATE
    code = "import sys, trees\nprint(*(set(sys.argv[1:]) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code, *frameworks], capture_output=True, text=True, check=True, timeout=100, cwd=ROOT
    )
    assert frameworks == LATE
    assert done.stdout.split() == []


LATE = frozenset(
    {"agents", "langchain_core", "langgraph", "mcp", "opentelemetry", "pydantic_ai", "ray", "sqlalchemy", "starlette"}
)
"""Packages of extras, which a process without such a worker, store or page never loads."""


def test_no_circle_of_files_leaves_its_room() -> None:
    known = {file.name: {each for each, _ in file.arrows} for file in library()}
    for circle in _circles(known):
        rooms = {room_of(name) for name in circle}
        assert len(rooms) == 1, f"a circle through {rooms}: {sorted(circle)}"


def test_no_private_attribute_is_set_from_outside() -> None:
    """Or deleted. ``self`` and ``cls`` are inside."""
    found = [
        f"{file.name}:{node.lineno}: {ast.unparse(node)}"
        for file in library()
        for node in file.of(ast.Attribute)
        if isinstance(node.ctx, (ast.Store, ast.Del))
        and re.fullmatch(r"_[^_].*", node.attr)
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
    ]
    assert not found, found


def test_private_attributes_are_read_from_outside_less_and_less() -> None:
    """Lower the number with each one that is gone: ``self``, ``cls`` and ``super()`` are inside."""
    found = [
        f"{file.name}:{node.lineno}: {ast.unparse(node)}"
        for file in library()
        for node in file.of(ast.Attribute)
        if isinstance(node.ctx, ast.Load)
        and re.fullmatch(r"_[^_].*", node.attr)
        and ast.unparse(node.value) not in {"self", "cls", "super()"}
    ]
    assert len(found) <= PRIVATE_READS, "\n".join([f"{len(found)}:", *found])


PRIVATE_READS = 16
"""Most of them are friends: a table of an object's own handlers, ``__eq__``, a store and its session."""


def test_no_import_hooks_anything_into_the_interpreter() -> None:
    """Calls of these stand in functions, never at the top of a file."""
    hooks = {
        "atexit.register",
        "os.register_at_fork",
        "after_fork",
        "signal.signal",
        "sys.excepthook",
        "threading.excepthook",
    }
    found = [
        f"{file.name}:{node.lineno}: {ast.unparse(node)}"
        for file in library()
        for statement in file.tree.body
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in hooks
    ]
    assert not found, found


def test_no_table_runs_code_where_a_thing_of_it_goes() -> None:
    """Use ``actors.model.weak_tables`` and ``actors.concurrency.let_go_watch``, which say why."""
    with_callbacks = {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "WeakMethod", "finalize", "__del__"}
    found = [
        f"{file.name}:{node.lineno}"
        for file in library()
        for node, name in (
            *((node, node.attr) for node in file.of(ast.Attribute)),
            *((node, node.id) for node in file.of(ast.Name)),
            *((node, node.name) for node in file.of(ast.FunctionDef)),
        )
        if name in with_callbacks
    ]
    assert not found, found


def _circles(known: dict[str, set[str]]) -> list[set[str]]:
    """The groups of files in which each leads to each other (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in known.get(name, ()):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            found.append(set(stack[at:]))
            del stack[at:]

    for name in known:
        if name not in index:
            visit(name)
    return [each for each in found if len(each) > 1]


def test_randomness_comes_from_a_seeded_random_that_was_passed_in() -> None:
    _assert_kept(draws_from_the_global_random)


def test_no_dict_is_walked_through_item_by_item_while_others_may_change_it() -> None:
    _assert_kept(lists_the_items_of_a_dict)


def test_files_and_functions_are_short_or_their_file_says_why_not() -> None:
    _assert_kept(is_too_long)


def test_the_rules_are_tried_on_real_files() -> None:
    assert {"actors/model/errors.py", "actors/model/spec.py"} <= {file.name for file in library()}


@pytest.mark.parametrize(("rule", "name", "text"), BREACHES, ids=_ids(BREACHES))
def test_a_rule_finds_a_planted_breach(rule: Rule, name: str, text: str) -> None:
    (breach,) = rule(Source(name, text))

    assert breach.startswith(name)


@pytest.mark.parametrize(("rule", "name", "text"), LEGAL, ids=_ids(LEGAL))
def test_a_rule_lets_pass_what_is_legal(rule: Rule, name: str, text: str) -> None:
    assert rule(Source(name, text)) == []


def test_no_file_names_a_package_index_or_a_folder_of_the_machine_it_was_written_on() -> None:
    # Put together from pieces, so that this file does not name them either.
    hosts = "|".join(("py" + r"pi\.org", "python" + "hosted", "registry" + r"\.npm" + "js"))
    forbidden = re.compile(rf"{hosts}|(?<![\w.~-])/(?:work|root|home|Users)/\w")
    folders = [path for name in (".ci", "actors", "examples", "tests", "trees") for path in (ROOT / name).rglob("*")]
    files = [path for path in [*folders, *ROOT.glob("*")] if path.suffix in {"", ".md", ".py", ".toml"}]

    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        if path.is_file() and path.name != ".git"  # a file in a second working tree, which names the first one
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if forbidden.search(line)
    ]

    assert not found, found
