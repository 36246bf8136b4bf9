"""Words of a goal: stems, names that match, clauses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.tasks.planning.goal_clauses import clauses, has_order, words_refer_back
from actors.tasks.planning.goal_text import (
    GENERIC_WORDS,
    STOP_WORDS,
    positions,
    stem,
    stems,
    tokens,
)


def meant(text: str) -> set[str]:
    """The stems of the words that mean something."""
    return {token.stem for token in tokens(text) if token.meaningful}


def matches(name: str, text: str) -> int | None:
    """Where in a text a name first is mentioned, with all its words in any form and order; None: it is not."""
    return min(positions(stems(name), tokens(text)), default=None)


FAMILIES = [
    "search searches searching searched searcher",
    "analyse analyze analysis analyses analysing analyst analytics analyzer",
    "review reviews reviewer reviewing reviewed",
    "summarise summary summaries summarizer summarization summarizing",
    "implement implementation implementing implementer",
    "write writes writing writer written wrote",
    "code codes coder coding coded",
    "plan plans planner planning planned",
    "bake baker baking",
    "pay pays payment payments paid",
    "reserve reservation reserving",
    "verify verification verifier verifies",
    "translate translation translator translating translated",
    "validate validation validator validating",
    "measure measurement measuring",
    "query queries querying",
    "classify classification classifier",
    "create creation creator creating",
    "process processes processing processed",
    "order orders ordering ordered",
    "embed embedding embedded",
    "extract extraction extractor",
    "retrieve retrieval retriever",
    "organise organize organizing organisation",
    "copy copies copied copying copier",
    "deliver delivery delivering",
    "compare comparison comparing",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_all_forms_of_a_word_have_one_stem(family: str) -> None:
    assert len({stem(word) for word in family.split()}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("search", "research"),
        ("custom", "customer"),
        ("data", "date"),
        ("auth", "author"),
        ("form", "format"),
        ("story", "store"),
        ("new", "news"),
        ("ring", "red"),
    ],
)
def test_words_that_only_look_alike_have_stems_of_their_own(one: str, other: str) -> None:
    assert stem(one) != stem(other)


def test_words_of_other_languages_are_left_as_they_are() -> None:
    assert stem("Prüfung") == "prüfung"
    assert matches("prüfung", "Die Prüfung der Rechnung") == 4


@pytest.mark.parametrize("name", ["fetch_pages", "fetch-pages", "fetch.pages", "fetchPages", "fetch pages"])
def test_a_name_is_taken_apart_however_it_is_written(name: str) -> None:
    assert stems(name) == stems("fetching a page")


def test_a_token_knows_its_place() -> None:
    text = "go, fetchPages!"

    assert [text[token.start :][: len(token.text)] for token in tokens(text)] == ["go", "fetch", "Pages"]


def test_stop_words_never_match() -> None:
    assert not any(matches(word, " ".join(sorted(STOP_WORDS))) is not None for word in STOP_WORDS)


def test_a_in_a_description_does_not_meet_bake_a_cake() -> None:
    described = meant("A tool that does a thing with an API of the user's own")

    assert not described & meant("Bake a cake")


@pytest.mark.parametrize("word", sorted(GENERIC_WORDS))
def test_a_vague_word_matches_only_a_name_that_has_no_other_words(word: str) -> None:
    text = f"please {word} it"

    assert matches(word, text) is not None
    assert matches(f"{word}_cake", text) is None
    assert matches(f"{word}_cake", "a cake") == 2
    assert not meant(word)


@pytest.mark.parametrize(
    ("name", "goal", "place"),
    [
        ("review", "Then reviews it", 5),
        ("file analysis", "analyse the files", 0),
        ("review-sql", "review it", None),
        ("search", "research it", None),
        ("", "anything", None),
        ("a", "bake a cake", None),
        ("b", "a b c", 2),
    ],
)
def test_a_name_matches_where_all_its_words_stand(name: str, goal: str, place: int | None) -> None:
    assert matches(name, goal) == place


def texts(goal: str) -> list[str]:
    return [goal[part.start : part.end].strip() for part in clauses(goal)]


@pytest.mark.parametrize(
    ("goal", "parts"),
    [
        ("search it", ["search it"]),
        ("search, analyse and review", ["search", "analyse", "review"]),
        ("search; analyse. Review!\nReport", ["search", "analyse", "Review", "Report"]),
        ("search then review after that report", ["search", "review", "report"]),
        ("read main.py v1.2 of 10,000 lines", ["read main.py v1.2 of 10,000 lines"]),
        ("sand the band", ["sand the band"]),
        ("search, and then, review", ["search", "review"]),
        ("search. Finally, review", ["search", "review"]),
        (" ,;. ", []),
        ("", []),
    ],
)
def test_a_goal_is_cut_where_one_thing_ends_and_the_next_begins(goal: str, parts: list[str]) -> None:
    assert texts(goal) == parts


@pytest.mark.parametrize(
    ("goal", "after"),
    [
        ("search and review", [False, False]),
        ("search then review", [False, True]),
        ("search, then analyse, review", [False, True, False]),
        ("search, afterwards review", [False, True]),
        ("search and finally review", [False, True]),
        ("search. Finally, review", [False, True]),
        ("search; after that review", [False, True]),
    ],
)
def test_a_sequence_word_marks_the_clause_after_it(goal: str, after: list[bool]) -> None:
    assert [part.after for part in clauses(goal)] == after
    assert has_order(goal) == any(after)


@pytest.mark.parametrize(
    "text",
    [
        "review it",
        "translate them",
        "check this",
        "sort these",
        "print those",
        "mail the results",
        "check the findings",
        "send the report",
        "store the output",
        "rate the answers",
        "combine findings",
        "summarise all answers",
        "REVIEW IT",
    ],
)
def test_a_clause_that_speaks_of_what_came_before_points_back(text: str) -> None:
    assert words_refer_back(tokens(text), shouted=text.isupper())


@pytest.mark.parametrize("text", ["search docs", "review IT costs", "write findings", "report bugs", "Italy and hits"])
def test_a_clause_that_speaks_for_itself_does_not_point_back(text: str) -> None:
    assert not words_refer_back(tokens(text), shouted=text.isupper())


@given(st.text(max_size=200))
def test_any_text_is_read_without_a_word_lost(text: str) -> None:
    parts = clauses(text)
    words = [token for part in parts for token in part.tokens]

    assert [word.start for word in words] == sorted({word.start for word in words})
    assert all(text[word.start :].startswith(word.text) for word in words)
    assert {word.text.casefold() for word in tokens(text)} - {word.text.casefold() for word in words} <= STOP_WORDS


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12))
def test_every_word_has_a_stem_and_it_is_no_longer_than_the_word(word: str) -> None:
    assert 0 < len(stem(word)) <= max(len(word), 4)
