"""Taking a snapshot of a tree.

Comes in: a ``System`` that runs, or has run. Goes out: a ``TreeSnapshot``. It is taken in the caller's thread from
single reads (see ``actors.supervision.child``): no supervisor is asked and no lock is waited for, so it works while the
tree starts, hangs, stops or is down. Each child is shown as it was at one moment, all of them at slightly different
ones. Whatever state the tree is in raises nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from actors.execution.incarnation import Incarnation, IncarnationPhase
from actors.messaging.envelope import message_type
from actors.messaging.pool_address import PoolAddress
from actors.model.child_state import State
from actors.model.errors import UnknownPathError
from actors.model.restart_window import RestartWindow
from actors.model.spec import SupervisorRecipe, WorkerRecipe
from actors.runtime.child_admin import members_of
from actors.runtime.system import System
from actors.supervision.child import Child, ChildState
from actors.tasks.journal.view import SupervisorTasks, service_of, tasks_of
from actors.validation.validation_messages import require_path
from trees.views.capture_tasks import capture_tasks
from trees.views.snapshot import (
    BreakerSnapshot,
    Doing,
    ExitSnapshot,
    LimitSnapshot,
    MessageSnapshot,
    PoolSnapshot,
    ProcessSnapshot,
    SupervisorSnapshot,
    TreeSnapshot,
    WorkerSnapshot,
)
from trees.views.stacks import stack_of_incarnation

NO_FACTS: Final[Mapping[str, Any]] = MappingProxyType({})
Room: TypeAlias = Callable[[str, int], int]


def capture(
    system: System,
    path: str | None = None,
    *,
    stacks: bool = False,
    fold: bool = False,
    streams: bool = False,
    leading: Mapping[str, Any] = NO_FACTS,
    room: Room | None = None,
    keep: Collection[str] = (),
    tasks: bool = True,
) -> TreeSnapshot:
    """Look at the tree, or at the child or pool at ``path`` and what is below it.

    Args:
        system: of the tree.
        path: None: the root.
        stacks: also where the code of busy and of abandoned workers stands.
        fold: leave out the members of pools, but for a pool that is asked for by its path; and of tasks what no text
            has a line for.
        streams: also the last line that each running subtask has streamed, which is content.
        leading: what is to be said of who leads.
        room: ``room(path, number)``: how many of its children a supervisor shows, or of its members a pool; the others
            are not looked at, only counted. None: all.
        keep: paths of children, and of pools, that are shown even where there is no room for them.
        tasks: False: no task is looked at; of supervisors it is as if they had none.

    Raises:
        UnknownPathError: nothing of this path is listed now. Whatever state the tree is in raises nothing.
    """
    now = system.now()
    look = _Capture(system, now, stacks, fold, streams, tasks_of(system), room, keep, tasks)
    path, durable = system.root_path if path is None else path, service_of(system).durable
    return TreeSnapshot(
        top=look.at(path),
        taken_at=system.epoch + now,
        gave_up=None if system.cause is None else str(system.cause),
        store_paused_s=None if durable is None else durable.paused_s,
        dead_letters=_by_name(system.dead_letters),
        abandoned=_by_name(system.abandoned_by_path),
        threads=system.pool.size,
        **leading,
    )


def children_by_state(system: System) -> dict[str, int]:
    """Count the children of a tree by state, without the root. Each member of a pool is a child.

    Whatever tells how many children a tree has takes the number from here.
    """
    return Counter(child.state for child in list(system.children.values()) if child is not system.root)


def _by_name(counter: Counter[str]) -> dict[str, int]:
    return {str(name): count for name, count in sorted(dict(counter).items())}


@dataclass(frozen=True, slots=True)
class _Capture:
    """One look at a tree."""

    system: System
    now: float
    stacks: bool
    fold: bool
    streams: bool
    tasks_by_path: Mapping[str, SupervisorTasks]
    room: Room | None = None
    keep: Collection[str] = ()
    tasks: bool = True

    def at(self, path: str) -> WorkerSnapshot | PoolSnapshot | SupervisorSnapshot:
        """Return what stands at a path."""
        require_path(path)
        child = self.system.children.get(path)
        if child is not None:
            return self.one(child)
        members = members_of(self.system, path)
        if not members:
            raise UnknownPathError(path, self.system.near(path))
        return self.pool(path, sorted(members, key=lambda child: child.seq), fold=False)

    def one(self, child: Child) -> WorkerSnapshot | SupervisorSnapshot:
        """A child that is no pool."""
        recipe = child.spec.recipe
        return self.supervisor(child, recipe) if isinstance(recipe, SupervisorRecipe) else self.worker(child, recipe)

    def worker(self, child: Child, recipe: WorkerRecipe) -> WorkerSnapshot:
        """A worker."""
        # Positional reads into locals: this runs a hundred thousand times for a tree of that size.
        box, incarnation, spec, state = child.mailbox, child.incarnation, child.spec, child.state
        retry_in_s = self.retry_in_s(child) if state == "restarting" else None
        return WorkerSnapshot(
            path=box.path,
            id=child.id,
            restart=spec.restart.value,
            parks=spec.park,
            restarts=child.restarts,
            last_exit=self.last_exit(child),
            dead_letters=box.dead,
            abandoned=box.abandoned,
            breaker=self.breaker(box.path) if spec.pool is None else None,
            state=state,
            doing=_doing(child, state, retry_in_s),
            incarnation=box.incarnation,
            up_s=self.up_s(child),
            retry_in_s=retry_in_s,
            own_limit=self.own_limit(child) if spec.park else None,
            mailbox=None if recipe.is_body or recipe.never_waits else box.depth,
            current=self.current(incarnation) if incarnation is not None else None,
            process=None if incarnation is None or (pid := incarnation.pid) is None else process_of(pid),
            node=None if incarnation is None else incarnation.node,
            stack=stack_of_incarnation(incarnation) if self.stacks and incarnation is not None else None,
            abandoned_stacks=self.abandoned_stacks(box.path) if self.stacks else None,
        )

    def supervisor(self, child: Child, recipe: SupervisorRecipe) -> SupervisorSnapshot:
        """A supervisor with everything below it."""
        spec, state = child.spec, child.state
        retry_in_s = self.retry_in_s(child) if state == "restarting" else None
        supervisor = self.system.supervisors.get(child.path)
        ending = supervisor is not None and supervisor.shutdown is not None and child.standing is ChildState.UP
        last = child.last_exit
        seen = last.at if child.is_down and last is not None else self.now
        children, hidden = self.below(child)
        return SupervisorSnapshot(
            path=child.path,
            id=child.id,
            restart=spec.restart.value,
            parks=spec.park,
            restarts=child.restarts,
            last_exit=self.last_exit(child),
            dead_letters=child.mailbox.dead,
            abandoned=child.mailbox.abandoned,
            breaker=self.breaker(child.path),
            state=state,
            doing="stopping" if ending else _doing(child, state, retry_in_s),
            incarnation=child.mailbox.incarnation,
            up_s=self.up_s(child),
            retry_in_s=retry_in_s,
            own_limit=self.own_limit(child) if spec.park else None,
            strategy=recipe.strategy.value,
            limit=LimitSnapshot(
                restarts=supervisor.restarts.window.count(seen) if supervisor is not None else None,
                max_restarts=recipe.limit.max_restarts,
                period_s=recipe.limit.period_s,
            ),
            children=children,
            hidden=hidden,
            **self.tasks_of(child),
        )

    def tasks_of(self, child: Child) -> dict[str, Any]:
        """Fields of a supervisor on its tasks."""
        tasks = self.tasks_by_path.get(child.path) if self.tasks else None
        return capture_tasks(tasks, fold=self.fold, streams=self.streams)

    def below(self, child: Child) -> tuple[tuple[WorkerSnapshot | PoolSnapshot | SupervisorSnapshot, ...], int]:
        """Return those children of a supervisor that there is room for, and the number of the others."""
        if self.room is None:
            return tuple(self.nodes(child)), 0
        number = len({each.spec.id for each in self.children_of(child)})  # members of a pool share the id of its spec
        shown = tuple(self.nodes(child, max(0, self.room(child.path, number))))
        return shown, max(0, number - len(shown))

    def nodes(
        self, child: Child, most: int | None = None
    ) -> Iterator[WorkerSnapshot | PoolSnapshot | SupervisorSnapshot]:
        """The children of a supervisor, the members of a pool as one: all, or the first ones and what is to be kept."""
        pools: dict[str, list[Child]] = {}
        children = self.children_of(child)
        for below in [each for each in children if each.spec.pool is not None]:
            pools.setdefault(below.spec.id, []).append(below)
        left = len(children) if most is None else most
        for below in children if left or self.keep else ():
            path = below.path if below.spec.pool is None else f"{child.path}/{below.spec.id}"
            members = None if below.spec.pool is None else pools.pop(below.spec.id, None)
            if below.spec.pool is not None and members is None:
                continue  # of a pool that had its turn
            left -= 1
            if left >= 0 or path in self.keep:
                yield self.one(below) if members is None else self.pool(path, members, fold=self.fold)
            elif not self.keep:
                return

    def children_of(self, child: Child) -> list[Child]:
        """The children that a supervisor has, or had when it ended."""
        supervisor = self.system.supervisors.get(child.path)
        return [] if supervisor is None else list(supervisor.table.children.values())

    def pool(self, path: str, members: list[Child], *, fold: bool) -> PoolSnapshot:
        """A pool; ``members`` is not empty."""
        spec, recipe = members[0].spec, members[0].spec.recipe
        states = [(child, child.state) for child in members]
        words = [_doing(child, state, self.retry_in_s(child)) for child, state in states]
        exits = [(last.reason.clean, last, child) for child in members if (last := child.last_exit) is not None]
        bodies = isinstance(recipe, WorkerRecipe) and recipe.is_body
        incarnations = [incarnation for child in members if (incarnation := child.incarnation) is not None]
        return PoolSnapshot(
            path=path,
            id=spec.id,
            restart=spec.restart.value,
            parks=spec.park,
            restarts=sum(child.restarts for child in members),
            last_exit=self.last_exit(min(exits, key=lambda each: (each[0], -each[1].at))[2]) if exits else None,
            dead_letters=sum(child.mailbox.dead for child in members),
            abandoned=sum(child.mailbox.abandoned for child in members),
            breaker=self.breaker(path),
            size=len(members),
            states=Counter(state for _, state in states),
            doing=Counter(word for word in words if word is not None),
            mailbox=None if bodies else self.waiting(path) + sum(child.mailbox.depth for child in members),
            busy=sum(incarnation.current is not None for incarnation in incarnations),
            members=None
            if fold
            else tuple(self.worker(child, recipe) for child in members if isinstance(recipe, WorkerRecipe)),
        )

    def waiting(self, path: str) -> int:
        """Messages that wait for any member of a pool."""
        box = self.system.boxes.get(path)
        return box.depth if isinstance(box, PoolAddress) else 0

    # -- one fact each -------------------------------------------------------------------------------------

    def last_exit(self, child: Child) -> ExitSnapshot | None:
        """How its last incarnation ended."""
        last = child.last_exit
        if last is None:
            return None
        return ExitSnapshot(reason=last.reason.value, detail=_plain(last.detail), age_s=max(0.0, self.now - last.at))

    def current(self, incarnation: Incarnation) -> MessageSnapshot | None:
        """Return what it handles. The reads have an order: an incarnation writes ``since`` before ``current``."""
        current = incarnation.current
        if current is None:
            return None
        return MessageSnapshot(type=_plain(message_type(current[0])), age_s=max(0.0, self.now - incarnation.since))

    def up_s(self, child: Child) -> float | None:
        """How long it has been up."""
        since = child.up_since
        up = child.is_up
        return max(0.0, self.now - since) if up and since is not None else None

    def retry_in_s(self, child: Child) -> float | None:
        """How long its backoff, or that of its group, still takes."""
        plan = child.plan
        if plan is None or child.standing is not ChildState.DOWN:
            return None
        due = plan.due
        return due - self.now if due is not None and due > self.now else None

    def own_limit(self, child: Child) -> LimitSnapshot | None:
        """The limit of a child that parks: the figures of its supervisor, counted for it alone."""
        parent = self.system.supervisors.get(child.path.rpartition("/")[0])
        if parent is None:
            return None
        limit, window = parent.recipe.limit, child.window
        last = child.last_exit
        restarts = _count(window, last.at if child.state == "parked" and last is not None else self.now)
        return LimitSnapshot(restarts=restarts, max_restarts=limit.max_restarts, period_s=limit.period_s)

    def breaker(self, path: str) -> BreakerSnapshot | None:
        """The breaker of a worker, a pool or a team."""
        above, _, id_ = path.rpartition("/")
        tasks = self.tasks_by_path.get(above)
        breaker = tasks.breaker(id_) if tasks is not None else None
        return None if breaker is None else BreakerSnapshot(state=breaker[0], probe_in_s=breaker[1])

    def abandoned_stacks(self, path: str) -> tuple[str, ...]:
        """Stacks of the abandoned incarnations."""
        abandoned = [each for each in list(self.system.strays.incarnations) if each.mailbox.path == path]
        return tuple(stack for each in abandoned if (stack := stack_of_incarnation(each)) is not None)


def _count(window: RestartWindow | None, now: float) -> int:
    """Without a window it was never restarted: that is a 0 we know."""
    return 0 if window is None else window.count(now)


def _doing(child: Child, state: State, retry_in_s: float | None) -> Doing | None:
    """Return the activity of a child that was in this state a moment ago, so that the two never contradict."""
    standing, incarnation = child.standing, child.incarnation
    if state == "running":
        ends = incarnation is not None and (incarnation.must_stop or incarnation.phase is IncarnationPhase.ENDING)
        return "stopping" if ends or standing is ChildState.STOPPING else None
    if state == "restarting":
        if standing is ChildState.STARTING:
            return "starting"
        return "backoff" if retry_in_s is not None else "waiting"
    return None


def _plain(name: str) -> str:
    """The name of a type, which may be any str: nothing that would break a line, a terminal or UTF-8."""
    return name if name.isprintable() else ascii(name)[1:-1]


_USER, _SYSTEM, _RESIDENT = 11, 12, 21
"""Places in ``/proc/PID/stat``, counted from the field after the name of the program."""


def process_of(pid: int) -> ProcessSnapshot:
    """Look at a process, in ``/proc`` where there is one. One that has ended meanwhile is shown by its number alone.

    Its memory is unknown as long as the kernel says 0 pages: one that has just begun or ended. The kernel counts the
    pages of each CPU apart and adds them up late ("this value is inaccurate", proc_pid_stat(5)).
    """
    try:
        told = Path("/proc", str(pid), "stat").read_bytes()
    except OSError:  # no Linux, or it is over
        return ProcessSnapshot(pid=pid, memory_bytes=None, cpu_s=None)
    fields = told.rpartition(b")")[2].split()  # the name of a program may hold anything
    ticks = int(fields[_USER]) + int(fields[_SYSTEM])
    resident = int(fields[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE")
    return ProcessSnapshot(pid=pid, memory_bytes=resident or None, cpu_s=ticks / os.sysconf("SC_CLK_TCK"))
