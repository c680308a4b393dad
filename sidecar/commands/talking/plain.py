"""A conversation line by line: for a pipe, a terminal that cannot move its cursor, and screen readers."""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path

from sidecar.commands.sessions import SessionLookupError, open_session
from sidecar.commands.talking.actions import ACTIONS, Actions, choose_option
from sidecar.commands.talking.diffs import show_diffs
from sidecar.commands.terminal import InputLines, Screen, raw_input_of
from sidecar.commands.views import FaultedTurnError, StopTurn, show_turn
from sidecar.commands.with_daemon import Interrupts, format_error, run_with_daemon
from sidecar.protocol.messages import PermissionAnswer, PermissionRequest
from sidecar_client import SidecarClient, SidecarClientError, SidecarRequestError

_ABOUT_LEAVING = "\nCtrl-C again leaves, as Ctrl-D and /quit do"


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
            actions = Actions(client, session, folder, screen)
            actions.offered = (await session.wait_for("commandsChanged")).data["commands"]
            chat = _Chat(actions, lines=lines, interrupts=interrupts, is_used=options.resume is not None)
            chats.append(chat)
            return await chat.talk()

    async def ask(request: PermissionRequest) -> PermissionAnswer:
        return await chats[0].ask(request)

    return run_with_daemon(main, options.cwd, permission=ask)


@dataclass(slots=True)
class _Chat:
    """One conversation of a user with a session."""

    actions: Actions
    lines: InputLines
    interrupts: Interrupts
    is_used: bool

    async def talk(self) -> int:
        """Answer line by line until there are no more; return the exit code."""
        actions, screen = self.actions, self.actions.screen
        screen.note(
            f"session {actions.session.sid[:8]} in {actions.folder}; /help lists the commands, Ctrl-D leaves"
        )
        try:
            while True:
                with self.interrupts.on_first(lambda: screen.note(_ABOUT_LEAVING)):
                    line = await self.lines.next("» ")
                if line is None or (line := line.strip()) in ("/quit", "/exit"):
                    return 0
                if line:
                    self.is_used = True
                    with self.interrupts.on_first(StopTurn(actions.session, screen)):
                        await self._answer(line)
        finally:
            screen.end_line()
            if self.is_used:
                screen.note(f'stored; "sidecar chat --resume {actions.session.sid[:8]}" continues it')
            else:
                with contextlib.suppress(SidecarClientError):  # the daemon is gone, so the session stays
                    await actions.client.session_delete(actions.session.sid)

    async def _answer(self, line: str) -> None:
        screen = self.actions.screen
        name, _, rest = line.partition(" ")
        action = ACTIONS.get(name)
        try:
            if action is not None:
                await action(self.actions, rest.strip())
            elif name.startswith("/") and "/" not in name[1:] and not self.actions.is_command(name):
                screen.note(f"{name} is not a command; the commands are")
                await self.actions.help("")
            else:
                settled = await show_turn(self.actions.session.stream(line), screen)
                screen.gauge(settled.data["usage"])
        except FaultedTurnError as error:
            screen.problem(str(error))
        except SidecarRequestError as error:
            screen.problem(format_error(error))

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user for permission; any answer but a clear yes rejects the request."""
        screen = self.actions.screen
        self.lines.drop_typed_ahead()
        screen.note(f"{request.title}\n  {request.subject.detail}", "yellow")
        show_diffs(request.subject.diffs, screen, self.actions.folder)
        always = next((option.name for option in request.options if option.kind == "allow_always"), None)
        if always is not None:
            screen.note(f"  always: {always}", "yellow")
        answer = await self.lines.next(f"allow? [y]es, {'[a]lways, ' if always else ''}[N]o: ")
        kinds = {"y": "allow_once", "yes": "allow_once", "a": "allow_always", "always": "allow_always"}
        return choose_option(request, kinds.get((answer or "").strip().lower(), "reject_once"))
