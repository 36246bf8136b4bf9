"""Workers that a goal means: its clauses matched with the catalogue, and made into a graph of subtasks.

Comes in: the clauses of a goal, and a catalogue or a user's keywords. Goes out: matches, clause by clause, and the
subtasks that they make. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.task import Subtask
from actors.tasks.planning.goal_text import Clause, clauses, phrase_positions, positions, stem_set, stems
from actors.validation.field_types import is_id


@dataclass(frozen=True, slots=True)
class Match:
    """Worker that is meant by words of a clause."""

    worker: str
    capability: str | None
    """Set where several have it and none of them is meant by name: whoever is least busy."""
    positions: frozenset[int]
    """Where in the goal these words stand."""


Found = list[list[Match]]
"""Matches for each clause."""


def by_keyword(parts: tuple[Clause, ...], keywords: Mapping[str, str]) -> Found:
    """Everywhere that a keyword stands. Longer phrases first: a word that is part of one does not count by itself."""
    words = [token for part in parts for token in part.tokens]
    taken: set[int] = set()
    found: dict[int, dict[str, Match]] = {}
    phrases = sorted(((stems(phrase), worker) for phrase, worker in keywords.items()), key=lambda one: -len(one[0]))
    for phrase, worker in phrases:
        for where in phrase_positions(phrase, words):
            if not where & taken:
                taken |= where
                clause = next(n for n, part in enumerate(parts) if part.end > min(where))
                found.setdefault(clause, {}).setdefault(worker, Match(worker, None, where))
    return [_in_order(found.get(n, {})) for n in range(len(parts))]


def _in_order(found: Mapping[str, Match]) -> list[Match]:
    return sorted(found.values(), key=lambda match: min(match.positions))


# -- names and descriptions --------------------------------------------------------------------------------------

_FULL: Final = 0
"""All words of an id or a capability."""
_PARTLY: Final = 1
"""Some of them."""
_DESCRIBED: Final = 2
"""Words of the description."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """How well a name, a capability or a description fits a clause."""

    rank: tuple[int, ...]
    """How, how many words, by id, described too, nobody's backup, load, position; the smallest is the best."""
    row: ExecutableInfo
    positions: frozenset[int]
    capability: str | None = None


class CatalogueIndex:
    """A catalogue, indexed by words. A clause looks only at those who share a word with it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._rows = catalogue
        self._backups = {row.backup for row in catalogue}
        self._having = Counter(capability for row in catalogue for capability in row.capabilities)
        self._by_stem: dict[str, set[int]] = {}
        for n, row in enumerate(catalogue):
            words = {one for name in (row.id, *row.capabilities) for one in stems(name)}
            for one in words | stem_set(row.description):
                self._by_stem.setdefault(one, set()).add(n)

    def match_clauses(self, parts: tuple[Clause, ...]) -> Found:
        """Return the workers of each clause: by a whole name, else by a part of one, else one by its description."""
        return [self._match_clause(part, _DESCRIBED) for part in parts]

    def match_names(self, goal: str) -> list[Match]:
        """Return the workers whose id or capability stands in a clause of the goal with all its words; each once."""
        found: dict[str, Match] = {}
        for part in clauses(goal):
            for match in self._match_clause(part, _FULL):
                found.setdefault(match.worker, match)
        return list(found.values())

    def _match_clause(self, clause: Clause, weakest: int) -> list[Match]:
        offers = sorted(self._offers(clause), key=lambda offer: offer.rank)
        how = offers[0].rank[0] if offers else _FULL
        if how > weakest:
            return []
        taken: set[int] = set()
        found: dict[str, Match] = {}
        for offer in offers:
            if offer.rank[0] != how or offer.positions & taken or offer.row.id in found:
                continue
            taken |= offer.positions
            anybody = offer.capability if offer.capability and self._having[offer.capability] > 1 else None
            found[offer.row.id] = Match(offer.row.id, anybody, offer.positions)
            if how == _DESCRIBED:
                break
        return _in_order(found)

    def _offers(self, clause: Clause) -> Iterator[_Offer]:
        wanted = {token.stem: token.start for token in reversed(clause.tokens) if token.meaningful}
        near = {n for token in clause.tokens for n in self._by_stem.get(token.stem, ()) if not token.is_grammar}
        for n in near:
            row = self._rows[n]
            described = stem_set(row.description) & wanted.keys()
            rest = (-len(described), int(row.id in self._backups), row.load, n)
            for name, capability in ((row.id, None), *((one, one) for one in sorted(row.capabilities))):
                words = stems(name)
                if where := positions(words, clause.tokens):
                    yield _Offer((_FULL, -len(where), int(capability is not None), *rest), row, where, capability)
                elif part := wanted.keys() & set(words):
                    where = frozenset(wanted[one] for one in part)
                    yield _Offer((_PARTLY, -len(part), 0, *rest), row, where)
            if described:
                where = frozenset(wanted[one] for one in described)
                yield _Offer((_DESCRIBED, -len(described), 0, *rest), row, where)


# -- the graph ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    """A subtask in the making."""

    match: Match
    stage: int
    depends_on: list[str]
    said: list[str] = field(default_factory=list)


def graph(goal: str, parts: tuple[Clause, ...], found: Found) -> list[Subtask]:
    """Make subtasks of what was found, clause by clause. Nothing of the goal is lost.

    A clause after a sequence word depends on all of the stage before it; one that points back, on all before it.
    Whoever is meant twice in a stage has one subtask with both clauses, unless the second one points back.
    """
    drafts: dict[str, _Draft] = {}
    stage = 0
    for said, part, matches, later in _grouped(goal, parts, found):
        stage += later
        before = [name for name, one in drafts.items() if part.back or one.stage == stage - 1]
        for match in matches:
            name = _name(match, drafts, None if part.back else stage)
            drafts.setdefault(name, _Draft(match, stage, before)).said.append(said)
    return [
        Subtask(
            name,
            ", ".join(draft.said),
            worker=None if draft.match.capability else draft.match.worker,
            capability=draft.match.capability,
            depends_on=draft.depends_on,
        )
        for name, draft in drafts.items()
    ]


def _grouped(goal: str, parts: tuple[Clause, ...], found: Found) -> Iterator[tuple[str, Clause, list[Match], bool]]:
    """Each clause by which somebody is meant, with what follows it up to the next such one, and whether it is later."""
    hits = [n for n, matches in enumerate(found) if matches]
    for number, n in enumerate(hits):
        start = parts[n].start if number else 0
        following = hits[number + 1] if number + 1 < len(hits) else len(parts)
        end = parts[following - 1].end
        later = number > 0 and any(part.after for part in parts[hits[number - 1] + 1 : n + 1])
        said = goal if len(parts) == 1 else goal[start:end].strip(" \t\r\n,;:")
        yield said, parts[n], found[n], later


def _name(match: Match, drafts: Mapping[str, _Draft], stage: int | None) -> str:
    """The worker's id, or the capability; with a number where that has something else to do in another stage."""
    plain = match.capability if match.capability is not None and is_id(match.capability) else match.worker
    number, name = 1, plain
    while name in drafts and (drafts[name].stage != stage or drafts[name].match.worker != match.worker):
        number += 1
        name = f"{plain}-{number}"
    return name
