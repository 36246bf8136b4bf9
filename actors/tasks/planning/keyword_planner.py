"""The planner for words. It cuts a goal into clauses, and gives each clause to the worker whose words it shares.

Comes in: a task, and the catalogue of the workers. Goes out: a plan with warnings. Nothing is kept between two plans.
What it reads, and what it does not, stands in ``actors/tasks/README.md``. Its time grows with the length of the goal.
This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from actors.model.errors import ConfigError, Problem
from actors.tasks.model.executable import Catalogue, ExecutableInfo, MemberInfo
from actors.tasks.model.task import Plan, Subtask, Task
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.verb_families import VERB_FAMILIES, VerbFamilies
from actors.validation.field_types import is_id
from actors.validation.validation_messages import type_phrase, value_phrase

# -- words -------------------------------------------------------------------------------------------------------


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PREPOSITIONS: Final = _set("""
    about across after against among around at before behind between by during for from in inside into near of off on
    onto over per that through to toward towards under until using via when where which who with within without
""")
_DETERMINERS: Final = _set("a an the all any each every my our your his her its their this that these those some no")
_GRAMMAR: Final = (
    _PREPOSITIONS
    | _DETERMINERS
    | _set("""
    above afterward afterwards again also although always am and anybody anyone anything are as be because been being
    below besides both but can cannot could did does doing done down either else etc even ever everybody everyone
    everything few fifth finally first firstly following fourth had has have having he here hers him how however i if
    instead is it just last lastly later least less let like many may me might mine more most much must neither next
    nobody none nor not nothing now often once one only or other others otherwise ours out own please prior quite rather
    really same second secondly she shall should since so somebody someone something soon still subsequently such than
    theirs them then there thereafter therefore they third thirdly though thus till together too up upon us very was we
    well were what whatever whether while whole whom whose why will would yes yet you yours
""")
)
"""Words that say nothing of what is wanted."""
_LIGHT: Final = _set("""
    able agent ask assistant available begin bot continue do ensure executor finish get give go goal good handle handler
    hello help helper hi hold job keep kind make need new part perform proceed provide put run sure start step stuff
    take task thing tool try type use useful various want way work worker workflow
""")
"""Words that could stand for anybody: they match a name that has no other words."""
_IRREGULAR: Final = {
    "analyst": "analyse", "bought": "buy", "built": "build", "chosen": "choose", "comparison": "compare",
    "drawn": "draw", "found": "find", "made": "make", "paid": "pay", "ran": "run", "sent": "send", "sold": "sell",
    "summary": "summar", "taken": "take", "wrote": "write", "written": "write",
}  # fmt: skip
_KEPT: Final = _set("customer data embed folder letter master matter news number order paper party server story")
"""Words whose end looks like a suffix and is none."""
_ENDINGS: Final = tuple(
    (re.compile(rf"{ending}$"), instead)
    for ending, instead in (
        (r"(?<=..)ies", "y"),
        (r"(?<=ss)es|(?<=[cs]h)es|(?<=[xz])es|(?<=..)(?<![sui])s", ""),
        (r"(?<=..)ied", "y"),
        (r"(?<=....)at(?:ing|ed)", "ate"),
        (r"(?<=[aeiouy].)(?:ing|(?<!e)ed)|(?<=[aeiouy]..)(?:ing|(?<!e)ed)|(?<=[aeiouy]...)(?:ing|(?<!e)ed)", ""),
        (r"([^aeiou])\1", r"\1"),
        (r"(?<=...)(?:ification|ifier)", "ify"),
        (r"(?<=....)(?:ations?|ator|ate|ery|ity|ment)", ""),
        (r"(?<=...)(?:tion|tor)", "t"),
        (r"(?<=...)(?:sion|sor)", "s"),
        (r"(?<=....)val", "v"),
        (r"(?<=...)ier", "y"),
        (r"(?<=...)er", ""),
        (r"(?<=....)ment", ""),
        (r"([^aeiou])\1", r"\1"),
        (r"(?<=..)e", ""),
        (r"(?<=....)i[sz]|(?<=..)y(?<![aeiou]y)", ""),
        (r"(?<=.)z", "s"),
    )
)
_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019][^\W\d_]+)?")
_ACRONYMS: Final = re.compile(r"[A-Z]{2,}s")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])")


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return what the forms of an English word have in common: ``test`` for tests, tested, testing and tester."""
    word = word.casefold().replace("\u2019", "'").partition("'")[0]
    if not word.isascii() or not word.isalpha() or len(word) < 3:  # noqa: PLR2004 - no forms
        return word
    for ending, instead in _ENDINGS:
        word = _IRREGULAR.get(word, word)
        if word in _KEPT:
            return word
        word = ending.sub(instead, word)
    return word


class Word(NamedTuple):
    """A word of a text."""

    text: str
    """In lower case."""
    stem: str
    start: int
    end: int

    @property
    def means(self) -> bool:
        """False for a word that says nothing of what is wanted."""
        return not is_grammar(self.text) and bool(self.stem) and self.stem not in _LIGHT_STEMS


def is_grammar(text: str) -> bool:
    """True for a word that says nothing of what is wanted, also in a short form: ``let's``, ``don't``."""
    return text.partition("'")[0] in _GRAMMAR or text.endswith("n't")


_LIGHT_STEMS: Final = frozenset(stem(word) for word in _LIGHT)


def words_of(text: str, offset: int = 0) -> list[Word]:
    """Return the words of a text; ``fetch_pages``, ``fetch-pages`` and ``fetchPages`` are two words each."""
    found = []
    for match in _WORD.finditer(text):
        start = match.start() + offset
        for part in _CAMEL.split(match.group()):
            root = stem(part[:-1] if _ACRONYMS.fullmatch(part) else part)
            found.append(Word(part.casefold().replace("\u2019", "'"), root, start, start + len(part)))
            start += len(part)
    return found


@lru_cache(maxsize=8192)
def stems(text: str) -> tuple[str, ...]:
    """Return the stems of the words that mean something; of a name without such words, of those that are vague."""
    words = [word for word in words_of(text) if not is_grammar(word.text)]
    return tuple(word.stem for word in words if word.means) or tuple(word.stem for word in words if word.stem)


def places(words: Iterable[Word]) -> dict[str, int]:
    """Return where each stem stands first."""
    return {word.stem: word.start for word in reversed(list(words)) if not is_grammar(word.text)}


def mentioned(name: str, where: Mapping[str, int]) -> frozenset[int]:
    """Return the places of the words of a name, in any order; nothing unless all of them are there."""
    wanted = stems(name)
    return frozenset(where[one] for one in wanted) if all(one in where for one in wanted) else frozenset()


_Verb = tuple[tuple[str, ...], frozenset[str]]
"""Stems of a verb (two where it takes two words), and its families."""


_NO_VERB: Final[_Verb] = ((), frozenset())


