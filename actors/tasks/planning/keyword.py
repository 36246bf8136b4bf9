"""The keyword planner: cuts a goal into clauses and gives each clause to the worker that shares most words with it.

It gets a task and the catalogue of workers, and returns a plan with notes (``Plan.warnings``). What it reads, and what
it does not read, is listed in ``actors/tasks/README.md``. This module is pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from actors.model.errors import Problem
from actors.tasks.model import Catalogue, ExecutableInfo, NoCapableWorkerError, Plan, Subtask, Task
from actors.validation import field_types
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import value_phrase

# -- words -------------------------------------------------------------------------------------------------------

_WORD: Final = re.compile(r"[A-Z]{2,}s?(?![a-z])|[^\W\d_][^\W\d_A-Z]*|\d+")
_GRAMMAR: Final = frozenset(
    _WORD.findall("""
    a about after again all also although an and any are as at be because been before both but by can cannot could d did
    does don done each either else everything except finally first for forget from had has have he her here hesitate his
    how i if in instead into is it its just lastly later let like ll m may me must my neither never next no nor not
    nothing of off on once only onto or otherwise our out over own please re s shall she should so some such t than that
    the their them then there these they this those through to too under unless until up us ve very was we were what
    when where whether which while who will with without would you your
""")
)
"""Words that never say which worker is meant."""
_ENDING: Final = re.compile(
    r"(?<=...)(?:[iy][sz](?:ation|ing|ed|er|e|is|t)|at(?:ion|ing|ed|or|e)|ification|ment|ing|ion|ity|ery|ed|er|or|al"
    r"|[eyi]|(?<![su])s)$"
)


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return what the forms of an English word have in common: ``test`` for tests, tested, testing and tester."""
    word = word.casefold()
    while (root := _ENDING.sub("", word)) != word:
        word = root
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word  # noqa: PLR2004 - "plann", not "see"


def meaning(text: str) -> list[str]:
    """Return the words that mean something, in their order; ``fetch_pages`` has two words."""
    return [word for word in _WORD.findall(text) if word.casefold() not in _GRAMMAR]


def stems(text: str) -> list[str]:
    """Return the stems of the words that mean something."""
    return list(map(stem, meaning(text)))


Families = Mapping[str, set[str]]
"""Stem of a verb -> names of the families that have it."""


