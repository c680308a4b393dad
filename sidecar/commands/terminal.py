"""The terminal of the commands: colour, gauges and progress when it is one, plain lines when piped.

Characters that a stream cannot encode are replaced by plainer ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.text import Text

_CHUNK_BYTES = 64 * 1024
_GAUGE_CELLS = 24
_QUIET_S: Final = 0.4
"""How long a wait may be before it is shown, in seconds."""

_NOTICE_CHARS: Final = 200
_LEAST_CELLS: Final = 12
"""The least width of a column that is cut."""

_PLAIN: Final = str.maketrans(
    {"█": "#", "░": ".", "·": "-", "»": ">", "✓": "+", "✗": "!", "…": ".", "→": ">", "⋮": ":"}
)
_ORDERS: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""The characters that change the order in which the characters after them are shown."""

_CONTROLS: Final = dict.fromkeys(
    (*range(0x20), *range(0x7F, 0xA0), *_ORDERS), "\N{REPLACEMENT CHARACTER}"
) | {ord(kept): kept for kept in "\n\t"}
"""Text of a file or a model must not control the terminal: its colours, cursor, title, clipboard or order."""

_WARM, _HOT = 60, 85


def bar(part: int, whole: int, cells: int = _GAUGE_CELLS) -> str:
    """Return *part* of *whole* as a bar of *cells* characters.

    >>> bar(1, 2, 4)
    '██░░'
    """
    full = 0 if whole <= 0 else min(cells, round(cells * part / whole))
    return "█" * full + "░" * (cells - full)


def gauge(usage: Mapping[str, Any]) -> str:
    """Return one line about how full the window is."""
    used, window = usage["used"], usage["window"]
    about = "about " if usage["source"] == "estimate" else ""
    if not window:
        return f"{about}{used:,} tokens; the size of the model's window is not known"
    return f"{bar(used, window)} {about}{used:,} of {window:,} tokens, {usage['pct']} %"


def notice_codes(text: str, way: str) -> str:
    """Return the codes by which a terminal rings, and with one of the OSC codes shows *text* on the desktop.

    Terminals ignore a code that they do not know. The text never begins with a digit, which some read as a
    command.

    >>> notice_codes("waiting for you: rm -r a;b\\x07", "osc777")
    '\\x07\\x1b]777;notify;sidecar;waiting for you: rm -r a,b\\x1b\\\\'
    >>> notice_codes("done", "bell"), notice_codes("done", "off")
    ('\\x07', '')
    """
    if way == "off":
        return ""
    shown = "".join(char for char in text if char.isprintable())[:_NOTICE_CHARS]
    notices = {
        "osc9": f"\x1b]9;sidecar: {shown}\x1b\\",
        "osc777": f"\x1b]777;notify;sidecar;{shown.replace(';', ',')}\x1b\\",
    }
    return "\a" + notices.get(way, "")


def notice_for(text: str, home: Path) -> str:
    """Return the codes that report *text* in the way of the user's settings below *home*."""
    from sidecar.llmgateway.config import read_settings  # not for the first screen

    way = read_settings(home).notify
    is_old = sys.platform == "win32" and way.startswith("osc")  # its console may show the code as text
    return notice_codes(text, "bell" if is_old else way)


def short_path(path: Path, folder: Path) -> str:
    """Return *path* as it would be typed in *folder*, or with ``~`` for the home folder."""
    for base, mark in ((folder, ""), (Path.home(), "~/")):
        if path != base and path.is_relative_to(base):
            return mark + path.relative_to(base).as_posix()
    return str(path)


def when(at_ms: int) -> str:
    """Return a time as a user reads it: the time of today, or the day."""
    moment = datetime.fromtimestamp(at_ms / 1000)
    return moment.strftime("%H:%M" if moment.date() == datetime.now().date() else "%Y-%m-%d")