class _Verbs:
    """A table of families, by stems."""

    def __init__(self, families: VerbFamilies) -> None:
        self.families: dict[tuple[str, ...], frozenset[str]] = {}
        for name, verbs in families.items():
            for verb in verbs:
                key = tuple(word.stem for word in words_of(verb))
                self.families[key] = self.families.get(key, frozenset()) | {name}

    def at(self, words: Sequence[Word], n: int) -> _Verb:
        """Return the verb at a word, whether the table has it or not."""
        for length in (2, 1):
            key = tuple(word.stem for word in words[n : n + length])
            if key in self.families:
                return key, self.families[key]
        return key, frozenset()


@lru_cache(maxsize=1)
def _shipped() -> _Verbs:
    return _Verbs(VERB_FAMILIES)


def _is_plural(text: str) -> bool:
    """True for a form on -s: a plural, or the third person of a verb."""
    return len(text) > 3 and text.endswith("s") and not text.endswith(("ss", "us", "is"))  # noqa: PLR2004


# -- clauses -----------------------------------------------------------------------------------------------------

_GERUND: Final = r"[^\W\d_]+ing\b"
_PARTICIPLE: Final = r"(?:[^\W\d_]{2,}ed|built|drawn|found|made|paid|sent|sold|written)"
_PASSIVE: Final = r"\s+(?:[^\W\d_]+\s+){1,4}?(?:is|are|has\s+been|have\s+been)"
_DONE: Final = (
    r"(?:once|when|after|as\s+soon\s+as)\s+(?:all\s+of\s+)?(?:that|this|it|everything)(?:\s+is|['\u2019]s|\s+has\s+been)"
    r"(?:\s+been)?\s+(?:done|finished|ready|completed?|over)\b"
)
_CUT: Final = re.compile(
    r"(?P<item>(?:\A|(?<=\s))(?:step[ \t]{1,9}\d{1,3}[:.)]?|\(?\d{1,3}\)|\d{1,3}\.)(?=\s))"
    r"|(?P<bullet>(?:\A|(?<=\n))[ \t]{0,9}[-*\u2022](?=\s))"
    rf"|(?P<then>\b{_DONE},?(?=\s+(?!and\b|or\b|then\b)\w)|\b(?:then|after\s+that|followed\s+by)\b|[-=]>|\u2192|(?<=\s)\|(?=\s))"
    r"|(?P<and>\b(?:and/or|and|plus|as\s+well\s+as)\b|(?<=\s)[&/](?=\s))"
    r"|(?P<comma>,(?=\s|$))"
    r"|(?P<stop>(?<![.;:!?])[.;:!?]+(?=\s|$)|\n|(?<=\s)[-\u2013\u2014](?=\s)|\u2014)"
    r"|(?=(?<!nothing )\b(?:but|without|instead\s+of|rather\s+than|except)\b)"
    rf"|(?=\b(?:before|after|while|prior\s+to|(?<!the )following)\s+{_GERUND})|(?=\b(?:before|after)\s+(?:you|we)\s)"
    rf"|(?=\b(?:after|once|as\s+soon\s+as){_PASSIVE}\s)"
    rf"|(?=(?<!tell me )(?<!find out )(?<!look up )\bwhen{_PASSIVE}\s+(?:done|finished|ready|{_PARTICIPLE})\b)",
    re.IGNORECASE,
)
"""Where a clause ends, and what stands between it and the next one."""
_QUOTED: Final = re.compile(r'"[^"\n]{1,400}"|\u201c[^\u201d\n]{1,400}\u201d|`[^`\n]{1,400}`')
_LATER: Final = re.compile(
    r"\W*(?:finally|lastly|later|next|afterwards?|subsequently|thereafter|(?:at|in) the end"
    r"|(?:finish|end|conclude) (?:by|with))\b"
)
_COUNTED: Final = re.compile(r"\W*(?:second|third|fourth|fifth)(?:ly)?\b")
_BACK: Final = re.compile(
    r"\b(?:it|them|this|these|those)\b"
    r"|\b(?:the|all|both|their|its|every|each|combine|merge|summari[sz]e|compare|review|join)\s+"
    r"(?:results?|findings?|reports?|outputs?|answers?)\b"
    r"|\b(?:both|that|the\s+(?:latter|former|same))"
    r"(?=(?:\s+(?:too|again|now|please|well|together|also|as|\w+ly)){0,3}\W*$)"
    r"|\b(?:both|that|the\s+(?:latter|former|same))\s+(?:to|into|for|with|in|on|by|from|at)\b"
    rf"|^\W*(?:each|both|all)\s+(?:must|should|has|have|is|are|needs?|can|may|shall|will)\b|^\W*{_PARTICIPLE}\W*$"
)
"""Words that speak of something before them."""
_ONE: Final = re.compile(r"^\W*(?:(?:but|and|then|so|however)\s+)*")
_IF: Final = re.compile(
    r"\W*(?:(?:and|but|or|only|even|then|also)\s+)*"
    r"(?:(if not$|otherwise$|else$)|(otherwise|else|if not)\b|(if|unless|provided|assuming|in case)\b)"
)


@dataclass(slots=True, eq=False)
class Clause:
    """A part of a goal that asks for one thing."""

    start: int
    end: int
    words: list[Word]
    said: str
    """What it says, in lower case."""
    marks: list[str]
    """Marks between it and the clause before it."""
    after: bool
    """True where a word such as ``then`` stands before it."""
    mark_after: str = ""
    back: bool = False
    """True where it speaks of what comes before it, or waits for it."""
    no: str = ""
    """``must not`` or ``is not`` where it says what is not to be done."""
    decides_on: int | None = None
    """The clause that it is a condition of."""
    stage: int = 0
    """Clauses with a higher one are done later."""
    verb: _Verb | None = None
    verb_at: int = -1
    """Place of the verb among the words; -1: it has none of its own."""
    nominal: bool = False
    """True where the verb is a noun: ``a review of the code``."""
    asks: bool = False
    """True where it asks for something, whether anybody does it or not."""
    objects: set[str] = field(default_factory=set)
    asides: set[str] = field(default_factory=set)
    """Words after ``of``, ``for``, ``with`` and their like."""
    verb_from: int | None = None
    object_from: int | None = None

    @property
    def joined(self) -> bool:
        """True where a comma or ``and`` ties it to the clause before it, and nothing else."""
        return bool(self.marks) and {"and", "comma"}.issuperset(self.marks)

    @property
    def is_work(self) -> bool:
        """False where it says what is not to be done, or on what something depends."""
        return not self.no and self.decides_on is None

    def is_bare(self) -> bool:
        """True for a verb and nothing that it is done to."""
        if self.verb is None or self.verb_from is not None or not self.asks or self.back or self.objects | self.asides:
            return False
        first = self.words[0].text
        return self.verb_at + len(self.verb[0]) == len(self.words) and not (
            first in {"following", "after", "before", "prior", "once", "when"}
            and (self.nominal or not self.words[1].text.endswith("ing"))
        )


