"""Results of tool calls: the output in their wrapping, exit codes, and the lines of files that they show.

Nothing here knows the call; a text is read by its shape alone. For example ``     7\\tdef f():`` is line 7 of
a file. The cost is linear in the parts that are looked at, which are bounded. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from sidecar.conversation import LineRange

RESULT_CHARS: Final = 100_000
"""How much of a result is looked at for numbered lines."""

EDGE_LINES: Final = 6
EDGE_CHARS: Final = 2_000
OUTCOME_CHARS: Final = 400
"""How far into a body, from either end, an exit code is looked for."""

NAMED_HIT: Final = re.compile(r"^(?P<path>[^\s:][^:\n]{0,300}?)[:](?P<line>\d{1,7})[:]", re.MULTILINE)
LONE_HIT: Final = re.compile(r"^(\d{1,7})[:]", re.MULTILINE)
"""A line that a search found, with its file and without."""

NUMBERED_LINE: Final = re.compile(r"[ ]{0,12}(\d{1,7})(?:\t|→|[:|] ?)(.*)")
"""A line of a file as tools show it: its number, a tab, an arrow, a colon or a bar, and its text."""

_EXIT_CODE: Final = re.compile(
    r"(?:exit(?:ed with)?(?: code| status)?|returncode|exit_code|exitcode)\"?\W{1,3}(-?\d{1,9})"
)
"""In lower case, which is several times as fast as to ignore the case."""


def exit_code_in(body: str) -> int | None:
    """Return the exit code that the result of a command names near one of its ends, None for none.

    >>> exit_code_in("make: stop\\n[exit 2]"), exit_code_in("done")
    (2, None)
    """
    ends = (body[:OUTCOME_CHARS], body[-OUTCOME_CHARS:])
    found = next(filter(None, (_EXIT_CODE.search(end.lower()) for end in ends)), None)
    return None if found is None else int(found.group(1))


def output_of(result: str) -> str:
    """Return the output of a command, without the lines that some agents put before it."""
    return result.partition("\nOutput:\n")[2] or result


def numbered_range(result: str) -> LineRange | None:
    """Return the range of the numbered lines in *result*, by its first and last lines; None for none.

    >>> numbered_range("     7\\tdef f():\\n     8\\t    pass")
    (7, 2)
    """
    first = _first_number(result[:EDGE_CHARS].split("\n", EDGE_LINES)[:EDGE_LINES])
    if first is None:
        return None
    last = _first_number(result[-EDGE_CHARS:].rsplit("\n", EDGE_LINES)[: -EDGE_LINES - 1 : -1])
    return (first, last - first + 1) if last is not None and 0 < first <= last else None


def _first_number(lines: Iterable[str]) -> int | None:
    """Return the number of the first of *lines* that has one, None where none has."""
    for line in lines:
        if (match := NUMBERED_LINE.match(line)) is not None:
            return int(match[1])
    return None


def numbered_lines(result: str) -> dict[int, str]:
    """Return the lines of a file that *result* shows with their numbers; none where it is not such a text.

    >>> numbered_lines("     7\\tdef f():\\n     8\\t    pass")
    {7: 'def f():', 8: '    pass'}
    """
    lines = result[:RESULT_CHARS].split("\n")
    found = {int(match[1]): match[2] for match in map(NUMBERED_LINE.match, lines) if match is not None}
    return found if 2 * len(found) > len(lines) - 4 else {}


def lines_shown(lines: Sequence[str], asked: Sequence[LineRange], output: str) -> LineRange | None:
    """Return the range of a file's *lines* that stands in the *output* of a command; None for none.

    Args:
        lines: the lines of the file, without their ends.
        asked: the ranges that the command is to show, none for all of it.
        output: the output. It may begin or end elsewhere, or have numbers before its lines.

    >>> lines_shown(["a", "b", "c"], ((2, 2),), "b\\nc\\n"), lines_shown(["a", "b", "c"], (), "x\\nb\\nc")
    ((2, 2), (2, 2))
    """
    first, count = asked[0] if len(asked) == 1 else (1, None)
    wanted = lines[first - 1 :] if count is None else lines[first - 1 : first - 1 + count]
    if not any(line.strip() for line in wanted):
        return None
    if "\n".join(wanted) in output:
        return (first, len(wanted))
    printed = output.rstrip("\n").split("\n")
    if numbered := numbered_lines(output):
        at = next((at for at in numbered if 0 < at <= len(lines) and lines[at - 1] == numbered[at]), 0)
        n_same = (
            count_same(lines[at - 1 :], [numbered.get(at + n, "") for n in range(len(numbered))]) if at else 0
        )
    elif n_same := count_same(wanted, printed):
        at = first
    else:
        n_same = count_same(wanted[::-1], printed[::-1])
        at = first + len(wanted) - n_same
    return (at, n_same) if any(line.strip() for line in lines[at - 1 : at - 1 + n_same]) else None


def count_same(these: Sequence[str], others: Sequence[str]) -> int:
    """Return how many lines both begin with."""
    pairs = zip(these, others, strict=False)
    return next((n for n, (one, other) in enumerate(pairs) if one != other), min(len(these), len(others)))