def day_and_time(at_ms: int) -> str:
    """Return a time as a table has it, in the local time zone."""
    return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d %H:%M")


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Leave the error to the command line. Called while the error is handled."""
        raise BrokenPipeError


class Screen:
    """An output for answers and notes.

    Args:
        out: receives answers; standard output by default.
        notes: receives notes; by default they go to *out*, dimmed.
    """

    def __init__(self, out: TextIO | None = None, *, notes: TextIO | None = None) -> None:
        self.console = _open(out or sys.stdout)
        self._notes = _open(notes) if notes else self.console
        self._at_line_start = True
        self._is_after_gap = False
        self._in_code = False
        try:
            "█░·»✓✗…→⋮".encode(getattr(self.console.file, "encoding", None) or "utf-8")
            self._is_plain = False
        except (UnicodeEncodeError, LookupError):
            self._is_plain = True
        self._spinner: asyncio.TimerHandle | None = None
        self._status: Status | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether it is a terminal."""
        return self.console.is_terminal

    def stream(self, delta: str) -> None:
        """Write more of an answer; in a terminal, code between backticks is coloured."""
        if not delta:
            return
        self._stop_spinner()
        self._is_after_gap = False
        for index, part in enumerate(delta.split("`")):
            if index:
                self._in_code = not self._in_code
                self._write("`", is_code=True)
            self._write(part, is_code=self._in_code)
        self._at_line_start = delta.endswith("\n")

    def gap(self) -> None:
        """Write an empty line, unless one has just been written."""
        if not self._is_after_gap:
            self.line()

    def end_line(self) -> None:
        """Begin a new line, unless one has just begun."""
        self._stop_spinner()
        self._is_after_gap = False
        self._in_code = False
        if not self._at_line_start:
            self.console.out("")
            self._at_line_start = True

    def headline(self, text: str) -> None:
        """Write a headline."""
        self.end_line()
        self.console.print(f"\n[bold]{escape(self.printable(text))}[/bold]")

    def line(self, text: str = "", style: str | None = None) -> None:
        """Write a line of a result."""
        self.end_line()
        self.console.print(Text(self.printable(text), style or ""))
        self._is_after_gap = not text

    def note(self, text: str, style: str = "dim") -> None:
        """Write a note: anything that is not part of an answer."""
        self.end_line()
        # A terminal would break a long line in the middle of a word.
        self._notes.print(Text(self.printable(text), style), soft_wrap=not self._notes.is_terminal)

    def show_text(self, text: Text) -> None:
        """Write one line that is printable, in the colours that it has."""
        self.end_line()
        self._notes.print(text, soft_wrap=True)

    def cut_line(self, text: str, style: str) -> None:
        """Write one line; in a terminal it is cut at the width of it."""
        line = Text(self.printable(text).replace("\n", " ").expandtabs(4), style)
        if self.is_terminal:
            line.truncate(self.console.width - 1, overflow="ellipsis")
        self.end_line()
        self.console.print(line)

    def show_rendered(self, text: str) -> None:
        """Write lines that have their colours already."""
        self.end_line()
        self.console.file.write(text)
        self._is_after_gap = text.endswith("\n\n")

    def problem(self, text: str, hint: str | None = None) -> None:
        """Write an error message, and behind it the next step."""
        self.note(f"{text}; {hint}" if hint else text, "red")

    def gauge(self, usage: Mapping[str, Any], before: str = "") -> None:
        """Write how full the window is; the colour shows how near its end is."""
        colour = "green" if usage["pct"] < _WARM else "yellow" if usage["pct"] < _HOT else "red"
        text = Text(self.printable(before + gauge(usage)), "dim")
        if usage["window"]:
            text.stylize(f"not dim {colour}", len(before), len(before) + _GAUGE_CELLS)
        self.end_line()
        self._notes.print(text)

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        cut: Sequence[int] = (),
        drop: Sequence[int] = (),
    ) -> None:
        """Write a table; when piped, one line for each row, with tabs.

        Args:
            headers: one for each column; no header line when all are empty.
            rows: the cells, as many in each row as there are headers.
            cut: columns that lose their ends in a narrow terminal, in this order.
            drop: columns that are left out when that is not enough, in this order.
        """
        self.end_line()
        if not self.is_terminal:
            for row in rows:
                # Not through rich, which would turn the tabs into spaces.
                self.console.file.write(self.printable("\t".join(row)) + "\n")
            self.console.file.flush()
            return
        columns = list(zip(headers, *rows, strict=True))
        widths = column_widths(columns, self.console.width, cut, drop)
        is_right = [
            all(not cell or cell.replace(",", "").isdecimal() for cell in column[1:]) for column in columns
        ]
        if any(headers):
            self.line(lay_out(headers, widths, is_right), "dim")
        for row in rows:
            self.line(lay_out(row, widths, is_right))

    def wait(self, text: str) -> None:
        """Show *text* with a spinner until something is written, once that has taken a while."""
        self._stop_spinner()
        if self._notes.is_terminal:
            shown = escape(self.printable(text))

            def spin() -> None:
                self.end_line()
                self._status = self._notes.status(f"[dim]{shown}[/dim]", spinner="line")
                self._status.start()

            self._spinner = asyncio.get_running_loop().call_later(_QUIET_S, spin)

    def _stop_spinner(self) -> None:
        if self._spinner is not None:
            self._spinner.cancel()
            self._spinner = None
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _write(self, text: str, *, is_code: bool) -> None:
        if not self.is_terminal:
            # Not through rich, which would change tabs and carriage returns.
            self.console.file.write(self.printable(text))
            self.console.file.flush()
        elif text:
            style = "cyan" if is_code else None
            self.console.out(self.printable(text), style=style, end="", highlight=False)

    def printable(self, text: str) -> str:
        """Return *text* in characters that the stream can encode and that control no terminal."""
        if self.is_terminal or self._notes.is_terminal:
            text = text.replace("\r\n", "\n").translate(_CONTROLS)
        return text.translate(_PLAIN) if self._is_plain else text


