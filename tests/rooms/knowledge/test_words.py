"""Which words a text is found by, how it is divided, and how finds are scored."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.rooms.knowledge.words import (
    MAX_QUERY_WORDS,
    TextChunk,
    choose_ranking_words,
    excerpt,
    normalize_rank,
    query_words,
    split_chunks,
    words_in_names,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("getUserName", ["get", "user", "name"], id="camelCase"),
        pytest.param("user_name", ["username"], id="snake_case is found joined"),
        pytest.param("HTTPServer", ["http", "server"], id="an acronym"),
        pytest.param("MAX_TOKENS", ["maxtokens"], id="constants"),
        pytest.param("_on_loadDone", ["onloaddone", "load", "done"], id="both"),
        pytest.param("sha256 plain Word x1 __", [], id="names without parts"),
        pytest.param("aB xYZ", ["yz"], id="parts of one letter say nothing"),
        pytest.param("検索機能", ["検索", "索機", "機能"], id="scripts without spaces by pairs"),
        pytest.param("user_name user_name", ["username"], id="each name once"),
    ],
)
def test_names_hold_words(text: str, words: list[str]) -> None:
    assert words_in_names(text) == words


QUESTIONS = {
    "what says something": ("Where is the token budget?", ["token", "budget"]),
    "nothing": ("what is it", []),
    "path": ("src/rooms/userStore.py:12", ["src", "rooms", "userstore", "user", "store", "py", "12"]),
    "operators are words": ('"quoted" AND (NEAR x)', ["quoted", "near"]),
    "other scripts": ("Größe ß 検", ["größe", "ß", "検"]),
    "what a database cannot store": ("a\0b \ud800 ok", ["ok"]),
}


@pytest.mark.parametrize(("query", "words"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_becomes_words(query: str, words: list[str]) -> None:
    assert query_words(query) == words


def test_a_pasted_file_is_no_endless_query() -> None:
    assert len(query_words(" ".join(f"word{number}Part" for number in range(9000)))) == MAX_QUERY_WORDS


@given(st.text(st.sampled_from("ab\n \r漢"), max_size=300), st.integers(1, 3))
def test_chunks_lose_nothing(text: str, scale: int) -> None:
    """Joined they are the text, and each begins at the line it says."""
    whole = text * scale * 20
    divided = list(split_chunks(whole))
    assert "\n".join(chunk.text for chunk in divided) == whole
    lines = whole.split("\n")
    assert all(lines[chunk.line - 1] == chunk.text.split("\n")[0] for chunk in divided)
    assert all(chunk.text.count("\n") < 60 for chunk in divided)


def test_a_very_long_line_is_divided() -> None:
    assert [(chunk.line, len(chunk.text)) for chunk in split_chunks("a\n" + "x" * 13_000)] == [
        (1, 1),
        (2, 6000),
        (2, 6000),
        (2, 1000),
    ]


EXCERPTS = {
    "two lines before": ("a\nb\nc\nload\nd", {"load": 1.0}, 99, (11, "b\nc\nload\nd")),
    "not blank ones": ("a\n\n\nload\n" + "x\n" * 20, {"load": 1.0}, 99, (13, "load" + "\nx" * 8)),
    "best line": ("load\nload save", {"load": 1.0, "save": 2.0}, 99, (10, "load\nload save")),
    "the beginning when nothing is said": ("\n\nab\nc", {"none": 1.0}, 99, (12, "ab\nc")),
    "no more than asked for": ("load   \nsave", {"load": 1.0}, 6, (10, "load")),
    "inside": ("x" * 500 + "load" + "y" * 500, {"load": 1.0}, 40, (10, "x" * 10 + "load" + "y" * 26)),
    "an empty text": ("", {"load": 1.0}, 40, (10, "")),
}


@pytest.mark.parametrize(("text", "weights", "max_chars", "shown"), EXCERPTS.values(), ids=EXCERPTS)
def test_an_excerpt_shows_the_best_line(
    text: str, weights: Mapping[str, float], max_chars: int, shown: tuple[int, str]
) -> None:
    """The lines that were meant, and the number of the first of them."""
    assert excerpt(TextChunk(10, text), weights, max_chars) == shown


COUNTS = {
    "rare words first, absent ones not at all": ({"b": 5, "a": 2, "gone": 0}, ["a", "b"]),
    "not more rows than can be ranked in milliseconds": ({"all": 9000, "rare": 10}, ["rare"]),
    "but at least one word": ({"all": 9000}, ["all"]),
    "twelve": ({f"w{number:02}": 1 for number in range(20)}, [f"w{number:02}" for number in range(12)]),
    "none": ({}, []),
}


@pytest.mark.parametrize(("counts", "words"), COUNTS.values(), ids=COUNTS)
def test_rare_words_are_ranked_by(counts: Mapping[str, int], words: list[str]) -> None:
    weights = choose_ranking_words(counts, 10_000, 5000)
    assert list(weights) == words
    assert sorted(weights.values(), reverse=True) == list(weights.values())
    assert all(weight > 0 for weight in weights.values())


@given(st.floats(-1e6, 10, allow_nan=False), st.dictionaries(st.text(max_size=3), st.floats(1e-6, 20)))
def test_scores_compare(bm25: float, weights: Mapping[str, float]) -> None:
    score = normalize_rank(bm25, weights)
    assert 0.0 <= score <= 1.0
    assert math.isfinite(score)
