"""The commands ``/diff`` and ``/checkpoint``, and the offer of ``/rewind`` to take files back."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from sidecar.conductor.workbench.checkpoints import Checkpoints
from sidecar.conductor.workbench.files import shown_uri
from sidecar.conductor.workbench.kept_changes import TAKEN_BACK, FileCheckpoint, FileDiff, FileRestore

_MOST_LISTED: Final = 40
_MOST_DIFF_CHARS: Final = 20_000
"""The characters of diffs in one answer."""


async def show_changes(checkpoints: Checkpoints, folder: Path) -> str:
    """Return the answer of ``/diff``: the changes of files by this session, named as in *folder*."""
    diffs = await checkpoints.diff(checkpoints.since(None))
    shown = describe_diffs(diffs, folder) or "This session has changed no files with its tools."
    return "\n".join((shown, *describe_uncovered(checkpoints.uncovered)))


async def run_checkpoint(checkpoints: Checkpoints, rest: str, folder: Path) -> str:
    """Run ``/checkpoint`` and return its answer, with files named as in *folder*.

    Raises InvalidInput for an unknown checkpoint.
    """
    match rest.split():
        case []:
            return describe_checkpoints(checkpoints.all)
        case ["diff", checkpoint_id]:
            diffs = await checkpoints.diff(checkpoints.since(checkpoint_id))
            return describe_diffs(diffs, folder) or "The files are as they were then."
        case ["restore", checkpoint_id]:
            restored = await checkpoints.restore(checkpoints.since(checkpoint_id))
            return describe_restores(restored, folder)
    return "Use /checkpoint, /checkpoint diff ID or /checkpoint restore ID."


async def offer_restore(checkpoints: Checkpoints, changes: Collection[str], folder: Path) -> str:
    """Return the diffs of files with *changes*, and the command that takes them back; empty for none."""
    diffs = [each for each in await checkpoints.diff(changes) if each.outcome in TAKEN_BACK]
    if not diffs:
        return ""
    command = f"/checkpoint restore {checkpoints.first_of(changes)}"
    lines = (f"\n\n{command} takes these changes back:", describe_diffs(diffs, folder))
    return "\n".join((*lines, *describe_uncovered(checkpoints.uncovered)))


def describe_uncovered(names: Sequence[str]) -> Sequence[str]:
    """Return a line about changes that no checkpoint covers; none for no *names*.

    >>> describe_uncovered(["the background command bg1"])
    ['- not covered: changes of files by the background command bg1']
    """
    more = f", and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return [f"- not covered: changes of files by {', '.join(names[:_MOST_LISTED])}{more}"] if names else []


def describe_diffs(diffs: Sequence[FileDiff], folder: Path) -> str:
    """Return *diffs* for a user in *folder*, bounded; empty for none that says anything."""
    parts: list[str] = []
    n_left = _MOST_DIFF_CHARS
    for each in diffs:
        if each.outcome == "unchanged":
            continue
        name = shown_uri(each.uri, folder)
        text = each.diff[: max(0, n_left)]
        n_left -= len(text)
        if text:
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            parts.append(f"{fence}diff\n{text}\n{fence}")
        if each.truncated or len(text) < len(each.diff):
            parts.append(f"- {name}: more lines are not shown")
        if each.outcome not in TAKEN_BACK:
            parts.append(f"- {name}: a restore leaves it as it is; {each.reason}")
        elif not each.diff:
            parts.append(f"- {name}: {'is new' if each.outcome == 'removed' else 'has changed'}")
    return "\n".join(parts)


def describe_checkpoints(checkpoints: Sequence[FileCheckpoint]) -> str:
    """Return the answer of ``/checkpoint``, the newest first."""
    if not checkpoints:
        return "There are no checkpoints; this session has changed no files with its tools."
    lines = []
    for each in checkpoints[: -_MOST_LISTED - 1 : -1]:
        names = ", ".join(file.uri.rpartition("/")[2] for file in each.files[:5])
        more = f" and {len(each.files) - 5} more" if len(each.files) > 5 else ""
        what = "before a turn changed" if each.cause == "turn" else "before a restore changed"
        when = datetime.fromtimestamp(each.at / 1000).strftime("%Y-%m-%d %H:%M")
        lines.append(f"- {each.checkpoint_id}, {when}: {what} {names}{more}")
    return "\n".join(
        (*lines, "\n/checkpoint restore ID takes files back to one; /checkpoint diff ID shows it.")
    )


def describe_restores(files: Sequence[FileRestore], folder: Path) -> str:
    """Return the answer of ``/checkpoint restore``.

    >>> files = [FileRestore("file:///p/a", "restored"), FileRestore("file:///b", "outside", "no")]
    >>> describe_restores(files, Path("/p"))
    '- a: restored\\n- /b: stays as it is; no'
    """
    lines = []
    for each in files:
        done = each.outcome if each.outcome in TAKEN_BACK else "was so already"
        name = shown_uri(each.uri, folder)
        lines.append(f"- {name}: {f'stays as it is; {each.reason}' if each.reason else done}")
    return "\n".join(lines) or "There was nothing to take back."
