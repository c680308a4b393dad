"""A session file as a graph: every complete record is used, every other one reported.

It changes nothing on disk and takes no lock. Any file, however damaged, gives a graph with a path from its
head to a root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from sidecar._internal.values import Value
from sidecar.conversation import Entry, kind_by_role
from sidecar.llmgateway.contract import AssistantTurn, Turn
from sidecar.runtime.contract import Migrator, SessionNode
from sidecar.runtime.store.codec import (
    RecogniseKind,
    entry_from_record,
    hash_record,
    node_from_record,
    records_of,
)
from sidecar.runtime.store.dag import Clock, SessionGraph
from sidecar.runtime.store.lines import Line
from sidecar.runtime.wire import is_blank, pair_results

_MAX_REPORTED: Final = 20


HEALED: Final = "calls without results, results without calls or empty answers were put in order"
"""The line of a report after :func:`heal` changed something."""


class IntegrityReport(Value):
    """The findings of a reader: *repaired* was mended, *missing* could not be. Lines count from 1.

    It never holds content of the conversation.
    """

    repaired: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there was nothing to report."""
        return not self.repaired and not self.missing


class StoredSession(Value):
    """The content of a session's file: the nodes with their head, and the records of other types in order."""

    graph: SessionGraph
    records: tuple[Mapping[str, Any], ...]
    integrity: IntegrityReport


def read_session(
    lines: Iterable[Line],
    session_id: str,
    clock: Clock,
    migrators: Sequence[Migrator] = (),
    recognise: RecogniseKind = kind_by_role,
) -> StoredSession:
    """Return the session that *lines* tell, empty when there are none.

    Damaged lines are left out and reported. A line with a wrong checksum is reported and only its nodes are
    used; a node with a changed content is reported too, which its id shows. A node with a lost parent follows
    the node before it in the file. *recognise* returns the kind of a turn that an earlier version stored
    without one.
    """
    reader = _Reader(migrators, recognise)
    for line in lines:
        reader.take(line)
    graph = SessionGraph(session_id, clock)
    rewired = reader.rewire_parents()
    graph.restore(reader.entries.values(), reader.tip.leaf, rewired)
    if reader.tip.leaf is None and reader.tip.is_rewound:
        graph.resume(None)
    return StoredSession(graph, tuple(reader.records), reader.integrity())


class Tip(Struct):
    """The newest head, moved on by nodes that follow on it: a crash may have cut their head line off.

    *leaf* is None before there is one, and where the conversation was rewound to before its first node.
    """

    leaf: str | None = None
    is_rewound: bool = False

    def move(self, leaf: str | None) -> None:
        """Use a head line."""
        self.leaf, self.is_rewound = leaf, leaf is None

    def follow(self, node_id: str, parent: str | None) -> None:
        """Use a node."""
        if parent == self.leaf and (parent is not None or self.is_rewound):
            self.leaf = node_id


