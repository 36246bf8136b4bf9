"""Clauses of a goal: where one thing that is asked for ends and the next begins, and what it speaks of.

Comes in: text. Goes out: clauses in the order of the text. A clause knows its stage (``goal_stages.py``), whether it
speaks of what came before it, whether it is negated (``goal_negation.py``: ``do not deploy`` is no work), and whether
it is a condition: ``if the tests pass`` is no work either, and what it decides on comes after what is asked for before
it. What stands in quotes is one piece. It takes time in proportion to the text. This module must never import threads,
a clock or Pykka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from actors.tasks.planning.goal_clause import Clause
from actors.tasks.planning.goal_negation import is_negated, negation_carried
from actors.tasks.planning.goal_stages import IRREGULAR, PARTICIPLE, begins_later, has_more_than_order, staged
from actors.tasks.planning.goal_text import Token, stem, tokens, word_set

_GERUND: Final = r"[^\W\d_]+ing\b"
_PASSIVE: Final = r"\s+(?:[^\W\d_]+\s+){1,4}?(?:is|are|has\s+been|have\s+been)"
_ONCE_DONE: Final = (
    r"(?:once|when|after|as\s+soon\s+as)\s+(?:all\s+of\s+)?(?:that|this|it|everything)(?:\s+is|['\u2019]s|\s+has\s+been)"
    r"(?:\s+been)?\s+(?:done|finished|ready|complete|completed|over)\b"
)
"""Words that say ``then``."""
_CUT: Final = re.compile(
    r"(?:\A|\n)[ \t]*(?:\d{1,3}[.)]|[-*\u2022])[ \t]+"
    r"|(?:\A|(?<=\s))(?:step[ \t]+\d{1,3}[:.)]?|\(?\d{1,2}\)|\(?[a-z]\)|\d{1,2}\.)[ \t]+"
    r"|[,.](?=\s|$)|(?<![;:!?\n])[;:!?\n]+(?=\s|$)|\n|->|=>|\u2192|(?<=\s)[-\u2013\u2014&/|](?=\s)|\u2014"
    rf"|\b{_ONCE_DONE},?(?=\s+(?!and\b|or\b|then\b)\w)"
    r"|\b(?:and/or|and|then|after that|followed by|plus|as well as)\b"
    r"|(?=(?<!nothing )\b(?:but|without|instead of|rather than|except)\b)"
    rf"|(?=\b(?:before|after|while|prior\s+to|(?<!the )following)\s+{_GERUND})"
    r"|(?=\b(?:before|after)\s+(?:you|we)\s)"
    rf"|(?=\b(?:after|once|as\s+soon\s+as){_PASSIVE}\s)"
    rf"|(?=\bwhen{_PASSIVE}\s+(?:done|finished|ready|complete|through|[^\W\d_]{{2,}}ed|{IRREGULAR})\b)",
    re.IGNORECASE,
)
_DONE: Final = re.compile(_ONCE_DONE)
_QUOTED: Final = re.compile(r'"[^"\n]{1,400}"|\u201c[^\u201d\n]{1,400}\u201d|`[^`\n]{1,400}`')
_NUMBER: Final = re.compile(r"\d+")
_AND: Final = frozenset({"and", "and/or", "plus", "as well as", "&", "/"})
_SEQUENCE: Final = frozenset({"then", "after that", "followed by", "->", "=>", "\u2192", "|"})
_TELLING: Final = word_set("""
    announce answer ask check determine find inform know learn look note notify out predict remember remind report say
    see show tell up
