"""The figures of agents as tables of text, each with its ratio to the first row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peers.measuring import Run


def per_step(few: Run, many: Run, n_more: int) -> float:
    """Return the CPU time of one step in seconds, from two runs of which *many* has *n_more* more steps."""
    return max(0.0, many.cpu_s - few.cpu_s) / n_more


def format_table(title: str, units: Sequence[str], rows: Mapping[str, Sequence[float]]) -> str:
    """Return a table of *rows*; in brackets each figure as a multiple of the first row's.

    >>> print(format_table("time", ["wall ms", "CPU ms"], {"ours": [20, 5], "theirs": [50, 0.5]}))
    time     wall ms      CPU ms
    ours     20.0         5.0
    theirs   50.0 (2.5)   0.5 (0.1)
    """
    base = next(iter(rows.values()), ())
    lines = [[title, *units]]
    for name, figures in rows.items():
        is_base = figures is base
        pairs = zip(figures, base, strict=True)
        shown = [
            _figure(own) if is_base else f"{_figure(own)} ({_ratio(own, first)})" for own, first in pairs
        ]
        lines.append([name, *shown])
    widths = [max(map(len, column)) + 3 for column in zip(*lines, strict=True)]
    padded = (zip(line, widths, strict=True) for line in lines)
    return "\n".join("".join(cell.ljust(width) for cell, width in line).rstrip() for line in padded)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _ratio(value: float, first: float) -> str:
    return f"{value / first:.1f}" if first else "-"
