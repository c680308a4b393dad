"""The client's terminals, for commands where it offers ``terminal/*``: its user sees them run.

Where the client makes no terminal after all, the daemon runs the command by itself. A terminal is released
whatever happens, and what runs in it ends with it; no command is ever run twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal

from sidecar._internal.async_cancel import cancel_future
from sidecar._internal.cancel import CancelToken
from sidecar.acp.handshake import AcpProfile
from sidecar.capabilities.contract import RunInTerminal, TerminalCommand, TerminalEnd
from sidecar.transport.peer import Peer, PeerGone, PeerRefused

__all__ = ["ClientTerminals"]

_FAILURES: Final = (PeerRefused, PeerGone, TimeoutError)
_LOST: Final = "[the client's terminal was lost]\n"
_ANSWER_S: Final = 2.0
"""How long the client may take for what it need not wait for itself."""


class ClientTerminals:
    """What one client lends its sessions; nothing, where its *profile* has no terminals.

    *lend* hands a terminal to a session and returns what takes it back; *show* tells the client which call
    ``(sid, call_id, terminal_id)`` runs in a terminal.
    """

    def __init__(
        self,
        peer: Peer,
        profile: AcpProfile,
        lend: Callable[[str, RunInTerminal], Callable[[], None]],
        show: Callable[[str, str, str], None],
    ) -> None:
        self._peer = peer
        self._profile = profile
        self._lend = lend
        self._show = show
        self._lent: dict[str, Callable[[], None]] = {}

    def offer(self, sid: str) -> None:
        """Lend session *sid* the client's terminals."""
        if self._profile.runs_commands and sid not in self._lent:
            self._lent[sid] = self._lend(sid, partial(self._run, sid))

    def withdraw(self, sid: str) -> None:
        """Take them back."""
        take_back = self._lent.pop(sid, None)
        if take_back is not None:
            take_back()

    def close(self) -> None:
        """The client is gone, and its terminals with it."""
        for sid in tuple(self._lent):
            self.withdraw(sid)

    async def _run(self, sid: str, command: TerminalCommand, cancel: CancelToken) -> TerminalEnd | None:
        terminal_id = await self._create(sid, command)
        if terminal_id is None:
            return None
        try:
            self._show(sid, command.call_id, terminal_id)
            reason = await self._until_over(sid, terminal_id, command.timeout_s, cancel)
            if reason != "exited":
                await self._ask("kill", sid, terminal_id)
            return _end(await self._ask("output", sid, terminal_id), reason)
        except _FAILURES:
            # It has been run, in whole or in part: whatever became of it, it is not run again.
            return TerminalEnd(_LOST, None, "exited")
        finally:
            with suppress(*_FAILURES):
                await asyncio.shield(self._ask("release", sid, terminal_id))

    async def _create(self, sid: str, command: TerminalCommand) -> str | None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                made = await self._peer.request("terminal/create", _wanted(sid, command))
        except _FAILURES:
            return None
        terminal_id = made.get("terminalId") if isinstance(made, Mapping) else None
        return terminal_id if isinstance(terminal_id, str) else None

    async def _until_over(
        self, sid: str, terminal_id: str, timeout_s: float, cancel: CancelToken
    ) -> Literal["exited", "timeout", "cancelled"]:
        """Wait for the command, but no longer than it may take."""
        where = {"sessionId": sid, "terminalId": terminal_id}
        waiting = asyncio.ensure_future(self._peer.request("terminal/wait_for_exit", where))
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

    async def _ask(self, verb: str, sid: str, terminal_id: str) -> Any:
        where = {"sessionId": sid, "terminalId": terminal_id}
        async with asyncio.timeout(_ANSWER_S):
            return await self._peer.request(f"terminal/{verb}", where)


def _wanted(sid: str, command: TerminalCommand) -> dict[str, Any]:
    program, *arguments = command.argv
    return {
        "sessionId": sid,
        "command": program,
        "args": arguments,
        "cwd": str(command.cwd),
        "env": [{"name": name, "value": value} for name, value in command.environment.items()],
        "outputByteLimit": command.max_output_bytes,
    }


def _end(told: Any, reason: Literal["exited", "timeout", "cancelled"]) -> TerminalEnd:
    said: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    status = said.get("exitStatus")
    code = status.get("exitCode") if isinstance(status, Mapping) else None
    output = said.get("output")
    return TerminalEnd(
        output if isinstance(output, str) else "", code if isinstance(code, int) else None, reason
    )
