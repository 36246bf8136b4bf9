"""The changes: what is added to which file. An insertion stands after the first line that has its anchor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Insertion:
    """Text that is put into a file that is there."""

    file: str
    anchor: str
    """Text of one line, which is kept."""
    text: str
    within: bool = False
    """True: the text follows the anchor itself, in its line; else it is lines of their own after that."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change as its author would make it, and a program that shows that it works from end to end."""

    name: str
    most_files: int
    """Files that it may cost at most."""
    proof: str
    """Name of the program (``tests/project/doors/proofs``)."""
    insertions: tuple[Insertion, ...] = ()
    new_files: tuple[tuple[str, str], ...] = ()

    @property
    def files(self) -> set[str]:
        """Every file that it touches."""
        return {each.file for each in self.insertions} | {name for name, _ in self.new_files}

    def make(self, house: Path) -> None:
        """Make it on a copy of the packages."""
        for name, text in self.new_files:
            assert not (house / name).exists(), name
            (house / name).write_text(text, encoding="utf-8")
        for each in self.insertions:
            file = house / each.file
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            at = next((number for number, line in enumerate(lines) if each.anchor in line), None)
            assert at is not None, (
                f"{each.file} has no line with {each.anchor!r} any more: say where the change goes now"
            )
            if each.within:
                lines[at] = lines[at].replace(each.anchor, each.anchor + each.text, 1)
            else:
                lines[at] += each.text
            file.write_text("".join(lines), encoding="utf-8")


STRATEGY: Final = Change(
    "a restart strategy",
    2,
    "strategy",
    (
        Insertion("actors/model/spec.py", 'REST_FOR_ONE = "rest_for_one"', '    FIRST_FOR_ONE = "first_for_one"\n'),
        Insertion(
            "actors/model/spec.py",
            'StrategyName: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one"',
            ', "first_for_one"',
            within=True,
        ),
        Insertion(
            "actors/model/strategy.py",
            "        return [culprit]",
            """\
    if strategy is Strategy.FIRST_FOR_ONE:
        first = list(newest_first)[-1]
        return [first] if first is culprit else [first, culprit]
""",
        ),
    ),
)

RUNG: Final = Change(
    "a rung of the ladder",
    2,
    "rung",
    new_files=(
        (
            "actors/tasks/model/rung_again.py",
            '''\
"""A rung that tries again at once."""

from dataclasses import replace

from actors.tasks.model.policy import Decision, Rung, RungFacts, TryAgain
from actors.tasks.model.outcome import Failure
from actors.tasks.model.task_events import LadderPosition


class Again(Rung, frozen=True, kw_only=False):
    """Rung: try again at once, so many times."""

    times: int = 1

    def next(self, position: LadderPosition, failure: Failure, facts: RungFacts) -> Decision | None:
        if position.tries == self.times:
            return None
        return TryAgain(0.0, replace(position, tries=position.tries + 1))
''',
        ),
    ),
)

STORE: Final = Change(
    "a store",
    1,
    "store",
    new_files=(
        (
            "trees/store/line_store.py",
            '''\
"""A durable store in a file of lines: what is in memory is made of them again when it is opened."""

import json
import time
from pathlib import Path

from actors.messaging.reply import Reply
from actors.tasks.journal.codec import decode, encode
from actors.tasks.journal.store import DurableStore
from trees.store.memory import MemoryStore


class LineStore(MemoryStore, DurableStore):
    """Each change is a line."""

    def __init__(self, path):
        super().__init__()
        self._path, self._file, self._opened = Path(path), None, 0
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            verb, *given = json.loads(line)
            if verb == "opened":
                self._opened += 1
            else:
                records = [decode(*each) if isinstance(each, list) else each for each in given]
                getattr(super(), verb)(*records)
        self._file = self._path.open("a")
        self._opened += 1
        self._write("opened")

    def _write(self, verb, *given):
        self._file.write(json.dumps([verb, *given]) + "\\n")
        self._file.flush()

    @property
    def name(self):
        return self._path.name

    @property
    def token(self):
        return self._opened

    def time(self):
        return time.time()

    def heard_orders(self):
        reply = Reply()
        reply.complete()
        return reply

    def order_done(self, order):
        """Nobody can leave any."""

    def close(self):
        self._file.close()

    def create(self, stream, owner, record):
        made = super().create(stream, owner, record)
        if made:
            self._write("create", stream, owner, encode(record))
        return made

    def append(self, stream, record):
        super().append(stream, record)
        self._write("append", stream, encode(record))

    def replace(self, stream, owner, record):
        super().replace(stream, owner, record)
        self._write("replace", stream, owner, encode(record))

    def finish(self, stream):
        super().finish(stream)
        self._write("finish", stream)

    def remove(self, stream):
        super().remove(stream)
        self._write("remove", stream)
''',
        ),
    ),
)

