"""Histories made of turns, as a session's journal would store them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from sidecar.boot import recognise_kind
from sidecar.conductor.engine import CompactionResult
from sidecar.conversation import Entry, EntryKind, History
from sidecar.llmgateway.contract import Turn

_NODES = count(1)


def entry_of(turn: Turn, kind: EntryKind | None = None) -> Entry:
    """Return *turn* as a stored entry, of the kind that its role and first words tell unless one is given."""
    return Entry(turn, kind or recognise_kind(turn), node_id=f"node-{next(_NODES)}")


def history_of(turns: Iterable[Turn]) -> History:
    """Return *turns* as a history."""
    return History().extended(map(entry_of, turns))


def committed(history: History, result: CompactionResult) -> History:
    """Return the history after *result* was committed as a branch of *history*."""
    archive = {**history._archive, **{entry.node_id: entry for entry in history}}
    entries = [
        Entry(each.turn, each.kind, origin=each.origin or (each.node_id,), node_id=f"node-{next(_NODES)}")
        for each in result.entries
    ]
    return History(entries, archive | {entry.node_id: entry for entry in entries})
