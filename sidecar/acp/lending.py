"""The files and terminals that a client lends to the agent.

Of a client that offers ``fs/*``, reads see its unsaved text, and writes go through it. One that leaves a read
unanswered for too long is not asked again, so that reads do not hang on it.

With ``terminal/*`` commands run in the client, and its user sees them run. If it makes no terminal, the
daemon runs the command itself. A terminal is always released, and that ends the command in it; no command
ever runs twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from sidecar._internal.async_cancel import cancel_future
from sidecar._internal.cancel import CancelToken
from sidecar.acp.handshake import AcpProfile
from sidecar.capabilities.contract import RunInTerminal, TerminalCommand, TerminalEnd
from sidecar.protocol.jsonrpc import member
from sidecar.transport.peer import Peer, PeerGoneError, PeerRefused
from sidecar.workspace.contract import ClientFileSource, Dispose
from sidecar.workspace.workspace import Workspace

_log = logging.getLogger("sidecar.acp")

_READ_S: Final = 2.0
_WRITE_S: Final = 30.0
"""Longer than a read: an editor may format what it saves, or ask its user."""


class _Lent:
    """The things that one client lends its sessions, and the functions that take them back."""

    def __init__(self) -> None:
        self._lent: dict[str, list[Dispose]] = {}

    def withdraw(self, sid: str) -> None:
        """End the offers to session *sid*."""
        for dispose in self._lent.pop(sid, ()):
            dispose()

    def close(self) -> None:
        """End every offer: the client is gone."""
        for sid in tuple(self._lent):
            self.withdraw(sid)


class ClientFiles(_Lent):
    """The files of one client in the folders of its sessions; a read may take *read_s* seconds."""

    def __init__(
        self, peer: Peer, profile: AcpProfile, workspace: Workspace, *, read_s: float = _READ_S
    ) -> None:
        super().__init__()
        self._peer = peer
        self._profile = profile
        self._workspace = workspace
        self._read_s = read_s
        self._is_unresponsive = False

    def offer(self, sid: str, folders: Iterable[str]) -> None:
        """Let the workspace read and write the files in the *folders* of a session through this client."""
        if not (self._profile.reads_files or self._profile.writes_files):
            return
        self.withdraw(sid)
        source = ClientFileSource(
            read=partial(self.read, sid) if self._profile.reads_files else None,
            write=partial(self.write, sid) if self._profile.writes_files else None,
        )
        self._lent[sid] = [self._workspace.add_client_files(Path(folder), source) for folder in folders]

    async def read(self, sid: str, path: Path) -> str | None:
        """Return the client's text of a file; None when it has none, refuses, or does not answer."""
        if self._is_unresponsive:
            return None
        params = {"sessionId": sid, "path": str(path)}
        try:
            async with asyncio.timeout(self._read_s):
                reply = await self._peer.request("fs/read_text_file", params)
        except TimeoutError:
            _log.warning("the client did not answer fs/read_text_file and is not asked again")
            self._is_unresponsive = True
            return None
        except (PeerRefused, PeerGoneError):
            return None
        content = member(reply, "content")
        return content if isinstance(content, str) else None

    async def write(self, sid: str, path: Path, text: str) -> bool:
        """Write a file through the client, and return whether it accepted that."""
        params = {"sessionId": sid, "path": str(path), "content": text}
        try:
            async with asyncio.timeout(_WRITE_S):
                await self._peer.request("fs/write_text_file", params)
        except (TimeoutError, PeerRefused, PeerGoneError):
            return False
        return True


EndReason: TypeAlias = Literal["exited", "timeout", "cancelled"]

_FAILURES: Final = (PeerRefused, PeerGoneError, TimeoutError)
_LOST: Final = "[the client's terminal was lost]\n"
_ANSWER_S: Final = 2.0
"""How long the client may take to answer, except for the end of a command."""


class ClientTerminals(_Lent):
    """The terminals that one client lends its sessions; none if its profile has none.

    Args:
        peer: the client.
        profile: its capabilities.
        lend: lends a session a way to run commands, and returns the function that ends that.
        show: takes ``(sid, call_id, terminal_id)`` and shows the user that a call runs in a terminal.
    """

    def __init__(
        self,
        peer: Peer,
        profile: AcpProfile,
        lend: Callable[[str, RunInTerminal], Dispose],
        show: Callable[[str, str, str], None],
    ) -> None:
        super().__init__()
        self._peer = peer
        self._profile = profile
        self._lend = lend
        self._show = show

    def offer(self, sid: str) -> None:
        """Lend session *sid* the client's terminals."""
        if self._profile.runs_commands and sid not in self._lent:
            self._lent[sid] = [self._lend(sid, partial(self.run, sid))]

    async def run(self, sid: str, command: TerminalCommand, cancel: CancelToken) -> TerminalEnd | None:
        """Run a command in a new terminal, and return its end; None when the client makes no terminal."""
        terminal_id = await self._create(sid, command)
        if terminal_id is None:
            return None
        try:
            self._show(sid, command.call_id, terminal_id)
            reason = await self._wait_for_exit(sid, terminal_id, command.timeout_s, cancel)
            if reason != "exited":
                await self._request("kill", sid, terminal_id)
            return terminal_end(await self._request("output", sid, terminal_id), reason)
        except _FAILURES:
            # The command has run, at least in part: it must not run again.
            return TerminalEnd(_LOST, None, "exited")
        finally:
            with suppress(*_FAILURES):
                await asyncio.shield(self._request("release", sid, terminal_id))

    async def _create(self, sid: str, command: TerminalCommand) -> str | None:
        program, *arguments = command.argv
        params = {
            "sessionId": sid,
            "command": program,
            "args": arguments,
            "cwd": str(command.cwd),
            "env": [{"name": name, "value": value} for name, value in command.environment.items()],
            "outputByteLimit": command.max_output_bytes,
        }
        try:
            async with asyncio.timeout(_ANSWER_S):
                made = await self._peer.request("terminal/create", params)
        except _FAILURES:
            return None
        terminal_id = member(made, "terminalId")
        return terminal_id if isinstance(terminal_id, str) else None

    async def _wait_for_exit(
        self, sid: str, terminal_id: str, timeout_s: float, cancel: CancelToken
    ) -> EndReason:
        """Wait for the end of the command, at most *timeout_s* and until it is cancelled."""
        params = {"sessionId": sid, "terminalId": terminal_id}
        waiting = asyncio.ensure_future(self._peer.request("terminal/wait_for_exit", params))
        try:
            with cancel_future(cancel) as cancelled:
                done, _ = await asyncio.wait(
                    (waiting, cancelled), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            waiting.cancel()
            await asyncio.wait((waiting,))
        if waiting in done:
            waiting.result()
            return "exited"
        return "cancelled" if cancelled in done else "timeout"

    async def _request(self, verb: str, sid: str, terminal_id: str) -> Any:
        params = {"sessionId": sid, "terminalId": terminal_id}
        async with asyncio.timeout(_ANSWER_S):
            return await self._peer.request(f"terminal/{verb}", params)


def terminal_end(reply: Any, reason: EndReason) -> TerminalEnd:
    """Return the end of a command, with the output and exit code of the client's *reply* as far as valid."""
    output, code = member(reply, "output"), member(reply, "exitStatus", "exitCode")
    return TerminalEnd(
        output if isinstance(output, str) else "", code if isinstance(code, int) else None, reason
    )