FIELD: Final = Change(
    "a field of `WorkerSpec`",
    3,
    "field",
    (
        Insertion(
            "trees/declaration/specs.py",
            "    crash_on_ask_error: bool = False",
            '    unshakable: bool = False\n    """``True``: no exception of a handler is a crash."""\n',
        ),
        Insertion("actors/model/spec.py", "    crash_on_ask_error: bool = False", "    unshakable: bool = False\n"),
        Insertion(
            "actors/execution/crash_boundary.py",
            "def is_failure(",
            "        if self.recipe.unshakable:\n            return isinstance(error, Exception)\n",
        ),
    ),
)

KIND: Final = Change(
    "a kind of worker",
    3,
    "kind",
    (
        Insertion(
            "trees/declaration/specs.py",
            "    id: field_types.Id",
            "    script: Annotated[Sequence[str] | None, field_types.WORK] = None\n",
        ),
        Insertion(
            "trees/declaration/kinds.py",
            "from trees.declaration.kind import ",
            "from trees.declaration.kind_script import ScriptKind\n",
        ),
        Insertion("trees/declaration/kinds.py", "for kind in (", "ScriptKind(), ", within=True),
    ),
    (
        (
            "trees/declaration/kind_script.py",
            '''\
"""Workers that are a program: ``script=`` names a program and its arguments; it runs as long as the worker lives."""

import subprocess

from actors.model.spec import DispatcherKind
from actors.worker import body_recipe
from trees.declaration.kind import Target, WorkKind


class ScriptKind(WorkKind):
    """A process. An exit code other than 0 is a crash."""

    field = "script"

    def find(self, value):
        return tuple(value)

    def flaw(self, found):
        return None if found else ("an empty program", "Name a program.")

    def described(self, found):
        return Target(found, (), found[0])

    def place(self, found):
        return DispatcherKind.THREAD

    def recipe(self, found, args, kwargs, rules):
        return body_recipe(lambda: subprocess.run(found, check=True), (), {}, where=rules["where"])

    def shown(self, value):
        return f"script {value[0]}"
''',
        ),
    ),
)

EVENT: Final = Change(
    "an event, with its log line and metric",
    2,
    "event",
    (
        Insertion(
            "actors/tasks/model/task_events.py",
            "# -- subtasks ----",
            '''

@record(frozen=True, slots=True)
class TaskRemarked(TaskEvent):
    """Somebody has said something of it."""

    level: ClassVar[str] = "WARNING"
    metric: ClassVar[str] = "Remarks on tasks"
    large: ClassVar[str] = "remark"
    remark: str = field(repr=False)
    took_s: float = field(metadata={"unit": "s"})


''',
        ),
        Insertion(
            "actors/tasks/journal/task_state.py",
            "    task_events.TaskFinished: ",
            "    task_events.TaskRemarked: lambda state, event: state.notes.append(event.remark),\n",
        ),
    ),
)

ADAPTER: Final = Change(
    "an adapter for a framework",
    2,
    "adapter",
    (
        Insertion(
            "trees/agents/recognise.py",
            "_AGENTS: Final = (",
            '    _Agent("crews", "Crew", "kickoff", "crews", "Crews"),\n',
        ),
    ),
    new_files=(
        (
            "trees/agents/crews.py",
            '''\
"""Crews as workers."""

from actors.tasks.execution.prompt import render_prompt
from trees.agents.wrapper import AgentWrapper


class Crews(AgentWrapper):
    """One crew."""

    def __init__(self, crew):
        self._crew = crew

    @property
    def description(self):
        return self._crew.role

    def execute(self, task, context):
        answer = self._crew.kickoff(render_prompt(task, context))
        context.use(tokens=answer.token_usage)
        return answer.raw
''',
        ),
    ),
)

OPTION: Final = Change(
    "an option of `Command`",
    3,
    "option",
    (
        Insertion(
            "trees/declaration/command.py",
            "    env: Environment = None",
            '    """Added to the environment of the host."""\n    label: str = ""\n',
        ),
        Insertion("trees/declaration/command.py", "            cwd=self.cwd,", "            label=self.label,\n"),
        Insertion("actors/dispatch/command/program.py", "    cwd: str | None = None", '    label: str = ""\n'),
        Insertion(
            "actors/dispatch/command/command_process.py",
            "        env = {**os.environ, **(program.env or {})}",
            '        env["LABEL"] = program.label\n',
        ),
    ),
)

CHANGES: Final = (STRATEGY, RUNG, STORE, FIELD, KIND, EVENT, ADAPTER, OPTION)
