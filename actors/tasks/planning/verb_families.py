"""Families of verbs: which words ask for the same kind of work, as ``implement`` and ``write`` do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

VerbFamilies: TypeAlias = Mapping[str, Sequence[str]]
"""Name of a family -> its verbs, in any form."""

_TABLE: Final = {
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
}
VERB_FAMILIES: Final[VerbFamilies] = {name: tuple(verbs.split(", ")) for name, verbs in _TABLE.items()}
"""The table of ``KeywordPlanner``, unless it is given another one."""
