"""``sidecar chat``: a conversation in the terminal, with a gauge of how full the window is."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from sidecar.commands.sessions import SessionLookupError, open_session
from sidecar.commands.terminal import InputLines, Screen, raw_input_of
from sidecar.commands.views import (
    FaultedTurnError,
    StopTurn,
    display_path,
    plan_lines,
    show_outcome,
    show_parts,
    show_sizes,
    show_turn,
)
from sidecar.commands.with_daemon import Interrupts, format_error, run_with_daemon
from sidecar.protocol.codec import to_wire
from sidecar.protocol.messages import PermissionAnswer, PermissionRequest
from sidecar_client import Session, SidecarClient, SidecarClientError, SidecarRequestError

_HELP = """\
/compact [what to keep]   condense the older part of the conversation
/preview                  the effect of /compact, without doing it
/undo                     undo the newest compaction
/context                  how full the window is, by kind of content
/files                    the files the model has read
/rewind [n]               go back to before the last prompts
/fork                     go on in a new session; this one stays as it is
/model, /engine [name]    show the current one, or choose another
/permissions [mode]       when to ask: ask, allowEdits, plan, allowAll
/status                   the state of the session
/quit                     leave; the session stays stored"""

_ABOUT_LEAVING = "\nCtrl-C again leaves, as Ctrl-D and /quit do"
_DAEMON_COMMANDS = frozenset({"/rewind", "/model", "/engine", "/permissions", "/status", "/uncompact"})
"""Commands that the daemon carries out: they are sent as prompts and answered as prompts."""


def run(options: argparse.Namespace) -> int:
    """Answer prompts until /quit or the end of input; return the exit code."""
    screen, chats = Screen(), list[_Chat]()
    folder = Path(options.cwd).expanduser().resolve()

    async def main(client: SidecarClient) -> int:
        with Interrupts() as interrupts:
            lines = InputLines(
                raw_input_of(sys.stdin), is_terminal=sys.stdin is not None and sys.stdin.isatty()
            )
            try:
                session = await open_session(client, options, folder, screen)
            except SessionLookupError as error:
                Screen(sys.stderr).problem(f"sidecar chat: {error}")
                return 2
            is_used = options.resume is not None
            chats.append(
                _Chat(
                    client=client,
                    session=session,
                    folder=folder,
                    screen=screen,
                    lines=lines,
                    interrupts=interrupts,
                    is_used=is_used,
                )
            )
            return await chats[0].talk()

    async def ask(request: PermissionRequest) -> PermissionAnswer:
        return await chats[0].ask(request)

    return run_with_daemon(main, options.cwd, permission=ask)


@dataclass(slots=True, kw_only=True)
class _Chat:
    """One conversation of a user in a terminal with a session."""

    client: SidecarClient
    session: Session
    folder: Path
    screen: Screen
    lines: InputLines
    interrupts: Interrupts
    is_used: bool

    async def talk(self) -> int:
        """Answer line by line until there are no more; return the exit code."""
        screen = self.screen
        screen.note(
            f"session {self.session.sid[:8]} in {self.folder}; /help lists the commands, Ctrl-D leaves"
        )
        try:
            while True:
                with self.interrupts.on_first(lambda: screen.note(_ABOUT_LEAVING)):
                    line = await self.lines.next("» ")
                if line is None or (line := line.strip()) in ("/quit", "/exit"):
                    return 0
                if line:
                    self.is_used = True
                    with self.interrupts.on_first(StopTurn(self.session, screen)):
                        await self._answer(line)
        finally:
            screen.end_line()
            if self.is_used:
                screen.note(f'stored; "sidecar chat --resume {self.session.sid[:8]}" continues it')
            else:
                with contextlib.suppress(SidecarClientError):  # the daemon is gone, so the session stays
                    await self.client.session_delete(self.session.sid)

    async def _answer(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        command = _COMMANDS.get(name)
        try:
            if command is not None:
                await command(self, rest.strip())
            elif name.startswith("/") and "/" not in name[1:] and name not in _DAEMON_COMMANDS:  # not a path
                self.screen.note(f"{name} is not a command; the commands are\n{_HELP}")
            else:
                settled = await show_turn(self.session.stream(line), self.screen)
                self.screen.gauge(settled.data["usage"])
        except FaultedTurnError as error:
            self.screen.problem(str(error))
        except SidecarRequestError as error:
            self.screen.problem(format_error(error))

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user for permission; any answer but a clear yes rejects the request."""
        self.lines.drop_typed_ahead()
        self.screen.note(f"{request.title}\n  {request.subject.detail}", "yellow")
        always = next((option.name for option in request.options if option.kind == "allow_always"), None)
        if always is not None:
            self.screen.note(f"  always: {always}", "yellow")
        answer = await self.lines.next(f"allow? [y]es, {'[a]lways, ' if always else ''}[N]o: ")
        kinds = {"y": "allow_once", "yes": "allow_once", "a": "allow_always", "always": "allow_always"}
        kind = kinds.get((answer or "").strip().lower(), "reject_once")
        option = next((option.option_id for option in request.options if option.kind == kind), None)
        return PermissionAnswer("selected", option) if option else PermissionAnswer("cancelled")

    async def help(self, _rest: str) -> None:
        self.screen.note(_HELP)

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


_COMMANDS: dict[str, Callable[[_Chat, str], Awaitable[None]]] = {
    "/help": _Chat.help,
    "/compact": _Chat.compact,
    "/preview": _Chat.preview,
    "/undo": _Chat.undo,
    "/fork": _Chat.fork,
    "/context": _Chat.context,
    "/files": _Chat.files,
}