""")
"""Words shortly before ``when`` that make it no time at which something else is done."""
_MOST_BEFORE: Final = 60
"""Characters before a cut that are looked at: a copy of all of them at each cut would take time."""
_LAST_BACK: Final = frozenset({"both", "that", "latter", "former"})
"""Words that speak of something before where a clause ends with them: ``test both``, ``test that``."""
_EACH: Final = frozenset({"each", "both", "all"})
_MUST: Final = frozenset({"must", "should", "has", "have", "is", "are", "needs", "need", "can", "may", "shall", "will"})
"""Words after ``each`` that make it a subject which was spoken of before: ``each must be reviewed``."""
_TOWARDS: Final = frozenset({"to", "into", "for", "with", "in", "on", "by", "from", "at"})
_AFTER_BACK: Final = frozenset({"too", "again", "now", "please", "well", "together", "also", "as"})
_PRONOUNS: Final = frozenset({"it", "them", "this", "these", "those"})
_OUTCOMES: Final = frozenset(stem(word) for word in ("results", "findings", "report", "output", "answers"))
_BEFORE_OUTCOMES: Final = frozenset({"the", "all", "both", "their", "its", "every", "each"})
_GATHERING: Final = frozenset(stem(word) for word in ("review", "summarise", "combine", "merge", "compare", "join"))


def clauses(goal: str) -> tuple[Clause, ...]:
    """A goal cut at commas, ``and``, ``then``, semicolons and full stops; what has no words is left out."""
    found: list[Clause] = []
    shouted = goal.isupper()
    start, later, marks = 0, False, list[str]()
    for end, following, mark in _cuts(goal):
        words = tokens(goal[start:end])
        later = later or begins_later(words, found)
        if has_more_than_order(words):
            moved = tuple(Token(one.text, one.stem, one.start + start, one.meaningful) for one in words)
            back, negated = words_refer_back(moved, shouted=shouted), is_negated(words)
            found.append(Clause(start, end, moved, later, back, negated, marks=tuple(marks), mark_after=mark))
            later = False
            marks = []
        later = later or mark in _SEQUENCE or _is_further_number(mark) or _DONE.match(mark) is not None
        marks.append(mark)
        start = following
    return tuple(staged(_conditions(negation_carried(found))))


def _cuts(goal: str) -> Iterator[tuple[int, int, str]]:
    """Where a clause ends, where the next one begins, and what stands between them."""
    quotes = iter(_QUOTED.finditer(goal))
    quote = next(quotes, None)
    inline = 0
    for match in _CUT.finditer(goal):
        while quote is not None and quote.end() <= match.start():
            quote = next(quotes, None)
        if quote is not None and quote.start() < match.start():
            continue
        mark, at = match.group().casefold(), match.start()
        before = goal[max(at - _MOST_BEFORE, 0) : at]
        if _is_place(mark) and not mark.startswith("\n") and at:
            number = _number_of(mark)
            begins = number == 1 and (")" in mark or before.rstrip().endswith(":"))
            if number != inline + 1 or not (inline or begins):
                # No place in a list: ``the bug (of version 2) is back``, ``fix version 1. Deploy it``.
                if "." in mark:
                    yield at + mark.index("."), match.end(), "."
                continue
            inline = number
        elif at == 0 and _number_of(mark):
            inline = 1
        elif goal[at : at + 4].casefold() == "when" and _tells(before):
            continue
        yield at, match.end(), "and" if mark in _AND else mark
    yield len(goal), len(goal), ""


def _tells(before: str) -> bool:
    """True where ``when`` is what is told, or asked for: ``tell me when it is done``."""
    return any(word.text.casefold() in _TELLING for word in tokens(before)[-3:])


def _is_further_number(mark: str) -> bool:
    """True for the mark of a step after the first one: ``2.``, ``step 3:``, ``b)``."""
    return _number_of(mark) > 1


def _is_place(mark: str) -> bool:
    """True for ``1.``, ``(2)`` and ``c)``."""
    inner = mark.strip(" \t(").rstrip(").")
    return inner.isdigit() or (len(inner) == 1 and inner.isalpha() and ")" in mark)


def _number_of(mark: str) -> int:
    """Return the place in a list that a mark names; 0: it names none."""
    number = _NUMBER.search(mark)
    if number is not None:
        return int(number.group())
    return ord(mark.strip(" \t(")[0]) - ord("a") + 1 if _is_place(mark) else 0


def has_order(goal: str) -> bool:
    """True where a goal says itself what comes after what."""
    return any(clause.stage for clause in clauses(goal))


# -- conditions --------------------------------------------------------------------------------------------------

_IF: Final = frozenset({"if", "unless", "provided", "assuming"})
_ELSE: Final = frozenset({"otherwise", "else"})
_BEFORE_IF: Final = frozenset({"and", "but", "or", "only", "even", "then", "also"})


def _conditions(parts: list[Clause]) -> list[Clause]:
    """Mark ``if`` and ``unless`` that stand before or after what they decide on; that waits for what comes before."""
    done = list(parts)
    kinds = [_condition(part) for part in parts]
    if not any(not kind and not part.negated for kind, part in zip(kinds, parts, strict=True)):
        return done  # there is nothing else that is asked for
    for n, kind in enumerate(kinds):
        if kind == "else":
            done[n] = replace(done[n], back=True, is_otherwise=True)
        elif kind:
            leads = done[n].mark_after == "," and n + 1 < len(done) and not kinds[n + 1]
            if not leads and not n:
                continue
            governed = n + 1 if leads else n - 1
            done[n] = replace(done[n], decides_on=governed, is_otherwise=kind == "if not")
            done[governed] = replace(done[governed], back=True)
    return done


def _condition(part: Clause) -> str:
    """Return ``if`` or ``if not`` for a condition, ``else`` for what is done in the other case; empty: neither."""
    texts = [token.text.casefold() for token in part.tokens]
    while len(texts) > 1 and texts[0] in _BEFORE_IF:
        del texts[0]
    if texts == ["if", "not"] or texts in ([word] for word in _ELSE):
        return "if not"
    if texts[0] in _ELSE or texts[:2] == ["if", "not"]:
        return "else"
    return "if" if texts[0] in _IF or texts[:2] == ["in", "case"] else ""


# -- what speaks of something before it --------------------------------------------------------------------------


def words_refer_back(words: tuple[Token, ...], *, shouted: bool) -> bool:
    """True where a text speaks of something before it: ``review it``, ``combine the findings``, ``have it deployed``.

    ``shouted``: all of it is in capitals.
    """
    if len(words) == 1 and PARTICIPLE.search(words[0].text.casefold()):
        return True
    texts = [word.text.casefold() for word in words]
    while len(texts) > 1 and (texts[-1] in _AFTER_BACK or texts[-1].endswith("ly")):
        del texts[-1]
    for n in range(1, len(texts)):
        is_pronoun = texts[n] in _LAST_BACK or texts[n - 1 : n + 1] == ["the", "same"]
        if is_pronoun and (n == len(texts) - 1 or texts[n + 1] in _TOWARDS):
            return True
    if texts[0] in _EACH and texts[1:2] and texts[1] in _MUST:
        return True
    before, gathering = "", False
    for word in words:
        text = word.text.casefold()
        if text in _PRONOUNS and (shouted or word.text != "IT"):
            return True
        if word.stem in _OUTCOMES and (before in _BEFORE_OUTCOMES or gathering):
            return True
        gathering = gathering or word.stem in _GATHERING
        before = text
    return False
