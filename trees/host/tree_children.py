"""``TreeChildren``: the methods of a ``Tree`` that look at its children and change them.

Each of them is one call of ``actors.runtime.child_admin``; here stands what its user must know.
"""

from __future__ import annotations

from functools import partial

from actors.messaging.ref import Ref, ref_of
from actors.model.child_state import ChildCounts
from actors.model.spec import ChildSpec
from actors.runtime import child_admin
from actors.runtime.system import System
from actors.supervision.child import ChildInfo
from trees.declaration.build import build
from trees.declaration.check import require_place, require_spec, require_valid
from trees.declaration.check_tasks import running
from trees.declaration.shared_recipes import child_spec, known
from trees.declaration.specs import Spec, WorkerSpec
from trees.ha.roles import Leadership


class TreeChildren:
    """The part of a ``Tree`` that has to do with its children."""

    _leadership: Leadership

    def ref(self, path: str) -> Ref:
        """The address of a worker, a pool or a supervisor; it survives every restart.

        Raises:
            UnknownPathError: no child of this path is listed now.
        """
        return ref_of(self._leadership.running, path)

    def child(self, path: str) -> ChildInfo:
        """One child (or pool, as one) as it stands now; costs the same among ten and a hundred thousand.

        Raises:
            UnknownPathError: no child of this path is listed now.
        """
        return child_admin.child_info(self._leadership.running, path)

    def which_children(self, path: str) -> list[ChildInfo]:
        """The children of a supervisor in start order (OTP's order is the reverse), pool members each.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
        """
        return child_admin.which_children(self._leadership.running, path)

    def count_children(self, path: str) -> ChildCounts:
        """How many children a supervisor has: listed, running now, and listed by kind, dead or alive.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
        """
        return child_admin.count_children(self._leadership.running, path)

    def start_child(self, path: str, spec: Spec) -> Ref:
        """Add a child to the supervisor at ``path`` and start it; returns when it is up.

        The spec is checked here, in the caller. A start that fails keeps nothing. What is added is gone when its
        supervisor is restarted.

        Raises:
            ConfigError: the spec is wrong (``DepthError``: it would stand too deep).
            ChildError: refused; ``.code`` is already_started, already_present or max_children.
            StartError: it did not start.
            UnknownPathError: no supervisor of this path is listed now.
            ActorStoppedError: the supervisor is not running: it is down, or being stopped, or waits to be restarted.
            TreeDownError: the whole tree is down.
        """
        require_spec(spec)
        system = self._leadership.running
        return child_admin.start_child(system, path, _checked(spec, path, system))

    def terminate_child(self, path: str) -> None:
        """Stop a child (or all members of a pool) for good; fine if it is down already. A temporary one is forgotten.

        Raises:
            ChildError: ``.code`` is not_found.
            RecursionDetectedError: called by the child itself, which would wait for its own end.
            ActorStoppedError: its supervisor is not running; see ``start_child``.
            TreeDownError: the whole tree is down.
        """
        child_admin.terminate_child(self._leadership.running, path)

    def restart_child(self, path: str) -> Ref:
        """Start a child that is stopped or parked; returns when it is up. Not tried again where it fails.

        Raises:
            ChildError: ``.code`` is running, restarting or not_found.
            StartError: it did not start, and stays stopped.
            ActorStoppedError: its supervisor is not running; see ``start_child``.
            TreeDownError: the whole tree is down.
        """
        return child_admin.restart_child(self._leadership.running, path)

    def delete_child(self, path: str) -> None:
        """Take a child that is stopped or parked off the list.

        Raises:
            ChildError: ``.code`` is running, restarting or not_found; or owned, for an orchestrator.
            ActorStoppedError: its supervisor is not running; see ``start_child``.
            TreeDownError: the whole tree is down.
        """
        child_admin.delete_child(self._leadership.running, path)


def _checked(spec: Spec, path: str, system: System) -> ChildSpec:
    """Check a spec in its place, and build it. One that is known, but for its place, costs the same at any time."""
    parent = child_admin.supervisor_of(system, path).recipe
    level, has_tasks = path.count("/") + 2, parent.settings is not None
    kin = partial(running, lambda: child_admin.specs_of(system, path), has_tasks=has_tasks)
    if isinstance(spec, WorkerSpec) and (recipe := known(spec)) is not None:
        require_place(spec, path, level, parent.auto_shutdown, kin())
        return child_spec(spec, recipe) or build(spec, under_tasks=has_tasks)
    above = any(one.settings is not None for one in child_admin.recipes_up(system, path))
    require_valid(spec, path, level, parent.auto_shutdown, kin(tasks_above=above), system.boxes)
    return build(spec, under_tasks=has_tasks)
