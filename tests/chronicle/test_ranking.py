"""Which lines of an entry live longest, for one measure over all kinds of outputs."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.chronicle.ranking import RankedEntry, cut_pieces, find_pasted, rank_entry, write_call
from sidecar.conversation import Entry, EntryKind
from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock, ToolTurn
from turns import assistant, user


def lines_by_life(ranked: RankedEntry) -> list[str]:
    """Return the lines of *ranked*, the longest-lived first; of equal ones the first in the text."""
    order = sorted(range(len(ranked.levels)), key=lambda at: -ranked.levels[at])
    return [ranked.text[ranked.starts[at] : ranked.starts[at + 1]].strip() for at in order]


def shown(text: str, *, is_error: bool = False) -> RankedEntry:
    return rank_entry(Entry(ToolTurn((ToolResultBlock("c", text, is_error),)), "tool"))[0]


def typed(text: str, kind: EntryKind = "user") -> RankedEntry:
    return rank_entry(Entry(user(text), kind))[0]


PASSED = [f"test_{name} ... ok" for name in ("reads", "writes", "closes", "opens", "seeks", "waits")]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [*PASSED, "E   assert 3 == 4", *PASSED], "E   assert 3 == 4", id="one unlike the others"
        ),
        pytest.param(
            ["compiling", "src/lib.rs:10:5: unused", "done"], "src/lib.rs:10:5: unused", id="a place"
        ),
        pytest.param(
            ["I looked at the module.", "It takes retry_limit from config.toml.", "That is all there is."],
            "It takes retry_limit from config.toml.",
            id="a name in a report",
        ),
        pytest.param(
            ["all good here", "connection refused by peer", "bye now"],
            "connection refused by peer",
            id="a failure",
        ),
        pytest.param(
            [f"2026-03-0{day}T10:00:00Z INFO worker idle" for day in range(1, 9)]
            + ["2026-03-09T10:00:00Z WARN queue=billing depth=9120"],
            "2026-03-09T10:00:00Z WARN queue=billing depth=9120",
            id="the odd one of a pasted log",
        ),
        pytest.param(
            [
                '{"id": 1, "name": "a"}',
                '{"id": 2, "name": "b"}',
                '{"id": 3, "error": "E_QUOTA", "limit": 512}',
            ],
            '{"id": 3, "error": "E_QUOTA", "limit": 512}',
            id="the failing part of a body",
        ),
    ],
)
def test_the_most_telling_line_lives_longest(lines: list[str], expected: str) -> None:
    assert lines_by_life(shown("\n".join(lines)))[0] == expected


@pytest.mark.parametrize(
    "language",
    [
        "Wert außerhalb des Bereichs: {}",
        "значение вне диапазона: {}",
        "値が範囲外です: {}",
        "القيمة خارج النطاق: {}",
    ],
)
def test_a_report_of_another_language_stands_out_by_its_form(language: str) -> None:
    odd = language.format("Motor.kt:88")
    assert lines_by_life(shown("\n".join([*PASSED, odd, *PASSED])))[0] == odd


def test_a_body_belongs_to_the_frame_above_it_and_a_caret_to_its_line() -> None:
    frame = 'File "app/main.py", line 12, in serve'
    lines = ["starting up", frame, "    run the loop", "    ^^^^^^^^", "leaving the building with a sigh"]
    assert lines_by_life(shown("\n".join(lines)))[:3] == [frame, "run the loop", "^^^^^^^^"]


def test_a_line_of_a_long_output_lives_no_longer_than_one_of_a_short_one() -> None:
    line = "read {} rows from table_{}"
    short, long = (shown("\n".join(line.format(n, n) for n in range(n_lines))) for n_lines in (3, 3000))
    assert max(short.levels) >= max(long.levels)


def test_the_lines_of_a_failed_call_live_longer() -> None:
    assert min(shown("one word", is_error=True).levels) > max(shown("one word").levels)


def said(text: str) -> RankedEntry:
    return rank_entry(Entry(assistant(text), "assistant"))[0]


def test_words_of_the_user_outlive_those_of_the_agent_and_outputs() -> None:
    words = "Keep the parser as it is."
    assert typed(words).levels[0] > max(said(words).levels[0], shown(words).levels[0])


def test_the_telling_sentence_of_a_paragraph_stands_alone_where_the_paragraph_is_long() -> None:
    paragraph = (
        "I had a look at all of it first. We use read_config and not load_all, since it locks."
        " The rest can stay as it was. Then I go on with the tests, and with the others after that."
    )
    assert lines_by_life(said(paragraph))[0] == "We use read_config and not load_all, since it locks."


def test_one_line_of_an_output_outlives_its_others_many_times() -> None:
    ranked = shown("\n".join(f"wrote row_{n} of table_{n}" for n in range(9)))
    first, second = sorted(ranked.levels, reverse=True)[:2]
    assert first == second + 8


def test_a_long_prompt_thins_in_its_middle() -> None:
    ranked = typed("\n\n".join(f"Sentence number {n} of a long dictation, which goes on." for n in range(30)))
    ends, middle = [*ranked.levels[:3], *ranked.levels[-2:]], ranked.levels[3:-2]
    assert min(ends) >= max(middle)
    assert min(middle) < min(ends)


def test_a_short_wish_outlives_a_long_sentence_many_times() -> None:
    wish, prose = (
        typed("Hier nie ohne Test."),
        typed(f"Look at the parser, {'and at the lexer, ' * 8}please."),
    )
    assert wish.levels[0] >= prose.levels[0] + 6
    assert wish.levels[0] >= typed("Should we?").levels[0] + 6


def test_a_question_goes_before_a_short_sentence_that_is_none() -> None:
    for question in ("What is it?", "何ですか？", "ما هذا؟"):
        assert typed(question).levels[0] < typed("Use port 8080.").levels[0]


@pytest.mark.parametrize(
    ("prompt", "n_pasted"),
    [
        pytest.param("Look:\n```\na\nb\n```\nand say why.", 4, id="a fence"),
        pytest.param(
            "Look:\n\n" + "\n".join(["a line"] * 13) + "\n\nand say why.", 13, id="a long paragraph"
        ),
        pytest.param("| what | must be |\n|---|---|\n| a | b |\n| c | d |", 0, id="a small table is typed"),
        pytest.param("one\ntwo\n\nthree", 0, id="short paragraphs are typed"),
        pytest.param(
            "A line of one sentence, as it is dictated. " * 30, 0, id="a line of many sentences is typed"
        ),
        pytest.param("```\nnever closed", 0, id="a fence that never ends"),
    ],
)
def test_fences_and_long_paragraphs_of_a_prompt_were_pasted(prompt: str, n_pasted: int) -> None:
    assert len(find_pasted(*cut_pieces(prompt))) == n_pasted


def test_a_pasted_log_thins_by_its_telling_lines() -> None:
    log = "\n".join(
        [f"{n} ok" for n in range(40)] + ["NG app/boot.rb line 9: unresolved Ledger"] + ["1 ok"] * 9
    )
    ranked = typed(f"I get this:\n\n```\n{log}\n```\nWhy?")
    assert set(lines_by_life(ranked)[:3]) == {
        "I get this:",
        "Why?",
        "NG app/boot.rb line 9: unresolved Ledger",
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"command": "make test", "timeout": 5}, "run make test timeout=5"),
        ({"command": ["bash", "-lc", "ls"]}, "run command=bash -lc ls"),
        ({"n": 3}, "run n=3"),
        ({}, "run"),
        ("raw text", "run raw text"),
        (None, "run null"),
        ({"edits": [{"old": "a\nb", "new": "c"}]}, "run\nedits:\nold: a\nb\nnew: c"),
    ],
)
def test_a_call_is_written_with_its_texts_as_they_are(given: Any, expected: str) -> None:
    assert write_call("run", given) == expected


def test_the_first_line_of_a_call_lives_longest_of_its_lines() -> None:
    call = ToolCallBlock(
        "c", "edit", {"path": "a", "old": "x_y_z.w = retry_limit_3\nb", "new": "error_text = 1\nb"}
    )
    ranked, _ = rank_entry(Entry(assistant(call), "assistant"))
    assert lines_by_life(ranked)[0] == "→ edit a"


def test_a_line_without_a_break_is_cut_behind_its_commas() -> None:
    body = ", ".join(f'"key{n}": {n}' for n in range(200))
    pieces, cuts = cut_pieces(body)
    assert "".join(pieces) == body
    assert [body[cut:].startswith(piece) for cut, piece in zip(cuts, pieces, strict=True)] == [True] * len(
        pieces
    )
    assert all(piece.endswith(",") for piece in pieces[:-1])
    assert max(map(len, pieces)) <= 120


def test_an_item_of_json_unlike_the_others_lives_longest() -> None:
    words = ("lupo", "grogro", "bame", "dice", "jice", "gulu", "fexu", "momo")
    items = [f'{{"{one}": "{other}", "n": {len(one)}}}' for one in words for other in words]
    items[-1] = '{"guclaha": "seclaba", "n": 4, "id": "pora_fo"}'
    assert "pora_fo" in lines_by_life(shown(f"[{', '.join(items)}]"))[0]