def clauses(goal: str) -> list[Clause]:
    """Cut a goal at punctuation, ``and`` and words of order; say which clauses are no work, and which come later."""
    found: list[Clause] = []
    start, after, marks = 0, False, list[str]()
    for end, following, mark in _cuts(goal):
        words = words_of(goal[start:end], start)
        said = " ".join(word.text for word in words)
        counted = _COUNTED.match(said) and any(re.search(r"\bfirst", one.said[:40]) for one in found[-3:])
        after = after or bool(_LATER.match(said) or counted)
        if words and not (_LATER.fullmatch(said) and len(words) == 1):
            found.append(Clause(start, end, words, said, marks, after, mark))
            after, marks = False, []
        after = after or mark in {"then", "item"}
        marks += [mark] if mark else []
        start = following
    for one in found:
        one.back = refers_back(goal[one.start : one.end], shouted=goal.isupper())
        one.no = _negated(one)
    _carry(found)
    _conditions(found)
    _order(found)
    return found


def refers_back(text: str, *, shouted: bool) -> bool:
    """True where a text speaks of something before it. ``shouted``: all of it is in capitals, also its pronouns."""
    return bool(_BACK.search((text if shouted else re.sub(r"\bIT\b", "", text)).casefold()))


def _cuts(goal: str) -> Iterator[tuple[int, int, str]]:
    """Yield where a clause ends, where the next one begins, and what stands between them."""
    masked = _QUOTED.sub(lambda match: "x" * len(match.group()), goal)
    items = 0
    for match in _CUT.finditer(masked):
        mark, at, text = match.lastgroup or "", match.start(), match.group()
        if mark == "item":
            place = int(text.strip("(.:)stepSTEP \t"))
            if place != items + 1 or not (
                items or at == 0 or masked[at - 1] == "\n" or text[-1] != "." or masked[at - 2] == ":"
            ):
                # no place in a list: ``the bug (of version 2) is back``, ``fix version 1. Deploy it``
                if text.endswith("."):
                    yield match.end() - 1, match.end(), "stop"
                continue
            items = place
            mark = "item" if place > 1 else "stop"
        yield at, match.end(), mark
    yield len(goal), len(goal), ""


# -- what is not to be done --------------------------------------------------------------------------------------

_LEAD: Final = (
    r"(?:(?:\w+ly|i (?:want|need|would)|(?:don't|do not) hesitate|but|and|so|then|also|please|just|only|however|or|you"
    r"|we|us|let's|lets|hi|hey|hello|ok|thanks|now|make|be|sure|certain|careful|take|care|ensure|remember|try|see|that"
    r"|to|it|must|should|could|can|will|would|shall|is|are|for|at|all|want|need|like|i'd|go|ahead|feel|free|there"
    r"|there's|under|today|tomorrow|time|help|me|otherwise|your|task|goal|job|todo|the) ){0,9}?"
)
_TAKEN_BACK: Final = r"(?! (?:only|just|merely|forget|hesitate|fail|miss|matter|later|but)\b)"
_NO: Final = re.compile(
    rf"(?P<lead>{_LEAD})(?:(?P<skip>skip|avoid|omit|forget|refrain from|leave out|hold (?:off|back)"
    r"|(?:stay|keep) away|steer clear|(?:stop|cease|quit|forbid)(?= \w+ing))|(?P<weak>not?|neither|nor)"
    r"|(?P<not>(?:do|should|must|shall|may|need|can|will)(?: not|n't)|dont|never|without|except|instead of|rather than"
    rf"|(?!(?:no|is|are)\b)\w+ (?:nothing|nobody|none)))\b{_TAKEN_BACK}"
)
"""What says that something is not to be done, where a clause begins."""
_SAID_OF: Final = re.compile(
    r"(?:(?!(?:that|which|who|if|because|when|while|where|why|how|until|unless|i) )\S+ ){1,6}?"
    rf"(?:(?:must|should|shall|may|ought)(?: not| never|n't){_TAKEN_BACK}"
    r"|(?:is|are|be|remains?) (?:\w+ly )?(?:forbidden|prohibited|banned|disallowed|unnecessary|unneeded|unwanted)"
    r"|(?:is|are)(?: not|n't) (?:to be|needed|necessary|required|wanted|allowed)|do(?:es)?(?: not|n't) need|needs? not?"
    r"|(?:is|are|was|were|has|have) (?:been )?already)\b|(?:\w+ )?leave (?:.* (?:alone|out|untouched)$|\w+ \w+ to \w)"
)
_GOES_ON: Final = re.compile(r"(?:but|only|instead|just|rather)\b")
_NOUNS: Final = re.compile(
    r"(?:the|an?|this|that|these|those|any|our|your|all|my|its)\b|\w+(?:ing|tion|ment|sis|ity)\b|\w+[^su]s\b"
    r"|(?:audit|check|design|fix|qa|release|report|research|review|search|setup|summary|survey|test|work)$"
)


def _negated(one: Clause) -> str:
    """Return how a clause says what is not to be done: ``not``, ``skip``, or ``weak`` where it may tell a fact."""
    said = one.said[:200]
    found = _NO.match(said)
    if found is None:
        return "not" if _SAID_OF.match(said) else ""
    if found["skip"]:
        return "skip"
    told = re.search(r"\b(?:we|you) $", found["lead"]) and found["not"] in {"do not", "don't", "never"}
    return "weak" if found["weak"] or told else "not"


def _carry(found: list[Clause]) -> None:
    """Carry a negation on over a bare ``and``, over a list with ``or``, and over nouns after a comma."""
    run: list[Clause] = []
    for one in [*found, None]:
        if one is not None and run and one.joined and not one.no and not _GOES_ON.match(one.said):
            run.append(one)
            continue
        if len(run) > 1:
            ors = [m for m, each in enumerate(run) if m and re.match(r"(?:or|nor|\S+ n?or)\b", each.said)]
            first = run[1]
            is_list = first.marks == ["and"] or (
                _NOUNS.match(first.said) and not re.search(r"\b(?:is|are|must|should)\b", first.said)
            )
            if run[0].no == "skip" and first.marks == ["and"] and not _NOUNS.match(first.said):
                is_list = False  # ``skip the tests and deploy``
            for each in run[1 : (ors[-1] if ors else int(bool(is_list))) + 1]:
                each.no = "carried" if each.marks == ["and"] else "not"
        run = [one] if one is not None and one.no else []


def _conditions(found: list[Clause]) -> None:
    """Find the clause that ``if`` and ``unless`` decide on: it waits for what comes before it."""
    kinds = [_IF.match(one.said) for one in found]
    if all(kind or one.no for kind, one in zip(kinds, found, strict=True)):
        return  # nothing else is asked for
    for n, (kind, one) in enumerate(zip(kinds, found, strict=True)):
        if kind and kind[2]:
            one.back = True
        elif kind:
            following = kinds[n + 1] if n + 1 < len(found) else kind
            leads = one.mark_after == "comma" and (following is None or bool(following[2]))
            if leads or n:
                one.decides_on = n + 1 if leads else n - 1
                found[one.decides_on].back = True


