"""Shows the events of a turn as they come, for every command that runs one."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sidecar.commands.terminal import Screen
from sidecar_client import ClientEvent

__all__ = ["TurnFailed", "show_turn"]


class TurnFailed(Exception):
    """The turn ended with a fault; its text is what to tell the user."""


async def show_turn(events: AsyncIterator[ClientEvent], screen: Screen) -> ClientEvent:
    """Show *events* until the turn's last one, and return that. Raises TurnFailed for a fault."""
    told: set[str] = set()
    async for event in events:
        _show(event, screen, told)
        if event.kind == "settled":
            screen.end_line()
            return event
        if event.kind == "faulted":
            raise TurnFailed(f"{event.data['kind']}: {event.data['message']}")
    raise TurnFailed("the daemon closed the session in the middle of the turn")


def _show(event: ClientEvent, screen: Screen, told: set[str]) -> None:
    data = event.data
    match event.kind:
        case "textDelta":
            told.add(data["messageId"])
            screen.stream(data["delta"])
        case "message":
            if data["messageId"] not in told:
                screen.stream(
                    "".join(part.get("text", "") for part in data["content"] if part["type"] == "text")
                )
            screen.end_line()
        case "toolStarted":
            screen.note(f"· {data['title']}")
        case "toolFinished" if data["isError"]:
            screen.note(f"  failed: {_first_line(str(data['content']))}")
        case "compaction" if data["status"] == "completed":
            screen.note(f"· compacted: {data['preTokens']:,} to {data['postTokens']:,} tokens")
        case "fileStale":
            screen.note(f"· changed since it was read: {data['uri']}")
        case "retry":
            screen.note(f"· trying again in {data['delayMs']} ms: {data['error']}")
        case "notice":
            screen.note(f"· {data['title']}: {data['description']}")
        case "gap":
            screen.note("· some events were missed")


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else "no output"
