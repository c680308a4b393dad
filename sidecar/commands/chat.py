"""``sidecar chat``: a conversation in the terminal, with a gauge of how full the window is."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from sidecar.commands.daemon import in_words, run_with_daemon
from sidecar.commands.interrupts import Interrupts
from sidecar.commands.lines import Lines, raw_input_of
from sidecar.commands.live import Stop, TurnFailed, path_of, show_turn
from sidecar.commands.sizes import plan_lines, show_outcome, show_parts, show_sizes
from sidecar.commands.stored import NoSuchSession, find_session
from sidecar.commands.terminal import Screen
from sidecar.protocol.codec import to_wire
from sidecar.protocol.messages import PermissionAnswer, PermissionRequest
from sidecar_client import Session, SidecarClient, SidecarClientError, SidecarRequestError

__all__ = ["run"]

_HELP = """\
/compact [what to keep]   condense the older part of the conversation
/preview                  what that would do
/undo                     take the newest compaction back
/context                  how full the window is, and with what
/files                    the files the model has read
/rewind [n]               go back to before the last prompts
/fork                     a session that goes on from here
/model, /engine [name]    which one it is, or choose another
/status                   how the session stands
/quit                     leave; the session stays stored"""

_DAEMON_COMMANDS = frozenset({"/rewind", "/fork", "/model", "/engine", "/status", "/uncompact"})
"""Commands that sessions carry out themselves: sent as prompts, answered as such."""


def run(options: argparse.Namespace) -> int:
    """Talk until /quit or the end of input."""
    screen, chats = Screen(), list[_Chat]()
    folder = Path(options.cwd).expanduser().resolve()

    async def main(client: SidecarClient) -> int:
        with Interrupts() as interrupts:
            lines = Lines(raw_input_of(sys.stdin), is_terminal=sys.stdin is not None and sys.stdin.isatty())
            try:
                session = await _open(client, options, folder, screen)
            except NoSuchSession as error:
                Screen(sys.stderr).problem(f"sidecar chat: {error}")
                return 2
            is_used = options.resume is not None
            chats.append(_Chat(client, session, folder, screen, lines, interrupts, is_used))
            return await chats[0].talk()

    async def ask(request: PermissionRequest) -> PermissionAnswer:
        return await chats[0].ask(request)

    return run_with_daemon(main, options.cwd, permission=ask)


async def _open(client: SidecarClient, options: argparse.Namespace, folder: Path, screen: Screen) -> Session:
    if options.resume is None:
        return await client.start_session(folder, model=options.model, engine=options.engine)
    found = await find_session(client, options.resume, str(folder))
    session = await client.load_session(found.sid)
    for option, value in (("model", options.model), ("engine", options.engine)):
        if value is not None:
            await client.session_set_config_option(session.sid, option, value)
    screen.note(f"goes on: {found.title or '(untitled)'}, {found.messages} turns, {found.tokens:,} tokens")
    return session


@dataclass(slots=True)
class _Chat:
    """One conversation: the session, and whoever talks to it."""

    client: SidecarClient
    session: Session
    folder: Path
    screen: Screen
    lines: Lines
    interrupts: Interrupts
    is_used: bool

    async def talk(self) -> int:
        """Answer line by line until there are no more."""
        sid, screen = self.session.sid, self.screen
        screen.note(f"session {sid[:8]} in {self.folder}; /help says what else there is, Ctrl-D leaves")
        try:
            while (line := await self._next_line()) is not None and line not in ("/quit", "/exit"):
                if line:
                    self.is_used = True
                    with self.interrupts.stopping(Stop(self.session, screen)):
                        await self._answer(line)
        finally:
            await self._leave()
        return 0

    async def _next_line(self) -> str | None:
        def told() -> None:
            self.screen.note("\nCtrl-C again leaves, as Ctrl-D and /quit do")

        with self.interrupts.stopping(told):
            line = await self.lines.next("» ")
        return None if line is None else line.strip()

    async def _leave(self) -> None:
        """Say how to come back; a session that nothing was said in is not worth keeping."""
        self.screen.end_line()
        if self.is_used:
            self.screen.note(f'stored; "sidecar chat --resume {self.session.sid[:8]}" goes on')
        else:
            with contextlib.suppress(SidecarClientError):  # the daemon is gone: then it stays
                await self.client.session_delete(self.session.sid)

    async def _answer(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        command = _COMMANDS.get(name)
        try:
            if command is not None:
                await command(self, rest.strip())
            elif _is_slip(name):
                self.screen.note(f"there is no {name}; there is\n{_HELP}")
            else:
                settled = await show_turn(self.session.stream(line), self.screen)
                self.screen.gauge(settled.data["usage"])
        except TurnFailed as error:
            self.screen.problem(str(error))
        except SidecarRequestError as error:
            self.screen.problem(in_words(error))

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user; whatever is no clear yes is a no."""
        self.lines.forget()
        self.screen.note(f"{request.title}\n  {request.subject.detail}", "yellow")
        answer = await self.lines.next("allow? [y]es, [a]lways, [N]o: ")
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
        self.screen.note(f"· {undone.restored_tokens:,} tokens are back")

    async def context(self, _rest: str) -> None:
        usage = await self.session.usage()
        show_parts(self.screen, usage)
        self.screen.gauge(to_wire(usage))

    async def files(self, _rest: str) -> None:
        found = await self.session.files()
        if not found:
            self.screen.note("the model has read no file yet")
            return
        rows = [
            (path_of(file.uri, self.folder), "stale" if file.stale else "fresh", f"{file.tokens:,}")
            for file in found
        ]
        self.screen.table(("file", "", "tokens"), rows, cut=(0,))


_COMMANDS: dict[str, Callable[[_Chat, str], Awaitable[None]]] = {
    "/help": _Chat.help,
    "/compact": _Chat.compact,
    "/preview": _Chat.preview,
    "/undo": _Chat.undo,
    "/context": _Chat.context,
    "/files": _Chat.files,
}


def _is_slip(word: str) -> bool:
    """Whether *word* was meant for a command that there is not; a path was not."""
    return word.startswith("/") and "/" not in word[1:] and word not in _DAEMON_COMMANDS