# -- order -------------------------------------------------------------------------------------------------------

_FIRST: Final = re.compile(
    r"before (?:that|this)\b|.* (?:first|beforehand)$"
    r"|(?:first|firstly|beforehand) (?!(?:for|in|of|on|with|by|as|at|to|the|an?)\b)"
)


def _when(one: Clause) -> str:
    """Return ``before`` or ``after`` where a clause says when its neighbour is done; ``first``: it is done first."""
    said = _ONE.sub("", one.said, count=1)
    told, _, rest = said.replace("prior to ", "before ").replace("as soon as ", "once ").partition(" ")
    tied = one.joined or not one.marks or one.said.startswith("but ")
    match = _FIRST.match(said[:2_000])
    if match and (tied or not said.startswith(("first", "beforehand"))):
        return "first"
    if told == "following":
        if one.mark_after == "comma" and one.marks != ["comma"]:
            return "after"
        told = "after"
    if told not in {"before", "after", "once", "when"} or not rest:
        return ""
    order = "before" if told == "before" else "after"
    if told in {"before", "after"} and re.match(rf"{_GERUND}|you\b|we\b", rest):
        return order
    if one.mark_after == "comma" or one.marks == ["comma"]:
        return order
    return order if order == "after" and re.search(r"\b(?:is|are|been)\b", rest[:2_000]) else ""


def _order(found: list[Clause]) -> None:  # noqa: C901 - one walk over the clauses
    """Number the stages: ``after testing`` and ``before deploying`` move their neighbour, ``but first`` a sentence."""
    stage, top, began, sentence = 0, 0, 0, 0
    pending, tail = "", None
    for n, one in enumerate(found):
        order = _when(one)
        if n and order == "first":
            from_ = n - 1 if one.back else max(sentence, n - 50)
            stage = min(each.stage for each in found[from_:n])
            for each in found[from_:n]:
                each.stage += 1
                top = max(top, each.stage)
            one.stage, pending, tail = stage, "", None
            continue
        sentence = sentence if one.joined or not one.marks else n
        if (
            one.joined
            and not order
            and (pending or tail is not None)
            and re.match(rf"{_GERUND}|{_PARTICIPLE}\b", one.said)
        ):
            one.stage = stage if tail is None else tail
            continue
        tail = None
        if one.after or not one.joined:
            stage = max(stage, top)
        stage += one.after and n > 0
        if pending:
            stage += pending == "after"
            one.stage = stage
            if pending == "before":
                stage += 1
                for each in found[began:n]:
                    each.stage = stage
            pending = ""
            continue
        leads = not n or (not one.joined and one.marks) or (one.mark_after == "comma" and "and" in one.marks)
        if order and leads:
            pending, began = order, n
        elif order == "before":
            stage += 1
        elif order:
            found[n - 1].stage += 1
            one.stage = tail = stage
            stage += 1
            continue
        one.stage = stage


# -- the verb of a clause, and what is worked on -----------------------------------------------------------------

_OF_ORDER: Final = _set("before after without while that by with")
_TO: Final = re.compile(r"\bto(?: (?:be|get|both|first|then|also|not|only|just|\w+ly))*$")


def _read(one: Clause, verbs: _Verbs, known: frozenset[str]) -> None:  # noqa: C901 - three places for a verb
    """Find the verb: the head of the clause, else one after ``to``, else a noun that is a form of one."""
    words, head, end = one.words, -1, 0
    able = [word.means and (bool(verbs.at(words, n)[1]) or word.stem in known) for n, word in enumerate(words)]
    for n, word in enumerate(words):
        following = words[n + 1].text if n + 1 < len(words) else ""
        if word.text in _DETERMINERS or (word.text in _PREPOSITIONS and word.text not in _OF_ORDER):
            break  # a noun phrase
        is_adverb = word.text.endswith("ly") and following and following not in _DETERMINERS | _PREPOSITIONS
        if word.means and not is_adverb and not word.text.isdigit():
            is_noun = _is_plural(word.text) and (not following or not able[n])
            head = -1 if is_noun else n
            break
    if head < 0 or not verbs.at(words, head)[1]:
        texts = [word.text for word in words]
        head = next(
            (n for n in range(1, len(words)) if able[n] and _TO.search(" ".join(texts[max(n - 4, 0) : n]))), head
        )
    one.nominal = head < 0
    if one.nominal:
        for n, word in enumerate(words):
            if n and head >= 0 and word.text in _PREPOSITIONS:
                break
            head = n if word.means and verbs.at(words, n)[1] else head
    if head >= 0:
        one.verb, one.verb_at = verbs.at(words, head), head
        end = head + len(one.verb[0])
    done = re.search(r"\b(?:run|perform|execute|put|take|bring) (?:the|an?|this|all|our|my|it|them)\b", one.said[:60])
    one.asks = bool(done) or (head >= 0 and (one.nominal or able[head] or _is_done_to_something(one, end)))
    one.nominal = one.nominal and head >= 0
    aside = False
    for n, word in enumerate(words):
        if head <= n < end:
            aside = False
            continue
        aside = aside or word.text in _PREPOSITIONS or word.text in {"if", "because", "how", "whether", "unless", "so"}
        if word.means:
            (one.asides if aside else one.objects).add(word.stem)
    if head >= 0 and not able[head]:
        one.objects.add(words[head].stem)  # nobody knows it as a verb: ``I cannot log in``
    one.asides -= one.objects


def _is_done_to_something(one: Clause, after: int) -> bool:
    """True where a verb that nobody knows is followed by what it is done to: ``bake a cake``."""
    if after >= len(one.words) or one.words[0].text == "while":
        return False
    text = one.words[after].text
    return not one.joined or text in _DETERMINERS | _PREPOSITIONS or text in {"it", "them", "me", "us"}


_LIGHT_VERB: Final = re.compile(
    r"(?:(?:please|then|also|now|and|just|so) )*"
    r"(?:take|run|perform|execute|make|give|get|put|let|have|do|hold|keep|bring) \S"
)


def _read_all(found: list[Clause], verbs: _Verbs, known: frozenset[str]) -> None:
    """Read all clauses; one without a verb, or without an object, has it from its neighbour."""
    for one in found:
        _read(one, verbs, known)
    for n, (before, one) in enumerate(itertools.pairwise(found), 1):
        light = _LIGHT_VERB.match(one.said)
        if not one.joined or not one.is_work or (one.asks and not one.nominal) or light or before.verb is None:
            continue
        if before.is_work and not before.nominal:
            if one.verb_at >= 0:
                one.objects.add(one.words[one.verb_at].stem)
            one.verb, one.verb_at, one.nominal, one.asks = before.verb, -1, False, before.asks
            one.verb_from = n - 1 if before.verb_from is None else before.verb_from
    for n in range(len(found) - 2, -1, -1):
        one, after = found[n], found[n + 1]
        has_object = after.asks and not after.nominal and after.verb_from is None
        if has_object and one.is_bare() and one.is_work and after.is_work and after.joined:
            one.object_from = n + 1 if after.object_from is None else after.object_from
            one.objects, one.asides, one.back = after.objects, after.asides, after.back


