"""The planner for words: it gives each clause of a goal to the worker that its words mean, and says what it doubts.

Comes in: a task, and the catalogue of those who are there. Goes out: a plan with warnings. Nothing is kept between two
plans. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from actors.model.errors import ConfigError, Problem
from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.task import Plan, Subtask, Task
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.goal_clause import Clause
from actors.tasks.planning.goal_clauses import clauses
from actors.tasks.planning.goal_graph import graph
from actors.tasks.planning.goal_matching import CatalogueIndex, Found, Match, by_keyword
from actors.tasks.planning.goal_reading import Reading, read_clauses
from actors.tasks.planning.goal_text import stems
from actors.tasks.planning.tool_choice import ToolChoice
from actors.tasks.planning.verb_families import VERB_FAMILIES, VerbFamilies, Verbs, default_verbs
from actors.validation.field_types import is_id
from actors.validation.validation_messages import type_phrase, value_phrase

_LATER: Final = frozenset({"before", "until", "unless"})
_MOST_WARNINGS: Final = 20
_MOST_LISTED: Final = 20
_MOST_CHARS: Final = 80
_REMEDY: Final = (
    "Say in the description= or capabilities= of a worker what it does, in the words and the language of your goals; "
    "or name who gets what matches nobody, Tasks(planner=KeywordPlanner(default='...')); or use another planner, such "
    "as ModelPlanner(call) or StaticPlan([...])"
)
_NOTHING_TO_DO: Final = "The goal says only what is not to be done. Say what is to be done"


class KeywordPlanner:
    """Gives each clause of the goal to the worker that its words mean, and says where it is not sure.

    Clauses run in parallel, but for those that the goal orders (``then``, ``but first``, ``once it is tested,``, the
    numbers of a list), those that speak of what came before (``review it``), and those that share their object with
    the one before (``write and test the parser``). ``do not deploy`` is no work, nor is ``if the tests pass``. The
    warnings of the plan say which clause fits two workers nearly alike, which one matches nobody, and where the goal
    leaves a choice. Of a worker that has several tools the words choose one, too.

    Args:
        keywords: word or phrase -> id of a worker. None: ids, capabilities and descriptions are the words.
        default: the id of the worker that gets what matches nobody, and what fits several alike. None: such a clause
            stays with the one before it, and a goal that matches nobody is refused.
        families: verbs that ask for one kind of work, by its name. None: ``VERB_FAMILIES``.
    """

    def __init__(
        self,
        keywords: Mapping[str, str] | None = None,
        *,
        default: str | None = None,
        families: VerbFamilies | None = None,
    ) -> None:
        problems: list[Problem] = []
        if keywords is not None:
            problems += _keyword_problems(keywords)
        if default is not None and not is_id(default):
            what = f"expected the id of a worker, got {value_phrase(default)}"
            problems.append(Problem("KeywordPlanner.default", what, "Give the id of a child of the same supervisor."))
        if families is not None:
            problems += _family_problems(families)
        if problems:
            raise ConfigError(tuple(problems))
        self.keywords = None if keywords is None else dict(keywords)
        self.default = default
        self.families: VerbFamilies = VERB_FAMILIES if families is None else dict(families)
        self._verbs = default_verbs() if families is None else Verbs(self.families)

    def __repr__(self) -> str:
        said = [] if self.keywords is None else [str(self.keywords)]
        if self.default is not None:
            said.append(f"default={self.default!r}")
        return f"KeywordPlanner({', '.join(said)})"

    def plan(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Plan:  # noqa: ARG002 - it cannot learn
        """Return subtasks for the workers that are meant, with warnings.

        Raises:
            NoCapableWorkerError: nobody is meant, and there is neither a default nor a worker without siblings.
        """
        parts = clauses(task.goal)
        index = CatalogueIndex(catalogue, self._verbs) if self.keywords is None else None
        readings, found, left = self._matched(parts, index)
        asked = [n for n, part in enumerate(parts) if part.is_work]
        if parts and not asked:
            if _is_alone(catalogue):
                return _only_one(task, catalogue)  # such as "No, thanks." to the one agent that there is
            raise NoCapableWorkerError((), known_of(catalogue), task=task.id or "?", hint=_NOTHING_TO_DO)
        doubts = _Doubts(task.goal, readings)
        if not any(found) and self.default is None:
            return _only_one(task, catalogue)
        self._defaults(readings, found, doubts)
        if not any(found) and self.default is not None:
            return Plan([Subtask(self.default, task.goal, worker=self.default)])
        for n in asked:
            doubts.of_match(n, found[n])
        for n, knows in left.items():
            before = next((matches[0].worker for matches in reversed(found[:n]) if matches), "")
            doubts.of_left(n, before, knows)
        _doubt_choices(index, readings, found, doubts)
        tools = ToolChoice(catalogue, self._verbs)
        chosen = tools.chosen(readings, found)
        for n in asked:
            if chosen[n] != found[n]:
                doubts.of_match(n, chosen[n])
        return Plan(tools.named(graph(task.goal, readings, chosen)), doubts.said())

    def _matched(
        self, parts: tuple[Clause, ...], index: CatalogueIndex | None
    ) -> tuple[list[Reading], Found, dict[int, str]]:
        """Return what was read, who is meant, and who else speaks of clauses that go on with the verb before them."""
        if index is None:
            keywords = self.keywords or {}
            known = frozenset(word for phrase in keywords for word in stems(phrase))
            return read_clauses(parts, self._verbs, known), by_keyword(parts, keywords), {}
        readings = read_clauses(parts, self._verbs, index.verb_stems)
        found: Found = []
        left: dict[int, str] = {}
        for n, reading in enumerate(readings):
            match = index.match(reading) if reading.clause.is_work else None
            if match is not None and reading.verb_from is not None and match.is_by_verb_alone:
                if match.knows:
                    left[n] = match.knows
                match = None  # it goes on with what the clause before it says
            if not reading.is_work and reading.clause.texts[0] == "while":
                match = None  # it says how: ``while keeping it short``
            found.append([] if match is None else [match])
        return readings, found, left

    def _defaults(self, readings: Sequence[Reading], found: Found, doubts: _Doubts) -> None:
        """Say which clauses match nobody, and give them to the default, with those that fit several alike."""
        nobody = not any(found)
        before = ""
        for n, reading in enumerate(readings):
            if found[n]:
                tie = found[n][0].is_tie and self.default is not None
                if tie and self.default is not None:
                    doubts.of_match(n, found[n], self.default)
                    found[n] = [Match(self.default)]
                before = found[n][0].worker
            elif reading.clause.is_work and (
                (reading.is_work and reading.verb_from is None) or (nobody and not before)
            ):
                doubts.of_nobody(n, self.default or before, is_default=self.default is not None)
                if self.default is not None:
                    found[n] = [Match(self.default)]
                    before = self.default


def _doubt_choices(index: CatalogueIndex | None, readings: Sequence[Reading], found: Found, doubts: _Doubts) -> None:
    """Say which clauses depend on what another worker may know, which are for the other case, and which offer two."""
    busy = {match.worker for matches in found for match in matches}
    for n, reading in enumerate(readings):
        part = reading.clause
        has = found[n if part.decides_on is None else part.decides_on]
        if not has:
            continue
        if part.is_otherwise:
            doubts.of_otherwise(n, has[0].worker)
        elif part.decides_on is not None:
            knows = None if index is None else index.match(reading)
            if knows is not None and knows.worker not in busy:
                doubts.of_condition(n, has[0].worker, knows.worker)
        elif reading.choice is not None:
            doubts.of_choice(n, has[0].worker)


class _Doubts:
    """Warnings of one plan. They show the first words of a clause, up to its verb, and never what is worked on."""

    def __init__(self, goal: str, readings: Sequence[Reading]) -> None:
        self._goal = goal
        self._readings = readings
        self._said: dict[int, str] = {}
        for n, reading in enumerate(readings):
            part = reading.clause
            if part.negated and not _LATER.isdisjoint(part.texts) and part.texts[-1] not in _LATER:
                said = (
                    f"{self._named(n)} says what is not to be done before something else: it is read as not to be done"
                )
                self._said[n] = f"{said}. Write '..., then ...' where it is to be done after that."
            if part.is_carried and part.joined == "and":
                hint = "Write ', but' or ', then' before it where it is to be done"
                self._said[n] = f"{self._named(n)} is read as not to be done, like what stands before it. {hint}."

    def of_match(self, n: int, matches: list[Match], default: str | None = None) -> None:
        """Say that others fit nearly as well."""
        match = matches[0] if matches else None
        if match is not None and match.is_by_noun_alone and not match.rivals:
            said = f"{self._named(n)}: nobody says that it does this, {match.worker} has it for what it is done to"
            self._said[n] = f"{said}. Say in a description= who does it."
        if match is None or not match.rivals:
            return
        who = " and ".join(match.rivals[:3]) + (" and others" if len(match.rivals) > 3 else "")  # noqa: PLR2004
        has = f"{default}, the default, has it" if default else f"{match.worker} has it"
        hint = "Name the worker in the goal, or say more in its description="
        self._said[n] = f"{self._named(n)} fits {match.worker} and {who} nearly alike: {has}. {hint}."

    def of_left(self, n: int, worker: str, knows: str) -> None:
        """Say that a worker goes on with its verb, though another one speaks of what is worked on."""
        if worker and worker != knows:
            said = f"{self._named(n)} goes on with the verb before it, so {worker} has it, though {knows} speaks of it"
            self._said.setdefault(n, f"{said}. Write a verb of its own where {knows} is meant.")

    def of_nobody(self, n: int, worker: str, *, is_default: bool) -> None:
        """Say that nobody is meant by a clause."""
        has = f"{worker}, the default, has it" if is_default else f"it stays with {worker or 'the clause after it'}"
        hint = "" if is_default else " Say in a description= who does that, or give KeywordPlanner(default='...')."
        self._said[n] = f"{self._named(n)} matches nobody: {has}.{hint}"

    def of_condition(self, n: int, worker: str, knows: str) -> None:
        """Say that nobody is asked whether a condition holds."""
        said = f"{self._named(n)} is a condition and no work: {worker} reads it, and {knows} is not asked"
        self._said[n] = f"{said}. Where somebody has to find out, ask for that first: '..., then, if so, ...'."

    def of_otherwise(self, n: int, worker: str) -> None:
        """Say that a plan has what is to be done in the other case as well."""
        said = f"{self._named(n)} is for the other case, and a plan makes no choice: {worker} has it in any case"
        self._said.setdefault(n, f"{said}, with the results before it.")

    def of_choice(self, n: int, worker: str) -> None:
        """Say that one worker has both sides of an ``or``."""
        said = f"{self._named(n)} leaves a choice, and a plan makes none: {worker} has all of it"
        self._said.setdefault(n, f"{said}. Say which of them is to be done.")

    def said(self) -> list[str]:
        """Return the warnings in the order of the clauses, not too many of them."""
        said = [text for _, text in sorted(self._said.items())]
        more = len(said) - _MOST_WARNINGS
        return said if more <= 0 else [*said[:_MOST_WARNINGS], f"{more} more clauses are as doubtful"]

    def _named(self, n: int) -> str:
        words = self._readings[n].clause.tokens
        verb = self._readings[n].verb
        own = verb is not None and self._readings[n].verb_from is None
        last = words[verb.last if verb is not None and own else 0]
        text = self._goal[words[0].start : last.start + len(last.text)]
        shown = text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 4] + " ..."
        return f"clause {n + 1} ({shown!r} ...)"


def _only_one(task: Task, catalogue: Catalogue) -> Plan:
    """Return the goal for the one worker that there is, whatever it says of itself.

    Raises:
        NoCapableWorkerError: there are several, and the goal means none of them.
    """
    if _is_alone(catalogue):
        name = catalogue[0].id
        doubt = f"no word of the goal means {name}: it has the goal, since it is the only worker. {_REMEDY}."
        return Plan([Subtask(name, task.goal, worker=name)], [doubt])
    listed = "; ".join(described(row) for row in catalogue[:_MOST_LISTED])
    more = len(catalogue) - _MOST_LISTED
    words = f"Its words are compared with those of {listed}{f' and {more} more' if more > 0 else ''}"
    hint = f"{words}. {_REMEDY}" if catalogue else ""
    raise NoCapableWorkerError((), known_of(catalogue), task=task.id or "?", hint=hint)


def _is_alone(catalogue: Catalogue) -> bool:
    return len(catalogue) == 1 and catalogue[0].is_only


def described(row: ExecutableInfo) -> str:
    """Return what a worker is matched on: its id, its capabilities, and the beginning of its description."""
    name = f"{row.id} ({', '.join(sorted(row.capabilities))})" if row.capabilities else row.id
    if not row.description:
        return f"{name}, without a description" if not row.capabilities else name
    said = " ".join(row.description.split())
    return f"{name}: {said if len(said) <= _MOST_CHARS else said[: _MOST_CHARS - 4] + ' ...'!r}"


def left_out(rows: Sequence[ExecutableInfo]) -> str:
    """Return who takes no work for now, and how it is brought back."""
    said = [f"{row.id} (not up yet)" if row.is_missing else f"{row.id} ({row.state})" for row in rows[:_MOST_LISTED]]
    more = len(rows) - len(said)
    paths = [row.path for row in rows if row.state in {"parked", "stopped"}]
    hint = f" tree.restart_child({paths[0]!r}) brings it back." if paths else ""
    return f"Not counted: {', '.join(said)}{f' and {more} more' if more else ''}.{hint}"


def known_of(catalogue: Catalogue) -> tuple[str, ...]:
    """Return who is there, with their capabilities."""
    return tuple(
        f"{row.id} ({', '.join(sorted(row.capabilities))})" if row.capabilities else row.id for row in catalogue
    )


# -- what a user gives -------------------------------------------------------------------------------------------


def _keyword_problems(keywords: object) -> Iterable[Problem]:
    if not isinstance(keywords, Mapping):
        what = f"expected a dict of words to ids of workers, got {type_phrase(keywords)}"
        yield Problem("KeywordPlanner.keywords", what, "Write {'look up': 'search'}.")
        return
    for n, (phrase, worker) in enumerate(keywords.items()):
        at = f"KeywordPlanner.keywords[{n}]"
        if not isinstance(phrase, str) or not stems(phrase):
            yield Problem(at, f"{value_phrase(phrase)} can never match", "Use a word that means something.")
        if not is_id(worker):
            yield Problem(at, f"expected the id of a worker, got {value_phrase(worker)}", "Give the id of a worker.")


def _family_problems(families: Any) -> Iterable[Problem]:
    hint = (
        "Write {'make': ['write', 'build'], 'search': ['find', 'look up']}; VERB_FAMILIES is the one that is shipped."
    )
    if not isinstance(families, Mapping):
        what = f"expected a dict of kinds of work to lists of verbs, got {type_phrase(families)}"
        yield Problem("KeywordPlanner.families", what, hint)
        return
    for name, words in families.items():
        listed = isinstance(words, Iterable) and not isinstance(words, (str, bytes))
        if not isinstance(name, str) or not listed or not all(isinstance(word, str) for word in words):
            what = f"expected a name and a list of verbs, got {value_phrase(name)} and {type_phrase(words)}"
            yield Problem("KeywordPlanner.families", what, hint)
