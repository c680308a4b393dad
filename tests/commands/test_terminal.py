"""What the commands write, to whatever they write it."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.commands.terminal import Screen, gauge, short_path

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


def test_a_gauge_says_where_its_figure_is_from() -> None:
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
def test_no_stream_is_written_what_it_cannot_take(encoding: str, written: str) -> None:
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
