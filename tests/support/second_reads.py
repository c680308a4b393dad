"""The files that agents read again after a compaction, as recorded, and the share that would have come back.

After each recorded compaction the files count that one of the next :data:`CALLS_AFTER` calls read, and that
had been read, edited or written before, with the lines that were shown. Everything before the compaction is
taken as folded away. The files' texts of that moment are put together from all that was shown of them.

Every second recording that has any is one half. The figures of the ranking are ones that lose nothing on
either half; most of their gain is on the second one, so it may be less elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from recorded_sessions import Record, read_records, recorded_files, turn_of
from sidecar.conductor.engine import FreshFile
from sidecar.conductor.window.compaction.file_use import rank_by_use
from sidecar.conductor.window.compaction.restoring import DEFAULT_BUDGET_TOKENS, restore_uses
from sidecar.conversation import Entry, FileRead, History, kind_by_role
from sidecar.text.calls import touches_of_call
from sidecar.text.results import numbered_lines, output_of
from sidecar.text.touches import Touch

CALLS_AFTER: Final = 15
AGENTS: Final = ("claude-code", "codex", "opencode", "pi", "copilot-cli", "gemini-cli")


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded compaction: the conversation before it, the texts, and the lines read again by file."""

    history: History
    texts: Mapping[str, str]
    again: Mapping[str, set[int]]


@dataclass(slots=True)
class Shares:
    """Counts over cases: files and lines that were read again, and of those the ones that come back."""

    n_cases: int = 0
    files: list[int] = field(default_factory=lambda: [0, 0])
    lines: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, case: Case) -> None:
        """Add one case."""
        shown = restored_lines(case)
        self.n_cases += 1
        for path, numbers in case.again.items():
            self.files[0] += path in shown
            self.files[1] += 1
            self.lines[0] += len(numbers & shown.get(path, set()))
            self.lines[1] += len(numbers)

    @property
    def file_share(self) -> float:
        """The share of the files."""
        return self.files[0] / max(1, self.files[1])

    @property
    def line_share(self) -> float:
        """The share of the lines."""
        return self.lines[0] / max(1, self.lines[1])


def measure() -> tuple[Shares, Shares]:
    """Return the shares of each half of the recordings."""
    first, second = Shares(), Shares()
    found = (list(cases_of(path)) for agent in AGENTS for path in recorded_files(agent))
    for number, cases in enumerate(filter(None, found)):
        for case in cases:
            (second if number % 2 else first).add(case)
    return first, second


def restored_lines(case: Case) -> dict[str, set[int]]:
    """Return the lines that come back, by file."""
    uses = rank_by_use(case.history, {}, shown={}, first_kept=len(case.history), key_of=str)
    fresh = {
        use.path: FreshFile(use.path, text, FileRead(path=use.path, uri=use.path, hash="", source="disk"))
        for use in uses
        if (text := case.texts.get(use.path)) is not None
    }
    found = restore_uses([use for use in uses if use.path in fresh], fresh, DEFAULT_BUDGET_TOKENS)
    return {
        each.file.path: {
            number
            for first, count in each.file.ranges
            for number in range(first, first + (count or case.texts[each.file.path].count("\n") + 1))
        }
        for each in found.pieces
    }


def cases_of(path: Path) -> Iterator[Case]:
    """Yield the compactions of a recording after which a file was read again."""
    records = read_records(path)
    results = {record["tool_call_id"]: record for record in records if record["role"] == "tool"}
    compacted = [*compactions_in(records, by_size=path.parent.name == "pi"), len(records)]
    for at, stop in pairwise(compacted):
        known: defaultdict[str, dict[int, str]] = defaultdict(dict)
        again: defaultdict[str, set[int]] = defaultdict(set)
        used: set[str] = set()
        for touches, shown in calls_in(records[:at], results):
            used.update(touch.path for touch in touches if touch.kind != "search")
            for name, lines in shown.items():
                known[name].update(lines)
        for _, shown in islice(calls_in(records[at:stop], results), CALLS_AFTER):
            for name, lines in shown.items():
                known[name].update(lines)
                again[name].update(lines if name in used else ())
        read_again = {name: lines for name, lines in again.items() if lines}
        if read_again:
            texts = {name: text_of(lines) for name, lines in known.items() if lines}
            yield Case(History(map(entry_of, filter(is_part, records[:at]))), texts, read_again)


def compactions_in(records: Sequence[Record], *, by_size: bool) -> Iterator[int]:
    """Yield the indices of the records at which the context was compacted.

    One agent leaves no mark of it, and is known by the size of its context alone.
    """
    before = 0
    for at, record in enumerate(records):
        usage = record["usage"] if by_size else None
        size = usage["input"] + usage["cache_read"] + usage["cache_write"] if usage else 0
        if record.get("meta", {}).get("kind") == "compaction_summary" or (
            before > 20_000 and usage and size < before / 2
        ):
            yield at
        before = size if usage else before


def is_part(record: Record) -> bool:
    """Whether a record is a part of the conversation, and no note of the agent's host."""
    return record.get("meta", {}).get("kind") not in ("harness", "compaction_summary", "compact_boundary")


def entry_of(record: Record) -> Entry:
    """Return a record as an entry."""
    turn = turn_of(record)
    return Entry(turn, kind_by_role(turn))


def calls_in(
    records: Sequence[Record], results: Mapping[str, Record]
) -> Iterator[tuple[Sequence[Touch], dict[str, dict[int, str]]]]:
    """Yield the touches of each call, with the lines of files that its result shows."""
    for call in (call for record in records for call in record["tool_calls"]):
        result = results.get(call["id"])
        if result is None or result["is_error"]:
            yield (), {}
        else:
            touches = touches_of_call(call["name"], call["input"], result["text"])
            yield touches, lines_shown(touches, result["text"])


def lines_shown(touches: Sequence[Touch], result: str) -> dict[str, dict[int, str]]:
    """Return the lines of each file that was read, in the order in which the result has them."""
    reads = [touch for touch in touches if touch.kind == "read"]
    body = output_of(result)
    if len(reads) == 1 and (numbered := numbered_lines(body)):
        return {reads[0].path: numbered}
    found: dict[str, dict[int, str]] = {}
    rest = iter(body.split("\n"))
    for touch in reads:
        for first, count in touch.ranges or (((1, None),) if len(reads) == 1 else ()):
            found.setdefault(touch.path, {}).update(enumerate(islice(rest, count), first))
    return found


def text_of(lines: Mapping[int, str]) -> str:
    """Return the text of a file; a line that was never shown is taken to be of the usual length."""
    usual = "~" * (sum(map(len, lines.values())) // len(lines))
    return "\n".join(lines.get(number, usual) for number in range(1, max(lines) + 1))


def report() -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"Read again within {CALLS_AFTER} calls after a recorded compaction, and the share that comes back"
    for name, shares in zip(("first half", "second half"), measure(), strict=True):
        files, lines = f"{shares.file_share:.2f} of the files", f"{shares.line_share:.2f} of the lines"
        yield f"{name:<22}{files}, {lines} ({shares.n_cases} compactions, {shares.lines[1]:,} lines)"
    if not any(map(recorded_files, AGENTS)):
        yield "(skipped: the recorded sessions are not beside this checkout)"
