"""Source of the page that a test moves by hand: a tree, its tasks, its questions. Every moment of it can be held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from itertools import count
from typing import Any, Literal

from trees.observe.source import ROWS, TASKS, Shape, SourceError
from trees.observe.tree_shapes import found_by

BEGAN = 1_800_000_000.0
SCRIPT = "<script>window.broken=1</script><img src=x onerror=window.broken=1>"
"""Markup that a worker may have for a name, an error or a goal."""


def row(path: str, kind: str = "worker", **told: Any) -> Shape:
    """One row of a snapshot."""
    supervises = kind == "supervisor"
    plain: Shape = {
        "path": path,
        "id": path.rpartition("/")[2],
        "depth": path.count("/"),
        "kind": kind,
        "strategy": "one_for_one" if supervises else None,
        "restart": None if supervises else "permanent",
        "state": "running",
        "incarnation": 1,
        "restarts": 0,
        "restarts_used": 0 if supervises else None,
        "max_restarts": 3 if supervises else None,
        "within_s": 5.0 if supervises else None,
        "mailbox": 0,
        "current_s": None,
        "breaker": None,
        "last_error": None,
        "pid": None,
        "node": None,
        "size": None,
        "busy": None,
        "folded": False,
        "restarted_at": [],
    }
    return {**plain, **told}


def bar(subtask: str, kind: str, begin: float, end: float | None, **told: Any) -> Shape:
    """One bar of a timeline, in seconds since the task began."""
    status = "running" if end is None else "succeeded" if kind == "running" else None
    until = None if end is None else BEGAN + end
    plain = {"subtask": subtask, "attempt": 1, "worker": subtask, "kind": kind, "from": BEGAN + begin, "to": until}
    return {**plain, "status": status, "error": None, **told}


def task(id_: str, goal: str, bars: list[Shape], depends: dict[str, list[str]], **told: Any) -> Shape:
    """One task."""
    nodes = [
        {"id": each, "kind": "subtask", "worker": each, "status": "succeeded", "depends": needs}
        for each, needs in depends.items()
    ]
    plain: Shape = {"version": 1, "id": id_, "path": "office", "status": "succeeded", "goal": goal, "created_at": BEGAN}
    rest: Shape = {"finished_at": BEGAN + 9.0, "nodes": nodes, "bars": bars, "usage": {}, "reviews": [], "report": None}
    return {**plain, **rest, "log": [], **told}


RETRIED = task(
    "t-1",
    "research vector databases, then write a summary",
    [
        bar("research", "queued", 0.0, 0.2),
        bar("research", "running", 0.2, 2.1, status="failed", error="ConnectionError"),
        bar("research", "retry_wait", 2.1, 3.1),
        bar("research", "running", 3.1, 5.0, attempt=2),
        bar("compare", "queued", 0.0, 0.4),
        bar("compare", "running", 0.4, 4.4),
        bar("write", "queued", 5.0, 5.1),
        bar("write", "running", 5.1, 6.8),
        bar("write", "review", 6.8, 7.3),
        bar("write", "running", 7.3, 8.4, attempt=2),
        bar("sign", "person", 8.4, 9.0),
    ],
    {"research": [], "compare": [], "write": ["research", "compare"], "sign": ["write"]},
    usage={"research": {"tokens": 8_412, "cost": 0.021}, "write": {"tokens": 2_950, "cost": 0.0074}},
    reviews=[
        {"subtask": "write", "round": 1, "accepted": False, "feedback": "Name the licence of each."},
        {"subtask": "write", "round": 2, "accepted": True, "feedback": None},
    ],
    report="3 candidates: pgvector, Qdrant, Milvus",
    log=[
        {"at": BEGAN, "kind": "task_submitted", "subtask": None, "text": ""},
        {"at": BEGAN + 2.1, "kind": "subtask_retrying", "subtask": "research", "text": "ConnectionError: no route"},
        {"at": BEGAN + 9.0, "kind": "task_finished", "subtask": None, "text": "succeeded"},
    ],
)


class Shop:
    """A source with rows, tasks and questions that a test may change; ``tell`` sends an event to who listens."""

    kind: Literal["tree", "console", "store"] = "tree"
    name = "shop"

    def __init__(self) -> None:
        self.at = BEGAN + 10.0
        self.rows = [
            row("shop", "supervisor", restarts_used=1),
            row("shop/poller", current_s=4.2, breaker="closed"),
            row("shop/parse", "pool", size=8, busy=5, mailbox=240, folded=True, incarnation=0),
            row("shop/billing", "supervisor", strategy="one_for_all", restarts_used=2),
            row("shop/billing/ledger", incarnation=3, mailbox=12, breaker="closed"),
            row("shop/billing/mailer", incarnation=3, restart="transient", breaker="half_open"),
            row("shop/index", "command", pid=4711, current_s=71.0),
            row(
                "shop/feed",
                state="parked",
                last_error="ConnectionError: no route to the feed",
                incarnation=4,
                breaker="open",
                restarts=3,
                restarts_used=3,
                max_restarts=3,
                within_s=60.0,
            ),
        ]
        self.exits: list[Shape] = []
        self.runs = {"t-1": RETRIED}
        self.asking = [
            {
                "id": "q-1",
                "task": "t-1",
                "path": "office",
                "subtask": "sign",
                "kind": "approval",
                "text": "May the summary be sent to the board?",
                "asked_at": BEGAN + 8.4,
                "answers": ["approve", "edit", "respond", "reject"],
            }
        ]
        self.restarts = [{"at": self.at - ago, "attempt": 1, "delay_s": 0.0} for ago in (3, 130, 600)]
        self.says = ""
        """What it says of an act."""
        self.done: list[Shape] = []
        self._listeners: list[Callable[[Shape], object]] = []
        self._ids = count(1)

    def tell(self, name: str, path: str, **told: Any) -> None:
        """Send an event."""
        event = {"version": 1, "id": next(self._ids), "at": self.at, "name": name, "path": path, **told}
        for listener in [*self._listeners]:
            listener(event)

    def crash(self, path: str, text: str) -> None:
        """Let a child crash and be restarted."""
        crashed = next(each for each in self.rows if each["path"] == path.partition("#")[0])
        exit_ = {"at": self.at, "reason": "crashed", "type": "TypeError", "text": text, "lasted_s": 12.5}
        self.exits.insert(0, {**exit_, "frames": ["ledger.py:14 in on_receive", "    self.total += amount"]})
        self.tell("child_exited", path, reason="crashed", incarnation=crashed["incarnation"], error=text)
        self.tell("child_restarting", path, attempt=1, delay_s=0.0)
        if crashed["path"] == path:
            crashed["state"] = "restarting"

    def snapshot(
        self, unfold: Collection[str] = (), limit: int = ROWS, text: str = "", troubled: bool = False
    ) -> Shape:
        problems = [{"path": each["path"], "what": "parked"} for each in self.rows if each["state"] == "parked"]
        now = {
            "tasks": {"running": 2, "succeeded": 41, "failed": 1},
            "crashes": [{"path": "shop/billing/ledger", "type": "TypeError", "count": 2, "last_at": self.at - 3}],
            "dead_letters": {"terminated": 3},
            "alerts": [{"name": "mailbox_over(100)", "since": self.at - 20}],
            "busy_threads": 7,
            "ready_queue": 4,
            "slowest": [{"path": "shop/index", "task": "t-1", "subtask": "compare", "since_s": 71.0}],
        }
        health = {"ok": True, "ready": not problems, "problems": problems}
        head = {"version": 1, "at": self.at, "name": self.name, "role": "leader", "health": health, "now": now}
        keep, hits = found_by([each["path"] for each in self.rows], text, limit) if text else ((), None)
        first, children = limit - len(keep), Counter(each["state"] for each in self.rows[1:])
        rows = [each for at, each in enumerate(self.rows) if at < first or each["path"] in keep]
        return {
            **head,
            "rows": rows,
            "total": len(self.rows),
            "children": children,
            "cut": len(self.rows) > limit,
            "found": hits,
        }

    def child(self, path: str) -> Shape:
        found = next((each for each in self.rows if each["path"] == path), None)
        if found is None:
            raise SourceError(404, f"There is no child {path!r}.")
        settings = {"restart": "permanent", "shutdown_s": "5", "mailbox_capacity": "none"}
        told = {"exits": self.exits, "restarts": self.restarts, "attempts": []}
        return {"version": 1, "row": found, "settings": settings, **told}

    def stack(self, path: str) -> Shape:
        return {"version": 1, "frames": [f"{path}: ledger.py:14 in on_receive"]}

    def tasks(self, status: str | None = None, text: str = "", limit: int = TASKS) -> Shape:
        rows = [_listed(each) for each in self.runs.values() if text in each["id"] and status in (None, each["status"])]
        return {"version": 1, "tasks": rows[:limit], "cut": len(rows) > limit}

    def task(self, id: str) -> Shape:
        if id not in self.runs:
            raise SourceError(404, f"There is no task {id!r}.")
        return self.runs[id]

    def cancel(self, id: str, reason: str = "", by: str = "") -> Shape:
        return self._did(cancel=id)

    def questions(self) -> Shape:
        return {"version": 1, "questions": self.asking}

    def answer(self, id: str, answer: str, text: str | None = None, value: Any = None, by: str = "") -> Shape:
        self.asking = [each for each in self.asking if each["id"] != id]
        return self._did(question=id, answer=answer, text=text, value=value)

    def act(self, path: str, act: str, by: str = "") -> Shape:
        return self._did(path=path, act=act)

    def _did(self, **done: Any) -> Shape:
        self.done.append(done)
        return {"version": 1, "ok": True} | ({"text": self.says} if self.says else {})

    def subscribe(self, callback: Callable[[Shape], object]) -> Callable[[], None]:
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def metrics(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing is held."""


def _listed(run: Shape) -> Shape:
    kept = {name: run[name] for name in ("id", "path", "status", "goal", "created_at", "finished_at")}
    return {**kept, "subtasks": {"succeeded": len(run["nodes"])}, "tokens": 11_362, "cost": 0.0284}
