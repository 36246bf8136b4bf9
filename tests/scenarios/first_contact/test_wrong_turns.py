"""First contact: what a new user types first, and gets wrong, ends in a text that says what to type.

Each program is run as it would be typed into a notebook or at a prompt: ``__main__`` has no file. The last word of each
row is part of the text. The right way is the page ``examples/README.md``, whose blocks are run as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from actors import Failed, UnknownPathError
from tests.support.programs import ran

pytestmark = pytest.mark.usefixtures("quiet_log")
RUN_S = 60.0
BEGIN = """\
import asyncio
import actors
from actors import Worker
from trees import *

def parse(text):
    return int(text)

def research(task, context):
    return "three candidates"

SHOP = SupervisorSpec(id="shop", children=[WorkerSpec(id="parse", handle=parse)])
OFFICE = SupervisorSpec(id="office", tasks=Tasks(), children=[WorkerSpec(id="research", execute=research)])
"""


class Turn(NamedTuple):
    """A wrong turn, and what is to be read of it."""

    typed: str
    says: str


WRONG: dict[str, Turn] = {
    # an actor
    "a method on_receive without the message": Turn(
        "class Ledger(Worker):\n    def on_receive(self): pass\n"
        "start(SupervisorSpec(id='s', children=[WorkerSpec(id='w', actor=Ledger)]))",
        "Write def on_receive(self, message).",
    ),
    "a method on_start that wants something": Turn(
        "class Ledger(Worker):\n    async def on_start(self, path): pass\n"
        "start(SupervisorSpec(id='s', children=[WorkerSpec(id='w', actor=Ledger)]))",
        "Write def on_start(self).",
    ),
    "a method on_failure without what has failed": Turn(
        "class Ledger(Worker):\n    def on_failure(self): pass\n"
        "start(SupervisorSpec(id='s', children=[WorkerSpec(id='w', actor=Ledger)]))",
        "Write def on_failure(self, exception_type, exception_value, traceback).",
    ),
    # a store
    "a store whose scheme has a typo": Turn("start(SHOP, store='sqllite:///tasks.db')", "Use sqlite:///FILE"),
    "a store with two slashes": Turn("start(SHOP, store='sqlite://tasks.db')", "Use sqlite:///FILE"),
    "a store that is a file": Turn("start(SHOP, store='tasks.db')", "Use sqlite:///FILE"),
    "a store in memory": Turn("start(SHOP, store=':memory:')", "leave store= out to keep tasks in memory"),
    "a store of another kind": Turn("start(SHOP, store='redis://localhost')", "or postgresql://"),
    # finding a worker
    "a path with a typo": Turn("with start(SHOP) as tree: tree.ref('shop/prase')", "Did you mean 'shop/parse'?"),
    "a path without its root": Turn("with start(SHOP) as tree: tree.ref('parse')", "Did you mean 'shop/parse'?"),
    "an ask of the tree itself": Turn(
        "with start(SHOP) as tree: tree.ask('shop/parse', '1')", "tree.ref('PATH').ask(message)"
    ),
    "an ask of a supervisor": Turn("with start(SHOP) as tree: tree.ref('shop').ask('1')", "Send to one of its workers"),
    "an ask of a worker that takes tasks": Turn(
        "with start(OFFICE) as tree: tree.ref('office/research').ask('do it')", "Write tree.run("
    ),
    "a map to a capability that has a typo": Turn(
        "with start(OFFICE) as tree: tree.map([1], to='reserch')", "Did you mean 'research'?"
    ),
    # starting and stopping
    "a declaration that is entered": Turn("with SHOP as tree: pass", "with start(TREE) as tree"),
    "a declaration that is started": Turn("SHOP.start()", "with start(TREE) as tree"),
    "a worker that is started": Turn("start(WorkerSpec(id='parse', handle=parse))", "SupervisorSpec(id="),
    "a class in place of a spec": Turn("SupervisorSpec(id='shop', children=[Worker])", "Write WorkerSpec("),
    "a tree that is started again": Turn("with start(SHOP) as tree: start(tree)", "write SupervisorSpec(id=..."),
    "an async start without async": Turn(
        "with start_async(SHOP) as tree: pass", "async with start_async(TREE) as tree"
    ),
    "a ref that outlives its tree": Turn(
        "with start(SHOP) as tree: ref = tree.ref('shop/parse')\nref.ask('1')", "its tree is down"
    ),
    "a second start on one store": Turn(
        "with start(SHOP, store='sqlite:///tasks.db'): start(SHOP, store='sqlite:///tasks.db')",
        "Stop that one, use another store, or start both with ha=HA()",
    ),
    # workers
    "a function that was called": Turn("WorkerSpec(id='parse', handle=parse('1'))", "Give a function"),
    "an object in place of a class": Turn("WorkerSpec(id='parse', actor=Worker())", "Give the class itself"),
    "a field with a typo": Turn("WorkerSpec(id='parse', handler=parse)", "Did you mean 'handle'?"),
    "values without names": Turn("WorkerSpec('parse', parse)", "Write WorkerSpec(id=...)"),
    "a value for what takes none": Turn("Failover('b')", "Failover: takes no values. Write Failover()."),
    "a body that returns at once": Turn(
        "with start(SupervisorSpec(id='shop', children=[WorkerSpec(id='body', run=lambda: 3)])) as tree: tree.wait(60)",
        "actors.sleep(seconds) returns True, or declare it with restart='transient'",
    ),
    "a method with a typo": Turn(
        "class Ledger(Worker):\n    def on_recieve(self, message):\n        return 1\n"
        "with start(SupervisorSpec(id='shop', children=[WorkerSpec(id='w', actor=Ledger)])) as tree:\n"
        "    tree.ref('shop/w').ask(1)",
        "Is its 'on_recieve' meant to be that?",
    ),
    "a path that is close to a pool of many members": Turn(
        "pool = WorkerSpec(id='up', handle=str.upper, pool=4)\n"
        "with start(SupervisorSpec(id='shop', children=[pool, *SHOP.children])) as tree: tree.ref('shop/pu')",
        "Listed there: shop/up, shop, shop/parse. See",
    ),
    "a blocking ask in an async worker": Turn(
        "async def ask(text):\n    return actors.ref('shop/parse').ask(text)\n"
        "asker = WorkerSpec(id='asker', handle=ask)\n"
        "with start(SupervisorSpec(id='shop', children=[*SHOP.children, asker])) as tree:\n"
        "    tree.ref('shop/asker').ask('1')",
        "await ref.ask_async(...)",
    ),
    "a name of this session in quotes": Turn(
        "start(SupervisorSpec(id='shop', children=[WorkerSpec(id='w', handle='__main__:not_there')]))",
        "Give the function itself: not_there, without quotes",
    ),
    # tasks
    "a task without an orchestrator": Turn("with start(SHOP) as tree: tree.submit('parse it')", "tasks=Tasks()"),
    "tasks that are the class": Turn("SupervisorSpec(id='office', tasks=Tasks)", "Write Tasks("),
    "an orchestrator over workers that take no tasks": Turn(
        "with start(SupervisorSpec(id='shop', tasks=Tasks(), children=SHOP.children)) as tree: tree.run('parse it')",
        "write WorkerSpec(id=..., execute=...)",
    ),
    "a task that is a dict": Turn("with start(OFFICE) as tree: tree.run({'goal': 'research'})", "Write it in quotes"),
    "results of a handle": Turn(
        "with start(OFFICE) as tree: tree.submit('research it').results", "handle.result().results"
    ),
    "a handle that is got": Turn("with start(OFFICE) as tree: tree.submit('research it').get()", "handle.result()"),
    "a result of something that it does not depend on": Turn(
        "plan = Plan([Subtask('research'), Subtask('write')])\n"
        "write = WorkerSpec(id='write', execute=lambda task, context: context.results['research'])\n"
        "office = SupervisorSpec(id='office', tasks=Tasks(on_failure=[]), children=[*OFFICE.children, write])\n"
        "with start(office) as tree: tree.run(Task('write', plan=plan))",
        "It has none. An attempt sees what its subtask depends on: Subtask(..., depends_on=[...])",
    ),
    "a result with a typo": Turn(
        "plan = Plan([Subtask('research'), Subtask('write', depends_on=['research'])])\n"
        "write = WorkerSpec(id='write', execute=lambda task, context: context.results['reserch'])\n"
        "office = SupervisorSpec(id='office', tasks=Tasks(on_failure=[]), children=[*OFFICE.children, write])\n"
        "with start(office) as tree: tree.run(Task('write', plan=plan))",
        "Did you mean 'research'?",
    ),
    "a rung in place of a question": Turn(
        "with start(SupervisorSpec(id='office', tasks=Tasks(on_failure=[]), children=[\n"
        "    WorkerSpec(id='pay', execute=lambda task, context: Escalate('Pay?'))])) as tree: tree.run('pay')",
        "raise Escalated('...')",
    ),
    "a plan that is a list": Turn("Task('x', plan=[Subtask('a')])", "expected Plan(...), got a list. Write Plan(...)."),
    "a plan of one subtask without a list": Turn(
        "StaticPlan(Subtask('a'))", "plan: expected a list of subtasks, got a Subtask. Return a Plan, a list of"
    ),
    "a plan of ids": Turn("Plan(['a', 'b'])", "Plan.subtasks[1]: expected Subtask(...), got 'b'"),
    "a dependency without a list": Turn(
        "Subtask('a', depends_on='b')", "a.depends_on: expected a list, got 'b'. Write [...]."
    ),
    "a goal that is empty": Turn("Task('')", "Task.goal: '' is too short. Write at least 1 character."),
    "a budget that is a number": Turn("Task('x', budget=100)", "expected Budget(...), got 100. Write Budget(...)."),
    "a batch for nobody": Turn(
        "with start(OFFICE) as tree: list(tree.map(['a'], to='zz'))",
        "zz: no such path in this tree. Listed there: research.",
    ),
    "a planner that returns nothing": Turn(
        "office = SupervisorSpec(id='office', tasks=Tasks(planner=lambda *_: None), children=OFFICE.children)\n"
        "with start(office) as tree: tree.run('x')",
        "worker='the id of a worker')]).",
    ),
    "something in a result that is no JSON": Turn(
        "with start(SupervisorSpec(id='office', tasks=Tasks(on_failure=[]), children=[\n"
        "    WorkerSpec(id='research', execute=lambda *_: {'a': [object()]})])) as tree: tree.run('research')",
        "an object at ['a'][0] cannot be stored",
    ),
    "a result that is nested too deeply": Turn(
        "deep = []\nfor _ in range(5000): deep = [deep]\n"
        "with start(SupervisorSpec(id='office', tasks=Tasks(on_failure=[]), children=[\n"
        "    WorkerSpec(id='research', execute=lambda task, context: deep)])) as tree: tree.run('research')",
        "a list that holds itself, or is nested too deeply, cannot be stored",
    ),
    "a result that holds itself": Turn(
        "round = []\nround.append(round)\n"
        "with start(SupervisorSpec(id='office', tasks=Tasks(on_failure=[]), children=[\n"
        "    WorkerSpec(id='research', execute=lambda task, context: round)])) as tree: tree.run('research')",
        "a list that holds itself, or is nested too deeply, cannot be stored",
    ),
    "a result of bytes that are no text": Turn(
        "with start(SupervisorSpec(id='office', tasks=Tasks(on_failure=[]), children=[\n"
        "    WorkerSpec(id='research', execute=lambda task, context: {'a': b'\\xff'})])) as tree: tree.run('research')",
        "bytes that are no UTF-8 at ['a'] cannot be stored",
    ),
    "an answer that is given again": Turn(
        "from actors import Escalated, EscalationRaised\n"
        "def pay(task, context):\n    if not context.feedback: raise Escalated('Pay?')\n"
        "pay = WorkerSpec(id='pay', execute=pay, on_failure=[Escalate()])\n"
        "with start(SupervisorSpec(id='office', tasks=Tasks(), children=[pay])) as tree:\n"
        "    handle = tree.submit('pay')\n"
        "    asked = next(event for event in handle.events() if isinstance(event, EscalationRaised))\n"
        "    handle.respond(asked.escalation, Respond('yes'))\n"
        "    handle.result(60)\n"
        "    handle.respond(asked.escalation, Respond('no'))",
        "it was answered before, and otherwise",
    ),
    "a result that is no JSON": Turn(
        "with start(SupervisorSpec(id='office', tasks=Tasks(on_failure=[]), children=[\n"
        "    WorkerSpec(id='research', execute=lambda task, context: object())])) as tree: tree.run('research')",
        "Use JSON: dicts, lists, str, numbers, models",
    ),
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def typed(code: str) -> dict[str, Any]:
    """What a session holds after this was typed into it."""
    session: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(BEGIN + code, "<stdin>", "exec"), session)  # noqa: S102 - it is what a user types
    return session


@pytest.mark.parametrize("turn", WRONG)
def test_a_wrong_turn_ends_in_a_text_that_says_what_to_type(turn: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the text is what counts
        typed(WRONG[turn].typed)

    assert WRONG[turn].says in str(caught.value)


def test_a_class_that_handles_nothing_is_offered_no_method_of_its_base_class() -> None:
    begin = "class Ledger(Worker):\n    def take(self, message):\n        return 1\n"
    with pytest.raises(Failed, match=r"def on_receive\(self, message\)'\.$"):
        typed(
            f"{begin}with start(SupervisorSpec(id='shop', children=[WorkerSpec(id='w', actor=Ledger)])) as tree:\n"
            "    tree.ref('shop/w').ask(1)"
        )


def test_the_repr_of_an_error_is_its_text_and_survives_a_pickle() -> None:
    with pytest.raises(UnknownPathError) as caught:
        typed("with start(SHOP) as tree: tree.ref('shop/prase')")

    assert repr(caught.value) == f"UnknownPathError({str(caught.value)!r})"
    assert repr(pickle.loads(pickle.dumps(caught.value))) == repr(caught.value)  # noqa: S301 - it is our own


@pytest.mark.parametrize(
    "url", ["sqlite://u:secret@h/x.db", "postgre://u:secret@h/x", "mysql://u:secret@h/x", "sqlite:///:memory:?a=secret"]
)
def test_no_suggestion_shows_a_password(url: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        typed(f"start(SHOP, store={url!r})")

    assert "secret" not in str(caught.value)


SESSION = (
    BEGIN
    + """
