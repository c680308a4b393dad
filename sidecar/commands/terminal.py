"""What the commands write: colour, gauges and signs of life in a terminal, plain lines when piped.

Where a stream knows no such characters, plainer ones stand in. Decides nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.text import Text

__all__ = ["Screen", "bar", "gauge", "short_path"]

_GAUGE_CELLS = 24
_QUIET_S: Final = 0.4
"""How long something may take before it is worth a sign of life."""

_LEAST_CELLS: Final = 12
"""A column that is cut keeps this much."""

_PLAIN: Final = str.maketrans(
    {"█": "#", "░": ".", "·": "-", "»": ">", "✓": "+", "✗": "!", "…": ".", "→": ">"}
)
_CONTROLS: Final = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), "\N{REPLACEMENT CHARACTER}") | {
    ord(kept): kept for kept in "\n\t"
}
"""What a file or a model may say to a terminal is text: no colours, no cursor, no titles, no clipboard."""

_WARM, _HOT = 60, 85


def bar(part: int, whole: int, cells: int = _GAUGE_CELLS) -> str:
    """Return *part* of *whole* as a bar of *cells* characters.

    >>> bar(1, 2, 4)
    '██░░'
    """
    full = 0 if whole <= 0 else min(cells, round(cells * part / whole))
    return "█" * full + "░" * (cells - full)


def gauge(usage: Mapping[str, Any]) -> str:
    """Return one line that says how full the window is."""
    used, window = usage["used"], usage["window"]
    about = "about " if usage["source"] == "estimate" else ""
    return f"{bar(used, window)} {about}{used:,} of {window:,} tokens, {usage['pct']} %"


def short_path(path: Path, folder: Path) -> str:
    """Return *path* as one would write it in *folder*, or with ``~`` for the home folder."""
    for base, mark in ((folder, ""), (Path.home(), "~/")):
        if path != base and path.is_relative_to(base):
            return mark + path.relative_to(base).as_posix()
    return str(path)


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command line, which knows how to end. Called while the error is handled."""
        raise BrokenPipeError


