"""The status line: the model, how full the window is, the cost, the branch, and when to ask."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sidecar.commands.talking.display import SessionState
from sidecar.commands.terminal import bar
from sidecar.text.clip import clip

_CELLS: Final = 16
_NARROW: Final = 70
"""In fewer columns the bar, the branch and the cost are left out."""


def status_line(known: SessionState, branch: str, columns: int) -> str:
    """Return the line in at most *columns* characters.

    >>> usage = {"used": 50_000, "window": 200_000, "limit": 150_000, "pct": 25.0, "cost": 0.5}
    >>> status_line(SessionState(usage), "main", 100)
    ' ████░░░░░░░░│░░░ 25 % of 200k   $0.50   main'
    """
    usage = known.usage
    model, mode = known.option("model"), known.option("permissions")
    is_wide = columns >= _NARROW
    fill = ""
    if window := usage.get("window", 0):
        share = f"{usage['pct']:.0f} % of {_short(window)}"
        fill = f"{draw_gauge(usage['used'], usage['limit'], window)} {share}" if is_wide else share
    elif usage:
        fill = f"{_short(usage['used'])} tokens"
    cost = f"${usage['cost']:.2f}" if is_wide and usage.get("cost") else ""
    line = " " + "   ".join(filter(None, (model, fill, cost, branch if is_wide else "", mode)))
    return clip(line, columns)


def read_branch(folder: Path) -> str:
    """Return the branch that is checked out in *folder*, empty where there is none."""
    for each in (folder, *folder.parents):
        try:
            git = each / ".git"
            if git.is_file():  # a worktree
                git = each / git.read_text("utf-8").removeprefix("gitdir:").strip()
            head = (git / "HEAD").read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:8]
    return ""


def draw_gauge(used: int, limit: int, window: int) -> str:
    """Return a bar with a mark at the size where the conversation is compacted."""
    cells = bar(used, window, _CELLS)
    mark = min(_CELLS - 1, round(_CELLS * limit / window))
    return f"{cells[:mark]}│{cells[mark + 1 :]}"


def _short(count: int) -> str:
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit:
            return f"{count / unit:.{0 if count % unit == 0 or count >= 10 * unit else 1}f}{name}"
    return str(count)
