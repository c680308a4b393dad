"""Reading files: numbered, bounded, recorded, buffer first."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.capabilities import read
from sidecar.capabilities.contract import Location
from sidecar.capabilities.edit import EDIT
from sidecar.capabilities.output import number_lines
from sidecar.capabilities.read import READ, LineRange, read_range
from sidecar.permissions.access import ReadAccess
from sidecar.workspace.contract import ClientFileSource
from sidecar.workspace.line_index import LineText

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk


async def test_numbered_lines_and_a_record(desk: Desk) -> None:
    path = desk.put("src/a.py", "one\ntwo\u2028three\x0c\r\nfour")
    reply = await desk.run(READ, path="src/a.py")
    assert reply.output == "     1\tone\n     2\ttwo\u2028three\x0c\n     3\tfour"
    assert reply.locations == (Location(path, 1),)
    record = desk.reads.get(path)
    assert record is not None
    assert (record.hash, record.call_id, record.ranges) == ((await desk.workspace.view(path)).hash, "c1", ())


async def test_an_empty_file(desk: Desk) -> None:
    path = desk.put("a", "")
    assert await desk.output(READ, path="a") == "[empty file]"
    assert desk.reads.get(path) is not None


async def test_a_part_says_how_to_read_on_and_is_recorded_as_a_part(desk: Desk) -> None:
    desk.put("a", "".join(f"line {n}\n" for n in range(1, 21)))
    output = await desk.output(READ, path="a", offset="3", limit=2)
    assert output == "     3\tline 3\n     4\tline 4\n[cut: lines 3-4 of 20; read with offset=5 for more]"
    assert desk.ranges("a") == ((3, 2),)
    await desk.output(READ, path="a", offset=5)
    assert desk.ranges("a") == ((3, None),)


async def test_output_is_bounded(desk: Desk) -> None:
    desk.max_output_chars = 1000
    desk.put("a", "x" * 30 + "\n" + "y\n" * 5000)
    output = await desk.output(READ, path="a")
    last = output.splitlines()[-1]
    assert len(output) <= 1000
    assert last.startswith("[cut: lines 1-")
    assert last.endswith(" for more]")


async def test_a_long_line_is_cut_in_sight(desk: Desk) -> None:
    desk.put("a", "x" * 5000 + "\nb\n")
    assert "x [cut: 2000 of 5000 characters]\n     2\tb" in await desk.output(READ, path="a")


async def test_past_the_end(desk: Desk) -> None:
    path = desk.put("a", "one\n")
    assert "a has no line 5, it has 1" in await desk.failure(READ, path="a", offset=5)
    assert desk.reads.get(path) is None


async def test_the_unsaved_buffer_comes_first_and_says_so(desk: Desk) -> None:
    path = desk.put("a", "disk\n")
    desk.open("a", "typed\n", version=7)
    assert await desk.output(READ, path="a") == "[unsaved buffer]\n     1\ttyped"
    record = desk.reads.get(path)
    assert record is not None
    assert (record.source, record.version) == ("buffer", 7)


async def test_unsaved_text_that_a_client_was_asked_for_reads_the_same(desk: Desk) -> None:
    async def read(path: Path) -> str | None:
        return "typed\n"

    desk.put("a", "disk\n")
    desk.workspace.add_client_files(desk.root, ClientFileSource(read=read))
    assert await desk.output(READ, path="a") == "[unsaved buffer]\n     1\ttyped"


async def test_an_open_file_without_changes_is_just_a_file(desk: Desk) -> None:
    desk.put("a", "disk\n")
    desk.open("a", "disk\n", version=7)
    assert await desk.output(READ, path="a") == "     1\tdisk"


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0\0\0", "png", id="png"),
        pytest.param(b"\xff\xd8\xff\xe0\0\0", "jpeg", id="jpeg"),
        pytest.param(b"GIF89a\0\0", "gif", id="gif"),
        pytest.param(b"RIFF" + struct.pack("<I", 0) + b"WEBPVP8 ", "webp", id="webp"),
    ],
)
async def test_images_are_named_not_shown(desk: Desk, head: bytes, kind: str) -> None:
    desk.put("i", head)
    assert await desk.output(READ, path="i") == f"[i is an image ({kind}) of {len(head)} bytes, not text]"


async def test_the_encoding_that_was_taken_is_named_and_kept_by_an_edit(desk: Desk) -> None:
    desk.put("a", "# Größe\nx = 1\n".encode("latin-1"))
    shown = await desk.output(READ, path="a")
    assert shown == "[decoded as cp1252; an edit keeps that encoding]\n     1\t# Größe\n     2\tx = 1"
    await desk.output(EDIT, path="a", old_text="Größe", new_text="Grüße")
    assert (desk.root / "a").read_bytes() == "# Grüße\nx = 1\n".encode("latin-1")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"a\0b", "no encoding of text", id="binary"),
        pytest.param(b"RIFF\0\0\0\0WAVE", "no encoding of text", id="a sound is no image"),
    ],
)
async def test_what_is_no_text(desk: Desk, raw: bytes, expected: str) -> None:
    desk.put("i", raw)
    assert expected in await desk.failure(READ, path="i")


async def test_missing(desk: Desk) -> None:
    assert "no such file" in await desk.failure(READ, path="none")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


async def test_a_gigabyte_that_is_no_text(desk: Desk) -> None:
    sparse(desk.root / "huge")
    assert "it does not begin with text; look at it" in await desk.failure(READ, path="huge")


@pytest.mark.skipif(os.name == "nt", reason="POSIX named pipes")
async def test_a_named_pipe_is_refused_at_once(desk: Desk) -> None:
    os.mkfifo(desk.root / "pipe")
    assert "a named pipe" in await desk.failure(READ, path="pipe")


class TestOutside:
    """What lies outside the roots is asked for."""

    async def test_yes_and_no(self, desk: Desk) -> None:
        desk.put("../out/a", "secret\n")
        assert await desk.output(READ, path="../out/a") == "     1\tsecret"
        desk.answer = False
        assert "not allowed by the user" in await desk.failure(READ, path="../out/a")
        outside = desk.root.parent / "out"
        assert [(ask.subject, ask.detail, ask.access) for ask in desk.asked] == [
            ("path", str(outside / "a"), ReadAccess(outside / "a"))
        ] * 2

    @pytest.mark.skipif(os.name == "nt", reason="symbolic links need privileges")
    async def test_a_link_out_of_the_root_is_outside(self, desk: Desk) -> None:
        target = desk.put("../out/a", "secret\n")
        os.symlink(target, desk.root / "link")
        desk.answer = False
        assert "not allowed" in await desk.failure(READ, path="link")

    async def test_inside_nobody_is_asked(self, desk: Desk) -> None:
        desk.put("a", "x")
        await desk.output(READ, path=str(desk.root / "a"))
        assert desk.asked == []


def test_titles_forgive_bad_arguments() -> None:
    assert [READ.title(raw) for raw in ({"path": "a.py"}, {"file": "a.py"}, {})] == [
        "Read a.py",
        "Read a.py",
        "Read",
    ]


async def test_a_folder_is_listed(desk: Desk) -> None:
    desk.put("src/a.py", "x\n")
    assert await desk.output(READ, path="src") == "src/\n  a.py (2 bytes)"


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
        patch.setattr(read, "_BLOCK_BYTES", 16)
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
