"""The views of a turn's events."""

from __future__ import annotations

import io
from typing import Any

from sidecar.commands.terminal import Screen
from sidecar.commands.views import show_event
from sidecar_client import ClientEvent


def shown(*events: tuple[str, dict[str, Any]]) -> str:
    """Return the answer and the notes that the events leave."""
    stream, streamed = io.StringIO(), set[str]()
    screen = Screen(stream)
    for number, (kind, data) in enumerate(events):
        show_event(ClientEvent(sid="s", seq=number, at=0, kind=kind, data=data), screen, streamed)
    screen.end_line()
    return stream.getvalue()


def test_a_message_that_was_streamed_is_not_shown_again() -> None:
    delta = ("textDelta", {"messageId": "m", "delta": "hello"})
    whole = {"messageId": "m", "content": [{"type": "text", "text": "hello"}]}
    assert shown(delta, ("message", whole)) == "hello\n"
    assert shown(("message", whole)) == "hello\n"


def test_a_failed_tool_shows_the_first_line_of_its_output() -> None:
    assert shown(("toolFinished", {"isError": True, "content": "\nno such file\nat all"})) == (
        "  failed: no such file\n"
    )
    assert shown(("toolFinished", {"isError": True, "content": ""})) == "  failed: no output\n"
    assert shown(("toolFinished", {"isError": False, "content": "fine"})) == ""
