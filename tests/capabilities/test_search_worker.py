"""The search program: what it may skip, and what it must find."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.capabilities.grep import find_decoder
from sidecar.capabilities.search_worker import (
    Job,
    Search,
    find_required_literals,
    make_prefilter,
    read_records,
    read_regular_file,
    split_blocks,
)


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        pytest.param("load_file", ["load_file"], id="plain"),
        pytest.param(r"def\s+load_\w+\(self", ["load_"], id="the longest run"),
        pytest.param(r"a\.b\(c", ["a.b(c"], id="escaped punctuation"),
        pytest.param("colou?r", ["colo"], id="an optional letter is not required"),
        pytest.param("ab*c", ["a"], id="a repeated letter may be missing"),
        pytest.param("ab+cd", ["ab"], id="once or more is once"),
        pytest.param("x(abcdef)?y", ["x"], id="groups may be optional"),
        pytest.param("x(abcdef)+?y", ["abcdef"], id="groups may be repeated"),
        pytest.param("[abc]def", ["def"], id="classes are no text"),
        pytest.param("[]a]xy", ["xy"], id="a bracket in a class"),
        pytest.param("[(|]xy", ["xy"], id="signs in a class"),
        pytest.param("^import os$", ["import os"], id="anchors"),
        pytest.param("abc|def", ["abc", "def"], id="alternatives"),
        pytest.param("abc|d?", [], id="an alternative without text"),
        pytest.param("(?:def|class) x", ["def", "class"], id="alternatives in a group"),
        pytest.param("(?P<a>def|(x|yy))(abc|)zz", ["zz"], id="the longest of the shortest"),
        pytest.param("(?=abc)(?!def)(?<=g)xy", ["xy"], id="looks around are no text"),
        pytest.param(r"\x41bc", [], id="escapes that stand for another letter"),
        pytest.param(r"(a)\1xyz", [], id="back references"),
        pytest.param("a{2}bc{0,3}", ["b"], id="a counted letter may be missing"),
        pytest.param(r"[ _]{0,2}(?:ab|cd)\.{3}", ["ab", "cd"], id="counted repeats of others"),
        pytest.param("x(abc){0,2}", ["x"], id="a counted group may be missing"),
        pytest.param("a{b", ["a"], id="a brace that counts nothing"),
        pytest.param("(?i)abc", [], id="flags within"),
        pytest.param("abc??d", ["ab"], id="lazily optional"),
        pytest.param("é€xyz", ["xyz"], id="beyond ASCII is left out"),
    ],
)
def test_required_literals(pattern: str, literals: list[str]) -> None:
    assert [*find_required_literals(pattern)] == literals


PIECES = r"""
a b ab a? b* a+ a?? . \w \s \. (ab) (a)? (?:ab|b) (a|) (?:a|(?:b|ab)+)* (?=a) (?!a) (?<=b) [ab] [^a] ^ $ a|b
b{2} a{0,1} b{,2} (ab){0} { \b
"""
pieces = st.sampled_from(PIECES.split())


@given(st.lists(pieces, min_size=1, max_size=6).map("".join), st.data())
def test_every_match_holds_a_required_literal(pattern: str, data: st.DataObject) -> None:
    literals = find_required_literals(pattern)
    text = data.draw(st.text(alphabet="ab. \n", max_size=12))
    for line in text.split("\n"):
        if re.search(pattern, line):
            assert not literals or any(literal in line for literal in literals)


@given(
    st.lists(pieces, min_size=1, max_size=4).map("".join),
    st.text(alphabet="abAB. \r\n\u212a", max_size=20),
    st.booleans(),
)
def test_finds_what_a_plain_loop_finds(
    tmp_path_factory: pytest.TempPathFactory, pattern: str, text: str, ignore_case: bool
) -> None:
    search = Search(Job(pattern, ignore_case=ignore_case, texts={"p": text}))
    lines = re.split(r"\r\n|\r|\n", text)
    lines = lines[:-1] if text.endswith(("\r", "\n")) else lines
    flags = re.IGNORECASE if ignore_case else 0
    wanted = [(n, True, line) for n, line in enumerate(lines, 1) if re.search(pattern, line, flags)]
    assert search.lines_of("p") == (wanted if text else [])


def check(tmp_path: Path, raw: bytes, job: Job, found: list[tuple[int, bool, str]]) -> Search:
    path = tmp_path / "f"
    path.write_bytes(raw)
    search = Search(job)
    assert search.lines_of(str(path)) == found
    return search


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        pytest.param(b"a\0x\n", [], id="binary is skipped"),
        pytest.param(
            b"caf\xe9 x\n", [(1, True, "caf\ufffd x")], id="other encodings are searched as they can"
        ),
        pytest.param(b"\xef\xbb\xbfx\n", [(1, True, "x")], id="the mark is no text"),
        pytest.param("\ufeffx\n".encode("utf-16-le"), [(1, True, "x")], id="UTF-16"),
    ],
)
def test_encodings(tmp_path: Path, raw: bytes, found: list[tuple[int, bool, str]]) -> None:
    check(tmp_path, raw, Job("^caf|^x"), found)


@pytest.mark.parametrize(
    ("raw", "pattern", "found"),
    [
        pytest.param("naïf café x\n".encode("cp1252"), "x$", "naïf café x", id="Windows-1252"),
        pytest.param("un café x\n".encode("cp1252"), "café", "un café x", id="a pattern beyond ASCII"),
        pytest.param("un café x\n".encode(), "café", "un café x", id="the same in UTF-8"),
        pytest.param(
            "# coding: shift_jis\n漢字かな x\n".encode("shift_jis"), "字か", "漢字かな x", id="Shift-JIS"
        ),
    ],
)
def test_files_in_older_encodings_are_shown_as_read_shows_them(
    tmp_path: Path, raw: bytes, pattern: str, found: str
) -> None:
    n_lines = raw.count(b"\n")
    check(tmp_path, raw, Job(pattern, decoder=find_decoder()), [(n_lines, True, found)])
    check(tmp_path, raw, Job("ß", decoder=find_decoder()), [])


def test_capital_letters_beyond_ascii(tmp_path: Path) -> None:
    check(tmp_path, b"K\n", Job("k", ignore_case=True), [(1, True, "K")])
    check(tmp_path, "ÉTÉ\n".encode(), Job("été", ignore_case=True), [(1, True, "ÉTÉ")])


def test_long_lines_are_counted(tmp_path: Path) -> None:
    assert check(tmp_path, b"y" * 30_000 + b"x", Job("x"), []).skipped["long_lines"] == 1


def test_a_long_line_is_shown_around_its_match(tmp_path: Path) -> None:
    raw = b"y" * 1000 + b"x" + b"z" * 1000
    shown = "..." + "y" * 100 + "x" + "z" * 199 + " [cut: line of 2001 characters]"
    check(tmp_path, raw, Job("x"), [(1, True, shown)])


def test_what_is_gone_or_no_file_is_counted(tmp_path: Path) -> None:
    search = Search(Job("x"))
    assert search.lines_of(str(tmp_path / "gone")) == search.lines_of(str(tmp_path)) == []
    assert search.skipped["unreadable"] == 2


@pytest.mark.parametrize(
    ("literals", "ignore_case", "raw", "may_hold"),
    [
        pytest.param(["ab"], False, b"xAB", False, id="case counts"),
        pytest.param(["ab"], True, b"xAB", True, id="case does not count"),
        pytest.param(["ab", "cd"], True, b"xCD", True, id="one of several"),
        pytest.param(["ab", "cd"], False, b"xy", False, id="none of several"),
        pytest.param(["ab"], True, b"xy", False, id="it is not there"),
        pytest.param(["k"], True, "\u212a".encode(), True, id="the Kelvin sign folds to k"),
        pytest.param([], False, b"xy", True, id="nothing is required"),
    ],
)
def test_a_prefilter_is_wrong_only_in_favour_of_a_file(
    literals: list[str], ignore_case: bool, raw: bytes, may_hold: bool
) -> None:
    assert make_prefilter(literals, ignore_case=ignore_case)(raw) is may_hold


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert b"".join(read_regular_file(str(tmp_path / "a"))) == b"12345"
    with pytest.raises(OSError, match="not a regular file"):
        list(read_regular_file(os.devnull))


line_pieces = st.sampled_from(["a", "b", "x", "é", "aaaaaaaaaaaa", "\n", "\r\n", "\r", "\n\n"])


@given(
    st.lists(line_pieces, max_size=30).map("".join),
    st.integers(1, 16),
    st.integers(0, 3),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_blocks_of_any_size_find_what_one_block_finds(
    tmp_path_factory: pytest.TempPathFactory,
    text: str,
    n_bytes: int,
    n_context: int,
    first_line: int,
    max_matches: int,
) -> None:
    raw = text.encode()
    chunks = [raw[at : at + 3] for at in range(0, len(raw), 3)]
    blocks = list(split_blocks(chunks, n_bytes))
    assert all(len(block) < n_bytes + 3 for block, _ in blocks)
    if not all(is_whole for _, is_whole in blocks):
        return  # a line longer than a block is cut, see below
    assert b"".join(block for block, _ in blocks) == raw
    whole = Search(Job("a|é", n_context=n_context, first_line=first_line, max_matches=max_matches))
    path = tmp_path_factory.mktemp("t") / "f"
    path.write_bytes(raw)
    found = whole.lines_of(str(path))
    job = Job("a|é", n_context=n_context, first_line=first_line, max_matches=max_matches, block_bytes=n_bytes)
    parts = Search(job)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sidecar.capabilities.search_worker._CHUNK", 3)
        in_parts = parts.lines_of(str(path))
    if whole.stopped_at is None and parts.stopped_at is None:
        assert in_parts == found
    assert [each for each in in_parts if each[1]] == [each for each in found if each[1]]
    assert parts.n_matches == whole.n_matches


def test_a_line_larger_than_a_block_is_cut_and_its_rest_passed_over(tmp_path: Path) -> None:
    raw = b"x1\n" + b"x" * 700_000 + b"\nx3\n"
    job = Job("^x", block_bytes=300_000, line_chars=3)
    shown = "xxx [cut: line of more than 524285 characters]"
    search = check(tmp_path, raw, job, [(1, True, "x1"), (2, True, shown), (3, True, "x3")])
    assert search.skipped["long_lines"] == 1


def test_a_file_is_left_at_the_end_of_a_block_when_the_time_is_over(tmp_path: Path) -> None:
    raw = b"x\n" * 200_000
    search = check(
        tmp_path, raw, Job("y|x$", block_bytes=100_000, stop_after_s=0, max_matches=1), [(1, True, "x")]
    )
    assert search.stopped_at == 1
    search = check(tmp_path, raw, Job("y", block_bytes=262_144, stop_after_s=0), [])
    assert search.stopped_at == 131_072
    check(tmp_path, raw + b"y\n", Job("y", block_bytes=262_144, first_line=131_073), [(200_001, True, "y")])


def test_the_rest_of_a_file_is_searched_from_a_line(tmp_path: Path) -> None:
    search = check(tmp_path, b"x1\nx2\nx3\n", Job("x", max_matches=1), [(1, True, "x1")])
    assert search.stopped_at == 1
    job = Job("x", first_line=2, n_context=1)
    check(tmp_path, b"x1\nx2\nx3\n", job, [(1, False, "x1"), (2, True, "x2"), (3, True, "x3")])


def test_a_record_is_read_as_soon_as_it_ends() -> None:
    reading, writing = os.pipe()
    records = read_records(reading)
    os.write(writing, b"one\0tw")
    assert next(records) == b"one"
    os.write(writing, b"o\0")
    assert next(records) == b"two"
    os.close(writing)
    assert list(records) == []
    os.close(reading)
