"""Workers that a goal means: its clauses matched with the catalogue, by evidence.

Comes in: the clauses of a goal, and a catalogue or a user's keywords. Goes out: matches, clause by clause, and doubts.

What a word of a clause says for a worker depends on where it stands in the clause, and where among the worker's words:

====================================  ==============  =======================  =============
in the clause                         id, capability  verb of a description    its other words
====================================  ==============  =======================  =============
the verb                              15              6                        1.5
another verb of the verb's family     10              4                        -
a noun                                12              -                        5 or 3, see below
a noun that is a form of a verb       5               3                        5 or 3
====================================  ==============  =======================  =============

A name of several words counts in the share of them that is there. A noun after ``of``, ``for``, ``with`` counts half,
in the goal as in a description. Nouns count 3 for a worker whose description has verbs, and none of the verb's family:
``check the code`` is not for somebody who ``writes code``. Whoever has most evidence has the clause. Where the next one
has nearly as much, or the verb speaks for one and what it is done to for another, that is a doubt.

This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.planning.goal_clause import Clause
from actors.tasks.planning.goal_clauses import clauses
from actors.tasks.planning.goal_reading import Reading
from actors.tasks.planning.goal_text import phrase_positions, positions, stems
from actors.tasks.planning.verb_families import Verbs, default_verbs
from actors.tasks.planning.worker_words import Name, Profile, profile_of

_NAME_VERB: Final = 15.0
_NAME_FAMILY: Final = 10.0
_NAME_NOUN: Final = 12.0
_NAME_NOMINAL: Final = 5.0
_VERB: Final = 6.0
_FAMILY: Final = 4.0
_VERB_AS_NOUN: Final = 3.0
"""A noun of the goal that is a form of a worker's verb."""
_NOUN_OF_VERB: Final = 1.5
"""The verb of the goal as a noun of a description: ``Reviews implementations`` for ``implement``."""
_NOUN: Final = 5.0
_OTHER_NOUN: Final = 3.0
"""Evidence of a noun, for a worker that does another kind of work."""
_MORE: Final = 0.1
"""Share of each further noun; ten of them at most."""
_ASIDE: Final = 0.5
_ENOUGH: Final = 2.0
"""Less evidence is none."""
_CLOSE: Final = 0.7
"""Share of the best one's evidence from which another one is nearly as good."""


@dataclass(frozen=True, slots=True)
class Match:
    """Worker that is meant by words of a clause."""

    worker: str
    capability: str | None = None
    """Set where several have it and none of them is meant by name: whoever is least busy."""
    positions: frozenset[int] = frozenset()
    """Where in the goal these words stand."""
    rivals: tuple[str, ...] = ()
    """Workers that fit nearly as well."""
    is_tie: bool = False
    """True where one of the rivals fits as well as it."""
    is_by_verb_alone: bool = False
    """True where nothing but the verb of the clause speaks for it."""
    is_by_noun_alone: bool = False
    """True where its description says that it does another kind of work."""
    knows: str = ""
    """Worker that speaks of what is worked on, where this one has the verb alone; empty: nobody."""


Found = list[list[Match]]
"""Matches for each clause."""


def by_keyword(parts: tuple[Clause, ...], keywords: Mapping[str, str]) -> Found:
    """Everywhere that a keyword stands. Longer phrases first: a word that is part of one does not count by itself."""
    words = [token for part in parts for token in part.tokens]
    clause_of = {token.start: n for n, part in enumerate(parts) for token in part.tokens}
    taken: set[int] = set()
    found: dict[int, dict[str, Match]] = {}
    phrases = sorted(((stems(phrase), worker) for phrase, worker in keywords.items()), key=lambda one: -len(one[0]))
    for phrase, worker in phrases:
        for where in phrase_positions(phrase, words):
            clause = clause_of[min(where)]
            if not where & taken and parts[clause].is_work:
                taken |= where
                found.setdefault(clause, {}).setdefault(worker, Match(worker, None, where))
    return [sorted(found.get(n, {}).values(), key=lambda match: min(match.positions)) for n in range(len(parts))]


