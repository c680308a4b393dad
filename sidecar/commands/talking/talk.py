"""A conversation in a terminal with its session: prompts and commands in, events and questions out.

When the daemon dies, another one is started and the session goes on where it was stored.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar._internal.async_cancel import keep_until_done
from sidecar._internal.env import indusagi_home
from sidecar.attach.paths import guest_socket
from sidecar.commands.sessions import SessionLookupError, open_session
from sidecar.commands.talking.actions import Actions, choose_parts, count_hunks, show_question
from sidecar.commands.talking.app import Above, ChatApp, read_branch
from sidecar.commands.talking.display import Display
from sidecar.commands.talking.forms import answer_form
from sidecar.commands.talking.typing import ChatCompleter, read_prompt
from sidecar.commands.terminal import Screen, short_path, when
from sidecar.commands.with_daemon import format_error, make_client
from sidecar.conductor.content import parse_command
from sidecar.conductor.contract import (
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
)
from sidecar.protocol.codec import to_wire
from sidecar_client import (
    ClientEvent,
    ConnectionLost,
    Session,
    Setup,
    SidecarClient,
    SidecarClientError,
    SidecarRequestError,
)
from sidecar_client.inbox import choose_option
from sidecar_client.session import Prompt

_MOST_DAEMONS: Final = 3
_SHOWN_TURNS: Final = 2
"""The last turns of a stored session that are shown when it goes on."""

_LONG_TURN_MS: Final = 20_000
"""The end of a turn that took less is not reported by the bell: its user is still there."""

_RECENT: Final = 3
"""The newest conversations that the first screen offers."""

_NOT_PAST: Final = ("settled", "faulted", "commandsChanged", "usage", "rulesChanged")
"""The kinds of the events of a load that the screen has not from before: ends, and the introduction."""

_KEYS: Final = "  / commands   @ files   ! shell   Ctrl-D leaves"

_PICKED: Final = ("model", "engine", "permissions", "thinking")


class Talk:
    """A user at a terminal, and the session that they talk to."""

    def __init__(
        self,
        options: argparse.Namespace,
        folder: Path,
        client: SidecarClient,
        starting: asyncio.Future[SidecarClient],
    ) -> None:
        """*starting* is the start of *client*, under way."""
        above = Above()
        self.screen = _LiveScreen(above)
        self.display = Display(self.screen, folder)
        self.client = client
        self._starting = starting
        self.actions = Actions(self.client, Session(self.client, "", 0), folder, self.screen, self)
        self.app = ChatApp(
            self.display,
            above,
            ChatCompleter(self.actions),
            send=lambda text, steer: self._start(self.send(text, steer=steer)),
            stop=lambda: self._start(self.stop()),
            home=indusagi_home(),
            folder=folder,
        )
        self.screen.display = self.display
        self._options = options
        self.actions.is_used = options.resume is not None
        self._n_daemons = 0
        self._ready = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._following: Sequence[asyncio.Task[None]] = ()
        self._sent: set[str | None] = set()
        """The turns of this user."""
        self._over: set[str | None] = set()
        """The turns that are over, of commands that led to another session."""
        self._chosen: dict[str | None, str] = {}
        """The sessions to which commands of anybody led, by their turns."""

    async def hold(self) -> int:
        """Talk until the user leaves; return the exit code."""
        folder = short_path(self.actions.folder, self.actions.folder)
        self.screen.note(f"sidecar in {folder}\n{_KEYS}")
        self._start(self._open())
        try:
            return await self.app.run()
        except SessionLookupError as error:
            Screen(sys.stderr).problem(f"sidecar chat: {error}")
            return 2
        finally:
            for task in (*self._running, *self._following):
                task.cancel()
            await self.actions.keep_or_delete(Screen())
            await self.client.close()

    async def _open(self) -> None:
        """Start the client and its session. Prompts that come meanwhile wait."""
        self._n_daemons += 1
        try:
            await self._starting
            session = await self.open_or_join()
            await self._go_to(session, shows_past=self._n_daemons == 1)
            if self._n_daemons == 1 and self._options.resume is None:
                await self.greet()
            self._ready.set()
        except (SidecarClientError, SessionLookupError) as error:
            if isinstance(error, ConnectionLost) and self._n_daemons > 1:
                await self.reopen(error)  # it was found while it died
            else:
                self.app.fail(error)

    async def greet(self) -> None:
        """Show the model, and the newest conversations of the folder to go on with."""
        self.screen.note(f"model: {self.display.known.model_name}")
        listed = await self.client.session_list(cwd=str(self.actions.folder), limit=_RECENT * 3)
        recent = [each for each in listed.sessions if each.messages][:_RECENT]
        for each in recent:
            title = each.title or "(untitled)"
            self.screen.cut_line(f"  /resume {each.sid[:8]}  {when(each.updated_at)}  {title}", "dim")

    async def open_or_join(self) -> Session:
        """Return the session to talk to; one that another daemon has open is joined there."""
        folder = self.actions.folder
        try:
            return await open_session(self.client, self._options, folder, self.screen)
        except SidecarRequestError as error:
            pid, sid = error.data.get("details", {}).get("pid"), error.data.get("sid")
            socket = guest_socket(indusagi_home(), pid) if error.kind == "busy" and pid else None
            if socket is None or not socket.exists():
                raise
            await self.client.close()
            self.client = self.actions.client = SidecarClient.connect(
                socket, permission=self.ask, elicit=self.elicit
            )
            await self.client.start()
            self._options.resume = sid
            self.screen.note(f"the session is open in process {pid}; this is the same conversation")
            return await open_session(self.client, self._options, folder, self.screen)

    async def reopen(self, error: ConnectionLost) -> None:
        """Go on with another daemon after the death of one, unless they die as soon as they start."""
        self.display.end()
        if self._n_daemons >= _MOST_DAEMONS:
            self.app.fail(error)
            return
        self.screen.problem(f"{error}\nanother daemon goes on with the conversation")
        await self.client.close()
        self._options.resume = self.actions.session.sid or self._options.resume
        setup: Setup = {"permission": self.ask, "elicit": self.elicit}
        self.client = self.actions.client = make_client(self.actions.folder, setup)
        self._starting = asyncio.ensure_future(self.client.start())
        await self._open()

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user for permission, with the change that it is about."""
        show_question(request, self.screen)
        left = self.display.show_asked_diffs(request.subject.tool_call_id, request.subject.diffs)
        # Nothing is allowed by one key that was not shown before.
        if left:
            keys = [("v", "[v]iew the rest"), ("n", "[n]o")]
            if await self.app.ask_key("allow?", keys) != "v":
                self.screen.note("  not allowed")
                return choose_option(request, "reject_once")
            for row in left:
                self.screen.show_text(row)
        always = next((option.name for option in request.options if option.kind == "allow_always"), None)
        # A capital letter: no word that is begun without care allows anything for good.
        parts = [("p", "[p]art by part")] if count_hunks(request) > 1 else []
        keys = [("y", "[y]es"), *parts, *([("A", f"[A]: {always}")] if always else []), ("n", "[n]o")]
        key = await self.app.ask_key("allow?", keys)
        if key == "p":
            return await choose_parts(request, self.screen, self.app)
        kinds = {"y": "allow_once", "A": "allow_always"}
        answer = choose_option(request, kinds.get(key or "", "reject_once"))
        self.screen.note({"y": "  allowed", "A": f"  allowed, {always}"}.get(key or "", "  not allowed"))
        return answer

    async def elicit(self, form: Elicitation) -> ElicitationAnswer:
        """Ask the user the questions of a form."""
        return await answer_form(form, self.screen, self.app)

    def _lose(self, error: ConnectionLost) -> None:
        """Handle the death of the daemon, which each call that waits reports."""
        if self._ready.is_set():
            self._ready.clear()
            self._start(self.reopen(error))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run *work*; errors are shown."""

        async def report_errors() -> None:
            try:
                await work
            except ConnectionLost as error:
                self._lose(error)
            except SidecarClientError as error:
                self.screen.problem(format_error(error))
            self.app.redraw()

        keep_until_done(asyncio.ensure_future(report_errors()), self._running)

    async def _go_to(self, session: Session, *, shows_past: bool = True) -> None:
        """Make *session* the one that the user talks to, and show the end of its past."""
        self.actions.session = session
        for task in self._following:
            task.cancel()
        client = self.actions.client
        events, notifications = client.events(session.sid), client.notifications()
        replay = {"lastTurns": _SHOWN_TURNS if shows_past else 1}
        loaded = await client.session_load(session.sid, replay=replay)
        self.actions.is_used = self.actions.is_used or bool(loaded.snapshot.messages)
        self.display.enter(to_wire(loaded))
        self.app.branch = read_branch(self.actions.folder)

        async def follow() -> None:
            try:
                async for event in events:
                    # Of the past that the screen has already, the end of a turn that broke off is new.
                    if shows_past or event.seq or event.kind in _NOT_PAST:
                        self.display.show(event)
                    self.actions.offered = self.display.known.commands
                    if event.kind == "userMessage" and event.data.get("nodeId") is not None:
                        self.actions.is_used = True
                    if event.kind == "sessionChosen":
                        self._chosen[event.turn_id] = event.data["sid"]
                    if event.turn_id in self._chosen:
                        self.go_on_if_chosen(event.turn_id, is_over=event.kind == "settled")
                    self.report_end(event)
                    if event.kind == "settled":
                        self.app.branch = read_branch(self.actions.folder)
                    elif event.kind in ("compaction", "headMoved") and event.seq:
                        self._start(self.refresh_gauge())
                    self.app.redraw()
            except ConnectionLost as error:
                self._lose(error)

        async def watch() -> None:
            with contextlib.suppress(ConnectionLost):  # the events report it
                async for notification in notifications:
                    for line in notification.params.get("sessions", ()):
                        if line["sid"] == session.sid:
                            self.show_work(line)

        self.show_work(to_wire(loaded)["snapshot"])
        self._following = [asyncio.ensure_future(follow()), asyncio.ensure_future(watch())]

    def report_end(self, event: ClientEvent) -> None:
        """Call the user at the end of a long turn; one of the past that is shown again has the number 0."""
        if event.kind in ("settled", "faulted") and event.seq and event.data["durationMs"] >= _LONG_TURN_MS:
            self.app.ring("the turn is over")

    def show_work(self, line: Mapping[str, Any]) -> None:
        """Show whether the session waits for its user, and call the user when it begins to."""
        was_waiting, self.display.is_waiting = self.display.is_waiting, line["state"] == "waiting"
        if self.display.is_waiting != was_waiting:
            self.app.show_waiting(is_waiting=not was_waiting)
            if not was_waiting:
                self.app.ring(f"waiting for you: {line['text']}")
            self.app.redraw()

    def go_on_if_chosen(self, turn_id: str | None, *, is_over: bool) -> None:
        """Go on with the session to which a command leads, if it is one of this user and its turn is over."""
        if is_over:
            self._over.add(turn_id)
        if turn_id in self._sent:
            self._ready.clear()  # what is typed from now on is for that session
            if turn_id in self._over:
                self._start(self.go_on_with(self._chosen.pop(turn_id)))

    async def go_on_with(self, sid: str) -> None:
        """Go on with the session *sid*."""
        try:
            await self.actions.go_to(sid)
            await self._go_to(self.actions.session)
        finally:
            self._ready.set()

    async def refresh_gauge(self) -> None:
        """Show how full the window is, after a change of the conversation that no turn made."""
        self.display.known.usage = to_wire(await self.actions.session.usage())

    async def send(self, text: str, *, steer: bool) -> None:
        """Carry out a command, or send a prompt; with *steer* into the turn that runs."""
        command = parse_command([{"type": "text", "text": text}])
        if command is not None and command.name == "quit":
            self.app.leave(0)
            return
        await self._ready.wait()
        if command is not None and command.name in _PICKED and not command.rest:
            await self.pick_option(command.name)
        elif (found := self.actions.find(text)) is not None:
            action, rest = found
            if action is not Actions.rewind or not rest:  # else the session shows it, as every prompt
                self.display.show_prompt(text)
            before = self.actions.session
            await action(self.actions, rest)
            if self.actions.session is not before:
                await self._go_to(self.actions.session)
        else:
            prompt: Sequence[Mapping[str, Any]] = [{"type": "text", "text": text}]
            if not text.startswith("!"):  # in a command no @ names a file
                prompt = await asyncio.to_thread(read_prompt, text, self.actions.folder)
            if steer and self.display.turn_id is not None and command is None:
                await self.actions.client.turn_steer(self.actions.session.sid, tuple(prompt))
                self.screen.note("· goes into the running turn")
            else:
                await self.submit(prompt)

    async def stop(self) -> None:
        """Stop the turn that runs."""
        self.display.activity = "stopping"
        await self.actions.session.interrupt()

    async def choose(self, title: str, rows: Sequence[tuple[str, str]]) -> str | None:
        """Return the value of the row that the user chooses, of *rows* with their labels; None for Esc."""
        return await self.app.choose(title, rows)

    async def confirm(self, question: str) -> bool:
        """Return whether the user presses the key for yes."""
        return await self.app.ask_key(question, [("y", "[y]es"), ("n", "[n]o")]) == "y"

    async def submit(self, prompt: Prompt) -> None:
        """Send *prompt* to the session."""
        turn_id = (await self.actions.session.prompt(prompt)).turn_id
        self._sent.add(turn_id)
        if turn_id in self._chosen:
            self.go_on_if_chosen(turn_id, is_over=False)

    def type(self, text: str) -> None:
        """Put *text* into the input, unless something was typed there."""
        self.app.type(text)

    async def pick_option(self, option: str) -> None:
        """Let the user choose the value of a config option."""
        found = next((each for each in self.display.known.options if each["id"] == option), None)
        if found is None:
            return
        rows = [
            (each["value"], "  ".join(dict.fromkeys(filter(None, (each["value"], each.get("name"))))))
            for each in found["options"]
        ]
        now = found["currentValue"]
        at = next((at for at, (value, _) in enumerate(rows) if value == now), 0)
        chosen = await self.app.choose(f"{found['name']}, now {now}", rows, at)
        if chosen is not None:
            await self.actions.client.session_set_config_option(self.actions.session.sid, option, chosen)


class _LiveScreen(Screen):
    """A screen above a live part, which shows waits instead of a spinner."""

    display: Display

    def wait(self, text: str) -> None:
        """Show *text* as the current activity."""
        self.display.activity = text
