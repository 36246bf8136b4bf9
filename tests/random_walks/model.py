"""What a tree must do, as plain data: a second reading of the supervision semantics, which knows nothing of the first.

No threads, no clock, nothing of ``actors`` or ``trees``: each call says what happens, and changes the picture at once
to what a real tree must show once it has settled. The comments name the rules of the semantics page.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Decl:
    """A declared child, or with ``children`` a declared supervisor."""

    id: str
    restart: str = "permanent"
    park: bool = False
    backoff: tuple[float, float, float, float] | None = None
    """Seconds: first delay, factor, longest delay, up time after which it starts again at the first step."""
    significant: bool = False
    children: tuple[Decl, ...] | None = None
    strategy: str = "one_for_one"
    max_restarts: int = 3
    period_s: float = 5.0
    auto_shutdown: str = "never"
    place: str = "pool"
    """Where the worker runs; the model does not look at it."""


@dataclass(eq=False)
class Child:
    """One listed child."""

    decl: Decl
    path: str
    dynamic: bool = False
    state: str = "stopped"
    restarts: int = 0
    consecutive: int = 0
    up_since: float = 0.0
    due: float = 0.0
    """When its own backoff ends."""
    window: list[float] = field(default_factory=list)
    last_exit: str | None = None
    inside: Sup | None = None
    """What it supervises, while it runs."""


@dataclass(eq=False)
class Sup:
    """One incarnation of a supervisor."""

    decl: Decl
    path: str
    parent: Sup | None
    me: Child | None
    children: list[Child]
    window: list[float] = field(default_factory=list)
    tries: list[Try] = field(default_factory=list)
    """Restarts that wait for their backoff."""
    over: bool = False


@dataclass(eq=False)
class Try:
    """A restart: whom it still has to start, in order."""

    pending: list[Child]

    @property
    def due(self) -> float:
        """A group with a child in backoff waits as a group."""
        return max((child.due for child in self.pending), default=0.0)


class Model:
    """A tree of at most two levels of supervisors, always settled."""

    def __init__(self, decl: Decl, now: float) -> None:
        self.now = now
        self.faults: dict[str, list[str]] = {}
        """Per path, how its next starts go: "fail" or "ignore"."""
        self.incarnations: dict[str, int] = {}
        self.log: list[tuple[str, str]] = []
        """Hooks that must have run, in order: start, fail, ignore, stop, failure."""
        self.exits: list[tuple[str, str, bool]] = []
        """Ends of incarnations: path, reason, whether it had come up."""
        self.gave_up: list[str] = []
        self.closed: set[str] = set()
        """Paths whose mailbox was answered since this was last emptied."""
        self.down = False
        self.root_gave_up = False
        self.root = Sup(decl, decl.id, None, None, [])
        self._begin(self.root)

    # -- looking -------------------------------------------------------------------------------------------

    def supervisors(self) -> list[Sup]:
        """Those that run."""
        if self.down:
            return []
        return [self.root, *(child.inside for child in self.root.children if child.inside is not None)]

    def listed(self) -> list[tuple[Sup, Child]]:
        """Every child that a running supervisor lists."""
        return [(sup, child) for sup in self.supervisors() for child in sup.children]

    def workers(self) -> list[tuple[Sup, Child]]:
        """Those that are no supervisors."""
        return [(sup, child) for sup, child in self.listed() if child.decl.children is None]

    def next_due(self) -> float | None:
        """When the next backoff ends."""
        return min((pending.due for sup in self.supervisors() for pending in sup.tries), default=None)

    # -- what happens --------------------------------------------------------------------------------------

    def time_is(self, now: float) -> None:
        """The clock stands here now; what is due happens."""
        self.now = now
        for sup in self.supervisors():
            for pending in [each for each in sup.tries if each.due <= now]:
                if pending in sup.tries and not sup.over:
                    self._go_on(sup, pending)

    def crash(self, sup: Sup, child: Child) -> None:
        """A running worker's handler raises."""
        self.log.append(("failure", child.path))
        self._ended(sup, child, "crashed")

    def end(self, sup: Sup, child: Child, reason: str) -> None:
        """A running worker stopped itself (normal), or somebody used its Ref (shutdown; supervisors too)."""
        self._take_down(child, reason)
        self._treat(sup, child, reason)

    def start_child(self, sup: Sup, decl: Decl) -> str:
        """What the caller gets: ok, StartError, or a code."""
        for child in sup.children:
            if child.decl.id == decl.id:
                return "already_started" if child.state == "running" else "already_present"
        child = Child(decl, f"{sup.path}/{decl.id}", dynamic=True)
        sup.children.append(child)
        result = self._start(sup, child)
        if result == "fail":
            self._forget(sup, child)
            return "StartError"
        if result == "ignore":
            self._stay_down(sup, child)
        return "ok"

    def terminate_child(self, sup: Sup, child: Child) -> str:
        """Rules 9, 17: stop it, whatever it is doing, and cancel what was to restart it."""
        if child.state == "running":
            self._take_down(child, "shutdown")
        for pending in sup.tries:
            if child in pending.pending:
                pending.pending.remove(child)
                child.due = 0.0
        if child.state != "parked":
            self._stay_down(sup, child)
        for pending in [each for each in sup.tries if each.due <= self.now]:
            self._go_on(sup, pending)  # the rest goes on at once without it
        return "ok"

    def restart_child(self, sup: Sup, child: Child) -> str:
        """From stopped or parked, with a clean slate; no retry."""
        if child.state in {"running", "restarting"}:
            return child.state
        child.window, child.consecutive = [], 0
        result = self._start(sup, child)
        if result != "up":
            self._stay_down(sup, child)
        return "StartError" if result == "fail" else "ok"

    def delete_child(self, sup: Sup, child: Child) -> str:
        """From stopped or parked."""
        if child.state in {"running", "restarting"}:
            return child.state
        self._forget(sup, child)
        return "ok"

    # -- starting ------------------------------------------------------------------------------------------

    def _begin(self, sup: Sup) -> bool:
        """Rules 2, 3, 4: all declared children in order; the first that fails fails all."""
        sup.children = [Child(decl, f"{sup.path}/{decl.id}") for decl in sup.decl.children or ()]
        for child in list(sup.children):
            result = self._start(sup, child)
            if result == "ignore":
                self._stay_down(sup, child)
            elif result == "fail":
                self._stop_all(sup)
                return False
        return True

    def _start(self, sup: Sup, child: Child) -> str:
        faults = self.faults.get(child.path)
        if child.decl.children is not None:
            inside = Sup(child.decl, child.path, sup, child, [])
            result = "up" if self._begin(inside) else "fail"
            child.inside = inside if result == "up" else None
        else:
            result = faults.pop(0) if faults else "up"
            self.log.append(("start" if result == "up" else result, child.path))
        if result == "up":
            child.state = "running"
            child.up_since = self.now
            self.incarnations[child.path] = self.incarnations.get(child.path, 0) + 1
        else:
            child.state = "stopped"
            child.last_exit = "normal" if result == "ignore" else "crashed"
            self.exits.append((child.path, child.last_exit, False))
        return result

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

    def _take_down(self, child: Child, reason: str) -> None:
        if child.inside is not None:
            self._stop_all(child.inside)
            child.inside = None
        else:
            self.log.append(("stop", child.path))
        self._note_end(child, reason)

    def _note_end(self, child: Child, reason: str) -> None:
        child.state, child.last_exit, child.due = "stopped", reason, 0.0
        self.exits.append((child.path, reason, True))
        if child.decl.backoff is not None and self.now - child.up_since >= child.decl.backoff[3]:
            child.consecutive = 0  # rule 14

    def _stay_down(self, sup: Sup, child: Child) -> None:
        if child.decl.restart == "temporary":
            self._forget(sup, child)
        else:
            child.state = "stopped"
            self._close(child.path)

    def _forget(self, sup: Sup, child: Child) -> None:
        sup.children.remove(child)
        self._close(child.path)
        for path in [path for path in self.incarnations if f"{path}/".startswith(f"{child.path}/")]:
            del self.incarnations[path]

    def _close(self, path: str) -> None:
        self.closed.add(path)

    def _ended(self, sup: Sup, child: Child, reason: str) -> None:
        self._note_end(child, reason)
        self._treat(sup, child, reason)

    def _treat(self, sup: Sup, child: Child, reason: str) -> None:
        """The table "A child exits", and rule 20."""
        clean = reason in {"normal", "shutdown"}
        if child.decl.restart == "permanent" or (child.decl.restart == "transient" and not clean):
            self._restart(sup, child)
            return
        self._stay_down(sup, child)
        if not child.decl.significant or sup.decl.auto_shutdown == "never":
            return
        others = [each for each in sup.children if each.decl.significant and each is not child]
        alive = any(each.state in {"running", "restarting"} for each in others)
        if sup.decl.auto_shutdown == "any_significant" or not alive:
            self._end_supervisor(sup)

    def _end_supervisor(self, sup: Sup) -> None:
        """Rule 12: it stops its children and exits with ``shutdown``."""
        self._stop_all(sup)
        if sup.parent is None or sup.me is None:
            self.down = True
            return
        sup.me.inside = None
        self._ended(sup.parent, sup.me, "shutdown")

    # -- restarting ----------------------------------------------------------------------------------------

    def _restart(self, sup: Sup, child: Child) -> bool:
        """Rules 10, 13, 14: count, then do; False where the child was parked instead."""
        window = child.window if child.decl.park else sup.window
        window[:] = [at for at in window if at >= self.now - sup.decl.period_s] + [self.now]
        if len(window) > sup.decl.max_restarts:
            if child.decl.park:
                child.state = "parked"
                self._close(child.path)
                return False
            self.gave_up.append(sup.path)
            self.root_gave_up = self.root_gave_up or sup.parent is None
            self._end_supervisor(sup)
            return True
        child.consecutive += 1
        delay = 0.0
        if child.decl.backoff is not None:
            first, factor, longest, _ = child.decl.backoff
            delay = min(first * factor ** (child.consecutive - 1), longest)
        child.due = self.now + delay
        self._try(sup, child)
        return True

    def _try(self, sup: Sup, culprit: Child) -> None:
        """Rules 6, 8, 14: who is touched; a group that waits already becomes part of this one."""
        if sup.decl.strategy == "one_for_one":
            members = [culprit]
        else:
            first = 0 if sup.decl.strategy == "one_for_all" else sup.children.index(culprit)
            touched = sup.children[first:]
            for old in sup.tries:
                touched += [child for child in old.pending if child not in touched]
            sup.tries.clear()
            members = [child for child in sup.children if child in touched and child.state != "parked"]
        for child in reversed(list(members)):
            if child.state == "running":
                self._take_down(child, "shutdown")
                if child.decl.restart == "temporary":
                    self._forget(sup, child)
                    members.remove(child)
        for child in members:
            child.state = "restarting"
        pending = Try(members)
        sup.tries.append(pending)
        if pending.due <= self.now:
            self._go_on(sup, pending)

    def _go_on(self, sup: Sup, pending: Try) -> None:
        """Start one after the other. A failing start is one more attempt."""
        while pending.pending:
            child = pending.pending[0]
            result = self._start(sup, child)
            pending.pending.pop(0)
            if result == "up":
                child.restarts += 1
            elif result == "ignore":
                self._stay_down(sup, child)
            else:
                if sup.decl.strategy == "one_for_one":
                    sup.tries.remove(pending)
                    self._restart(sup, child)
                    return
                if self._restart(sup, child):
                    return
        if pending in sup.tries:
            sup.tries.remove(pending)
