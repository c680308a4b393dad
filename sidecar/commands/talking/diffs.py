"""The difference of two texts as numbered lines, bounded for texts of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

from sidecar.commands.terminal import Screen, short_path
from sidecar.text.visible import make_visible

_CONTEXT: Final = 3
_MOST_COMPARED: Final = 2_000
"""Lines that are compared; of more the comparison would take seconds."""

_MOST_SHOWN: Final = 60
_STYLES: Final = {"+": "green", "-": "red", " ": "dim", "@": "cyan"}


def diff_lines(old: str, new: str) -> Iterator[tuple[str, int, str]]:
    """Yield each changed line with three around it: a sign (``+``, ``-``, space), its number, its text.

    ``@`` stands for lines left out. Of texts that are too long to compare, the whole changed part is removed
    and added.
    """
    before, after = _split_lines(old), _split_lines(new)
    start = _count_same(before, after)
    end = _count_same(before[start:][::-1], after[start:][::-1])
    first = max(0, start - _CONTEXT)
    last_old, last_new = len(before) - end + _CONTEXT, len(after) - end + _CONTEXT
    matcher = SequenceMatcher(None, before[first:last_old], after[first:last_new], autojunk=False)
    if len(before) + len(after) - 2 * (start + end) > _MOST_COMPARED:
        n_old, n_new, n_tail = len(before) - end, len(after) - end, min(end, _CONTEXT)
        groups = [
            [
                ("equal", 0, start - first, 0, start - first),
                ("replace", start - first, n_old - first, start - first, n_new - first),
                ("equal", n_old - first, n_old - first + n_tail, n_new - first, n_new - first + n_tail),
            ]
        ]
    else:
        groups = list(matcher.get_grouped_opcodes(_CONTEXT))
    for index, group in enumerate(groups):
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
        lines = _show_head(diff, screen, folder)
        for style, line in lines[:_MOST_SHOWN]:
            screen.cut_line(line, style)
        if len(lines) > _MOST_SHOWN:
            screen.note(f"       and {len(lines) - _MOST_SHOWN:,} more lines")


def show_asked_diffs(
    diffs: Iterable[Mapping[str, Any]], screen: Screen, folder: Path
) -> list[tuple[str, str]]:
    """Show the first lines of each change that a question is about, whole; return the others, styled."""
    left: list[tuple[str, str]] = []
    for diff in diffs:
        lines = _show_head(diff, screen, folder)
        for style, line in lines[:_MOST_SHOWN]:
            screen.note(line, style)
        if rest := lines[_MOST_SHOWN:]:
            screen.note(f"       and {len(rest):,} more lines")
            left += [("bold", f"  {short_path(Path(diff['path']), folder)}"), *rest]
    return left


def _show_head(diff: Mapping[str, Any], screen: Screen, folder: Path) -> list[tuple[str, str]]:
    """Show the path of a change, and return its lines with their styles."""
    old = diff.get("oldText")
    path = make_visible(short_path(Path(diff["path"]), folder))
    screen.note(f"  {path}{'' if old is not None else ' (new)'}", "bold")
    return [
        (_STYLES[sign], f"{number or '':>6} {'⋮' if sign == '@' else sign} {make_visible(text)}")
        for sign, number, text in diff_lines(old or "", diff["newText"])
    ]


def _split_lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _count_same(one: list[str], other: list[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))