# -- what workers say of themselves ------------------------------------------------------------------------------

_SEGMENT: Final = re.compile(r"(?<![,.:;!?\n()])[,.:;!?\n()]+(?:\s|$)|\b(?:and|or)\b|&|/")
_INTRODUCING: Final = _set("""
    able capable charge colleague colleagues dedicated developer developers expert experts function group know knows
    module person responsible service specialised specialises specialising specialist specialists specialized
    specializes specializing team teams used
""")
"""Words before the first one that says what is done, in these forms only: who ``charges cards`` is not in charge."""


@dataclass(slots=True)
class _Profile:
    """Words of one worker."""

    names: list[tuple[tuple[str, ...], str | None, float, frozenset[str]]] = field(default_factory=list)
    """Stems of an id or a capability, the capability, its weight, its families."""
    verbs: set[tuple[str, ...]] = field(default_factory=set)
    families: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    asides: set[str] = field(default_factory=set)

    def add(self, name: str, capability: str | None, weight: float, verbs: _Verbs) -> None:
        """Take up a name."""
        if words := stems(name):
            families = frozenset[str]().union(*(verbs.families.get((one,), ()) for one in words))
            self.names.append((words, capability, weight, families))

    def verb(self, verb: _Verb) -> None:
        """Take up a verb of the description."""
        self.verbs.add(verb[0])
        self.families |= verb[1]


@lru_cache(maxsize=4096)
def _profile(
    id_: str, capabilities: frozenset[str], description: str, members: tuple[MemberInfo, ...], verbs: _Verbs
) -> _Profile:
    found = _Profile()
    found.add(id_, None, 1.0, verbs)
    for capability in sorted(capabilities):
        found.add(capability, capability, 1.0, verbs)
    _describe(found, description, verbs)
    for member in members:
        for name in (member.id, *sorted(member.capabilities - capabilities)):
            found.add(name, None, 0.8, verbs)
        _describe(found, member.description, verbs)
    found.asides -= found.objects
    return found


def _describe(found: _Profile, description: str, verbs: _Verbs) -> None:
    """Sort the words of a description. Verbs stand at the head of its clauses, all in the form of the first one."""
    parts = [words_of(part) for part in _SEGMENT.split(re.sub(r"-(?:to|in|of|on|by|for)-", " ", description))]
    heads = [(words, *_head(words, verbs)) for words in parts if words]
    form = next((form for _, _, form in heads if form), "")
    for words, head, own in heads:
        verb, at = None, head
        if form and own == form:
            verb = verbs.at(words, at)
        elif not form:
            at = _last_noun(words, at, verbs)
            verb = verbs.at(words, at) if at >= 0 else None
        aside, last = False, at + len(verb[0]) if verb is not None else -1
        for m, word in enumerate(words):
            if verb is not None and at <= m < last:
                continue
            aside = aside or (m > 0 and word.text in _PREPOSITIONS)
            if word.means:
                (found.asides if aside else found.objects).add(word.stem)
        if verb is not None:
            found.verb(verb)


def _head(words: list[Word], verbs: _Verbs) -> tuple[int, str]:
    """Return the first word that says what is done, and its form where it is a verb: ``s``, ``ing`` or ``base``."""
    at = next((n for n, word in enumerate(words) if word.means and word.text not in _INTRODUCING), 0)
    text, following = words[at].text, words[at + 1].text if at + 1 < len(words) else ""
    known = bool(verbs.at(words, at)[1])
    if _is_plural(text):
        return at, "s" if following != "of" and (known or following not in _PREPOSITIONS) and (
            known or following or len(words) == 1
        ) else ""
    if text.endswith("ing"):
        return at, "ing" if known or following else ""
    nouns = following.endswith(("tion", "ment", "ing", "sis", "er")) or stem(following) in _NOMINAL
    return at, "base" if known and not (nouns and words[at].stem in _NOMINAL) else ""


_NOMINAL: Final = frozenset(
    map(stem, _set("code test research design document report program release plan review search audit check fix"))
)
"""Verbs that may be nouns: ``code review``, ``test generation``."""


def _last_noun(words: list[Word], at: int, verbs: _Verbs) -> int:
    """Return the place of the verb that a noun phrase ends with: ``code review``, ``bug fixing``; -1: there is none."""
    end = next((n for n, word in enumerate(words) if n > at and word.text in _PREPOSITIONS), len(words)) - 1
    return end if verbs.at(words, end)[1] and (end > 0 or not _is_plural(words[0].text)) else -1


# -- who is meant ------------------------------------------------------------------------------------------------

_ENOUGH: Final = 2.0
"""Less evidence is none."""
_CLOSE: Final = 0.7
"""Share of the best one's evidence from which another one is nearly as good."""


@dataclass(frozen=True, slots=True)
class _Match:
    """The worker that a clause is given to."""

    worker: str
    capability: str | None = None
    """Set where several workers have it and none of them is meant by its id: the one that is least busy does it."""
    rivals: tuple[str, ...] = ()
    is_tie: bool = False
    by_verb_alone: bool = False
    by_noun_alone: bool = False
    """True where its description says that it does another kind of work."""
    knows: str = ""
    """Another worker, whose words speak of what is worked on."""
    tool: str | None = None


