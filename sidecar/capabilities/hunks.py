"""The hunks of a change: the runs of lines that it replaces, each of which the user may refuse or edit.

Clients name a hunk by its index. The lines that both texts begin and end with are left out, and ``difflib``
finds the ones that stay among the others. Two long texts that differ all over are one hunk, for comparing
them line by line would take seconds. A new file has no lines that stay: its hunks are its blocks, each of
which begins without an indent behind an empty line, and short ones are one with the next. Pure.

    before  a b c d e        hunks  b -> B (old 1 to 2, new 1 to 2)
    after   a B c e f               d ->   (old 3 to 4, new 3 to 3)
                                      -> f (old 5 to 5, new 4 to 5)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import pairwise
from typing import Final

from sidecar._internal.values import Value

_MOST_CELLS: Final = 4_000_000
_MOST_DIFF_CHARS: Final = 4_000
_LEAST_BLOCK_LINES: Final = 5
_MOST_BLOCKS: Final = 20


class ProposedHunk(Value):
    """The lines from *old_start* to *old_end* of a text give way to others; indices from 0, ends excluded."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def lines_of(text: str) -> list[str]:
    """Return the lines of *text* with their ends, which are line feeds alone: clients count those."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def find_hunks(before: str | None, after: str) -> tuple[ProposedHunk, ...]:
    r"""Return the hunks of the change from *before*, None for a new file, to *after*, from the top.

    >>> find_hunks("a\nb\nc\n", "a\nB\nc\n")
    (ProposedHunk(old_start=1, old_end=2, new_start=1, new_end=2),)
    """
    old, new = lines_of(before or ""), lines_of(after)
    if before is None:
        starts = [0]
        least = max(_LEAST_BLOCK_LINES, len(new) // _MOST_BLOCKS)
        for at in range(1, len(new)):
            begins = not new[at - 1].strip() and not new[at][0].isspace()
            if begins and min(at - starts[-1], len(new) - at) >= least:
                starts.append(at)
        return tuple(ProposedHunk(0, 0, *ends) for ends in pairwise((*starts, len(new)))) if new else ()
    most = min(len(old), len(new))
    start = next((at for at in range(most) if old[at] != new[at]), most)
    tail = next((at for at in range(most - start) if old[-1 - at] != new[-1 - at]), most - start)
    middle, other = old[start : len(old) - tail], new[start : len(new) - tail]
    if not middle and not other:
        return ()
    if len(middle) * len(other) > _MOST_CELLS:
        return (ProposedHunk(start, len(old) - tail, start, len(new) - tail),)
    found = SequenceMatcher(None, middle, other, autojunk=False).get_opcodes()
    return tuple(
        ProposedHunk(a + start, b + start, c + start, d + start)
        for kind, a, b, c, d in found
        if kind != "equal"
    )


def choose_hunks(before: str | None, after: str, chosen: Mapping[int, str | None]) -> str:
    r"""Return the text with the hunks that the user has kept.

    Args:
        before: the text before the change, None for a new file.
        after: the text that was proposed.
        chosen: by the index of a hunk, the text that the user put in its place, or None where it is refused.

    >>> choose_hunks("a\nb\nc\n", "a\nB\nc\nd\n", {0: None, 1: "D\n"})
    'a\nb\nc\nD\n'
    """
    old, new = lines_of(before or ""), lines_of(after)
    parts: list[str] = []
    at = 0
    for number, hunk in enumerate(find_hunks(before, after)):
        parts += old[at : hunk.old_start]
        edited = chosen.get(number, "")
        if number not in chosen:
            parts += new[hunk.new_start : hunk.new_end]
        elif edited is None:
            parts += old[hunk.old_start : hunk.old_end]
        else:
            proposed = "".join(new[hunk.new_start : hunk.new_end])
            is_whole = not edited or edited.endswith("\n")
            is_end = hunk.new_end == len(new) and not proposed.endswith("\n")
            parts.append(edited if is_whole or is_end else f"{edited}\n")
        at = hunk.old_end
    return "".join((*parts, *old[at:]))


def describe_choice(name: str, proposed: str, kept: str, chosen: Mapping[int, str | None], n: int) -> str:
    """Return the words to the model about the hunks of *name* that the user kept, with the difference.

    Args:
        name: the file as the model knows it.
        proposed: the text that the model proposed.
        kept: the text that was written.
        chosen: as in :func:`choose_hunks`.
        n: the number of hunks.
    """
    n_refused = sum(text is None for text in chosen.values())
    counts = [f"kept {n - len(chosen)} of {n} hunks as proposed"]
    counts += [f"refused {n_refused}"] * bool(n_refused)
    counts += [f"edited {len(chosen) - n_refused}"] * (len(chosen) > n_refused)
    lines: Sequence[str] = [
        *unified_diff(proposed.splitlines(), kept.splitlines(), "proposed", "written", lineterm="", n=1)
    ]
    diff = "\n".join(lines)
    cut = "\n[...]" if len(diff) > _MOST_DIFF_CHARS else ""
    return (
        f"[the user {', '.join(counts)} in {name}. What was written differs from the proposal so; "
        f"do not propose again what was refused]\n"
        f"{diff[:_MOST_DIFF_CHARS]}{cut}"
    )
