"""The runtime knows no tasks: ``actors`` passes the supervision tests in a copy in which ``actors/tasks`` is deleted.

By default a few tests of each kind run there; with ``REGROW_TESTS=most`` (``tests.support.sizes``) all of supervision
but overlaps and sizes, with ``all`` also these and the tests of messages and of execution.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sizes import ALL, MOST

pytestmark = pytest.mark.always

ROOT = Path(__file__).parents[2]
FEW = (
    "actors/supervision/test_auto_shutdown.py",
    "actors/supervision/test_exits.py",
    "actors/supervision/test_parking.py",
)
"""Fast, and every kind of exit, restart and limit is in them."""
MANY = (
    "actors/supervision/test_auto_shutdown.py",
    "actors/supervision/test_child_calls.py",
    "actors/supervision/test_exits.py",
    "actors/supervision/test_group_restarts.py",
    "actors/supervision/test_restart_limits.py",
    "actors/supervision/test_parking.py",
    "actors/supervision/test_size_limits.py",
    "actors/supervision/test_starting.py",
    "actors/supervision/test_stopping.py",
    "actors/supervision/test_stopped_children.py",
    "actors/runtime/test_event_bus.py",
    "actors/messaging/test_crash_or_failure.py",
    "actors/messaging/test_dead_letters.py",
    "actors/execution/test_pykka_endings.py",
    "actors/messaging/test_pykka_futures.py",
    "actors/execution/test_pykka_actors.py",
    "actors/messaging/test_pykka_messages.py",
    "actors/execution/test_incarnation_races.py",
    "actors/model/test_restart_window.py",
    "actors/messaging/test_mailbox.py",
    "actors/messaging/test_messages.py",
    "actors/execution/test_own_ends.py",
    "actors/execution/test_pool.py",
    "actors/execution/test_pool_queue.py",
    "actors/messaging/test_proxy.py",
    "actors/messaging/test_reply.py",
    "actors/model/test_strategy.py",
    "actors/execution/test_actor_pitfalls.py",
    "actors/messaging/test_wait_graph.py",
    "actors/supervision/ownership",
    "random_walks",
)
"""Whatever has to do with supervisors, workers and their messages, and not with tasks."""

ELSEWHERE = (
    "significant_needs_an_auto_shutdown",  # the check of a declaration
    "start_child_is_checked_in_the_caller",
    "every_mistake_of_a_tree_is_reported",
    "cannot_be_formatted_is_restarted",  # a dump
    "with_all_members_busy_messages_wait",  # a snapshot
)
"""Words in the names of tests that look at what the real ``trees`` does: it checks declarations and draws trees."""


SUPERVISION = [name for name in MANY if name.startswith("actors/supervision/test_") and "size_limits" not in name]
CHOSEN = MANY if ALL else SUPERVISION if MOST else FEW


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A copy of the runtime and of the tests, without tasks and with a host that needs none.

    With what is compiled of them: a copy has the times of its original.
    """
    shutil.copytree(ROOT / "actors", tmp_path / "actors", ignore=shutil.ignore_patterns("tasks"))
    shutil.copytree(ROOT / "tests" / "runtime_alone" / "trees", tmp_path / "trees")
    tests = tmp_path / "tests"
    shutil.copytree(ROOT / "tests", tests, ignore=shutil.ignore_patterns("conftest.py"))
    shutil.copy(ROOT / "tests" / "runtime_alone" / "conftest_alone.py", tests / "conftest.py")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def _run(alone: Path, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    # The copy before this folder, also where that is installed in place.
    program = f"import sys; sys.path.insert(0, {str(alone)!r}); {arguments[0]}"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments[1:]],
        cwd=alone,
        env={
            **{name: value for name, value in os.environ.items() if name != "REGROW_TESTS"},  # all of it runs outside
            "PYTHONPATH": str(alone),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


@pytest.mark.slow
@pytest.mark.timeout(1800 if MOST else 120)
def test_the_runtime_passes_the_supervision_tests_without_its_tasks(alone: Path) -> None:
    tests = [f"tests/{name}" for name in CHOSEN]
    others = " and ".join(f"not {words}" for words in ELSEWHERE)
    run = "import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    done = _run(alone, run, "-q", "-p", "no:cacheprovider", "-k", others, *tests, timeout_s=1700 if MOST else 110)

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_every_module_of_the_runtime_is_imported_without_the_tasks(alone: Path) -> None:
    """One by one, each of them first: so none needs another that was there by chance."""
    walk = (
        "import importlib, pkgutil, actors\n"
        "assert actors.__file__.startswith(sys.path[0]), actors.__file__\n"
        "names = [each.name for each in pkgutil.walk_packages(actors.__path__, 'actors.')]\n"
        "assert len(names) > 40 and not any(name.startswith('actors.tasks') for name in names), names\n"
        "for name in names: importlib.import_module(name)\n"
        "assert not any(name.startswith('actors.tasks') for name in sys.modules)\n"
        "assert not hasattr(actors, 'no_such_name')\n"
        "try: actors.Done\n"
        "except AttributeError as error: assert 'actors.tasks' in str(error)\n"
        "else: raise AssertionError('there are tasks')\n"
    )
    done = _run(alone, f"exec({walk!r})", timeout_s=60)

    assert done.returncode == 0, done.stderr[-2000:]
