"""The difference of two texts as numbered lines, bounded for texts of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

from sidecar.commands.terminal import Screen, short_path

_CONTEXT: Final = 3
_MOST_COMPARED: Final = 2_000
"""Lines that are compared; of more the comparison would take seconds."""

_MOST_SHOWN: Final = 60
_STYLES: Final = {"+": "green", "-": "red", " ": "dim", "@": "cyan"}


def diff_lines(old: str, new: str) -> Iterator[tuple[str, int, str]]:
    """Yield each changed line with three around it: a sign (``+``, ``-``, space), its number, its text.

    ``@`` stands for lines left out, and for texts that are too long to compare, where the number is 0.
    """
    before, after = old.splitlines(), new.splitlines()
    start = _count_same(before, after)
    end = _count_same(before[start:][::-1], after[start:][::-1])
    n_old, n_new = len(before) - start - end, len(after) - start - end
    if n_old + n_new > _MOST_COMPARED:
        yield "@", 0, f"{n_old:,} lines become {n_new:,}"
        return
    first = max(0, start - _CONTEXT)
    last_old, last_new = len(before) - end + _CONTEXT, len(after) - end + _CONTEXT
    matcher = SequenceMatcher(None, before[first:last_old], after[first:last_new], autojunk=False)
    for index, group in enumerate(matcher.get_grouped_opcodes(_CONTEXT)):
        if index:
            yield "@", first + group[0][3] + 1, ""
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                for at in range(new_from, new_to):
                    yield " ", first + at + 1, after[first + at]
                continue
            for at in range(old_from, old_to):
                yield "-", first + at + 1, before[first + at]
            for at in range(new_from, new_to):
                yield "+", first + at + 1, after[first + at]


def show_diffs(diffs: Iterable[Mapping[str, Any]], screen: Screen, folder: Path) -> None:
    """Show the first lines of each change of a file, ``path``, ``oldText`` and ``newText``, in colour."""
    for diff in diffs:
        old = diff.get("oldText")
        screen.note(
            f"  {short_path(Path(diff['path']), folder)}{'' if old is not None else ' (new)'}", "bold"
        )
        lines = list(diff_lines(old or "", diff["newText"]))
        for sign, number, text in lines[:_MOST_SHOWN]:
            line = f"{number or '':>6} {'⋮' if sign == '@' else sign} {text}"
            screen.cut_line(line, _STYLES[sign])
        if len(lines) > _MOST_SHOWN:
            screen.note(f"       and {len(lines) - _MOST_SHOWN:,} more lines")


def _count_same(one: list[str], other: list[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))
