"""The slash commands that ``sidecar chat`` carries out itself, to show more than an answer in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.commands.terminal import Screen
from sidecar.commands.views import display_path, plan_lines, show_outcome, show_parts, show_sizes
from sidecar.protocol.codec import to_wire
from sidecar.protocol.messages import PermissionAnswer, PermissionRequest
from sidecar_client import Session, SidecarClient

_OWN: Final = {
    "undo": "undo the newest compaction",
    "resume": "go on with another session of this folder",
    "clear": "begin a new session",
    "import": "go on with a session of another agent",
    "files": "the files that the model has read",
    "quit": "leave; the session stays stored",
}
"""Commands that only a terminal has, beside those of the daemon."""


class Actions:
    """The commands on *session*. ``fork`` replaces it by another one."""

    def __init__(self, client: SidecarClient, session: Session, folder: Path, screen: Screen) -> None:
        self.client = client
        self.session = session
        self.folder = folder
        self.screen = screen
        self.offered: Sequence[Mapping[str, Any]] = ()
        """The daemon's commands, as the event ``commandsChanged`` has them."""

    def descriptions(self) -> dict[str, str]:
        """Return the commands with their arguments, and a description of each."""
        found = {f"/{each['name']} {each.get('hint') or ''}": each["description"] for each in self.offered}
        return found | {f"/{name} ": text for name, text in _OWN.items()}

    def is_command(self, name: str) -> bool:
        """Whether *name*, with its slash, is carried out here or by the daemon."""
        return any(shown.partition(" ")[0] == name for shown in self.descriptions())

    async def help(self, _rest: str) -> None:
        self.screen.table(("", ""), [(name.strip(), text) for name, text in self.descriptions().items()])

    async def compact(self, rest: str) -> None:
        before = await self.session.usage()
        self.screen.wait("condensing the older part of the conversation")
        done = await self.session.compact(instructions=rest or None)
        if done.status == "completed":
            show_sizes(self.screen, before, await self.session.usage())
        show_outcome(self.screen, done, self.folder)

    async def preview(self, _rest: str) -> None:
        plan = await self.session.preview()
        nothing = [plan.noop.reason if plan.noop else "there is nothing to condense"]
        for line in plan_lines(plan, self.folder) or nothing:
            self.screen.note(f"· {line}")

    async def undo(self, _rest: str) -> None:
        undone = await self.session.undo()
        self.screen.note(f"· {undone.restored_tokens:,} tokens are restored")
        for uri in undone.edited_files:
            self.screen.note(f"· {display_path(uri, self.folder)} was edited since, and stays as it is")

    async def fork(self, _rest: str) -> None:
        before = self.session.sid
        if (await self.client.session_tree(before)).head is None:
            self.screen.note("there is nothing to fork yet")
            return
        forked = await self.client.session_fork(before)
        self.session = Session(self.client, forked.sid, forked.seq)
        await self.client.session_close(before)
        self.screen.note(f"· session {forked.sid[:8]} goes on from here; {before[:8]} stays as it is")

    async def list_prompts(self) -> list[str]:
        """Return the prompts of the conversation, the newest first."""
        sid, cursor = self.session.sid, None
        kinds = {node.id: node.kind for node in (await self.client.session_tree(sid)).nodes}
        found: list[str] = []
        while True:
            page = await self.client.session_read(sid, cursor=cursor)
            for node in page.nodes:
                if node.role == "user" and kinds.get(node.id) == "user":
                    text = " ".join(str(block.get("text", "")) for block in node.blocks)
                    found.append(text)
            cursor = page.next_cursor
            if cursor is None:
                return found[::-1]

    async def context(self, _rest: str) -> None:
        usage = await self.session.usage()
        show_parts(self.screen, usage)
        rules = [
            (display_path(each.uri, self.folder), "cut" if each.cut_chars else "whole", f"{each.tokens:,}")
            for each in usage.rules or ()
        ]
        if rules:
            self.screen.table(("rules", "", "tokens"), rules, cut=(0,))
        self.screen.gauge(to_wire(usage))

    async def files(self, _rest: str) -> None:
        found = await self.session.files()
        if not found:
            self.screen.note("the model has read no file yet")
            return
        rows = [
            (display_path(file.uri, self.folder), "stale" if file.stale else "fresh", f"{file.tokens:,}")
            for file in found
        ]
        self.screen.table(("file", "", "tokens"), rows, cut=(0,))


ACTIONS: Final[dict[str, Callable[[Actions, str], Awaitable[None]]]] = {
    "/help": Actions.help,
    "/compact": Actions.compact,
    "/preview": Actions.preview,
    "/undo": Actions.undo,
    "/fork": Actions.fork,
    "/context": Actions.context,
    "/files": Actions.files,
}
"""By name; each takes what was typed after it."""


def choose_option(request: PermissionRequest, kind: str) -> PermissionAnswer:
    """Return the answer of *kind*, such as ``allow_once``, to *request*."""
    option = next((option.option_id for option in request.options if option.kind == kind), None)
    return PermissionAnswer("selected", option) if option else PermissionAnswer("cancelled")
