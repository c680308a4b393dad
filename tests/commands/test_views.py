"""The views of a turn's events."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from sidecar.commands.talking.display import Display
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


def test_a_pipe_gets_no_part_of_an_answer_that_broke_off() -> None:
    half = ("textDelta", {"messageId": "t.0", "delta": "hal"})
    retry = {"attempt": 1, "max": 3, "delayMs": 500, "error": "x", "withdrawn": "t.0"}
    whole = {"messageId": "t.1", "content": [{"type": "text", "text": "whole"}]}
    assert shown(half, ("retry", retry), ("message", whole)) == (
        "· the answer broke off, and what was shown of it does not count; "
        "trying again in a moment (1 of 3): x\n"
        "whole\n"
    )


def test_a_terminal_takes_the_live_part_of_a_broken_answer_back(tmp_path: Path) -> None:
    stream = io.StringIO()
    display = Display(Screen(stream), tmp_path)
    half = {"messageId": "t.0", "delta": "hal"}
    retry = {"attempt": 1, "max": 3, "delayMs": 500, "error": "x", "withdrawn": "t.0"}
    display.show(ClientEvent(sid="s", seq=1, at=0, kind="textDelta", data=half))
    display.show(ClientEvent(sid="s", seq=2, at=0, kind="retry", data=retry))
    assert "hal" not in stream.getvalue() + display.live_answer()


def test_a_failed_plan_says_why_it_failed(tmp_path: Path) -> None:
    stream = io.StringIO()
    data = {"toolCallId": "c", "title": "Todo", "kind": "think", "diffs": []}
    display = Display(Screen(stream), tmp_path)
    for seq, (is_error, content) in enumerate(((False, "all of the plan"), (True, "entries are missing")), 1):
        event = data | {"isError": is_error, "content": content}
        display.show(ClientEvent(sid="s", seq=seq, at=0, kind="toolFinished", data=event))
    assert stream.getvalue().splitlines() == ["· Todo", "✗ Todo", "  entries are missing"]


def test_a_note_waits_for_the_end_of_the_block_that_is_being_written(tmp_path: Path) -> None:
    stream = io.StringIO()
    display = Display(Screen(stream), tmp_path)
    parts: tuple[tuple[str, dict[str, Any]], ...] = (
        ("textDelta", {"messageId": "t", "delta": "It is here:\n\n```python\ndef f(x):\n"}),
        ("fileStale", {"uri": (Path.cwd() / "a.py").as_uri()}),
        ("textDelta", {"messageId": "t", "delta": "    return x\n```\n\nThat "}),
        ("compactionNear", {"used": 7, "limit": 9}),
        ("textDelta", {"messageId": "t", "delta": "is all."}),
        ("message", {"messageId": "t", "content": [{"type": "text", "text": "whole"}]}),
    )
    for seq, (kind, data) in enumerate(parts, 1):
        display.show(ClientEvent(sid="s", seq=seq, at=0, kind=kind, data=data))
    assert [line.strip() for line in stream.getvalue().splitlines() if line.strip()] == [
        "It is here:",
        "def f(x):",
        "return x",
        "· a.py has changed since it was read",
        "That is all.",
        "· a compaction is near: 7 of 9 tokens",
    ]


def test_proposed_rules_are_told_with_the_way_to_decide_on_them(tmp_path: Path) -> None:
    stream = io.StringIO()
    display = Display(Screen(stream), tmp_path)
    for seq, proposed in enumerate(([False], [True, False], [True, True]), 1):
        data = {"rules": [{"id": str(at), "proposed": each} for at, each in enumerate(proposed)]}
        display.show(ClientEvent(sid="s", seq=seq, at=0, kind="rulesChanged", data=data))
    assert stream.getvalue().splitlines() == [
        "· 1 rule is proposed; /rules lists, keeps or dismisses them",
        "· 2 rules are proposed; /rules lists, keeps or dismisses them",
    ]


def test_a_prompt_of_one_long_line_does_not_fill_the_screen(tmp_path: Path) -> None:
    stream = io.StringIO()
    Display(Screen(stream), tmp_path).show_prompt("word " * 10_000)
    shown = stream.getvalue()
    assert len(shown) < 2_000
    assert "more characters" in shown
