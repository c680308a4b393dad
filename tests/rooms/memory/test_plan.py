"""The plan of a retrieval: its events gathered from every place that has some."""

from __future__ import annotations

from room_events import make_event
from sidecar.rooms import DeleteContent, EditContent, Room, RoomContext, TextContent
from sidecar.rooms.memory import MemoryResult
from sidecar.rooms.memory.plan import DELETED, find_older_events, gather_events
from sidecar.rooms.memory.summaries import SummaryChain

A, B, C = (make_event(name, name) for name in "abc")


def test_edits_and_deletions_are_applied_to_the_gathered_events() -> None:
    edit = make_event("d", EditContent("b", TextContent("better")))
    deletion = make_event("e", DeleteContent("a"))
    context = RoomContext(Room("r"), recent_events=[B, edit, deletion])
    known = gather_events(MemoryResult(events=[B]), context, C, SummaryChain(uncovered=(A,)))
    assert set(known.events) == set("abcde")
    assert known.events["b"].content == TextContent("better")
    assert known.fingerprints["a"] == DELETED


def test_older_events_stand_before_the_window() -> None:
    """A window that is empty, or of another room, is not known to have left any behind."""
    assert find_older_events([A, B, C], [C], current_id="b") == [A]
    assert find_older_events([A, B], [], current_id="x") == []
    assert find_older_events([A, B], [C], current_id="x") == []