class _Index:
    """A catalogue by words and families: a clause is compared with those workers that share one of them."""

    def __init__(self, catalogue: Catalogue, verbs: _Verbs) -> None:
        self._rows, self.verbs = catalogue, verbs
        self._profiles = [_profile(row.id, row.capabilities, row.description, row.members, verbs) for row in catalogue]
        self._having = Counter(capability for row in catalogue for capability in row.capabilities)
        self._backups = {row.backup for row in catalogue}
        self._near: dict[str, set[int]] = {}
        for n, each in enumerate(self._profiles):
            families = each.families.union(*(name[3] for name in each.names))
            stems_ = each.objects.union(
                each.asides, *(name[0] for name in each.names), (verb[0] for verb in each.verbs)
            )
            for one in (*stems_, *(f"+{family}" for family in families)):
                self._near.setdefault(one, set()).add(n)

    def known(self) -> frozenset[str]:
        """Return the stems of the verbs of all workers, and of the words of their names."""
        verbs = {verb[0] for each in self._profiles for verb in each.verbs}
        return frozenset(verbs.union(*(name[0] for each in self._profiles for name in each.names)))

    def match(self, one: Clause) -> _Match | None:
        """Return the worker with most evidence; None: there is not enough for anybody."""
        words = one.objects | one.asides
        key, families = one.verb or _NO_VERB
        near = set[int]().union(
            *(self._near.get(each, ()) for each in (*words, *key[:1], *(f"+{family}" for family in families)))
        )
        offers = []
        for n in sorted(near):
            row, each = self._rows[n], self._profiles[n]
            by_name, capability = _by_names(each, one, self.verbs)
            by_verb, by_noun = _by_description(each, one)
            score = by_name + by_verb + by_noun
            if score >= _ENOUGH:
                rank = (-score, row.id in self._backups, row.load, n)
                offers.append((rank, row, capability, by_name, by_noun, by_verb))
        if not offers:
            return None
        offers.sort(key=lambda offer: offer[0])
        top = offers[0][0][0]
        best = next((each for each in offers if each[1].breaker != "open" and each[0][0] <= _CLOSE * top), offers[0])
        offers.remove(best)
        (score, *_, n), row, capability, by_name, by_noun, by_verb = best
        knows = [other[1].id for other in offers if by_noun < 3 <= other[4]]  # noqa: PLR2004 - a noun of somebody else
        rivals = [
            other
            for other in offers
            if other[1].id != row.backup
            and row.id != other[1].backup
            and not (capability is not None and capability == other[2])
            and (other[0][0] <= _CLOSE * score or (not by_name and other[1].id in knows))
        ]
        of_names = {word for name in self._profiles[n].names for word in name[0]}
        return _Match(
            row.id,
            capability if capability is not None and self._having[capability] > 1 else None,
            tuple(other[1].id for other in rivals),
            any(other[0][0] <= score for other in rivals),
            not by_noun and words.isdisjoint(of_names),
            not by_name and not by_verb and bool(families and self._profiles[n].verbs),
            knows[0] if knows else "",
        )


def _by_names(each: _Profile, one: Clause, verbs: _Verbs) -> tuple[float, str | None]:
    """Return what the id and the capabilities count: most for a verb of the goal, half for a noun after ``of``."""
    best, who = 0.0, None
    key, kinds = one.verb or _NO_VERB
    for name, capability, weight, families in each.names:
        found, score = 0, 0.0
        for word in name:
            if word in key:
                worth = 15.0
            elif word in one.objects or word in one.asides:
                worth = (5.0 if one.verb is not None and (word,) in verbs.families else 12.0) * (
                    1 if word in one.objects else 0.5
                )
            else:
                continue
            found, score = found + 1, max(score, worth)
        if families & kinds and score < 10:  # noqa: PLR2004 - a verb of the same family
            found, score = max(found, 1), 10.0
        total = (score + found - 1) * weight * found / len(name) if found else 0.0
        if total > best or (total and total == best and capability is None):
            best, who = total, capability
    return best, who


def _by_description(each: _Profile, one: Clause) -> tuple[float, float]:
    """Return what the verb and the nouns of a clause count for a description."""
    by_verb = 0.0
    if one.verb is not None:
        key, kinds = one.verb
        by_verb = 6.0 if key in each.verbs else 4.0 if kinds & each.families else 0.0
        if not by_verb and key[0] in each.objects:
            by_verb = 3.0 if one.nominal else 1.5
    worth = 5.0 if by_verb >= 4 or one.verb is None or not (one.verb[1] and each.verbs) else 3.0  # noqa: PLR2004 - the same kind of work
    found = []
    for words, share in ((one.objects, 1.0), (one.asides, 0.5)):
        found += [worth * share for word in words if word in each.objects]
        found += [worth * share / 2 for word in words if word in each.asides]
        found += [3.0 * share for word in words if (word,) in each.verbs and word not in each.objects | each.asides]
    found.sort(reverse=True)
    return by_verb, found[0] + 0.1 * sum(found[1:10]) if found else 0.0


# -- the planner -------------------------------------------------------------------------------------------------

_MOST_LISTED: Final = 20
_MOST_CHARS: Final = 80
_REMEDY: Final = (
    "Say in the description= or capabilities= of a worker what it does, in the words and the language of your goals; "
    "or name who gets what matches nobody, Tasks(planner=KeywordPlanner(default='...')); or use another planner, such "
    "as ModelPlanner(call) or StaticPlan([...])"
)


class KeywordPlanner:
    """Gives each clause of the goal to the worker whose words it shares, and says where it is not sure.

    Clauses run in parallel, but for those that the goal orders (``then``, ``but first``, ``once it is tested,``, the
    numbers of a list), those that speak of what came before (``review it``), and those that share their object with
    the one before (``write and test the parser``). ``do not deploy`` is no work, nor is ``if the tests pass``. The
    warnings of the plan say which clause fits two workers nearly alike, which one matches nobody, and where the goal
    leaves a choice. Of a worker that has several tools the words choose one, too. A worker without siblings gets every
    goal as it is.

    Args:
        keywords: word or phrase -> id of a worker. None: ids, capabilities and descriptions are the words.
        default: the id of the worker that gets what matches nobody, and what fits several alike. None: such a clause
            stays with the one before it, and a goal that matches nobody is refused.
        families: verbs that ask for one kind of work, by its name. None: ``VERB_FAMILIES``.

    Raises:
        ConfigError: one of the arguments has another form.
    """

    def __init__(
        self,
        keywords: Mapping[str, str] | None = None,
        *,
        default: str | None = None,
        families: VerbFamilies | None = None,
    ) -> None:
        problems = [*_keyword_problems(keywords), *_family_problems(families)]
        if default is not None and not is_id(default):
            what = f"expected the id of a worker, got {value_phrase(default)}"
            problems.append(Problem("KeywordPlanner.default", what, "Give the id of a child of the same supervisor."))
        if problems:
            raise ConfigError(tuple(problems))
        self.keywords = None if keywords is None else dict(keywords)
        self.default = default
        self.families: VerbFamilies = VERB_FAMILIES if families is None else dict(families)
        self._verbs = _shipped() if families is None else _Verbs(self.families)

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
        alone = catalogue[0] if len(catalogue) == 1 and catalogue[0].is_only else None
        if alone is not None and len(alone.tools or ()) < 2:  # noqa: PLR2004 - several tools
            return Plan([Subtask(alone.id, task.goal, worker=alone.id)])
        index = _Index(catalogue, self._verbs)
        parts = clauses(task.goal)
        notes = _Notes(task.goal, parts)
        if parts and not any(one.is_work for one in parts):
            self._taken_as_work(parts, notes, task, catalogue)
        known = (
            index.known() if self.keywords is None else frozenset(one for each in self.keywords for one in stems(each))
        )
        _read_all(parts, self._verbs, known)
        found = self._found(parts, index, notes)
        if not any(found):
            who = self.default or (alone.id if alone else None)
            if who is None:
                raise _nobody(task, catalogue)
            doubt = f"no word of the goal means a worker: {who} has it"
            return Plan(
                [Subtask(who, task.goal, worker=who)], [f"{doubt}, since it is the default" if self.default else doubt]
            )
        _choose_tools(catalogue, self._verbs, parts, found, notes)
        return Plan(list(_subtasks(task.goal, parts, found)), notes.said())

    def _taken_as_work(self, parts: list[Clause], notes: _Notes, task: Task, catalogue: Catalogue) -> None:
        """Take ``No mail has come`` as work; refuse a goal that says only what is not to be done."""
        for n, one in enumerate(parts):
            if one.no == "weak":
                one.no = ""
                notes.add(n, "is read as work, though it has a negation, since the goal asks for nothing else.")
        if not any(one.is_work for one in parts):
            hint = "The goal says only what is not to be done. Say what is to be done"
            raise NoCapableWorkerError((), known_of(catalogue), task=task.id or "?", hint=hint)

    def _found(self, parts: list[Clause], index: _Index, notes: _Notes) -> list[list[_Match]]:
        """Return who is meant by each clause, and note what is doubtful."""
        found = [[]] * len(parts) if self.keywords is None else _by_keyword(parts, self.keywords)
        before = ""
        for n, one in enumerate(parts):
            goes_on = one.said.startswith("while ") and not one.asks  # ``while keeping it short``
            match = index.match(one) if self.keywords is None and one.is_work and not goes_on else None
            if match is not None and one.verb_from is not None and match.by_verb_alone:
                if match.knows and before and match.knows != before:
                    notes.add(
                        n,
                        f"goes on with the verb before it, so {before} has it, though {match.knows} speaks of it. "
                        f"Write a verb of its own where {match.knows} is meant.",
                    )
                match = None
            if match is not None:
                notes.of_match(n, match, self.default)
                found[n] = [_Match(self.default) if match.is_tie and self.default is not None else match]
            elif not found[n] and one.asks and one.is_work and one.verb_from is None:
                if self.default is not None:
                    found[n] = [_Match(self.default)]
                    notes.add(n, f"matches nobody: {self.default}, the default, has it.")
                else:
                    notes.add(
                        n,
                        f"matches nobody: it stays with {before or 'the clause after it'}. "
                        "Say in a description= who does that, or give KeywordPlanner(default='...').",
                    )
            if found[n]:
                before = found[n][0].worker
                notes.of_choice(n, before, self._verbs)
        if not any(found):
            notes.clear()
        return found


