"""What the commands write, to whatever they write it."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import AsyncIterator, Callable
from io import FileIO
from pathlib import Path

import pytest

from sidecar.commands.terminal import InputLines, Screen, column_widths, gauge, short_path

USAGE = {"used": 16_000, "window": 32_000, "pct": 50.0, "source": "estimate"}


class Terminal(io.StringIO):
    """A terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Terminal]:
    def make(width: int) -> Terminal:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")
        return Terminal()

    return make


def test_a_gauge_shows_the_source_of_its_figure() -> None:
    assert gauge(USAGE) == "████████████░░░░░░░░░░░░ about 16,000 of 32,000 tokens, 50.0 %"
    assert gauge({**USAGE, "source": "provider"}).split()[1] == "16,000"


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        pytest.param("utf-8", "· 5 → 3 █░ ✓ »\n", id="as it is"),
        pytest.param("ascii", "- 5 > 3 #. + >\n", id="plainer where these are not known"),
        pytest.param("latin-1", "- 5 > 3 #. + >\n", id="all of them, so that they fit together"),
    ],
)
def test_characters_that_a_stream_cannot_encode_are_replaced(encoding: str, written: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    Screen(stream).note("· 5 → 3 █░ ✓ »")
    stream.flush()
    assert raw.getvalue().decode(encoding) == written


def test_an_answer_in_a_script_that_the_stream_does_not_know_is_no_error() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    screen = Screen(stream)
    screen.stream("日本")
    screen.end_line()
    stream.flush()
    assert stream.buffer.read() == b""


def test_a_table_is_lines_with_tabs_when_piped() -> None:
    stream = io.StringIO()
    Screen(stream).table(("a", "b"), [("x", "1,000"), ("y", "2")])
    assert stream.getvalue() == "x\t1,000\ny\t2\n"


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        pytest.param(
            40,
            [f"{'name':18}      n  note", f"{'a.py':18}  1,000  x", "a_very_long_name.c      2"],
            id="there is room",
        ),
        pytest.param(
            26,
            [f"{'name':13}      n  note", f"{'a.py':13}  1,000  x", "a_very_long_…      2"],
            id="ends are cut",
        ),
        pytest.param(
            20,
            [f"{'name':13}      n", f"{'a.py':13}  1,000", "a_very_long_…      2"],
            id="a column has to go",
        ),
        pytest.param(9, ["name", "a.py", "a_very_long…"], id="no narrower than can be read"),
    ],
)
def test_a_table_in_a_terminal_does_not_wrap(
    width: int, lines: list[str], terminal: Callable[[int], Terminal]
) -> None:
    stream = terminal(width)
    rows = [("a.py", "1,000", "x"), ("a_very_long_name.c", "2", "")]
    Screen(stream).table(("name", "n", "note"), rows, cut=(0,), drop=(2, 1))
    assert re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue()).splitlines() == lines


def test_no_file_speaks_to_the_terminal(terminal: Callable[[int], Terminal]) -> None:
    stream = terminal(80)
    Screen(stream).stream("a\tb\r\n\x1b]52;c;eA==\x07 \x9b31m c\x08")
    assert re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue()) == "a       b\n�]52;c;eA==� �31m c�"
    stream.truncate(stream.seek(0))
    Screen(stream).stream("if admin\u202e\u2066// check\u2069: \u200fשלום")
    assert "if admin��// check�: \u200fשלום" in stream.getvalue()
    piped = io.StringIO()
    Screen(piped).stream("\x1b[1mas it is\r\n")
    assert piped.getvalue() == "\x1b[1mas it is\r\n"


def test_a_note_within_an_answer_begins_a_line_of_its_own() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.stream("half a `line")
    screen.note("a note")
    screen.stream("more\n")
    assert stream.getvalue() == "half a `line\na note\nmore\n"


