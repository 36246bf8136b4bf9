"""What a tree must do, as plain data: a second reading of SEMANTICS.md, which knows nothing of the runtime.

No threads and no clock: each call says what happens, and changes the picture at once to what a real tree must show when
it has settled. The comments give the numbers of the rules.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from trees import SupervisorSpec, WorkerSpec


@dataclass(eq=False)
class Sent:
    """A message, and what became of it."""

    number: int
    address: str
    """The path that it was sent to: of a worker, a member of a pool, or a pool."""
    asked: bool
    outcome: str = "waits"
    """Then: handled, lost, refused, full, late (its asker had gone), or either (handled or refused)."""
    error: str = ""
    """What its asker gets: the type of an error."""
    exposed: bool = False
    """True: an incarnation was up that may have handled it, or been stopped again before that."""


@dataclass(eq=False)
class Child:
    """One listed child; each member of a pool is one."""

    spec: WorkerSpec | SupervisorSpec
    path: str
    quiet_s: float
    """A child that stays up so long starts again at the first step of its backoff."""
    pool: str | None = None
    """The path of its pool."""
    dynamic: bool = False
    state: str = ""
    """Nothing before its supervisor has come to it: a pool is not down while members are still to be started."""
    restarts: int = 0
    consecutive: int = 0
    up_since: float = 0.0
    due: float | None = None
    """When its own backoff ends."""
    window: list[float] = field(default_factory=list)
    last_exit: str | None = None
    inside: Sup | None = None
    """What it supervises, while it runs."""
    held: Sent | None = None
    """The message in which its handler stands still."""

    @property
    def is_worker(self) -> bool:
        return isinstance(self.spec, WorkerSpec)

    @property
    def brutal(self) -> bool:
        return self.spec.shutdown == "brutal_kill"


@dataclass(eq=False)
class Sup:
    """One incarnation of a supervisor."""

    spec: SupervisorSpec
    path: str
    parent: Sup | None
    me: Child | None
    children: list[Child] = field(default_factory=list)
    window: list[float] = field(default_factory=list)
    tries: list[Try] = field(default_factory=list)
    """Restarts under way."""
    over: bool = False


@dataclass(eq=False)
class Try:
    """A restart: whom it has still to start, in order."""

    pending: list[Child]
    holds: bool = False
    """True while the first of them stands still in its on_start."""

    @property
    def due(self) -> float:
        """A group with a child in backoff waits as a group."""
        return max((child.due for child in self.pending if child.due is not None), default=0.0)


class Model:
    """A tree of two levels of supervisors."""

    def __init__(self, root: SupervisorSpec, now: float) -> None:
        self.now = now
        self.faults: dict[str, list[str]] = {}
        """For each path how its next starts go: fail, ignore or hold."""
        self.incarnations: defaultdict[str, int] = defaultdict(int)
        self.hooks: list[tuple[str, str]] = []
        """Hooks that must have run, in this order."""
        self.events: list[tuple[object, ...]] = []
        self.begun: defaultdict[str, list[Sent]] = defaultdict(list)
        """For each address the messages of which the handling began."""
        self.boxes: defaultdict[str, deque[Sent]] = defaultdict(deque)
        self.down = self.root_gave_up = False
        self.root = Sup(root, root.id, None, None)
        self._begin(self.root)

    # -- looking -------------------------------------------------------------------------------------------

    def supervisors(self) -> list[Sup]:
        """Those that run."""
        inside = [child.inside for child in self.root.children if child.inside is not None]
        return [] if self.down else [self.root, *inside]

    def listed(self) -> list[tuple[Sup, Child]]:
        return [(sup, child) for sup in self.supervisors() for child in sup.children]

    def workers(self) -> list[tuple[Sup, Child]]:
        return [(sup, child) for sup, child in self.listed() if child.is_worker]

    def takers(self, address: str) -> list[Child]:
        """Those who may handle what is sent there."""
        return [child for _, child in self.workers() if address in {child.path, child.pool}]

    def named(self, path: str) -> tuple[Sup, list[Child]] | None:
        """A child, or the members of a pool."""
        for sup in self.supervisors():
            found = [child for child in sup.children if path in {child.path, child.pool}]
            if found:
                return sup, found
        return None

    def next_due(self) -> float | None:
        """When the next backoff ends."""
        dues = [each.due for sup in self.supervisors() for each in sup.tries if each.due > self.now]
        return min(dues, default=None)

    def count(self, window: list[float], sup: Sup) -> int:
        """How many restarts count now (10)."""
        return sum(at >= self.now - sup.spec.period_s for at in window)

    # -- messages ------------------------------------------------------------------------------------------

    def send(self, sent: Sent) -> None:
        takers = self.takers(sent.address)
        if any(child.state in {"running", "restarting"} for child in takers):
            box, mailbox = self.boxes[sent.address], takers[0].spec.mailbox  # type: ignore[union-attr]
            self.drain()
            box.append(sent)
            self.drain()
            if mailbox.capacity is not None and len(box) > mailbox.capacity:
                self._end_of(box.pop() if mailbox.overflow == "reject" else box.popleft(), "full", "MailboxFullError")
        else:
            parked = any(child.state == "parked" and child.path == sent.address for child in takers)
            self._end_of(sent, "refused", "ParkedError" if parked else "ActorStoppedError")

    def drain(self) -> None:
        """What waits for one that runs is handled."""
        for address, box in self.boxes.items():
            if box and any(child.state == "running" and child.held is None for child in self.takers(address)):
                while box:
                    self.begin(box.popleft())

    def begin(self, sent: Sent) -> None:
        """A handler gets it; all but a late one."""
        if sent.outcome == "waits":
            self.begun[sent.address].append(sent)
            sent.outcome = "handled"

    def hold(self, child: Child, sent: Sent) -> None:
        """A running worker's handler stands still."""
        self.begin(sent)
        child.held = sent

    @staticmethod
    def _end_of(sent: Sent, outcome: str, error: str) -> None:
        if sent.outcome != "late":
            sent.outcome, sent.error = outcome, error

    # -- what happens --------------------------------------------------------------------------------------

    def time_is(self, now: float) -> None:
        """The clock stands here now; what is due happens."""
        self.now = now
        for sup in self.supervisors():
            self._go_on_where_due(sup)

    def crash(self, sup: Sup, child: Child, hook: str = "failure", error: str = "BoomError") -> None:
        """A running worker's handler raises, or hangs (``hook=""``); the message in hand is lost."""
        if hook:
            self.hooks.append((hook, child.path))
        if child.held is not None:
            self._end_of(child.held, "lost", error)
        self._note_end(child, "crashed", lost=1)
        self._treat(sup, child, "crashed")

    def end(self, sup: Sup, child: Child, reason: str) -> None:
        """A running worker stopped itself (normal), or somebody used its Ref (shutdown; supervisors too)."""
        self._take_down(child, reason, by_itself=True)
        self._treat(sup, child, reason)

    def start_child(self, sup: Sup, spec: WorkerSpec | SupervisorSpec) -> str:
        """What the caller gets: ok, StartError, or a code."""
        listed = [child for child in sup.children if f"{sup.path}/{spec.id}" in {child.path, child.pool}]
        if listed:
            return "already_started" if any(child.state == "running" for child in listed) else "already_present"
        children = list(self._children_of(sup, spec, dynamic=True))
        sup.children += children
        if self._start_all(sup, children):
            return "ok"
        for child in children:
            if child in sup.children:
                self._forget(sup, child)
        return "StartError"

    def terminate_child(self, sup: Sup, children: list[Child]) -> str:
        """Rules 9, 17: stop it, whatever it is doing, and cancel what was to restart it."""
        for child in reversed(children):
            if child.state == "running":
                self._take_down(child, "shutdown")
            for each in sup.tries:
                if child in each.pending:
                    if each.holds and each.pending[0] is child:
                        each.holds = False
                        self._failed_start(child, "killed")
                    each.pending.remove(child)
                    child.due = None
        for child in children:
            if child.state != "parked":
                self._stay_down(sup, child)
        self._go_on_where_due(sup)  # the rest goes on at once without it (8)
        return "ok"

    def restart_child(self, sup: Sup, children: list[Child]) -> str:
        """From stopped or parked, with a clean slate; no retry."""
        down = [child for child in children if child.state in {"stopped", "parked"}]
        if not down:
            return self._busy(children)
        for child in down:
            child.window, child.consecutive = [], 0
        if self._start_all(sup, down):
            return "ok"
        for child in down:
            if child in sup.children:
                self._stay_down(sup, child)
        return "StartError"

    def delete_child(self, sup: Sup, children: list[Child]) -> str:
        """From stopped or parked."""
        if any(child.state in {"running", "restarting"} for child in children):
            return self._busy(children)
        for child in children:
            self._forget(sup, child)
        return "ok"

    def release(self, sup: Sup, result: str) -> None:
        """The on_start that stood still in this supervisor returns (up) or raises (fail, or timeout)."""
        held = next(each for each in sup.tries if each.holds)
        held.holds = False
        self._go_on(sup, held, self._come_up(sup, held.pending[0], result))

    @staticmethod
    def _busy(children: list[Child]) -> str:
        return "restarting" if any(child.state == "restarting" for child in children) else "running"

    # -- starting ------------------------------------------------------------------------------------------

    @staticmethod
    def _children_of(sup: Sup, spec: WorkerSpec | SupervisorSpec, *, dynamic: bool = False) -> Iterator[Child]:
        path, quiet_s = f"{sup.path}/{spec.id}", spec.backoff.reset_after_s if spec.backoff else sup.spec.period_s
        if isinstance(spec, SupervisorSpec) or spec.pool == 1:
            yield Child(spec, path, quiet_s, dynamic=dynamic)
        else:
            for number in range(spec.pool):
                yield Child(spec, f"{path}#{number}", quiet_s, pool=path, dynamic=dynamic)

    def _begin(self, sup: Sup) -> bool:
        """Rules 2, 3, 4: all declared children in order; the first that fails fails all."""
        for spec in sup.spec.children:
            sup.children += self._children_of(sup, spec)
        for child in list(sup.children):
            result = self._start(sup, child)
            if result == "ignore":
                self._stay_down(sup, child)
            elif result == "fail":
                self._stop_all(sup)
                return False
        return True

    def _start_all(self, sup: Sup, children: list[Child]) -> bool:
        """Of a call; where one fails the others are stopped again."""
        for child in children:
            result = self._start(sup, child)
            if result == "ignore":
                self._stay_down(sup, child)
            elif result == "fail":
                for other in reversed(children):
                    if other.state == "running":
                        self._take_down(other, "shutdown")
                return False
        return True

    def _start(self, sup: Sup, child: Child) -> str:
        if isinstance(child.spec, SupervisorSpec):
            inside = Sup(child.spec, child.path, sup, child)
            result = "up" if self._begin(inside) else "fail"
            child.inside = inside if result == "up" else None
        else:
            faults = self.faults.get(child.path)
            result = faults.pop(0) if faults else "up"
            self.hooks.append(("start", child.path))
        return result if result == "hold" else self._come_up(sup, child, result)

    def _come_up(self, sup: Sup, child: Child, result: str) -> str:
        if result == "up":
            child.state = "running"
            child.up_since = self.now
            self.incarnations[child.path] += 1
            self.events.append(("started", child.path, self.incarnations[child.path]))
            for sent in (*self.boxes[child.path], *self.boxes[child.pool or child.path]):
                sent.exposed = True
        else:
            self._failed_start(child, {"ignore": "normal", "timeout": "killed"}.get(result, "crashed"))
        return result

    def _failed_start(self, child: Child, reason: str) -> None:
        child.state, child.last_exit = "stopped", reason
        self.events.append(("exited", child.path, reason, False, 0))

    # -- ending --------------------------------------------------------------------------------------------

    def _stop_all(self, sup: Sup) -> None:
        """Rule 15. What start_child had added is gone (12)."""
        sup.over = True
        sup.tries.clear()
        for child in reversed(sup.children):
            if child.state == "running":
                self._take_down(child, "shutdown")
        for child in [child for child in sup.children if child.dynamic]:
            self._forget(sup, child)

    def _take_down(self, child: Child, reason: str, *, by_itself: bool = False) -> None:
        """Rule 16: a handler in progress may finish, but for a brutal kill."""
        lost = 0
        if child.inside is not None:
            self._stop_all(child.inside)
            child.inside = None
        elif child.brutal and not by_itself:
            reason = "killed"
            if child.held is not None:
                lost = 1
                self._end_of(child.held, "lost", "ActorStoppedError")
        else:
            self.hooks.append(("stop", child.path))
        self._note_end(child, reason, lost)

    def _note_end(self, child: Child, reason: str, lost: int = 0) -> None:
        child.state, child.last_exit, child.due, child.held = "stopped", reason, None, None
        self.events.append(("exited", child.path, reason, True, lost))
        if self.now - child.up_since >= child.quiet_s:
            child.consecutive = 0  # rule 14

    def _stay_down(self, sup: Sup, child: Child) -> None:
        if child.spec.restart == "temporary":
            self._forget(sup, child)
        else:
            child.state = "stopped"
            self._close(sup, child)

    def _forget(self, sup: Sup, child: Child) -> None:
        sup.children.remove(child)
        self._close(sup, child)
        for path in [path for path in self.incarnations if f"{path}/".startswith(f"{child.path}/")]:
            del self.incarnations[path]

    def _close(self, sup: Sup, child: Child) -> None:
        """Rule 17: all that waits there, or below, is answered; of a pool, when its last member is down for good."""
        others = [each for each in sup.children if each is not child and each.pool == child.pool]
        is_last = all(each.state in {"stopped", "parked"} for each in others)
        for address, box in self.boxes.items():
            if f"{address}/".startswith(f"{child.path}/") or (address == child.pool and is_last):
                error = "ParkedError" if child.state == "parked" and address != child.pool else "ActorStoppedError"
                while box:
                    sent = box.popleft()
                    self._end_of(sent, "either" if sent.exposed else "refused", error)

    def _treat(self, sup: Sup, child: Child, reason: str) -> None:
        """The table "A child exits", and rule 20."""
        clean = reason in {"normal", "shutdown"}
        if child.spec.restart == "permanent" or (child.spec.restart == "transient" and not clean):
            self._restart(sup, child)
            return
        self._stay_down(sup, child)
        if child.spec.significant and sup.spec.auto_shutdown != "never":
            others = [each for each in sup.children if each.spec.significant and each is not child]
            alive = any(each.state in {"running", "restarting"} for each in others)
            if sup.spec.auto_shutdown == "any_significant" or not alive:
                self._end_supervisor(sup)

    def _end_supervisor(self, sup: Sup) -> None:
        """Rule 12: it stops its children and exits with ``shutdown``."""
        self._stop_all(sup)
        if sup.parent is None or sup.me is None:
            self._all_down()
            return
        sup.me.inside = None
        self._note_end(sup.me, "shutdown")
        self._treat(sup.parent, sup.me, "shutdown")

    def stop(self) -> None:
        """Its owner stops the tree."""
        self._stop_all(self.root)
        self._all_down()

    def _all_down(self) -> None:
        self.down = True
        for box in self.boxes.values():
            while box:
                sent = box.popleft()
                self._end_of(sent, "either" if sent.exposed else "refused", "ActorStoppedError")

    # -- restarting ----------------------------------------------------------------------------------------

    def _restart(self, sup: Sup, child: Child) -> bool:
        """Rules 10, 13, 14: count, then do; False where the child was parked instead."""
        parks = child.spec.on_exhausted == "park"
        window = child.window if parks else sup.window
        window[:] = [at for at in window if at >= self.now - sup.spec.period_s] + [self.now]
        if len(window) > sup.spec.max_restarts:
            if parks:
                child.state, child.due = "parked", None
                self.events.append(("parked", child.path))
                self._close(sup, child)
                return False
            self.events.append(("gave_up", sup.path))
            self.root_gave_up = self.root_gave_up or sup.parent is None
            self._end_supervisor(sup)
            return True
        child.consecutive += 1
        delay, backoff = 0.0, child.spec.backoff
        if backoff is not None:
            delay = min(backoff.initial_s * backoff.factor ** (child.consecutive - 1), backoff.max_s)
        child.due = self.now + delay if backoff is not None else None
        self.events.append(("restarting", child.path, child.consecutive, delay, len(window)))
        self._try(sup, child)
        return True

    def _try(self, sup: Sup, culprit: Child) -> None:
        """Rules 6, 8, 14: who is touched; a group that waits already becomes part of this one."""
        members = [culprit]
        if sup.spec.strategy != "one_for_one":
            touched = list(sup.children)
            if sup.spec.strategy == "rest_for_one":  # the members of a pool stand at one position
                pool = [child for child in sup.children if culprit.pool and child.pool == culprit.pool] or [culprit]
                touched = [culprit, *sup.children[sup.children.index(pool[-1]) + 1 :]]
            for old in sup.tries:
                touched += old.pending
            sup.tries.clear()
            members = [child for child in sup.children if child in touched and child.state != "parked"]
        for child in reversed(list(members)):
            if child.state == "running":
                self._take_down(child, "shutdown")
                if child.spec.restart == "temporary":
                    self._forget(sup, child)
                    members.remove(child)
        for child in members:
            child.state = "restarting"
        sup.tries.append(Try(members))
        self._go_on_where_due(sup)

    def _go_on_where_due(self, sup: Sup) -> None:
        for each in [each for each in sup.tries if each.due <= self.now and not each.holds]:
            if each in sup.tries and not sup.over:
                self._go_on(sup, each)

    def _go_on(self, sup: Sup, each: Try, result: str = "") -> None:
        """Start one after the other. A failing start is one more attempt."""
        while each.pending:
            child = each.pending[0]
            result = result or self._start(sup, child)
            if result == "hold":
                each.holds = True
                return
            each.pending.pop(0)
            child.due = None
            if result == "up":
                child.restarts += 1
            elif result == "ignore":
                self._stay_down(sup, child)
            else:
                if sup.spec.strategy == "one_for_one":
                    sup.tries.remove(each)
                if self._restart(sup, child) or sup.spec.strategy == "one_for_one":
                    return
            result = ""
        if each in sup.tries:
            sup.tries.remove(each)
