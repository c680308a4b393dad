"""Short sessions in a store, for tests of what happens between their writes."""

from __future__ import annotations

from sidecar.conversation import Entry
from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.runtime.store import SessionJournal, SessionPlace


def prompt(text: str) -> Entry:
    """Return a prompt of *text*."""
    return Entry(UserTurn((TextBlock(text),)), "user")


async def begin(place: SessionPlace, *texts: str, sid: str = "s") -> SessionJournal:
    """Take the right to write *sid*, and return its journal with *texts* stored behind what it had."""
    await place.hold(sid)
    journal = place.journal(sid)
    await journal.load()
    for text in texts:
        await journal.append([prompt(text)])
    return journal


async def shown(place: SessionPlace, sid: str = "s") -> list[str]:
    """Return the texts of *sid* as they are stored, from the first to the newest."""
    stored = await place.open(sid)
    assert stored.integrity.ok
    graph = stored.graph
    turns = graph.path_to(graph.leaf) if graph.leaf is not None else ()
    return [block.text for turn in turns for block in turn.blocks if isinstance(block, TextBlock)]
