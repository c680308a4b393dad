"""What there is of an ACP client once it has shaken hands: where each of its messages goes.

The protocol's own methods are translated, ``_sidecar/x/y`` goes to the service as ``sidecar/x/y``. Loaded
only after ``initialize`` is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from sidecar._internal.errors import SidecarError, log_fault
from sidecar.acp.files import ClientFiles
from sidecar.acp.handshake import AcpProfile
from sidecar.acp.params import content, extras, fields, session_id
from sidecar.acp.prompts import Prompts
from sidecar.acp.sessions import Handler as SessionHandler
from sidecar.acp.sink import AcpSink
from sidecar.acp.terminals import ClientTerminals
from sidecar.acp.version import version_of
from sidecar.conductor.errors import NotSteerableError, SessionNotFound
from sidecar.conductor.log import EventLog
from sidecar.protocol.errors import MethodNotFound
from sidecar.protocol.jsonrpc import Id
from sidecar.service.contract import Answer, ServicePort
from sidecar.transport.peer import Peer
from sidecar.workspace.contract import WorkspacePort

__all__ = ["AcpClient"]

_log = logging.getLogger("sidecar.acp")

Handler: TypeAlias = Callable[[Mapping[str, Any], Id], Answer | Awaitable[Answer]]

_OURS: Final = "_sidecar/"
_STEERING: Final = "_session/steering"
_PROMPT_REQUIRED: Final = {"outcome": "promptRequired", "reason": "noRunningTurn"}


class AcpClient:
    """One client of the service, and what it lends the workspace."""

    def __init__(
        self, peer: Peer, profile: AcpProfile, service: ServicePort, workspace: WorkspacePort
    ) -> None:
        self._peer = peer
        self._edition = edition = version_of(profile)
        self._link = AcpSink(peer, profile, edition)
        self._port = service.connect(self._link)
        self._link.client_id = self._port.client_id
        self._files = ClientFiles(peer, profile, workspace)
        self._terminals = ClientTerminals(peer, profile, self._port.lend_terminal, self._link.runs_in)
        self._sessions = edition.sessions(self._ask)
        self._prompts = Prompts(self._ask, self._interrupt, edition.prompt_answer, edition.taken_back)
        self._interrupting: set[asyncio.Future[Answer]] = set()
        self._handlers = self._table()

    def handle_request(self, method: str, params: Any, request_id: Id) -> Answer | Awaitable[Answer]:
        """Answer one request. Raises SidecarError, now or when awaited."""
        if method.startswith(_OURS):
            return self._call(method[1:], params)
        handler = self._handlers.get(method)
        if handler is None:
            raise MethodNotFound(method)
        return handler(fields(params), request_id)

    def handle_notification(self, method: str, params: Any) -> None:
        """Take one notification; what is unknown, or makes no sense, is nothing."""
        if method != "session/cancel":
            return
        try:
            self._prompts.cancel_session(session_id(fields(params)))
        except SidecarError as error:
            _log.warning("session/cancel is left: %s", error.kind)

    def cancel_request(self, request_id: Any) -> None:
        """Take a request back: a prompt ends as cancelled, any other with an error that says so."""
        if not self._prompts.cancel_request(request_id):
            self._peer.cancel(request_id)

    def announce_end(self, reason: str, in_ms: int) -> None:
        """Tell the client that the process will end."""
        self._link.notify("sidecar/closing", {"reason": reason, "inMs": in_ms})

    def leave(self) -> None:
        """Take back what the client had lent, and leave the service."""
        self._files.close()
        self._terminals.close()
        for task in self._interrupting:
            task.cancel()
        self._port.close()

    def _table(self) -> Mapping[str, Handler]:
        sessions = self._sessions
        table: dict[str, Handler] = {
            method: partial(_without_id, handler) for method, handler in sessions.table().items()
        }
        table |= {
            "session/close": lambda params, _: self._left(sessions.close(params), params),
            "session/delete": lambda params, _: self._left(sessions.delete(params), params),
            "session/prompt": self._prompt,
        }
        return table | ({_STEERING: lambda params, _: self._steer(params)} if self._edition.steers else {})

    def _prompt(self, params: Mapping[str, Any], request_id: Id) -> Awaitable[Answer]:
        given = {**extras(params), "input": content(params)}
        return self._prompts.begin(request_id, self._log(session_id(params)), given)

    async def _steer(self, params: Mapping[str, Any]) -> Answer:
        """Put a message into the turn that runs; without one it stays the client's, to send as a prompt."""
        sid = session_id(params)
        self._log(sid)
        try:
            await self._ask("sidecar/turn/steer", {"sid": sid, "input": content(params)})
        except NotSteerableError:
            return Answer(_PROMPT_REQUIRED)
        return Answer({"outcome": "injected"})

    async def _left(self, closing: Awaitable[Answer], params: Mapping[str, Any]) -> Answer:
        """Let go of a session once it is closed."""
        answer = await closing
        self._files.withdraw(session_id(params))
        self._terminals.withdraw(session_id(params))
        self._link.unfollow(session_id(params))
        return answer

    def _log(self, sid: str) -> EventLog:
        """Return the log of a session the client has opened. Raises SessionNotFound."""
        log = self._link.log(sid)
        if log is None:
            raise SessionNotFound(sid)
        return log

    async def _ask(self, method: str, params: Any) -> Answer:
        outcome = self._call(method, params)
        return await outcome if isawaitable(outcome) else outcome

    def _call(self, method: str, params: Any) -> Answer | Awaitable[Answer]:
        outcome = self._port.call(method, params)
        return self._noted_later(outcome) if isawaitable(outcome) else self._noted(outcome)

    async def _noted_later(self, outcome: Awaitable[Answer]) -> Answer:
        return self._noted(await outcome)

    def _noted(self, answer: Answer) -> Answer:
        """Lend the files of a session the client is about to hear of, however it asked for it."""
        result = answer.value
        if not isinstance(result, Mapping) or "snapshot" not in result:
            return answer
        snapshot = result["snapshot"]
        self._sessions.introduced(snapshot["sid"], result.get("configOptions", ()))
        self._files.offer(snapshot["sid"], (snapshot["cwd"], *snapshot["roots"]))
        self._terminals.offer(snapshot["sid"])
        return self._with_plan(answer, snapshot) if snapshot.get("plan") else answer

    def _with_plan(self, answer: Answer, snapshot: Mapping[str, Any]) -> Answer:
        """Tell the plan that a session comes with; its log has it before what the client follows."""
        data = {"entries": snapshot["plan"]}
        event = {"sid": snapshot["sid"], "seq": 0, "at": 0, "kind": "plan", "data": data}

        def then() -> None:
            if answer.then is not None:
                answer.then()
            self._link.notify("sidecar/event", event)

        return replace(answer, then=then)

    def _interrupt(self, params: dict[str, Any]) -> None:
        """Stop a turn; a session that is not there has none, one that is being changed hears of it after."""
        with suppress(SidecarError):
            outcome = self._port.call("sidecar/turn/interrupt", params)
            if isawaitable(outcome):
                later = asyncio.ensure_future(outcome)
                self._interrupting.add(later)
                later.add_done_callback(self._interrupted)

    def _interrupted(self, task: asyncio.Future[Answer]) -> None:
        self._interrupting.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, SidecarError):
            log_fault("interrupting a turn", error)


def _without_id(handler: SessionHandler, params: Mapping[str, Any], _: Id) -> Awaitable[Answer]:
    return handler(params)
