"""A conversation in a terminal with its session: prompts and commands in, events and questions out.

When the daemon dies, another one is started and the session goes on where it was stored.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar._internal.env import indusagi_home
from sidecar.commands.sessions import SessionLookupError, list_sessions, open_session
from sidecar.commands.talking.actions import ACTIONS, Actions, choose_option
from sidecar.commands.talking.app import Above, ChatApp
from sidecar.commands.talking.display import Display
from sidecar.commands.talking.status import read_branch
from sidecar.commands.talking.typing import ChatCompleter, read_prompt
from sidecar.commands.terminal import Screen
from sidecar.commands.with_daemon import check_folder, find_shared_daemon, format_error, run_to_end
from sidecar.protocol.codec import to_wire
from sidecar.protocol.messages import PermissionAnswer, PermissionRequest
from sidecar_client import ConnectionLost, Session, SidecarClient, SidecarClientError

_MOST_DAEMONS: Final = 3
_SHOWN_TURNS: Final = 2
"""The last turns of a stored session that are shown when it goes on."""

_PICKED: Final = ("model", "engine", "permissions")


def run(options: argparse.Namespace) -> int:
    """Talk until the user leaves; return the exit code."""
    if not check_folder(options.cwd):
        return 2
    return run_to_end(lambda: Talk(options).hold())


class Talk:
    """A user at a terminal, and the session that they talk to."""

    def __init__(self, options: argparse.Namespace) -> None:
        folder = Path(options.cwd).expanduser().resolve()
        above = Above()
        self.screen = _LiveScreen(above)
        self.display = Display(self.screen, folder)
        self.client = self._new_client(folder)
        self.actions = Actions(self.client, Session(self.client, "", 0), folder, self.screen)
        self.app = ChatApp(
            self.display,
            above,
            ChatCompleter(self.actions, self.display.known),
            send=lambda text, steer: self._start(self.send(text, steer=steer)),
            stop=lambda: self._start(self.stop()),
            home=indusagi_home(),
            folder=folder,
        )
        self.screen.display = self.display
        self._options = options
        self._is_used = options.resume is not None
        self._n_daemons = 0
        self._ready = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None

    async def hold(self) -> int:
        """Talk until the user leaves; return the exit code."""
        self.screen.note(f"sidecar in {self.actions.folder}; /help lists the commands, Ctrl-D leaves")
        self._start(self._open())
        try:
            return await self.app.run()
        except SessionLookupError as error:
            Screen(sys.stderr).problem(f"sidecar chat: {error}")
            return 2
        finally:
            for task in (*self._running, *filter(None, [self._following])):
                task.cancel()
            await self.keep_or_delete()
            await self.client.close()

    def _new_client(self, folder: Path) -> SidecarClient:
        """Return a client of the shared daemon when one is running, else of a daemon of its own."""
        shared = find_shared_daemon()
        if shared is not None:
            return SidecarClient.connect(shared, permission=self.ask)
        return SidecarClient.spawn(cwd=folder, permission=self.ask)

    async def _open(self) -> None:
        """Start the client and its session. Prompts that come meanwhile wait."""
        self._n_daemons += 1
        try:
            await self.client.start()
            session = await open_session(self.client, self._options, self.actions.folder, self.screen)
            await self._go_to(session, shows_past=self._n_daemons == 1)
            self._ready.set()
        except (SidecarClientError, SessionLookupError) as error:
            self.app.fail(error)

    async def reopen(self, error: ConnectionLost) -> None:
        """Go on with another daemon after the death of one, unless they die as soon as they start."""
        self.display.end()
        if self._n_daemons >= _MOST_DAEMONS:
            self.app.fail(error)
            return
        self.screen.problem(f"{error}\nanother daemon goes on with the conversation")
        await self.client.close()
        self._options.resume = self.actions.session.sid or self._options.resume
        self.client = self.actions.client = self._new_client(self.actions.folder)
        await self._open()

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user for permission, with the change that it is about."""
        title, detail = request.title, request.subject.detail
        self.screen.note(title if detail in title else f"{title}\n  {detail}", "yellow")
        self.display.show_diffs(request.subject.tool_call_id, request.subject.diffs)
        always = next((option.name for option in request.options if option.kind == "allow_always"), None)
        keys = [("y", "[y]es"), *([("a", f"[a]: {always}")] if always else []), ("n", "[n]o")]
        key = await self.app.ask("allow?", keys)
        kinds = {"y": "allow_once", "a": "allow_always"}
        answer = choose_option(request, kinds.get(key or "", "reject_once"))
        self.screen.note({"y": "  allowed", "a": f"  allowed, {always}"}.get(key or "", "  not allowed"))
        return answer

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

        task = asyncio.ensure_future(report_errors())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _go_to(self, session: Session, *, shows_past: bool = True) -> None:
        """Make *session* the one that the user talks to, and show the end of its past."""
        self.actions.session = session
        if self._following is not None:
            self._following.cancel()
        client = self.actions.client
        events = client.events(session.sid)
        replay = {"lastTurns": _SHOWN_TURNS if shows_past else 0}
        loaded = await client.session_load(session.sid, replay=replay)
        self.display.enter(to_wire(loaded))
        self.app.branch = read_branch(self.actions.folder)

        async def follow() -> None:
            try:
                async for event in events:
                    self.display.show(event)
                    self.actions.offered = self.display.known.commands
                    if event.kind == "settled":
                        self.app.branch = read_branch(self.actions.folder)
                    self.app.redraw()
            except ConnectionLost as error:
                self._lose(error)

        self._following = asyncio.ensure_future(follow())

    async def send(self, text: str, *, steer: bool) -> None:
        """Carry out a command, or send a prompt; with *steer* into the turn that runs."""
        name, _, rest = text.strip().partition(" ")
        if name in ("/quit", "/exit"):
            self.app.leave(0)
            return
        await self._ready.wait()
        if name in _CHOICES and not rest:
            await _CHOICES[name](self)
        elif name[1:] in _PICKED and not rest:
            await self.pick_option(name[1:])
        elif name in ACTIONS:
            self.display.show_prompt(text)
            before = self.actions.session
            await ACTIONS[name](self.actions, rest.strip())
            if self.actions.session is not before:
                await self._go_to(self.actions.session)
        elif name.startswith("/") and "/" not in name[1:] and not self.actions.is_command(name):
            self.screen.note(f"{name} is not a command; the commands are")
            await self.actions.help("")
        else:
            self._is_used = True
            prompt: Sequence[Mapping[str, Any]] = [{"type": "text", "text": text}]
            if not text.startswith("!"):  # in a command no @ names a file
                prompt = await asyncio.to_thread(read_prompt, text, self.actions.folder)
            if steer and self.display.turn_id is not None:
                await self.actions.client.turn_steer(self.actions.session.sid, tuple(prompt))
            else:
                await self.actions.session.prompt(prompt)

    async def stop(self) -> None:
        """Stop the turn that runs."""
        self.display.activity = "stopping"
        await self.actions.session.interrupt()

    async def pick_option(self, option: str) -> None:
        """Let the user choose the value of a config option."""
        found = next((each for each in self.display.known.options if each["id"] == option), None)
        if found is None:
            return
        rows = [
            (each["value"], "  ".join(filter(None, (each["value"], each.get("description")))))
            for each in found["options"]
        ]
        chosen = await self.app.choose(f"{found['name']}, now {found['currentValue']}", rows)
        if chosen is not None:
            await self.actions.client.session_set_config_option(self.actions.session.sid, option, chosen)

    async def clear(self) -> None:
        """Begin a new conversation with the same settings."""
        known, client = self.display.known, self.actions.client
        session = await client.start_session(
            self.actions.folder, model=known.option("model") or None, engine=known.option("engine") or None
        )
        await client.session_set_config_option(session.sid, "permissions", known.option("permissions"))
        left = self.actions.session.sid
        await self._go_to(session)
        await client.session_close(left)
        self.screen.note(f"a new session; /resume goes back to {left[:8]}")

    async def resume(self) -> None:
        """Let the user choose another session of this folder, and go on with it."""
        here = str(self.actions.folder)
        found = await list_sessions(self.actions.client, here)
        rows = [
            (each.sid, f"{each.title or '(untitled)'}, {each.messages} turns")
            for each in found
            if each.sid != self.actions.session.sid
        ]
        if not rows:
            self.screen.note("there is no other session of this folder")
        elif chosen := await self.app.choose("go on with", rows):
            self._is_used = True
            await self._go_to(Session(self.actions.client, chosen, 0))

    async def import_session(self) -> None:
        """Let the user choose a session of another agent, and go on with it."""
        found = (await self.actions.client.import_list()).sessions
        rows = [(each.path, f"{each.format}  {each.title or each.id}  ({each.cwd})") for each in found]
        if not rows:
            self.screen.note("no session of another agent is found on this machine")
        elif chosen := await self.app.choose("import", rows):
            brought = await self.actions.client.session_import(path=chosen)
            self._is_used = True
            await self._go_to(Session(self.actions.client, brought.sid, 0))

    async def rewind(self) -> None:
        """Go back to before a prompt that is chosen, and put its text into the input."""
        prompts = await self.actions.list_prompts()
        if not prompts:
            self.screen.note("there is no prompt to go back to")
            return
        rows = [(str(at), text.strip().partition("\n")[0]) for at, text in enumerate(prompts, 1)]
        if chosen := await self.app.choose("go back to before", rows):
            await self.actions.session.prompt(f"/rewind {chosen}")
            self.app.type(prompts[int(chosen) - 1])

    async def keep_or_delete(self) -> None:
        """Tell how to go on with the session; one without a prompt is deleted."""
        sid = self.actions.session.sid
        if not sid:
            return
        if self._is_used:
            Screen().note(f'stored; "sidecar chat --resume {sid[:8]}" continues it')
            return
        try:
            await self.actions.client.session_delete(sid)
        except SidecarClientError:  # the daemon is gone, so the session stays
            return


_CHOICES: Final = {
    "/clear": Talk.clear,
    "/resume": Talk.resume,
    "/import": Talk.import_session,
    "/rewind": Talk.rewind,
}


class _LiveScreen(Screen):
    """A screen above a live part, which shows waits instead of a spinner."""

    display: Display
    app: ChatApp

    def wait(self, text: str) -> None:
        """Show *text* as the current activity."""
        self.display.activity = text
