"""The lines that come back of the most used files, within a budget."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sidecar.conductor.window.compaction.file_choice import (
    EDIT_CONTEXT,
    FILE_SHARE,
    HIT_CONTEXT,
    FilePiece,
    choose_lines,
)
from sidecar.conductor.window.compaction.file_use import FileUse
from sidecar.text.touches import Touch
from sidecar.window_budget import FileRange, UserMessage, estimate_message_tokens, file_message
from sidecar.window_budget.rehydrate import MIN_FILE_TOKENS

LINES = [f"line {number} of a file that is long enough" for number in range(1, 1001)]


def read(path: str, *ranges: tuple[int, int | None]) -> Touch:
    return Touch(path=path, kind="read", ranges=ranges)


def choose(
    touches: Sequence[Touch], lines: Sequence[str] = LINES, budget: int = 8000, shown: Sequence[Touch] = ()
) -> FilePiece | None:
    """The piece of the only file; a shown touch shows its whole lines."""
    bodies = [(touch, "\n".join(f"{first}\tx" for first, _ in touch.ranges)) for touch in shown]
    found = choose_lines(
        [FileUse("a.py", touches=[*touches], shown=bodies)], {"a.py": "\n".join(lines)}, budget
    )
    return found[0] if found else None


def test_a_small_file_comes_back_whole() -> None:
    assert choose([read("a.py")], ["x", "y"]) == FilePiece("a.py", FileRange("a.py"), "x\ny", 18)


def test_a_file_takes_a_share_of_the_budget_at_most() -> None:
    piece = choose([read("a.py")])
    assert piece is not None
    assert 1500 < piece.tokens <= 8000 // FILE_SHARE
    assert piece.file.ranges[0][0] == 1
    assert piece.text.splitlines()[-1].startswith("[1,000 lines in all")


def test_the_lines_of_the_newest_touches_come_first() -> None:
    """An edit with its surroundings, the hits of a search, the lines of a read; each line once."""
    edit = Touch(path="a.py", kind="edit", text=f"{LINES[499]}\n{LINES[500]}")
    hit = Touch(path="a.py", kind="search", ranges=((900, 1),))
    piece = choose([edit, hit, read("a.py", (1, 5), (505, 4))], budget=12_000)
    assert piece is not None
    spans = ((1, 5), (500 - EDIT_CONTEXT, 2 * EDIT_CONTEXT + 2), (900 - HIT_CONTEXT, 2 * HIT_CONTEXT + 1))
    assert piece.file.ranges == spans
    assert piece.file.label == " (lines 1-5, 440-561, 870-930)"
    assert "\nline 5 of a file that is long enough\n[from line 440]\nline 440" in piece.text


def test_the_most_touched_block_comes_first() -> None:
    """A touch counts half as much for every two newer ones."""
    for n_touches, first in ((1, 401), (3, 801)):
        touches = [read("a.py", (401, 200)), *[read("a.py", (801, 200))] * n_touches]
        piece = choose(touches, budget=2_000)
        assert piece is not None
        assert piece.file.ranges[0][0] == first, n_touches


def test_a_line_in_view_is_not_shown_again() -> None:
    in_view = read("a.py", *((number, 1) for number in range(1, 11)))
    piece = choose([read("a.py", (1, 20))], shown=[in_view])
    assert piece is not None
    assert piece.file.ranges == ((11, 10),)
    written = Touch(path="a.py", kind="write", text="x")
    assert choose([read("a.py")], shown=[written]) is None


def test_many_files_come_back_each_with_a_small_piece() -> None:
    uses = [FileUse(f"{n}.py", touches=[read(f"{n}.py")]) for n in range(60)]
    pieces = choose_lines(uses, {use.path: "\n".join(LINES) for use in uses}, 8000)
    assert [piece.path for piece in pieces] == [f"{n}.py" for n in range(16)]
    assert pieces[0].tokens > 1500
    assert 60 < pieces[-1].tokens <= MIN_FILE_TOKENS


def test_a_file_that_does_not_fit_names_its_definitions() -> None:
    lines = [text for n in range(300) for text in (f"def f{n}(x):", "    return x", "")]
    piece = choose([read("a.py", (1, 900))], lines)
    assert piece is not None
    names = piece.text.rpartition("[899 lines in all; definitions: ")[2].removesuffix("]").split(", ")
    lines_named = [int(name.split()[0]) for name in names]
    (_, n_shown), *_ = piece.file.ranges
    assert n_shown is not None
    assert n_shown < lines_named[0]
    assert lines_named[-1] > 850
    assert all(
        lines[number - 1] == f"{name.split(maxsplit=1)[1]}:"
        for number, name in zip(lines_named, names, strict=True)
    )


def test_a_file_with_a_line_that_does_not_fit_is_passed_over() -> None:
    assert choose([read("a.py")], ["x" * 100_000]) is None
    assert choose([read("a.py")], []) is None


@given(
    sizes=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 200)), max_size=12),
    budget=st.integers(0, 5000),
    max_files=st.integers(-1, 6),
)
def test_the_pieces_keep_to_the_budget(sizes: list[tuple[int, int]], budget: int, max_files: int) -> None:
    texts = {f"{n}.py": f"{'y' * width}\n" * count for n, (count, width) in enumerate(sizes)}
    uses = [FileUse(path, touches=[read(path, (3, 40)), read(path)]) for path in texts]
    pieces = choose_lines(uses, texts, budget, max_files=max_files)
    assert sum(piece.tokens for piece in pieces) <= budget
    assert len(pieces) <= max(0, max_files)
    for piece in pieces:
        message = file_message(piece.file, piece.text)
        assert isinstance(message, UserMessage)
        assert estimate_message_tokens(message) == piece.tokens
        assert piece.tokens <= max(MIN_FILE_TOKENS, budget // FILE_SHARE)
