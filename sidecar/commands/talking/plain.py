"""A conversation line by line: for a pipe, a terminal that cannot move its cursor, and screen readers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from sidecar._internal.env import expand_home, indusagi_home, read_env
from sidecar.commands.sessions import SessionLookupError, open_session, read_commands
from sidecar.commands.talking.actions import Actions, choose_parts, count_hunks, show_question
from sidecar.commands.talking.forms import LineAsker, answer_form
from sidecar.commands.talking.rendering import show_asked_diffs
from sidecar.commands.terminal import InputLines, Screen, SpokenScreen, notice_for, read_stdin
from sidecar.commands.views import StopTurn, show_event
from sidecar.commands.with_daemon import Interrupts, format_error, run_with_daemon
from sidecar.conductor.content import parse_command
from sidecar.conductor.contract import (
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
)
from sidecar_client import SidecarClient, SidecarRequestError
from sidecar_client.inbox import choose_option

_ABOUT_LEAVING = "\nCtrl-C again leaves, as Ctrl-D and /quit do"


def run(options: argparse.Namespace) -> int:
    """Answer prompts until /quit or the end of input; return the exit code."""
    chat = _Chat(options)
    return run_with_daemon(chat.hold, options.cwd, permission=chat.ask, elicit=chat.elicit, joins=True)


class _Chat:
    """One conversation of a user with a session."""

    actions: Actions
    lines: InputLines
    asker: LineAsker

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options

    async def hold(self, client: SidecarClient) -> int:
        """Open the session and talk; return the exit code."""
        options, folder = self._options, expand_home(self._options.cwd).resolve()
        screen = SpokenScreen() if options.plain or read_env("plain") else Screen()
        try:
            session = await open_session(client, options, folder, screen)
        except SessionLookupError as error:
            Screen(sys.stderr).problem(f"sidecar chat: {error}")
            return 2
        self.lines = read_stdin()
        self.asker = LineAsker(self.lines, screen)
        self.actions = Actions(client, session, folder, screen, self)
        self.actions.is_used = options.resume is not None
        self.actions.offered = await read_commands(session)
        return await self.talk()

    async def talk(self) -> int:
        """Answer line by line until there are no more; return the exit code."""
        actions, screen = self.actions, self.actions.screen
        screen.note(
            f"session {actions.session.sid[:8]} in {actions.folder}; /help lists the commands, Ctrl-D leaves"
        )
        try:
            with Interrupts() as interrupts:
                while True:
                    with interrupts.on_first(lambda: screen.note(_ABOUT_LEAVING)):
                        line = await self.lines.next("» ")
                    command = parse_command([{"type": "text", "text": line}]) if line is not None else None
                    if line is None or (command is not None and command.name == "quit"):
                        return 0
                    if line := line.strip():
                        with interrupts.on_first(StopTurn(actions.session, screen)):
                            await self._answer(line)
        finally:
            screen.end_line()
            await actions.keep_or_delete(screen)

    async def _answer(self, line: str) -> None:
        screen = self.actions.screen
        before = self.actions.session
        try:
            if (found := self.actions.find(line)) is not None:
                action, rest = found
                await action(self.actions, rest)
            else:
                await self.submit(line)
            if self.actions.session is not before:
                screen.note(f"· session {self.actions.session.sid[:8]}")
        except SidecarRequestError as error:
            screen.problem(format_error(error))

    async def submit(self, prompt: str) -> None:
        """Send *prompt* and show its turn; go on with the session to which it leads, if it leads to one."""
        screen, streamed, chosen = self.actions.screen, set[str](), ""
        screen.wait("thinking, Ctrl-C stops it")
        async for event in self.actions.session.stream(prompt):
            show_event(event, screen, streamed)
            match event.kind:
                case "userMessage" if event.data.get("nodeId") is not None:
                    self.actions.is_used = True
                case "sessionChosen":
                    chosen = event.data["sid"]
                case "settled":
                    screen.gauge(event.data["usage"])
                case "faulted":
                    screen.problem(f"{event.data['message']} ({event.data['kind']})")
                    return
        if chosen:
            await self.actions.go_to(chosen)

    async def choose(self, title: str, rows: Sequence[tuple[str, str]]) -> str | None:
        """Return the value of the row with the number that the user types; None for anything else."""
        return await self.asker.choose(title, rows)

    async def confirm(self, question: str) -> bool:
        """Return whether the user says yes; in a pipe the command itself is the answer."""
        return not self.lines.is_terminal or await self.lines.confirm(f"{question} [y]es, [N]o: ")

    def type(self, text: str) -> None:
        """Show *text*, which a line cannot be filled with."""
        self.actions.screen.note(f"· the prompt was: {text}")

    def begin_question(self, title: str) -> None:
        """Call the user of a terminal to a question; lines that were typed before do not answer it."""
        self.lines.drop_typed_ahead()
        if sys.stdout.isatty():
            sys.stdout.write(notice_for(f"waiting for you: {title}", indusagi_home()))

    async def elicit(self, form: Elicitation) -> ElicitationAnswer:
        """Ask the user the questions of a form."""
        self.begin_question(form.message)
        return await answer_form(form, self.actions.screen, self.asker)

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user for permission; any answer but a clear yes rejects the request."""
        screen = self.actions.screen
        self.begin_question(request.title)
        show_question(request, screen)
        left = show_asked_diffs(request.subject.diffs, screen, self.actions.folder)
        if left:
            answer = await self.lines.next("allow? [v]iew the rest, [N]o: ")
            if (answer or "").strip().lower() not in ("v", "view"):
                return choose_option(request, "reject_once")
            for row in left:
                screen.show_text(row)
        always = next((option.name for option in request.options if option.kind == "allow_always"), None)
        if always is not None:
            screen.note(f"  always: {always}", "yellow")
        parts = "[p]art by part, " if count_hunks(request) > 1 else ""
        answer = await self.lines.next(f"allow? [y]es, {parts}{'[a]lways, ' if always else ''}[N]o: ")
        if parts and (answer or "").strip().lower() in ("p", "part by part"):
            return await choose_parts(request, screen, self.asker)
        kinds = {"y": "allow_once", "yes": "allow_once", "a": "allow_always", "always": "allow_always"}
        return choose_option(request, kinds.get((answer or "").strip().lower(), "reject_once"))