class _Evidence(NamedTuple):
    """Evidence for one worker."""

    score: float
    name: float
    """Part of the score that one of its names has."""
    by_verb: float
    by_noun: float
    capability: str | None


_Offer = tuple[tuple[float, bool, int, int], _Evidence, ExecutableInfo]
"""Rank of a worker for a clause, what speaks for it, and its row."""


class CatalogueIndex:
    """A catalogue, indexed by words and by families. A clause looks only at those who share one of them with it."""

    def __init__(self, catalogue: Catalogue, verbs: Verbs | None = None) -> None:
        self._rows = catalogue
        self.verbs = verbs or default_verbs()
        self._backups = {row.backup for row in catalogue}
        self._having = Counter(capability for row in catalogue for capability in row.capabilities)
        self._profiles = [profile_of(row, self.verbs) for row in catalogue]
        self._by_stem: dict[str, list[int]] = {}
        self._by_family: dict[str, list[int]] = {}
        for n, profile in enumerate(self._profiles):
            for one in profile.all_stems:
                self._by_stem.setdefault(one, []).append(n)
            for family in profile.all_families:
                self._by_family.setdefault(family, []).append(n)
        self._known: dict[tuple[object, ...], Match | None] = {}

    @property
    def verb_stems(self) -> frozenset[str]:
        """Stems of the verbs of all workers and of the words of their names."""
        verbs = {verb[0] for profile in self._profiles for verb in profile.verbs}
        return frozenset(verbs.union(*(profile.of_names for profile in self._profiles)))

    def match_names(self, goal: str) -> list[Match]:
        """Return the workers whose id or capability stands in a clause of the goal with all its words; each once."""
        found: dict[str, Match] = {}
        for part in clauses(goal):
            near = {n for token in part.tokens for n in self._by_stem.get(token.stem, ())} if part.is_work else ()
            for n in sorted(near):
                for name in self._profiles[n].names:
                    where = positions(name.stems, part.tokens)
                    if where:
                        worker = self._rows[n].id
                        found.setdefault(worker, Match(worker, name.capability, where))
        return list(found.values())

    def match(self, reading: Reading) -> Match | None:
        """Return who has a clause; None: nobody is meant."""
        verb = reading.verb
        key = (verb and verb.key, reading.is_nominal, tuple(reading.objects), tuple(reading.asides))
        if key not in self._known:
            self._known[key] = self._match(reading)
        return self._known[key]

    def _match(self, reading: Reading) -> Match | None:
        offers: list[_Offer] = []
        words = frozenset(reading.objects).union(reading.asides)
        for n in self._near(reading):
            evidence = _evidence(self._profiles[n], reading, words, self.verbs)
            if evidence.score >= _ENOUGH:
                row = self._rows[n]
                offers.append(((-evidence.score, row.id in self._backups, row.load, n), evidence, row))
        if not offers:
            return None
        offers.sort(key=lambda offer: offer[0])
        (*_, number), best, row = offers.pop(self._first_free(offers))
        profile = self._profiles[number]
        rivals = [(each, other) for _, each, other in offers if self._is_rival(row, best, other, each)]
        knows = [other.id for _, each, other in offers if best.by_noun < _OTHER_NOUN <= each.by_noun]
        shared = best.capability is not None and self._having[best.capability] > 1
        return Match(
            row.id,
            best.capability if shared else None,
            frozenset({reading.clause.start}),
            tuple(other.id for _, other in rivals),
            any(each.score >= best.score for each, _ in rivals),
            not best.by_noun and words.isdisjoint(profile.of_names),
            _does_something_else(profile, reading) and not (best.name or best.by_verb),
            knows[0] if knows else "",
        )

    def _first_free(self, offers: list[_Offer]) -> int:
        """Return the place of the best one; where its breaker is open, of the next that is nearly as good."""
        _, best, row = offers[0]
        if row.breaker == "open":
            for n, (_, each, other) in enumerate(offers[1:], 1):
                if other.breaker != "open" and each.score >= _CLOSE * best.score:
                    return n
        return 0

    def _near(self, reading: Reading) -> set[int]:
        words = [*reading.objects, *reading.asides]
        families: frozenset[str] = frozenset()
        if reading.verb is not None:
            words += reading.verb.key[:1]
            families = reading.verb.families
        found = {n for word in words for n in self._by_stem.get(word, ())}
        return found.union(*(self._by_family.get(family, ()) for family in families))

    @staticmethod
    def _is_rival(row: ExecutableInfo, best: _Evidence, other: ExecutableInfo, evidence: _Evidence) -> bool:
        """True where somebody else fits nearly as well, or has what is worked on where the best has the verb alone."""
        if row.backup == other.id or other.backup == row.id:
            return False
        if best.capability is not None and best.capability == evidence.capability:
            return False
        if evidence.score >= _CLOSE * best.score:
            return True
        return not best.name and best.by_noun < _OTHER_NOUN <= evidence.by_noun