class Screen:
    """One place to write to. *out* is where answers go; notes go there too, dimmed."""

    def __init__(self, out: TextIO | None = None, *, notes: TextIO | None = None) -> None:
        self.console = _open(out or sys.stdout)
        self._notes = _open(notes) if notes else self.console
        self._at_line_start = True
        self._in_code = False
        self._is_plain = not _can_write(self.console.file, "█░·»✓✗…→")
        self._life: asyncio.TimerHandle | None = None
        self._status: Status | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether somebody looks at it live."""
        return self.console.is_terminal

    def stream(self, delta: str) -> None:
        """Write more of an answer; in a terminal, what stands between backticks stands out."""
        if not delta:
            return
        self._clear()
        for index, part in enumerate(delta.split("`")):
            if index:
                self._in_code = not self._in_code
                self._write("`", is_code=True)
            self._write(part, is_code=self._in_code)
        self._at_line_start = delta.endswith("\n")

    def end_line(self) -> None:
        """Begin a new line, unless one has just begun."""
        self._clear()
        self._in_code = False
        if not self._at_line_start:
            self.console.out("")
            self._at_line_start = True

    def heading(self, text: str) -> None:
        """Write a heading."""
        self.end_line()
        self.console.print(f"\n[bold]{escape(self._shown(text))}[/bold]")

    def line(self, text: str = "", style: str | None = None) -> None:
        """Write a line of what was asked for."""
        self.end_line()
        self.console.print(Text(self._shown(text), style or ""))

    def note(self, text: str, style: str = "dim") -> None:
        """Write what is no answer: what a tool does, what was noticed."""
        self.end_line()
        self._notes.print(Text(self._shown(text), style))

    def problem(self, text: str) -> None:
        """Write what went wrong."""
        self.note(text, "red")

    def gauge(self, usage: Mapping[str, Any], before: str = "") -> None:
        """Write how full the window is, in the colour of how near its end is."""
        colour = "green" if usage["pct"] < _WARM else "yellow" if usage["pct"] < _HOT else "red"
        text = Text(self._shown(before + gauge(usage)), "dim")
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
        """Write a table; when piped, one line a row with tabs between.

        In a terminal that is too narrow the columns *cut* lose their ends, in that order; where that is not
        enough the columns *drop* go, in that order.
        """
        self.end_line()
        if not self.is_terminal:
            for row in rows:
                # Past rich, which would turn the tabs into spaces.
                self.console.file.write(self._shown("\t".join(row)) + "\n")
            self.console.file.flush()
            return
        columns = list(zip(headers, *rows, strict=True))
        widths = _widths(columns, self.console.width, cut, drop)
        is_right = [all(map(_is_figure, column[1:])) for column in columns]
        if any(headers):
            self.line(_laid_out(headers, widths, is_right), "dim")
        for row in rows:
            self.line(_laid_out(row, widths, is_right))

    def wait(self, text: str) -> None:
        """Show *text* as a sign of life until something is written, once that has taken a while."""
        self._clear()
        if self._notes.is_terminal:
            self._life = asyncio.get_running_loop().call_later(_QUIET_S, self._show_life, self._shown(text))

    def _show_life(self, text: str) -> None:
        self.end_line()
        self._status = self._notes.status(f"[dim]{escape(text)}[/dim]", spinner="line")
        self._status.start()

    def _clear(self) -> None:
        if self._life is not None:
            self._life.cancel()
            self._life = None
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _write(self, text: str, *, is_code: bool) -> None:
        if not self.is_terminal:
            # Past rich, which would change tabs and carriage returns.
            self.console.file.write(self._shown(text))
            self.console.file.flush()
        elif text:
            style = "cyan" if is_code else None
            self.console.out(self._shown(text), style=style, end="", highlight=False)

    def _shown(self, text: str) -> str:
        if self.is_terminal or self._notes.is_terminal:
            text = text.replace("\r\n", "\n").translate(_CONTROLS)
        return text.translate(_PLAIN) if self._is_plain else text


def _open(stream: TextIO | None) -> Console:
    if isinstance(stream, io.TextIOWrapper):
        with contextlib.suppress(OSError, ValueError):  # closed: writing will say so
            stream.reconfigure(errors="replace")
    return _Console(file=stream, highlight=False, soft_wrap=True)


def _can_write(stream: Any, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _widths(
    columns: Sequence[Sequence[str]], room: int, cut: Sequence[int], drop: Sequence[int]
) -> list[int]:
    """Return how wide *columns* are in *room* cells; 0 for one that there is no room for."""
    widths = [max(map(cell_len, column)) for column in columns]
    for index in drop:
        if _over(_shrunk(widths, room, cut), room) <= 0:
            break
        widths[index] = 0
    return _shrunk(widths, room, cut)


def _shrunk(widths: Sequence[int], room: int, cut: Sequence[int]) -> list[int]:
    shrunk = list(widths)
    for index in cut:
        spare = max(0, shrunk[index] - _LEAST_CELLS)
        shrunk[index] -= max(0, min(spare, _over(shrunk, room)))
    return shrunk


def _over(widths: Sequence[int], room: int) -> int:
    """Return how many cells there are too many, with two between columns."""
    return sum(width + 2 for width in widths if width) - 2 - room


def _laid_out(row: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> str:
    """Return *row* as one line; what is cut ends with an ellipsis."""
    cells = []
    for text, width, right in zip(row, widths, is_right, strict=True):
        room = width - cell_len(text)
        if room < 0 < width:
            cells.append(set_cell_size(text, width - 1) + "…")
        elif width:
            cells.append(" " * room + text if right else text + " " * room)
    return "  ".join(cells).rstrip()


def _is_figure(text: str) -> bool:
    return not text or text.replace(",", "").isdecimal()