def _by_keyword(parts: list[Clause], keywords: Mapping[str, str]) -> list[list[_Match]]:
    """Return whose keywords stand in each clause. Longer phrases first: a word that is part of one does not count."""
    phrases = {" ".join(stems(phrase)): worker for phrase, worker in keywords.items()}
    longest_first = sorted(phrases, key=len, reverse=True)
    pattern = re.compile(rf"(?<= )(?:{'|'.join(map(re.escape, longest_first))})(?= )")
    words = [(word.stem, n) for n, one in enumerate(parts) for word in one.words if not is_grammar(word.text)]
    starts = dict(zip(itertools.accumulate((len(word) + 1 for word, _ in words), initial=1), words, strict=False))
    found: list[dict[str, _Match]] = [{} for _ in parts]
    for match in pattern.finditer(f" {' '.join(word for word, _ in words)} "):
        n, worker = starts[match.start()][1], phrases[match.group()]
        if parts[n].is_work:
            found[n].setdefault(worker, _Match(worker))
    return [list(matches.values()) for matches in found]


def _choose_tools(
    catalogue: Catalogue, verbs: _Verbs, parts: list[Clause], found: list[list[_Match]], notes: _Notes
) -> None:
    """Name the tool that a clause means, where it means a worker that has several."""
    indexes = {}
    for row in catalogue:
        if len(row.tools or ()) > 1:
            rows = tuple(
                replace(
                    row,
                    id=f"{row.id}.{tool.name}",
                    description=tool.description,
                    capabilities=frozenset({tool.name}),
                    members=(),
                    backup=None,
                )
                for tool in row.tools or ()
            )
            indexes[row.id] = (
                _Index(rows, verbs),
                {made.id: tool.name for made, tool in zip(rows, row.tools or (), strict=True)},
            )
    for n, matches in enumerate(found):
        for m, match in enumerate(matches):
            if match.worker not in indexes or match.capability is not None:
                continue
            index, names = indexes[match.worker]
            if (tool := index.match(parts[n])) is not None:
                matches[m] = replace(match, tool=names[tool.worker])
                notes.of_match(n, tool, None)


class _Notes:
    """Warnings of one plan. They show the first words of a clause, up to its verb, and never what is worked on."""

    def __init__(self, goal: str, parts: list[Clause]) -> None:
        self._goal, self._parts = goal, parts
        self._said: dict[int, str] = {}

    def add(self, n: int, said: str) -> None:
        """Add a warning, unless the clause has one."""
        self._said.setdefault(n, said)

    def clear(self) -> None:
        """Forget them: the whole goal goes to one worker."""
        self._said.clear()

    def of_match(self, n: int, match: _Match, default: str | None) -> None:
        """Say that others fit nearly as well."""
        if not match.rivals:
            if match.by_noun_alone:
                said = f"is for a kind of work that nobody has in a description=: {match.worker} has it"
                self.add(n, f"{said} for what it is done to.")
            return
        who = " and ".join(match.rivals[:3]) + (" and others" if len(match.rivals) > 3 else "")  # noqa: PLR2004
        has = f"{default}, the default, has it" if match.is_tie and default else f"{match.worker} has it"
        self.add(
            n,
            f"fits {match.worker} and {who} nearly alike: {has}. "
            "Name the worker in the goal, or say more in its description=.",
        )

    def of_choice(self, n: int, worker: str, verbs: _Verbs) -> None:
        """Say that a plan makes no choice."""
        one = self._parts[n]
        words, kinds = one.words, one.verb[1] if one.verb else frozenset()
        other = any(
            words[m - 1].text == "or"
            and (words[0].text == "either" or (kinds and not kinds & (verbs.at(words, m)[1] or kinds)))
            for m in range(1, len(words))
        )
        if other:
            self.add(
                n, f"leaves a choice, and a plan makes none: {worker} has all of it. Say which of them is to be done."
            )
        elif one.said.startswith(("otherwise", "else ")) or (n and self._parts[n - 1].said == "if not"):
            self.add(n, f"is for the other case, and a plan makes no choice: {worker} has it in any case.")

    def said(self) -> list[str]:
        """Return the warnings in the order of the clauses, not too many of them."""
        for n, one in enumerate(self._parts):
            if one.no == "carried":
                self.add(
                    n,
                    "is read as not to be done, like what stands before it. "
                    "Write ', but' or ', then' before it where it is to be done.",
                )
            elif one.no == "not" and re.search(r"\b(?:before|until|unless) \w", one.said):
                self.add(
                    n,
                    "says what is not to be done before something else: it is read as not to be done. "
                    "Write '..., then ...' where it is to be done after that.",
                )
            elif (
                one.is_work
                and re.search(
                    r"^(?:(?!(?:that|which|who|if|because|when|while|so) )\S+ ){1,4}?(?:\w+n't|cannot|not|never|no)\b",
                    one.said,
                )
                and not re.search(r"\b(?:not|n't) (?:only|just|forget|hesitate|fail)|no matter", one.said)
            ):
                self.add(n, "is read as work, though it has a negation.")
        said = [f"clause {n + 1} ({self._named(n)!r} ...) {text}" for n, text in sorted(self._said.items())]
        more = len(said) - _MOST_LISTED
        return said if more <= 0 else [*said[:_MOST_LISTED], f"{more} more clauses are as doubtful"]

    def _named(self, n: int) -> str:
        one = self._parts[n]
        last = one.words[one.verb_at + len(one.verb[0]) - 1 if one.verb and one.verb_at >= 0 else 0]
        text = self._goal[one.words[0].start : last.end]
        return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 4] + " ..."


