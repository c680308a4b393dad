"""What the commands write: colour and gauges in a terminal, plain lines when piped. Decides nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

__all__ = ["Screen", "bar", "gauge"]

_GAUGE_CELLS = 24
_TAIL_LINES = 6


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
    figures = f"{used:,} of {window:,} tokens, {usage['pct']} %"
    return f"{bar(used, window)} {figures} ({usage['source']})"


class Screen:
    """One place to write to. *out* is where answers go; notes go there too, dimmed."""

    def __init__(self, out: TextIO | None = None, *, notes: TextIO | None = None) -> None:
        self.console = Console(file=out, highlight=False, soft_wrap=True)
        self._notes = Console(file=notes, highlight=False, soft_wrap=True) if notes else self.console
        self._at_line_start = True

    @property
    def is_terminal(self) -> bool:
        """Whether somebody looks at it live."""
        return self.console.is_terminal

    def stream(self, delta: str) -> None:
        """Write more of an answer."""
        if delta:
            self.console.out(delta, end="", highlight=False)
            self._at_line_start = delta.endswith("\n")

    def end_line(self) -> None:
        """Begin a new line, unless one has just begun."""
        if not self._at_line_start:
            self.console.out("")
            self._at_line_start = True

    def heading(self, text: str) -> None:
        """Write a heading."""
        self.end_line()
        self.console.print(f"\n[bold]{escape(text)}[/bold]")

    def note(self, text: str) -> None:
        """Write what is no answer: what a tool does, what was noticed."""
        self.end_line()
        self._notes.print(f"[dim]{escape(text)}[/dim]")

    def problem(self, text: str) -> None:
        """Write what went wrong."""
        self.end_line()
        self._notes.print(f"[red]{escape(text)}[/red]")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table; when piped, one line a row with tabs between."""
        self.end_line()
        if not self.is_terminal:
            for row in rows:
                # Past rich, which would turn the tabs into spaces.
                self.console.file.write("\t".join(row) + "\n")
            return
        table = Table(*headers, box=None, header_style="dim", pad_edge=False, show_header=any(headers))
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.console.print(table)
