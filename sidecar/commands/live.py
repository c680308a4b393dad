"""Shows the events of a turn as they come, for every command that runs one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from sidecar.commands.terminal import Screen, short_path
from sidecar.workspace.paths import uri_to_path
from sidecar_client import ClientEvent, Session, SidecarClientError

__all__ = ["Stop", "TurnFailed", "path_of", "show_turn"]


class TurnFailed(Exception):
    """The turn ended with a fault; its text is what to tell the user."""


class Stop:
    """Stops the turn of *session* that runs, when it is called."""

    def __init__(self, session: Session, screen: Screen) -> None:
        self._session = session
        self._screen = screen
        self._asked: asyncio.Task[None] | None = None

    def __call__(self) -> None:
        """Ask for it; the turn then settles as any other."""
        self._screen.note("stopping; Ctrl-C again leaves at once")
        self._asked = asyncio.ensure_future(self._ask())

    async def _ask(self) -> None:
        try:
            await self._session.interrupt()
        except SidecarClientError as error:
            self._screen.problem(str(error))


async def show_turn(events: AsyncIterator[ClientEvent], screen: Screen) -> ClientEvent:
    """Show *events* until the turn's last one, and return that. Raises TurnFailed for a fault."""
    told: set[str] = set()
    screen.wait("thinking, Ctrl-C stops it")
    async for event in events:
        _show(event, screen, told)
        if event.kind == "settled":
            screen.end_line()
            return event
        if event.kind == "faulted":
            raise TurnFailed(f"{event.data['message']} ({event.data['kind']})")
    raise TurnFailed("the daemon closed the session in the middle of the turn")


def path_of(uri: str, folder: Path | None = None) -> str:
    """Return the file that *uri* names as one would write it in *folder*, by default the current one."""
    path = uri_to_path(uri)
    return uri if path is None else short_path(path, (folder or Path.cwd()).absolute())


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
            screen.wait(f"{data['title']}, Ctrl-C stops it")
        case "toolFinished":
            if data["isError"]:
                screen.note(f"  failed: {_first_line(str(data['content']))}")
            screen.wait("thinking, Ctrl-C stops it")
        case "compaction":
            _show_compaction(data, screen)
        case "fileStale":
            screen.note(f"· {path_of(data['uri'])} has changed since it was read")
        case "retry":
            wait = f"trying again in {data['delayMs'] / 1000:.1f} s"
            screen.note(f"· {wait} ({data['attempt']} of {data['max']}): {data['error']}")
        case "notice":
            text = ": ".join(filter(None, (data["title"], data["description"])))
            screen.note(f"· {text}", "red" if data["severity"] == "error" else "dim")
        case "gap":
            screen.note("· some events were missed")


def _show_compaction(data: Mapping[str, Any], screen: Screen) -> None:
    match data["status"]:
        case "in_progress":
            screen.wait("condensing the older part of the conversation")
        case "completed":
            sizes = f"{data['preTokens']:,} to {data['postTokens']:,} tokens"
            screen.note(f"· compacted by itself, {sizes}; undo takes it back")
        case "failed":
            screen.note(f"· could not compact: {data.get('error') or data.get('reason')}", "yellow")


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else "no output"