async def test_a_sign_of_life_comes_late_and_goes_before_anything_is_written(
    terminal: Callable[[int], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.commands.terminal._QUIET_S", 0.0)
    screen = Screen(terminal(80))
    screen.wait("thinking")
    screen.note("done at once")
    screen.wait("thinking")
    shown = asyncio.Event()
    asyncio.get_running_loop().call_later(0.001, shown.set)
    await shown.wait()
    assert screen._status is not None
    screen.note("done")
    assert screen._status is None


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        pytest.param(Path("/project/a/b.py"), "b.py", id="in the folder"),
        pytest.param(Path("/project/a"), "/project/a", id="the folder itself"),
        pytest.param(Path.home() / "x" / "y.py", "~/x/y.py", id="in the home folder"),
        pytest.param(Path("/etc/hosts"), "/etc/hosts", id="elsewhere"),
    ],
)
def test_a_path_is_written_as_one_would_write_it(path: Path, shown: str) -> None:
    assert short_path(path, Path("/project/a")) == shown


class Typist:
    """A user who types into a pipe."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        read_fd, self.fd = os.pipe()
        self._file = FileIO(read_fd)
        self.lines = InputLines(self._file, is_terminal=is_terminal)

    def type(self, data: bytes) -> None:
        os.write(self.fd, data)

    def leave(self) -> None:
        os.close(self.fd)

    async def rest(self) -> list[str]:
        """Return the remaining lines, once there will be no more."""
        found = []
        while (line := await self.lines.next()) is not None:
            found.append(line)
        self._file.close()
        return found


@pytest.fixture
async def typist() -> AsyncIterator[Typist]:
    typist = Typist()
    yield typist
    typist.leave()
    await typist.rest()


async def test_lines_come_as_they_are_typed(typist: Typist) -> None:
    typist.type("one\r\nzwö".encode() + b"\nth")
    assert [await typist.lines.next(), await typist.lines.next()] == ["one", "zwö"]
    typist.type(b"ree \n")
    assert await typist.lines.next() == "three "


async def test_giving_up_waiting_loses_no_line(typist: Typist) -> None:
    waiting = asyncio.ensure_future(typist.lines.next())
    await asyncio.sleep(0)
    waiting.cancel()
    typist.type(b"one\n")
    assert await typist.lines.next() == "one"


async def test_the_end_is_returned_again_and_again() -> None:
    typist = Typist()
    typist.type(b"no newline at the end")
    typist.leave()
    assert await typist.rest() == ["no newline at the end"]
    assert [await typist.lines.next(), await typist.lines.next()] == [None, None]


async def test_a_closed_input_is_at_its_end() -> None:
    assert await InputLines(None, is_terminal=False).next() is None


@pytest.mark.parametrize(("is_terminal", "next_line"), [(True, "yes"), (False, "typed too early")])
async def test_a_line_typed_ahead_answers_no_question(is_terminal: bool, next_line: str) -> None:
    typist = Typist(is_terminal=is_terminal)
    typist.type(b"first\ntyped too early\n")
    await typist.lines.next()
    typist.lines.drop_typed_ahead()
    typist.type(b"yes\n")
    typist.leave()
    assert (await typist.rest())[0] == next_line


@pytest.mark.parametrize(
    ("room", "widths"),
    [(40, [20, 5, 4]), (25, [12, 5, 4]), (23, [16, 5, 0]), (31, [18, 5, 4]), (5, [12, 0, 0])],
)
def test_columns_are_cut_before_one_is_dropped(room: int, widths: list[int]) -> None:
    columns = [("n" * 20, "a"), ("1,000", "2"), ("note", "x")]
    assert column_widths(columns, room, (0,), (2, 1)) == widths


def test_an_unknown_window_is_no_window_of_no_tokens() -> None:
    """A model whose server does not say has 0 as its window."""
    assert gauge({**USAGE, "window": 0, "pct": 0.0}).startswith("about 16,000 tokens; the size of")