def free_id(name: str, taken: Collection[str], number: int = 1) -> str:
    """Return a name that is not taken: ``search``, ``search-2``, ``search-3``; the first one tried has ``number``."""
    while (found := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return found


# -- clauses -----------------------------------------------------------------------------------------------------

_CUT: Final = re.compile(
    r"(?P<then>(?:(?:\A|\n|(?<=[.:;,!?]\s))[ \t]{0,9}(?:step )?\(?\d{1,3}[.):]+|(?<=\s)\(?\d{1,3}\))\s"
    r"|\b(?:then|after (?:that|this)|followed by)\b|[-=]>|\u2192)"
    r"|(?P<stop>(?<![.;:!?])[.;:!?]+(?=\s|\Z)|(?:\A|\n)[ \t]{0,9}[-*\u2022]\s|\n|(?<=\s)[-\u2013\u2014]\s)"
    r"|(?P<or>\b(?:n?or|otherwise)\b)|(?P<and>\b(?:and|plus|as well as)\b|(?<=\s)[&/](?=\s))|(?P<comma>,(?=\s|\Z)|\f)"
    r"|(?=\b(?:but|without|except|instead of|rather than|before|after|once|as soon as)\b)|\Z",
    re.IGNORECASE,
)
"""What separates two clauses."""
_UNPARTED: Final = re.compile(
    r"(\b(?:after|before|once|when|as soon as|if|unless)\b[^,.;:!?\n]{0,80}?(?:ing|ed)\b[^,.;:!?\n]{0,80}?"
    r"(?<!\bthe)(?<!\ba)(?<!\ban)(?<!\bto)) "
    rf"(?=(?!(?:{'|'.join(_GRAMMAR)}|against|during|inside|within|between|via|per|\w+(?:ing|ed|[^s]s))\b)"
    r"\w+ (?:the|an?|my|our|your|its|their|it|them)\b)",
    re.IGNORECASE,
)
"""Where the comma is missing in ``after testing the code deploy the app``: before an order with an object."""
_QUOTED: Final = re.compile(r'"[^"\n]{1,400}"|\u201c[^\u201d\n]{1,400}\u201d|`[^`\n]{1,400}`')
_LEAD: Final = re.compile(
    r"\W*(?:(?:but|and|so|please|only|just)\W+)*(?:(?P<then>finally|lastly|next|later|afterwards?)"
    r"|(?P<after>once|when|after|as soon as)|(?P<first>first|before that(?! (?:is\b|\w+\W*\Z)))|(?P<before>before)"
    r"|(?P<cond>if|unless))\b",
    re.IGNORECASE,
)
"""First words of a clause that say when it is done."""
_NEGATED: Final = re.compile(
    r"\W*(?:(?:but|and|so|please|also|only|just|you|nor)\W+)*(?:(?P<skip>skip|avoid)|(?P<weak>no|not|neither)"
    r"|(?:do not|don['\u2019]?t|never|without|except|instead of|rather than|(?!no\b)\w+ nothing))\b"
    r"(?! (?:forget|hesitate|only|just)\b)"
    r"|.*\b(?:must|should|may)(?: not|n['\u2019]t| never)\b"
    r"|.*\b(?:is|are) (?:forbidden|unnecessary|not (?:to be|needed|necessary|allowed))\b",
    re.IGNORECASE,
)
"""A clause that says what is not to be done."""
_HAS_NEGATION: Final = re.compile(
    r"\b(?:cannot|not|never|no|nothing|nobody|none|neither|\w+n['\u2019]t)\b(?! (?:forget|hesitate|only|just)\b)",
    re.IGNORECASE,
)
_BACK: Final = re.compile(r"\b(?:[Ii]t|[Tt]hem|[Tt]his|[Tt]hese|[Tt]hose|[Rr]esults?|[Ff]indings)\b")
_ORDERS: Final = re.compile(
    r"\W*(?:please )?\w+ (?:the|an?|my|our|your|his|her|its|their|this|that"
    r"|these|those|some|any|all|it|them|me|us|for|to|on|in|at|with|into|from)\b",
    re.IGNORECASE,
)
"""A clause that begins like an order: ``bake a cake``."""
_DONE: Final = re.compile(r"\b(?:is|are|been|was|were) \w+\W*$")
"""The verb of ``once the code is tested``."""
_AROUND: Final = " \t\r\n,;:"


class Who(NamedTuple):
    """Who gets a clause, in the words of ``Subtask``."""

    worker: str | None = None
    capability: str | None = None
    """In the place of the worker, if several workers have it: the least busy one of them gets the subtask."""
    tool: str | None = None

    @property
    def name(self) -> str:
        return re.sub(r"[^A-Za-z0-9_.-]", "_", ".".join(filter(None, self)))


_NOBODY: Final = Who()


@dataclass(slots=True, eq=False)
class Clause:
    """A part of a goal that asks for one thing."""

    start: int
    end: int
    said: str
    """Its text, without the words of order at its beginning; at last what its worker is told."""
    joint: str
    """What separates it from the one before it: or, then, first, stop (also at the beginning), and, comma, nothing."""
    lead: str
    """What it says of the clause after it: that is done ``after``, or ``before``, or on this ``cond``; or nothing."""
    words: list[str]
    """Stems of its words that mean something."""
    back: bool
    """True if it speaks of something before it (``it``, ``the results``): it waits for all that."""
    after: bool = False
    """True if it waits for all that stands before it in the goal."""
    negation: str = ""
    """How it says that something is not to be done: ``no``, ``skip``, ``weak``, ``carried``. Empty: it does not."""
    first: str = ""
    """The word that says what is to be done."""
    is_order: bool = False
    """Whether it has a verb of its own."""
    prefix: str = ""
    """A verb that is said in the clause before it: ``design the pages, the forms``."""
    suffix: str = ""
    """What a verb alone is done to, as the next clause says it: ``write and test the parser``."""
    who: Who = _NOBODY
    """Nobody: its text stays with a neighbour."""

    @property
    def verb(self) -> str:
        return stem(self.first)

    @property
    def is_work(self) -> bool:
        """False for what is not to be done, for a condition, and for the second half of a choice."""
        return not self.negation and self.lead != "cond" and self.joint != "or"

    @property
    def goes_on(self) -> bool:
        """True if only a comma or ``and`` stands between it and the clause before it."""
        return self.joint in {"comma", "and"} and not self.lead


def clauses(goal: str) -> list[Clause]:
    """Cut a goal at punctuation, ``and`` and words of order, and mark what is not to be done."""
    found: list[Clause] = []
    masked = _UNPARTED.sub(r"\1\f", _QUOTED.sub(lambda match: "x" * len(match.group()), goal))
    start, joints = 0, set[str | None]({"stop"})
    for match in _CUT.finditer(masked):
        end = match.start()
        lead = _LEAD.match(goal, start, end)
        kind = (lead.lastgroup or "") if lead else ""
        said = goal[lead.end() if lead else start : end]
        words = stems(said)
        if kind in {"then", "first"} or not words:  # such as "once that is done," or "before that,"
            joints.add({"after": "then", "cond": "then", "before": "first"}.get(kind, kind))
            kind = ""
        elif kind != "cond" and not joints & {"stop", "then"}:  # "deploy it after testing", "test it before deploying"
            joints.add({"after": "first", "before": "then"}.get(kind))
            kind = ""
        if words:
            joint = next((each for each in ("or", "then", "first", "stop", "and", "comma") if each in joints), "")
            found.append(Clause(start, end, said, joint, kind, words, bool(_BACK.search(said))))
            joints = set()
        joints.add(match.lastgroup)
        start = match.end()
    _negate(found, goal)
    return found


def _negate(found: list[Clause], goal: str) -> None:
    """Mark the clauses that say what is not to be done. ``or`` carries that on over a list, ``and`` over one clause."""
    before = ""
    for n, one in enumerate(found):
        if match := _NEGATED.match(goal, one.start, one.end):
            one.negation = match.lastgroup or "no"
        elif before and next((each.joint for each in found[n:] if each.joint != "comma"), "") == "or":
            one.negation = before  # "do not test, review or deploy it"
        elif before and before != "skip" and one.joint == "and" and not one.lead:
            one.negation = "carried"
        before = one.negation
    if not any(one.is_work for one in found):  # "No parcel has come" tells a fact
        for one in found:
            one.negation = "" if one.negation == "weak" else one.negation


# -- workers -----------------------------------------------------------------------------------------------------

_ENOUGH: Final = 2.0
"""Points that a worker needs to be given a clause."""
_CLOSE: Final = 0.7
"""Share of the most points from which another worker fits nearly as well."""
_SEGMENT: Final = re.compile(r"[.,:;!?()\n]+\s*|\b(?:and|or)\b|[&/]")


class _Offer(NamedTuple):
    """How well a worker fits a clause, in points."""

    row: ExecutableInfo
    capability: str
    """The capability whose name counted, if one did."""
    name: float
    verb: float
    noun: float

    @property
    def points(self) -> float:
        return self.name + self.verb + self.noun


class _Profile:
    """The words of one worker, and of the members of a team."""

    def __init__(self, row: ExecutableInfo, families: Families) -> None:
        self.row = row
        self.names = {
            name: set(stems(name)) for name in (row.id, *sorted(row.capabilities), *(one.id for one in row.members))
        }
        self.verbs, self.said = set[str](), set[str]()
        for text in (row.description, *(one.description for one in row.members)):
            self.said.update(stems(text))
            firsts = [words[0] for words in map(meaning, _SEGMENT.split(text)) if words]
            # clauses begin with verbs, which all have the form of the first: ``Writes``
            form = tuple(each for each in ("s", "ing") if firsts and firsts[0].endswith(each))
            self.verbs.update(stem(each) for each in firsts if stem(each) in families or each.endswith(form))
        self.kinds = set[str]().union(*(families.get(verb, ()) for verb in self.verbs))

    def offer(self, one: Clause, kinds: set[str], asked: set[str]) -> _Offer:
        """Return how well it fits a clause: ``kinds`` are families of its verb, ``asked`` words that name it."""
        share, name = max(  # its own words count for more than words of the same family
            ((len(words & asked) + 0.3 * len(words.intersection(one.words))) / (len(words) or 1), name)
            for name, words in self.names.items()
        )
        verb = 6.0 if one.verb in self.verbs else 4.0 if kinds & self.kinds else 2.5 * (one.verb in self.said)
        nouns = [word in self.said for word in one.words if word != one.verb]
        noun = 3.0 if nouns[:1] == [True] else 1.8 * any(nouns)
        return _Offer(self.row, name if share and name in self.row.capabilities else "", 7.0 * share, verb, noun)


class _Index:
    """All workers by their words."""

    def __init__(self, rows: Sequence[ExecutableInfo], families: Families) -> None:
        backups = {row.backup for row in rows}
        self.families = families
        self.workers = [_Profile(row, families) for row in sorted(rows, key=lambda row: (row.id in backups, row.load))]
        self.verbs = families.keys() | {verb for each in self.workers for verb in each.verbs}

    def offers(self, one: Clause) -> list[_Offer]:
        """Return the workers that fit a clause, the best one first; of several alike the least busy one."""
        kinds = self.families.get(one.verb, set())
        asked = {*one.words, *(verb for verb, of in self.families.items() if kinds & of)}
        offers = [each.offer(one, kinds, asked) for each in self.workers]
        return sorted((offer for offer in offers if offer.points >= _ENOUGH), key=lambda offer: -offer.points)


# -- what each clause asks for -------------------------------------------------------------------------------------


def _find_verbs(parts: list[Clause], known: Collection[str]) -> None:
    """Find the verb of each clause. A clause without a verb, or without an object, takes that of its neighbour."""
    for n, one in enumerate(parts):
        words = meaning(one.said)
        one.first = words[-1] if (one.lead or one.joint == "first") and _DONE.search(one.said) else words[0]
        one.is_order = one.verb in known or bool(_ORDERS.match(one.said))
        if not one.is_order and one.goes_on and parts[n - 1].is_work:
            one.first = parts[n - 1].first
            one.prefix = f"{one.first} "
    for after, one in pairwise(parts[::-1]):
        is_bare = (
            one.is_order and one.is_work and len(one.words) == 1 and not (one.back or _HAS_NEGATION.search(one.said))
        )
        if (
            is_bare
            and one.first.endswith("ing") == after.first.endswith("ing")
            and after.goes_on
            and after.is_order
            and after.is_work
        ):
            one.suffix = after.suffix or after.said.strip().partition(" ")[2]
            one.words = [*one.words, *(word for word in after.words if word != after.verb)]
            after.back = True


def _in_order(parts: list[Clause]) -> list[Clause]:
    """Return the clauses that have a worker in the order in which they are done; ``after`` begins a new stage."""
    order: list[Clause] = []
    waits = is_before = False
    for one in parts:
        if not any(one.who):
            waits = waits or one.lead in {"cond", "after"}
            continue
        one.after, waits = waits or one.joint == "then", False
        if order and (is_before or one.joint == "first"):
            later = order[-1]  # "deploy it after testing", "deploy, but first test", "before deploying, test"
            order.insert(-1, one)
            one.after, later.after, is_before = later.after, True, False
        else:
            order.append(one)
            waits, is_before = one.lead == "after", one.lead == "before"
    return order


def _tell(goal: str, parts: list[Clause]) -> None:
    """Add to the text of each clause with a worker that of the clauses after it without one."""
    ends = 0
    for n, following in pairwise([*(n for n, one in enumerate(parts) if any(one.who)), len(parts)]):
        begins, ends, one = ends, following, parts[n]
        while ends < len(parts) and parts[ends - 1].lead == "cond":
            ends -= 1  # a condition is read by the worker that it decides for
        text = goal[parts[begins].start : parts[ends - 1].end].strip(_AROUND)
        one.said = f"{one.prefix}{text} {one.suffix.strip(_AROUND)}".rstrip()


def _subtasks(goal: str, parts: list[Clause]) -> list[Subtask]:
    """Make the subtasks: one for each worker in each stage, and one for each clause that speaks of what came before."""
    _tell(goal, parts)
    made, needs, told = dict[str, Who](), dict[str, list[str]](), dict[str, list[str]]()
    stage, earlier = list[str](), list[str]()
    for one in _in_order(parts):
        if one.after and stage:
            earlier, stage = stage, []
        name = next((name for name in stage if made[name] == one.who and not one.back), "")
        if not name:
            name = free_id(one.who.name, made)
            needs[name] = list(made) if one.back else earlier
            made[name] = one.who
            stage.append(name)
        told.setdefault(name, []).append(one.said)
    return [
        Subtask(
            name,
            ", ".join(told[name]) if len(made) > 1 else goal,
            who.worker,
            who.capability,
            needs[name],
            tool=who.tool,
        )
        for name, who in made.items()
    ]


# -- the planner -------------------------------------------------------------------------------------------------

VERB_FAMILIES: Final[Mapping[str, Sequence[str]]] = {
    name: tuple(verbs.split(", "))
    for name, verbs in {
        "make": "implement, write, build, generate, code, create, develop, program, compose, draft, produce, construct",
        "design": "design, sketch",
        "review": "review, check, verify, audit, validate, proofread, critique",
        "research": "research, investigate, compare, explore, study, survey",
        "search": "search, find, locate, look",
        "fetch": "fetch, retrieve, download, collect, gather, import, load, scrape, crawl",
        "analyse": "analyse, measure, inspect, evaluate, assess, examine",
        "test": "test, benchmark",
        "fix": "fix, repair, debug, correct, patch, mend",
        "change": "change, update, modify, edit, revise, refactor, rewrite, extend, migrate, upgrade",
        "summarise": "summarise, condense, digest, recap",
        "document": "document, describe, explain, annotate",
        "translate": "translate, localise",
        "convert": "convert, transform, export, reformat",
        "draw": "draw, plot, chart, visualise, render, illustrate",
        "clean": "clean, tidy, normalise, deduplicate",
        "remove": "remove, delete, erase",
        "deploy": "deploy, release, publish, ship, launch",
        "install": "install, configure, provision",
        "monitor": "monitor, watch, observe, track",
        "send": "send, mail, email, notify, post",
        "plan": "plan, schedule, organise",
        "buy": "buy, purchase, order",
        "book": "book, reserve",
        "pay": "pay, charge, bill",
    }.items()
}
"""Name of a family -> its verbs, in any form: words that ask for the same kind of work. ``families=`` replaces it."""
_MOST_LISTED: Final = 20
"""Notes of a plan, and workers of an error, at most."""
_MOST_CHARS: Final = 80
_REMEDY: Final = (
    "Say in a worker's description= or capabilities= what it does, in the words and the language of your goals; "
    "or name who gets the rest, Tasks(planner=KeywordPlanner(default='...')); "
    "or use another planner, such as ModelPlanner(call) or StaticPlan([...])"
)


class KeywordPlanner(SpecModel, frozen=True, kw_only=False):
    """Gives each clause of the goal to the worker that shares most words with it, and notes its doubts in the plan.

    Clauses run side by side, unless the goal orders them (``then``, ``but first``, a numbered list) or one of them
    speaks of what came before (``review it``). ``do not deploy`` is no work; that is a hint, not a guard. The only
    worker of a supervisor gets every goal as it is.

    Args:
        keywords: word or phrase -> id of a worker. Workers are then known by these words and their ids alone. None:
            by their ids, capabilities and descriptions.
        default: id of the worker that gets what matches no worker, and what fits several alike. None: such a clause
            stays with the one before it, and a goal that matches no worker is refused.
        families: verbs of one word that ask for one kind of work, by its name. None: ``VERB_FAMILIES``.

    Raises:
        ConfigError: an argument has another form.
    """

    keywords: dict[str, field_types.Id] | None = None
    default: field_types.Id | None = None
    families: dict[str, list[str] | tuple[str, ...]] | None = None

    @classmethod
    def _cross_field_problems(cls, data: Mapping[str, Any]) -> list[Problem]:
        words = data.get("keywords")
        return [
            Problem(
                "KeywordPlanner.keywords", f"{value_phrase(word)} can never match", "Use a word that means something."
            )
            for word in (words if isinstance(words, Mapping) else ())
            if not stems(str(word))
        ]

    def plan(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Plan:  # noqa: ARG002 - it cannot learn
        """Return the plan of a goal.

        Raises:
            NoCapableWorkerError: no worker matches, or the goal says only what is not to be done.
        """
        only = next((row.id for row in catalogue if row.is_only), None)
        if only and not _has_choice(catalogue[0]):
            return Plan([Subtask(only, task.goal, worker=only)])
        index, parts = self._index(catalogue), clauses(task.goal)
        _find_verbs(parts, index.verbs)
        notes = self._give(parts, index)
        if any(any(one.who) for one in parts):
            return Plan(_subtasks(task.goal, parts), notes)
        if parts and not any(one.is_work for one in parts):
            hint = "The goal says only what is not to be done. Say what is to be done"
        elif worker := self.default or only:
            note = f"no word of the goal means a worker: {worker} has it"
            return Plan([Subtask(worker, task.goal, worker=worker)], [note])
        else:
            said = [f"{row.id}: {row.description[:_MOST_CHARS]!r}" for row in catalogue[:_MOST_LISTED]]
            hint = f"Its words are compared with those of {'; '.join(said)}. {_REMEDY}" if said else ""
        raise NoCapableWorkerError(task=task.id or "?", hint=hint)

    def _index(self, catalogue: Catalogue) -> _Index:
        families: dict[str, set[str]] = {}
        for name, verbs in (VERB_FAMILIES if self.families is None else self.families).items():
            for verb in verbs:
                families.setdefault(stem(verb), set()).add(name)
        if self.keywords is not None:
            catalogue = tuple(
                replace(
                    row,
                    capabilities=frozenset(word for word, id_ in self.keywords.items() if id_ == row.id),
                    description="",
                    members=(),
                )
                for row in catalogue
                if row.id in self.keywords.values()
            )
        return _Index(catalogue, families)

    def _give(self, parts: list[Clause], index: _Index) -> list[str]:
        """Find the worker of each clause, and return the doubts."""
        notes: list[str] = []
        before: Clause | None = None
        for n, one in enumerate(parts, 1):
            doubt = self._give_one(one, index, before)
            ends = next((each.joint for each in parts[n:] if each.joint != "and"), "stop")
            if one.lead and one.joint in {"stop", "then"} and ends == "stop":
                doubt = doubt or "may ask for two things: a comma would part them"
            if doubt:
                notes.append(f"clause {n} ({one.first!r} ...) {doubt}.")
            if before and one.goes_on and not one.back and one.who == before.who:
                one.who = _NOBODY  # it goes on with what its worker is told already
            before = one if any(one.who) else before
        return notes[:_MOST_LISTED]

    def _give_one(self, one: Clause, index: _Index, before: Clause | None) -> str:
        """Find the worker of one clause, and return what is doubtful about it."""
        neighbour = before.who.worker or before.who.capability if before else "the clause after it"
        stays = f"it stays with {neighbour}"
        if one.negation == "carried":
            return f"is read as not to be done, like the clause before it: {stays}"
        if one.negation or one.lead == "cond":
            return ""
        offers = index.offers(one)
        if one.joint == "or":
            is_other = bool(offers) and offers[0].row.id != neighbour
            return f"is one half of a choice, and a plan makes none: {stays}" * is_other
        if offers:
            return self._take(one, offers, index)
        one.who = Who(self.default if one.is_order else None)
        has = f"{self.default}, the default, has it" if any(one.who) else stays
        return f"matches nobody: {has}" * (one.is_order or not one.goes_on)

    def _take(self, one: Clause, offers: list[_Offer], index: _Index) -> str:
        """Give a clause to the worker that fits best, and return what is doubtful about that."""
        best, *others = offers
        has = best.row.id
        one.who = Who(has)
        if best.capability and any(best.capability in other.row.capabilities for other in others):
            one.who = Who(None, best.capability)
        elif _has_choice(best.row):
            tools = [
                replace(best.row, id=tool.name, description=tool.description, capabilities=frozenset())
                for tool in best.row.tools or ()
            ]
            named = _Index(tools, index.families).offers(one)
            one.who = Who(has, tool=named[0].row.id if named else None)
        rivals = [
            other.row.id
            for other in others
            if other.row.id != best.row.backup
            and one.who.capability not in other.row.capabilities
            and (other.points >= _CLOSE * best.points or (other.noun and not best.noun and not best.name))
        ]
        if rivals and self.default and others[0].points == best.points:
            one.who, has = Who(self.default), f"{self.default}, the default,"
        if rivals:
            return f"fits {best.row.id} and {' and '.join(rivals[:3])} nearly alike: {has} has it"
        if not best.name + best.verb and one.verb in index.families:
            return f"is for a kind of work that no description= names: {has} has it"
        return f"is read as work, though it has a negation: {has} has it" if _HAS_NEGATION.search(one.said) else ""


def _has_choice(row: ExecutableInfo) -> bool:
    """Whether a subtask for the worker has to name one of its tools."""
    return len(row.tools or ()) > 1