class Ledger(Worker):
    def on_receive(self, amount):
        return amount + 1

def undo(task, result, context):
    return None

CREW = SupervisorSpec(id="crew", tasks=Tasks(), children=[
    WorkerSpec(id="parse", handle=parse, pool=2),
    WorkerSpec(id="ledger", actor=Ledger),
    WorkerSpec(id="double", handle=lambda number: 2 * number),
    WorkerSpec(id="research", execute=research, undo=undo, output=str),
])
for store in (None, "sqlite:///session.db"):
    with start(CREW, store=store) as tree:
        print(tree.ref("crew/parse").ask("3"), tree.ref("crew/ledger").ask(3), tree.ref("crew/double").ask(3),
              tree.run("research it").results, sorted(tree.map(["1", "2"], to="crew/parse")))

"""
)
LINE = "3 4 6 {'research': 'three candidates'} [('1', 1), ('2', 2)]\n"


def test_a_tree_works_in_a_session_whose_main_has_no_file() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(SESSION, "<ipython-input-1>", "exec"), {"__name__": "__main__"})  # noqa: S102

    assert said.getvalue() == 2 * LINE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "typed_in"),
    [(["-c", SESSION], ""), (["-i", "-q"], SESSION)],
    ids=["python -c", "prompt"],
)
def test_a_tree_works_at_a_prompt_from_stdin_and_with_c(how: list[str], typed_in: str, tmp_path: Path) -> None:
    if how[0] == "-i":  # a prompt ends a block at an empty line: so one after each
        typed_in = _for_a_prompt(typed_in)
    done = subprocess.run(
        [sys.executable, *how], input=typed_in, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_S, check=False
    )

    assert done.returncode == 0, done.stderr
    assert LINE in done.stdout, done.stderr
    assert "Traceback" not in done.stderr


def _for_a_prompt(program: str) -> str:
    lines: list[str] = []
    for line in filter(None, program.splitlines()):
        if lines and line[0] not in " ])}" and lines[-1][0] == " ":
            lines.append("")
        lines.append(line)
    return "\n".join([*lines, "", ""])


def test_a_tree_works_in_a_notebook_whose_loop_runs_already() -> None:
    cell = compile(SESSION, "<cell>", "exec")

    async def kernel() -> None:
        exec(cell, {"__name__": "__main__"})  # noqa: S102

    with contextlib.redirect_stdout(io.StringIO()) as said:
        asyncio.run(kernel())

    assert said.getvalue() == 2 * LINE


def test_a_tree_that_nobody_stopped_is_stopped_at_the_end_and_says_how_to_do_it(tmp_path: Path) -> None:
    program = BEGIN + (
        "class Ledger(Worker):\n    def on_stop(self):\n        print('saved')\n"
        "tree = start(SupervisorSpec(id='shop', children=[WorkerSpec(id='w', actor=Ledger)]))\n"
    )
    done = ran("-c", program, cwd=tmp_path, timeout=RUN_S)

    assert done.returncode == 0
    assert done.stdout == "saved\n"
    assert "Write 'with start(TREE) as tree:', or call tree.stop()" in done.stderr


TYPED_IN = {
    "parse": "WorkerSpec(id='w', handle=parse, dispatch='process')",
    "research": "WorkerSpec(id='w', execute=research, dispatch='process')",
    "Ledger": "WorkerSpec(id='w', actor=Ledger, dispatch='process')",
    "Odd": "WorkerSpec(id='w', handle=len, expected=[Odd], dispatch='process')",
}


def test_what_was_typed_in_cannot_be_found_by_a_process_and_is_told_where_to_go(tmp_path: Path) -> None:
    rows = "".join(
        f"try:\n    start(SupervisorSpec(id='p', tasks=Tasks(), children=[{worker}]))\n"
        "except Exception as error:\n    print(error)\n"
        for worker in TYPED_IN.values()
    )
    program = BEGIN + "class Ledger(Worker):\n    pass\nclass Odd(Exception):\n    pass\n" + rows
    done = subprocess.run(
        [sys.executable, "-"],
        input=program,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )

    said = done.stdout.splitlines()
    assert [line.partition(". ")[2] for line in said] == [
        f"Write it into a file, shop.py, and type: from shop import {name}" for name in TYPED_IN
    ], done.stderr


def test_one_declaration_can_be_started_as_often_as_wanted() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        typed(
            "with start(SHOP) as one, start(SHOP) as other:\n"
            "    print(one.ref('shop/parse').ask('1'), other.ref('shop/parse').ask('2'))"
        )

    assert said.getvalue() == "1 2\n"


def test_lambdas_partials_and_builtins_are_workers_like_any_other() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        typed(
            "from functools import partial\n"
            "KINDS = {'l': lambda text: int(text), 'p': partial(int, base=2), 'b': len, 'm': 'abc'.count}\n"
            "children = [WorkerSpec(id=k, handle=v) for k, v in KINDS.items()]\n"
            "with start(SupervisorSpec(id='t', children=children)) as tree:\n"
            "    print([tree.ref(f't/{k}').ask(m) for k, m in [('l', '7'), ('p', '11'), ('b', 'xy'), ('m', 'b')]])"
        )

    assert said.getvalue() == "[7, 3, 2, 1]\n"