# -- evidence ----------------------------------------------------------------------------------------------------


def _evidence(profile: Profile, reading: Reading, words: frozenset[str], verbs: Verbs) -> _Evidence:
    """Add up what speaks for a worker; ``words`` are those of the clause without its verb."""
    name, capability = 0.0, None
    verb = reading.verb
    if not words.isdisjoint(profile.of_names) or (
        verb is not None and (not profile.of_names.isdisjoint(verb.key) or verb.is_like(profile.all_families))
    ):
        for each in profile.names:
            score = _of_name(each, reading, verbs)
            if score > name or (score == name and score and capability is not None and each.capability is None):
                name, capability = score, each.capability
    by_verb = _of_verb(profile, reading)
    shared = words & profile.all_stems
    by_noun = _of_nouns(profile, reading, shared, same_work=by_verb >= _FAMILY) if shared else 0.0
    return _Evidence(name + by_verb + by_noun, name, by_verb, by_noun, capability)


def _does_something_else(profile: Profile, reading: Reading) -> bool:
    """True where a description has verbs, and none of them is of the kind of work that a clause asks for."""
    verb = reading.verb
    return verb is not None and bool(verb.families) and bool(profile.verbs) and not verb.is_like(profile.families)


def _of_name(name: Name, reading: Reading, verbs: Verbs) -> float:
    verb, found, score = reading.verb, 0, 0.0
    for word in name.stems:
        if verb is not None and word in verb.key:
            worth = _NAME_VERB
        elif word in reading.objects or word in reading.asides:
            worth = _NAME_NOMINAL if verb is not None and verbs.families_of((word,)) else _NAME_NOUN
            worth *= 1 if word in reading.objects else _ASIDE
        else:
            continue
        found += 1
        score = max(score, worth)
    if verb is not None and verb.is_like(name.families) and score < _NAME_FAMILY:
        score, found = _NAME_FAMILY, max(found, 1)
    return (score + found - 1) * name.weight * found / len(name.stems) if found else 0.0


def _of_verb(profile: Profile, reading: Reading) -> float:
    verb = reading.verb
    if verb is None:
        return 0.0
    if verb.key in profile.verbs:
        return _VERB
    if verb.is_like(profile.families):
        return _FAMILY
    if verb.key[0] not in profile.objects:
        return 0.0
    return _OTHER_NOUN if reading.is_nominal else _NOUN_OF_VERB  # ``run the tests``: both speak of the same things


def _of_nouns(profile: Profile, reading: Reading, shared: frozenset[str], *, same_work: bool) -> float:
    worth = _NOUN if same_work or reading.verb is None or not profile.verbs else _OTHER_NOUN
    found = []
    for word in shared:
        for words, share in ((reading.objects, 1.0), (reading.asides, _ASIDE)):
            if word not in words:
                continue
            if word in profile.objects:
                found.append(worth * share)
            elif word in profile.asides:
                found.append(worth * share * _ASIDE)
            elif (word,) in profile.verbs:
                found.append(_VERB_AS_NOUN * share)
    found.sort(reverse=True)
    return found[0] + sum(_MORE * each for each in found[1:10]) if found else 0.0