class SpokenScreen(Screen):
    """An output that a screen reader reads aloud: no colours, bars or moving parts, in a terminal too."""

    def __init__(self) -> None:
        super().__init__()
        self.console = self._notes = _Console(
            file=self.console.file, force_terminal=False, highlight=False, soft_wrap=True
        )

    def gauge(self, usage: Mapping[str, Any], before: str = "") -> None:
        """Write the fill level of the window in words."""
        self.note(before + gauge(usage).lstrip("█░ "))

    def wait(self, text: str) -> None:
        """Write nothing: the words of the turn follow."""

    def printable(self, text: str) -> str:
        """Return *text* without characters that control a terminal."""
        return super().printable(text.replace("\r\n", "\n").translate(_CONTROLS))


def _open(stream: TextIO | None) -> Console:
    if isinstance(stream, io.TextIOWrapper):
        with contextlib.suppress(OSError, ValueError):  # closed: writing will fail
            stream.reconfigure(errors="replace")
    return _Console(file=stream, highlight=False, soft_wrap=True)


def column_widths(
    columns: Sequence[Sequence[str]], room: int, cut: Sequence[int], drop: Sequence[int]
) -> list[int]:
    """Return the widths of *columns* in *room* cells; 0 for a column without room."""
    widths = [max(map(cell_len, column)) for column in columns]
    for index in drop:
        if _excess(_shrink(widths, room, cut), room) <= 0:
            break
        widths[index] = 0
    return _shrink(widths, room, cut)


def _shrink(widths: Sequence[int], room: int, cut: Sequence[int]) -> list[int]:
    shrunk = list(widths)
    for index in cut:
        spare = max(0, shrunk[index] - _LEAST_CELLS)
        shrunk[index] -= max(0, min(spare, _excess(shrunk, room)))
    return shrunk


def _excess(widths: Sequence[int], room: int) -> int:
    """Return how many cells are too many, with two between columns."""
    return sum(width + 2 for width in widths if width) - 2 - room


def lay_out(row: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> str:
    """Return *row* as one line; a cut cell ends with an ellipsis."""
    cells = []
    for text, width, right in zip(row, widths, is_right, strict=True):
        room = width - cell_len(text)
        if room < 0 < width:
            cells.append(set_cell_size(text, width - 1) + "…")
        elif width:
            cells.append(" " * room + text if right else text + " " * room)
    return "  ".join(cells).rstrip()


class _Raw(Protocol):
    def read(self, n: int, /) -> bytes | None: ...


class InputLines:
    """The lines of *raw*, typed or piped in; waiting for one can be cancelled at any moment.

    A daemon thread reads past Python's buffers: their lock, held by a thread that waits, would keep the
    process from ending. Create it in a running loop.
    """

    def __init__(self, raw: _Raw | None, *, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._raw = raw
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name="sidecar-input", daemon=True).start()

    async def next(self, prompt: str = "") -> str | None:
        """Return the next line without its end, None when there are no more."""
        if self.is_terminal:
            sys.stderr.write(prompt) if not sys.stdout.isatty() else sys.stdout.write(prompt)
            sys.stdout.flush()
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)  # for the next call
        return line

    async def confirm(self, question: str) -> bool:
        """Return whether the next line says yes to *question*."""
        return (await self.next(question) or "").strip().lower() in ("y", "yes")

    def drop_typed_ahead(self) -> None:
        """Drop lines that were typed before the question they would answer; piped input stays."""
        while self.is_terminal and not self._lines.empty():
            if self._lines.get_nowait() is None:
                self._lines.put_nowait(None)
                return

    def _run(self) -> None:
        rest = b""
        while True:
            try:
                data = self._raw.read(_CHUNK_BYTES) if self._raw else None
            except OSError:  # a terminal that went away
                data = None
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            self._pass_on([line.decode("utf-8", "replace").rstrip("\r") for line in lines])
        last = rest.decode("utf-8", "replace").rstrip("\r")
        self._pass_on([last, None] if rest else [None])

    def _pass_on(self, lines: Sequence[str | None]) -> None:
        """Queue the lines of one chunk together, so that dropping typed lines drops all of them."""

        def put() -> None:
            for line in lines:
                self._lines.put_nowait(line)

        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits for a line
            self._loop.call_soon_threadsafe(put)


def is_typed_in() -> bool:
    """Whether standard input is a terminal, so that somebody can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def read_stdin() -> InputLines:
    """Return the lines of standard input, none of one that is closed."""
    return InputLines(getattr(getattr(sys.stdin, "buffer", None), "raw", None), is_terminal=is_typed_in())
