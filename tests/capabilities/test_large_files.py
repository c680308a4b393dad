"""Files too large to be held: the read tool shows a range of their lines."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.capabilities import large_files, read
from sidecar.capabilities.large_files import LineRange, read_range
from sidecar.capabilities.output import number_lines
from sidecar.capabilities.read import READ
from sidecar.workspace.line_index import LineText

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk


async def test_a_range_far_into_it(desk: Desk) -> None:
    with (desk.root / "log").open("wb") as file:
        for block in range(300):
            file.write(
                b"".join(
                    b"line %d of the log, with some more text\n" % (block * 1000 + n) for n in range(1000)
                )
            )
    n_bytes = (desk.root / "log").stat().st_size
    output = await desk.output(READ, path="log", offset=250_001, limit=2)
    assert output == (
        "250001\tline 250000 of the log, with some more text\n"
        "250002\tline 250001 of the log, with some more text\n"
        f"[lines 250001-250002 of a file of {n_bytes} bytes, too large to be edited here; "
        "read with offset=250003 for more]"
    )
    output = await desk.output(READ, path="log", offset=299_999)
    assert output.startswith("299999\tline 299998 of")
    assert output.endswith(
        "\n[lines 299999-300000 of a file of "
        f"{n_bytes} bytes, too large to be edited here; the file ends here]"
    )
    assert "has no line 400000, it has 300000" in await desk.failure(READ, path="log", offset=400_000)
    assert desk.reads.get(desk.root / "log") is None


async def test_a_line_without_an_end_is_cut(desk: Desk) -> None:
    desk.put("a", b"x" * 12_000_000 + b"\nlast\n")
    output = await desk.output(READ, path="a")
    assert len(output) < 3000
    assert "x [cut: more than 1048576 characters]\n     2\tlast\n[lines 1-2 of a file of 12000006 " in output


async def test_a_hole_of_gigabytes_behind_its_lines(desk: Desk) -> None:
    with (desk.root / "log").open("wb") as file:
        file.write(b"line\n" * 40_000)
        file.truncate(1 << 33)
    output = await desk.output(READ, path="log", offset=10, limit=31)
    assert output.startswith("    10\tline\n")
    assert output.endswith(
        "\n    40\tline\n"
        "[lines 10-40 of a file of 8589934592 bytes, too large to be edited here; "
        "read with offset=41 for more]"
    )


async def test_what_takes_too_long_says_how_far_it_came(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    file, answers = io.BytesIO(b"line\n" * 3_000_000), iter([False, False, True, True, True])
    found = read_range(file, 2_000_000, 1, cap_chars=100, is_over=lambda: next(answers))
    assert found == LineRange(text="", last=2 * (1 << 20) // 5 + 1, ends=False)
    desk.put("log", b"line\n" * 3_000_000)
    monkeypatch.setattr(read, "read_range", lambda *_, **__: found)
    assert "line 419431 of log is as far as 20 s of reading go" in await desk.failure(READ, path="log")


@pytest.mark.parametrize("codec", ["utf-16", "cp1252"])
async def test_encodings(desk: Desk, codec: str) -> None:
    desk.put(
        "log",
        "un café\r\nnoir\r\n".encode(codec)[: 1 << 20]
        + "un thé\r\n".encode(codec)[2 * (codec == "utf-16") :] * 2_000_000,
    )
    output = await desk.output(READ, path="log", limit=3)
    assert output.startswith("     1\tun café\n     2\tnoir\n     3\tun thé\n[lines 1-3 of a file of ")
    assert (", decoded as cp1252, too large" in output) is (codec == "cp1252")


async def test_the_unsaved_buffer_comes_first(desk: Desk) -> None:
    desk.put("log", b"line\n" * 3_000_000)
    desk.open("log", "typed\n")
    assert await desk.output(READ, path="log") == "[unsaved buffer]\n     1\ttyped"


def test_only_the_lines_up_to_its_end_are_read_of_a_file() -> None:
    file = io.BytesIO(b"line\n" * 10_000_000)
    found = read_range(file, 1_000_000, 20, cap_chars=1000, is_over=lambda: False)
    assert found is not None
    assert (found.last, found.ends) == (1_000_019, False)
    assert file.tell() < 7_000_000


@given(
    st.lists(st.sampled_from(["a", "é", "longer", "\n", "\r\n", "\r"]), max_size=30).map("".join),
    st.integers(1, 12),
    st.integers(1, 6),
    st.integers(10, 60),
)
def test_a_range_is_that_part_of_all_lines(text: str, first: int, limit: int, cap_chars: int) -> None:
    lines = [line.rstrip("\r\n") for line in LineText(text).lines(0, 100)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_files, "_BLOCK_BYTES", 16)
        file = io.BytesIO(text.encode())
        found = read_range(file, first, limit, cap_chars=cap_chars, is_over=lambda: False)
    wanted = number_lines(lines[first - 1 : first - 1 + limit], first=first, cap_chars=cap_chars)
    if found is None:
        assert lines == []
    elif len(lines) < first:
        assert (found.text, found.last, found.ends) == ("", len(lines), True)
    elif "[cut" not in found.text:
        last = first - 1 + wanted.n_lines
        assert (found.text, found.last, found.ends) == (wanted.text, last, last == len(lines))
