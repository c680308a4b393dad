"""A digest made without a model, for when the model fails (failure B-A7).

Pure and deterministic: the previous summary as it is, then the newest words of what came since, within a
hard limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.agentcore.text import byte_length, clip_middle, shorten

__all__ = ["LOCAL_HEADING", "local_digest"]

LOCAL_HEADING = "## Condensed Without a Model"
_MAX_LINE = 400
# What a reader misses most comes first: the user's words, then what went wrong, what was said, what was done.
_RANK = (
    "[User]",
    "[Tool result error]",
    "[Assistant]",
    "[Previous summary]",
    "[System]",
    "[Assistant tool calls]",
)


def local_digest(parts: Sequence[str], previous: str, limit: int) -> str:
    """Return *previous* and one line for each of the labelled *parts* that fits in *limit* bytes.

    The previous summary stays whole while a quarter of the limit is left for what is new. Users' words go
    before errors, errors before answers, answers before calls, and the newest before the oldest.

    >>> print(local_digest(["[User]: fix it", "[Tool result]: ok"], "Before.", 200))
    Before.
    <BLANKLINE>
    ## Condensed Without a Model
    - [User]: fix it
    - [Tool result]: ok
    """
    lines = [f"- {shorten(' '.join(part.split()), _MAX_LINE)}" for part in parts]
    wanted = byte_length(LOCAL_HEADING) + sum(byte_length(line) + 1 for line in lines)
    kept_before = clip_middle(previous, max(limit - wanted - 2, limit * 3 // 4))
    opening = f"{kept_before}\n\n{LOCAL_HEADING}" if kept_before else LOCAL_HEADING
    chosen = _choose(lines, limit - byte_length(opening))
    left_out = len(lines) - len(chosen)
    note = [f"- ({left_out} earlier or lesser entries left out)"] if left_out else []
    return clip_middle("\n".join([opening, *note, *(lines[i] for i in sorted(chosen))]), limit)


def _choose(lines: Sequence[str], room: int) -> set[int]:
    """Return the indices of the lines that fit, by rank, then from the newest; a note has its room."""
    chosen: set[int] = set()
    rest = room if sum(byte_length(line) + 1 for line in lines) <= room else room - 60
    for index in sorted(range(len(lines)), key=lambda i: (_rank(lines[i]), -i)):
        size = byte_length(lines[index]) + 1
        if size <= rest:
            chosen.add(index)
            rest -= size
    return chosen


def _rank(line: str) -> int:
    label = line[2 : line.find("]") + 1]
    return _RANK.index(label) if label in _RANK else len(_RANK)