# -- the subtasks ------------------------------------------------------------------------------------------------

_AROUND: Final = " \t\r\n,;:"


def _subtasks(goal: str, parts: list[Clause], found: list[list[_Match]]) -> Iterator[Subtask]:
    """Make subtasks of the clauses; one by which nobody is meant stays in the instruction of the one before it."""
    drafts: dict[str, tuple[_Match, list[str], list[str]]] = {}
    """By id: the worker, what is said to it, what it depends on."""
    of_clause: dict[int, list[str]] = {}
    numbers = Counter[str]()
    open_: dict[tuple[str, str | None], str] = {}
    stage, of_stage, before_it = 0, list[str](), list[str]()
    for n, said in sorted(_hits(goal, parts, found), key=lambda hit: (parts[hit[0]].stage, hit[0])):
        one = parts[n]
        if one.stage != stage:
            stage, open_ = one.stage, {}
            before_it, of_stage = of_stage or before_it, []
        workers = {match.worker for match in found[n]}
        shares = of_clause.get(n - 1, []) if n and parts[n - 1].object_from is not None else []
        shared = [name for name in shares if drafts[name][0].worker not in workers]
        needs = list(drafts) if one.back else list(dict.fromkeys([*before_it, *shared]))
        made = []
        for match in found[n]:
            plain = match.capability if match.capability is not None and is_id(match.capability) else match.worker
            plain += "." + re.sub(r"[^A-Za-z0-9_.-]", "_", match.tool) if match.tool else ""
            name = "" if one.back or shared else open_.get((match.worker, match.tool), "")
            if not name:
                numbers[plain] += 1
                while not name or name in drafts:
                    name = plain if numbers[plain] == 1 else f"{plain}-{numbers[plain]}"
                    numbers[plain] += name in drafts
                drafts[name] = match, [], needs
                of_stage.append(name)
                open_[match.worker, match.tool] = name
            drafts[name][1].append(said)
            made.append(name)
        of_clause[n] = [*shares, *made]
    for name, (match, texts, needs) in drafts.items():
        worker = None if match.capability else match.worker
        yield Subtask(
            name, ", ".join(texts), worker=worker, capability=match.capability, depends_on=needs, tool=match.tool
        )


def _hits(goal: str, parts: list[Clause], found: list[list[_Match]]) -> Iterator[tuple[int, str]]:
    """Yield each clause by which somebody is meant, with all that is said to that worker, up to the next such one."""
    hits: list[int] = []
    for n, matches in enumerate(found):
        if not matches:
            continue
        one, last = parts[n], parts[n - 1]
        if not (n and matches == found[n - 1] and one.joined and not one.back and one.stage == last.stage):
            hits.append(n)  # else it only goes on with what the one before it has said to the same worker
    firsts = []
    for n in hits:
        first = n
        while (
            first
            and not found[first - 1]
            and (parts[first - 1].decides_on == n or not any(word.means for word in parts[first - 1].words))
        ):
            first -= 1
        firsts.append(first)
    for number, n in enumerate(hits):
        last_one = firsts[number + 1] - 1 if number + 1 < len(hits) else len(parts) - 1
        start, end = parts[firsts[number]].start if number else 0, parts[last_one].end
        said = goal if len(hits) == 1 and last_one == n == 0 else _trimmed(goal[start:end])
        yield n, _completed(goal, parts, n, said, start, end)


def _trimmed(said: str) -> str:
    """Return a text without separators around it, and without half of a pair of brackets."""
    said = re.sub(r"^(?:(?:step )?\(?1[.):]|[-*\u2022])\s+", "", said.strip(_AROUND), flags=re.IGNORECASE)
    if said.endswith(")") and said.count("(") < said.count(")"):
        return said[:-1].rstrip(_AROUND)
    return said[:-1].rstrip(_AROUND) if said.endswith("(") else said


def _completed(goal: str, parts: list[Clause], n: int, said: str, start: int, end: int) -> str:
    """Add the verb or the object that a clause has from another one: whoever reads it sees no other clause."""
    one = parts[n]
    if one.verb_from is not None and one.verb is not None:
        giver = parts[one.verb_from]
        words = giver.words[giver.verb_at : giver.verb_at + len(one.verb[0])] if giver.verb_at >= 0 else giver.words[:1]
        return said if words[0].start >= start else f"{goal[words[0].start : words[-1].end]} {said}"
    if one.object_from is not None and parts[one.object_from].end > end:
        giver = parts[one.object_from]
        if giver.verb is not None and giver.verb_at >= 0:
            last = giver.words[giver.verb_at + len(giver.verb[0]) - 1]
            return f"{said} {_trimmed(goal[last.end : giver.end])}".rstrip()
    return said


# -- who there is, and what a user gives ---------------------------------------------------------------------------


def _nobody(task: Task, catalogue: Catalogue) -> NoCapableWorkerError:
    listed = "; ".join(_described(row) for row in catalogue[:_MOST_LISTED])
    more = len(catalogue) - _MOST_LISTED
    words = f"Its words are compared with those of {listed}{f' and {more} more' if more > 0 else ''}"
    hint = f"{words}. {_REMEDY}" if catalogue else ""
    return NoCapableWorkerError((), known_of(catalogue), task=task.id or "?", hint=hint)


def _described(row: ExecutableInfo) -> str:
    """Return what a worker is matched on: its id, its capabilities, and the beginning of its description."""
    name = f"{row.id} ({', '.join(sorted(row.capabilities))})" if row.capabilities else row.id
    said = " ".join(row.description.split())
    if not said:
        return name if row.capabilities else f"{name}, without a description"
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


def _keyword_problems(keywords: object) -> Iterable[Problem]:
    if keywords is None:
        return
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
    if families is None:
        return
    if not isinstance(families, Mapping):
        what = f"expected a dict of kinds of work to lists of verbs, got {type_phrase(families)}"
        yield Problem("KeywordPlanner.families", what, hint)
        return
    for name, words in families.items():
        listed = isinstance(words, Iterable) and not isinstance(words, (str, bytes))
        if not isinstance(name, str) or not listed or not all(isinstance(word, str) for word in words):
            what = f"expected a name and a list of verbs, got {value_phrase(name)} and {type_phrase(words)}"
            yield Problem("KeywordPlanner.families", what, hint)
