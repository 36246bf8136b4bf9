"""Clauses of a goal, read: the verb that asks for work, and the words for what is to be worked on.

Comes in: clauses, and what is known of verbs. Goes out: for each clause its verb and its other words. Two things are
said once and hold for several clauses, as in ``write and test the parser`` (one noun, two verbs) and ``write services
and forms`` (one verb, two nouns): a clause without one of them takes it from its neighbour. This module must never
import threads, a clock or Pykka.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from actors.tasks.planning.goal_clause import Clause
from actors.tasks.planning.goal_text import GENERIC_WORDS, Token, stem, word_set
from actors.tasks.planning.verb_families import Verb, Verbs, into_production, is_plural
from actors.tasks.planning.worker_words import PREPOSITIONS, THINGS

_DETERMINERS: Final = word_set("""
    a an the all any both each every my our your his her its their this that these those some no
""")
_LIGHT: Final = frozenset(
    stem(word) for word in ("want", "need", "like", "try", "ask", "have", "ensure", *GENERIC_WORDS)
)
"""Verbs that say nothing of the kind of work; what they are followed by does: ``do a review``."""
_SUBORDINATE: Final = word_set("""
    that which who whose if because when while where why how whether unless so to
""")

_TAKING: Final = frozenset({"take", "do", "make", "give", "get", "perform", "provide"})
"""Verbs before a plural that is what is taken, made or given: ``take orders``, ``do reviews``."""
_LIGHT_VERBS: Final = word_set("take run perform execute make give get put let have do hold keep bring")
_LEADS: Final = word_set("please then also now and just so")
"""Words that may stand before the verb of a clause in a list."""
_CAUSING: Final = frozenset({"have", "let", "get", "make"})
"""Verbs before somebody, and what that one is to do: ``have Lena draw pictures``."""
_MOST_CAUSED: Final = 8
_STARTS: Final = frozenset({"start", "begin", "continue", "proceed", "finish", "end", "conclude"})
"""Words that say nothing of the kind of work before ``by`` and ``with``: ``start by reviewing it``."""
_ORDERING: Final = frozenset({"following", "after", "before", "prior", "once", "when"})
_OF_ORDER: Final = frozenset({"before", "after", "without", "while"})
_TO_BE: Final = (["to", "be"], ["to", "get"], ["to", "both"])
"""Words before the verb of ``the code needs to be reviewed``."""
_SPLITS: Final = frozenset({"first", "then", "also"})
"""Words beside adverbs that may stand in ``make sure to first review it``."""


@dataclass(slots=True)
class Reading:
    """Meaning of a clause: the work that it asks for."""

    clause: Clause
    verb: Verb | None
    objects: dict[str, int] = field(default_factory=dict)
    """Stems of the words for what is worked on, with the places where they stand."""
    asides: dict[str, int] = field(default_factory=dict)
    """Words after ``of``, ``for``, ``with`` and their like only."""
    is_work: bool = False
    """True where it asks for something, whether somebody is known who does it or not."""
    is_nominal: bool = False
    """True where its verb is a noun: ``a review of the code``."""
    verb_from: int | None = None
    """Clause that it has its verb from."""
    object_from: int | None = None
    """Clause that it has its object from."""
    choice: int | None = None
    """Place of a verb after ``or`` that asks for another kind of work."""


def read_clauses(parts: tuple[Clause, ...], verbs: Verbs, known: frozenset[str]) -> list[Reading]:
    """Read all clauses.

    Args:
        parts: the clauses of a goal.
        verbs: families of verbs.
        known: stems of the verbs of the workers, and of the words of their names: any of them may be a verb.
    """
    found = [_read(part, verbs, known) for part in parts]
    _share_verbs(found)
    _share_objects(found)
    return found


def _read(part: Clause, verbs: Verbs, known: frozenset[str]) -> Reading:
    words = part.tokens
    head, is_phrase = _head(words)
    verb, nominal = None, False
    if head is not None and not is_phrase:
        verb = _verb_at(words, head, verbs, known)
    infinitive = (
        None if verb is not None and verb.families else _caused(words, verbs) or _infinitive(words, verbs, known)
    )
    moved = into_production(words, verbs) if verb is None or not verb.families else None
    if infinitive is not None or moved is not None:
        verb, is_phrase = infinitive or moved, False
    if verb is None:
        verb, nominal = _nominal(words, verbs), True
    is_work = not is_phrase and verb is not None and not nominal and _asks(part, verb, known)
    is_work = is_work or (verb is None and _is_done(words))
    made = Reading(
        part, verb, is_work=is_work or (nominal and verb is not None), is_nominal=nominal and verb is not None
    )
    made.choice = _choice(words, verb, verbs) if is_work else None
    aside = False
    for n, word in enumerate(words):
        if verb is not None and verb.first <= n <= verb.last:
            aside = False
            continue
        aside = aside or word.text.casefold() in PREPOSITIONS or word.text.casefold() in _SUBORDINATE
        if word.meaningful:
            (made.asides if aside else made.objects).setdefault(word.stem, word.start)
    return made


def _is_done(words: tuple[Token, ...]) -> bool:
    """True for ``run the regression``: it asks for something, whatever that is."""
    first = next((n for n, word in enumerate(words) if not word.is_grammar), len(words))
    texts = [word.text.casefold() for word in words[first : first + 2]]
    return len(texts) > 1 and texts[0] in {"run", "perform", "execute"} and texts[1] in _DETERMINERS


def _choice(words: tuple[Token, ...], verb: Verb | None, verbs: Verbs) -> int | None:
    """Return the place of another kind of work after ``or``: ``deploy the service or review the code``.

    After ``either`` it may be any: ``either write the docs or the tests``.
    """
    is_either = any(word.text.casefold() == "either" for word in words)
    for n in range(1, len(words)):
        if is_either and words[n - 1].text.casefold() == "or":
            return n
        if words[n - 1].text.casefold() == "or" and not is_plural(words[n].text) and verb is not None:
            other = verbs.at(words, n)
            if other is not None and not other.is_like(verb.families):
                return n
    return None


def _head(words: tuple[Token, ...]) -> tuple[int | None, bool]:
    """Return the first word that says what is wanted, and True where it is the beginning of a noun phrase."""
    phrase, assured = False, _assured(words)
    for n, word in enumerate(words):
        if n < assured:
            continue
        text, following = word.text.casefold(), words[n + 1].text.casefold() if n + 1 < len(words) else ""
        is_start = text in _STARTS and following in {"by", "with"}
        if text.isdigit() or is_start or (n and text in {"by", "with"} and words[n - 1].text.casefold() in _STARTS):
            continue
        if text.endswith("ly") and following and following not in _DETERMINERS | PREPOSITIONS:
            continue  # an adverb: ``carefully review``; not ``apply the patch``
        phrase = phrase or (text in _DETERMINERS and text != "both") or (text in PREPOSITIONS and text not in _OF_ORDER)
        phrase = phrase or (n > 0 and is_plural(text) and words[n - 1].text.casefold() in _TAKING)
        if not word.is_grammar and word.stem not in _LIGHT:
            return n, phrase
    return None, phrase


def _assured(words: tuple[Token, ...]) -> int:
    """Count the words of ``make sure that you`` and its like, before the verb."""
    texts = [word.text.casefold() for word in words[:_MOST_CAUSED]]
    at = next((n for n, text in enumerate(texts) if text in {"sure", "certain"}), 0)
    if not at or texts[at - 1] not in {"make", "be"}:
        return 0
    rest = texts[at + 1 :]
    skipped = at + 1 + (rest[:1] == ["that"])
    return skipped + 1 if texts[skipped : skipped + 1] in (["you"], ["we"], ["to"]) else 0


def _verb_at(words: tuple[Token, ...], place: int, verbs: Verbs, known: frozenset[str]) -> Verb | None:
    """Return the verb at the head of a clause; None: it is a noun."""
    verb = verbs.word(words, place)
    if not verb.families and verb.key[0] not in known:
        verb = _after_a_word(words, place, verbs) or verb
    if is_plural(words[place].text) and len(words) == place + 1:
        return None
    if is_plural(words[place].text) and not verb.families and words[place].stem not in known:
        return None
    return verb


def _after_a_word(words: tuple[Token, ...], place: int, verbs: Verbs) -> Verb | None:
    """Return the verb after a word that nobody knows: ``dann test it``; it must be followed by what it is done to."""
    found = verbs.at(words, place + 1) if place + 2 < len(words) and not is_plural(words[place].text) else None
    following = words[found.last + 1].text.casefold() if found is not None and found.last + 1 < len(words) else ""
    return found if following in _DETERMINERS or following in {"it", "them"} else None


def _first_verb(texts: list[str]) -> int:
    """Return where the verb of a clause of a list may stand first: after ``then`` and its like."""
    return next((n for n, text in enumerate(texts) if text not in _LEADS), len(texts))


def _caused(words: tuple[Token, ...], verbs: Verbs) -> Verb | None:
    """Return the verb of ``have Lena draw pictures`` and ``let the artist draw them``."""
    texts = [word.text.casefold() for word in words[:_MOST_CAUSED]]
    first = _first_verb(texts)
    if texts[first : first + 1] == [] or texts[first] not in _CAUSING:
        return None
    for n in range(first + 2, len(texts)):
        found = verbs.at(words, n) if texts[n - 1] not in _DETERMINERS else None
        if found is not None and not is_plural(texts[n]) and not texts[n].endswith(("ing", "ed")):
            return found
        if texts[n] in PREPOSITIONS:
            return None
    return None


def _infinitive(words: tuple[Token, ...], verbs: Verbs, known: frozenset[str]) -> Verb | None:
    """Return the first verb after ``to`` that somebody may be meant by: ``use the docs to write a summary``."""
    for n in range(1, len(words)):
        before = [word.text.casefold() for word in words[max(n - 3, 0) : n]]
        is_not_all = before[0] == "to" and before[1:] in (["not", "only"], ["not", "just"], ["not", "merely"])
        before = before[-2:]
        is_split = is_not_all or (before[0] == "to" and (before[-1].endswith("ly") or before[-1] in _SPLITS))
        if before[-1] == "to" or before in _TO_BE or is_split:
            verb = verbs.word(words, n)
            if verb.families or (words[n].stem in known and words[n].meaningful):
                return verb
    return None


def _nominal(words: tuple[Token, ...], verbs: Verbs) -> Verb | None:
    """Return the verb that a noun of the first noun phrase is a form of: ``a review of the code``; the last of it."""
    found = None
    for n, word in enumerate(words):
        text = word.text.casefold()
        if n and (text in PREPOSITIONS or text in _SUBORDINATE) and found is not None:
            break
        if word.meaningful and text not in THINGS:
            found = verbs.at(words, n) or found
    return found


def _asks(part: Clause, verb: Verb, known: frozenset[str]) -> bool:
    """True where the first word is a verb: a known one, or one that is followed by what it is done to."""
    if verb.families or verb.key[0] in known:
        return True
    following = part.tokens[verb.last + 1 :]
    if not following or part.texts[0] == "while":
        return False
    text = following[0].text.casefold()
    return not part.joined or text in _DETERMINERS or text in PREPOSITIONS or text in {"it", "them", "me", "us"}


# -- what is said once for several -------------------------------------------------------------------------------


def _share_verbs(found: list[Reading]) -> None:
    """A clause of a list without a verb has the one of the clause before it."""
    for n in range(1, len(found)):
        one, before = found[n], found[n - 1]
        has_own = one.is_work and not one.is_nominal  # also ``run the regression``, where it is none that says a kind
        if one.clause.joined and one.clause.is_work and not has_own and before.verb is not None:
            if not before.clause.is_work or before.is_nominal or _has_light_verb(one.clause.tokens):
                continue
            if one.verb is not None:
                word = one.clause.tokens[one.verb.first]
                one.objects.setdefault(word.stem, word.start)
            one.verb, one.is_nominal, one.is_work = before.verb, False, before.is_work
            one.verb_from = n - 1 if before.verb_from is None else before.verb_from


def _has_light_verb(words: tuple[Token, ...]) -> bool:
    """True for ``run the tests`` and ``take their order``: it has a verb, though none that says a kind of work."""
    texts = [word.text.casefold() for word in words]
    first = _first_verb(texts)
    return len(texts) > first + 1 and texts[first] in _LIGHT_VERBS


def _is_bare(one: Reading) -> bool:
    """True for a verb and nothing that it is done to, also no pronoun and no subject."""
    tokens = one.clause.tokens
    if one.verb is None or one.verb_from is not None or not one.is_work or len(tokens) != one.verb.last + 1:
        return False
    if tokens[0].text.casefold() in _ORDERING and (one.is_nominal or not tokens[1].text.casefold().endswith("ing")):
        return False  # ``following the tests``, ``once it is tested``; not ``after writing and testing the code``
    return not (one.objects or one.asides) and tokens[0].text.casefold() not in _SUBORDINATE and not one.clause.back


def _share_objects(found: list[Reading]) -> None:
    """A verb without an object has the one of the clause after it."""
    for n in range(len(found) - 2, -1, -1):
        one, after = found[n], found[n + 1]
        if not _is_bare(one) or not (one.clause.is_work and after.clause.is_work and after.clause.joined):
            continue
        if after.verb is None or after.verb_from is not None or after.is_nominal or not after.is_work:
            continue
        one.object_from = n + 1 if after.object_from is None else after.object_from
        one.objects, one.asides = dict(after.objects), dict(after.asides)
        if after.clause.back:  # ``test and deploy it``: it is tested, too
            one.clause = replace(one.clause, back=True)