class _Reader(Struct):
    """The state of one pass over the lines."""

    migrators: Sequence[Migrator]
    recognise: RecogniseKind
    entries: dict[str, Entry] = field(default_factory=dict)
    records: list[Mapping[str, Any]] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    tip: Tip = field(default_factory=lambda: Tip())
    _has_checksums: bool = False
    _stood_before: dict[str, str | None] = field(default_factory=dict)
    _newest: str | None = None
    _shared: dict[str, str] = field(default_factory=dict)

    def take(self, line: Line) -> None:
        """Use one line, or report it."""
        if line.record is None:
            if line.is_torn:
                self.repaired.append(f"line {line.number}: cut off by a crash, left out")
            else:
                self.missing.append(f"line {line.number}: it is not a JSON object")
            return
        if line.is_sound is False:
            self.missing.append(f"line {line.number}: its checksum does not match")
        elif line.is_sound is None and self._has_checksums:
            self.missing.append(f"line {line.number}: it has no checksum, unlike the lines before it")
        self._has_checksums |= line.is_sound is not None
        try:
            for record in records_of(line.record):
                self._use(record, line.is_sound)
        except Exception as error:
            # Whatever a damaged record or a migrator raises, the other records are still good.
            self.missing.append(f"line {line.number}: {type(error).__name__} in its record")

    def _share(self, text: str) -> str:
        return self._shared.setdefault(text, text)

    def rewire_parents(self) -> dict[str, str | None]:
        """Return new parents for the nodes with a lost parent or a circle of them, and report those."""
        rewired: dict[str, str | None] = {}
        for node_id, entry in self.entries.items():
            if entry.parent is not None and entry.parent not in self.entries:
                rewired[node_id] = self._stood_before[node_id]
                self.missing.append(f"node {entry.parent}")
                self.repaired.append(f"node {node_id} follows on {rewired[node_id] or 'nothing'} now")
        for node_id in find_circles({key: entry.parent for key, entry in self.entries.items()} | rewired):
            rewired[node_id] = None
            self.missing.append(f"the parent of node {node_id}: it runs in a circle")
        return rewired

    def integrity(self) -> IntegrityReport:
        """Return the report, with long lists cut."""
        return IntegrityReport(_cut(self.repaired), _cut(self.missing))

    def _use(self, raw: Mapping[str, Any], is_sound: bool | None) -> None:
        record = dict(raw)
        for migrator in self.migrators:
            record = migrator.upgrade(record)
        match record.get("type"):
            case "node":
                node = node_from_record(record, share=self._share)
                readable = {} if is_sound is False else record
                self.entries[node.id] = entry_from_record(readable, node, self.recognise, share=self._share)
                self._follow(node, raw, is_sound)
            case _ if is_sound is False:
                # A head, a folder or a compaction that is not as it was written leads astray; without it the
                # record before it holds.
                pass
            case "head":
                leaf = record["leaf"]
                if not isinstance(leaf, str | None):
                    raise TypeError("the head is not an id")
                self.tip.move(leaf)
                if leaf in self.entries:
                    self._newest = self.entries[leaf].node_id
            case _:
                self.records.append(record)

    def _follow(self, node: SessionNode, raw: Mapping[str, Any], is_sound: bool | None) -> None:
        body = raw.get("node")
        if (
            not is_sound
            and isinstance(body, Mapping)
            and hash_record(node.parent, body.get("turn"), node.created_at) != node.id
        ):
            self.missing.append(f"node {node.id}: its content is not what it was")
        if node.parent not in self.entries:
            self._stood_before.setdefault(node.id, self._newest)
        self._newest = node.id
        self.tip.follow(node.id, node.parent)


def find_circles(parents: Mapping[str, str | None]) -> Iterator[str]:
    """Yield one node of each circle of *parents*, by node: the one that was stored first."""
    done: set[str] = set()
    for start in parents:
        trail: dict[str, None] = {}
        at: str | None = start
        while at is not None and at not in done and at not in trail:
            trail[at] = None
            at = parents.get(at)
        if at is not None and at in trail:
            yield at
        done.update(trail)


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= _MAX_REPORTED:
        return tuple(lines)
    return (*lines[:_MAX_REPORTED], f"and {len(lines) - _MAX_REPORTED} more")


def heal(turns: Sequence[Turn], n_sound: int = 0) -> tuple[Turn, ...]:
    """Return *turns* such that a provider accepts them: every call with exactly one result, right after it.

    A call that was never answered gets an error result that says so; results without a call, and blank
    assistant turns, are dropped. A whole turn stays the object it is, so healing twice changes nothing.

    Args:
        turns: the turns of a conversation.
        n_sound: how many of them begin one that was healed already. An answer begins a segment that is healed
            by itself, so the ones before the last answer among them are not looked at again.

    >>> from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock, ToolTurn
    >>> heal([AssistantTurn((ToolCallBlock("c1", "read", {}),))])[1].blocks[0].is_error
    True
    >>> heal([ToolTurn((ToolResultBlock("c1", "ok"),)), AssistantTurn(())])
    ()
    """
    sound = range(min(n_sound, len(turns)) - 1, -1, -1)
    start = next((at for at in sound if isinstance(turns[at], AssistantTurn)), 0)
    healed: list[Turn] = [*turns[:start]]
    segment: list[Turn] = []
    for turn in turns[start:]:
        if is_blank(turn):
            continue
        if isinstance(turn, AssistantTurn):
            healed.extend(pair_results(segment))
            segment = []
        segment.append(turn)
    return (*healed, *pair_results(segment))
