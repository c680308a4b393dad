"""An ACP client after its handshake: the handlers of its messages.

The protocol's own methods are translated; ``_sidecar/x/y`` goes to the service as ``sidecar/x/y``. Loaded
only after ``initialize`` is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import Any, Final

from sidecar._internal.async_cancel import apply_to_outcome
from sidecar._internal.errors import SidecarError, log_fault
from sidecar.acp.handshake import AcpProfile
from sidecar.acp.lending import ClientFiles, ClientTerminals
from sidecar.acp.prompts import PendingPrompts
from sidecar.acp.sessions import content, extras, fields, session_id
from sidecar.acp.sink import AcpSink
from sidecar.acp.version import version_of
from sidecar.conductor.errors import NotSteerableError, SessionNotFound
from sidecar.conductor.record.log import EventLog
from sidecar.protocol.errors import MethodNotFound
from sidecar.protocol.jsonrpc import Id
from sidecar.service.contract import Answer, Backend
from sidecar.transport.peer import Peer

_log = logging.getLogger("sidecar.acp")

_OURS: Final = "_sidecar/"
_PROMPT_REQUIRED: Final = {"outcome": "promptRequired", "reason": "noRunningTurn"}


class AcpClient:
    """One client of the service, and everything that it lends the workspace; *sink* is the way to it."""

    def __init__(self, peer: Peer, profile: AcpProfile, backend: Backend) -> None:
        version = version_of(profile)
        self._peer = peer
        self.sink = AcpSink(peer, profile, version)
        self._port = backend.service.connect(self.sink)
        self.sink.client_id = self._port.client_id
        if profile.features is not None and profile.features.answers_queries:
            ask = partial(peer.request, "_sidecar/editor/query")
            self._port.lend_queries(profile.features.answers_queries, ask, "utf-16")
        self._files = ClientFiles(peer, profile, backend.workspace)
        self._terminals = ClientTerminals(peer, profile, self._port.lend_terminal, self.sink.show_terminal)
        self._sessions = version.sessions(self._request, self.release)
        self._prompts = PendingPrompts(
            self._request, self.interrupt, version.prompt_answer, version.withdrawn_answer
        )
        self._interrupting: set[asyncio.Future[Answer]] = set()
        self._handlers = self._sessions.handlers()
        if version.steers:
            self._handlers["_session/steering"] = self.steer

    def handle_request(self, method: str, params: Any, request_id: Id) -> Answer | Awaitable[Answer]:
        """Answer one request. Raises SidecarError, now or when awaited."""
        if method.startswith(_OURS):
            return self._call(method[1:], params)
        if method == "session/prompt":
            given = fields(params)
            log = self._log(session_id(given))
            return self._prompts.start(request_id, log, {**extras(given), "input": content(given)})
        handler = self._handlers.get(method)
        if handler is None:
            raise MethodNotFound(method)
        return handler(fields(params))

    def handle_notification(self, method: str, params: Any) -> None:
        """Handle one notification; unknown and malformed ones are ignored."""
        try:
            if method == "session/cancel":
                self._prompts.cancel_session(session_id(fields(params)))
            elif method == "_sidecar/editor/context":
                self._port.report_editor(params, "utf-16")
        except SidecarError as error:
            _log.warning("%s was ignored: %s", method, error.kind)

    def cancel_request(self, request_id: Any) -> None:
        """Cancel a request: a prompt ends as cancelled, any other request with an error that says so."""
        if not self._prompts.cancel_request(request_id):
            self._peer.cancel(request_id)

    def close(self) -> None:
        """Return everything that the client has lent, and leave the service."""
        self._files.close()
        self._terminals.close()
        for task in self._interrupting:
            task.cancel()
        self._port.close()

    async def steer(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``_session/steering``: add a message to the running turn.

        Without a running turn, the answer asks the client to send the message as a prompt.
        """
        sid = session_id(params)
        self._log(sid)
        try:
            await self._request("sidecar/turn/steer", {"sid": sid, "input": content(params)})
        except NotSteerableError:
            return Answer(_PROMPT_REQUIRED)
        return Answer({"outcome": "injected"})

    def release(self, sid: str) -> None:
        """Return everything that the client has lent a session, which is closed."""
        self._files.withdraw(sid)
        self._terminals.withdraw(sid)
        self.sink.unfollow(sid)

    def _log(self, sid: str) -> EventLog:
        """Return the log of a session that the client has opened. Raises SessionNotFound."""
        log = self.sink.log(sid)
        if log is None:
            raise SessionNotFound(sid)
        return log

    async def _request(self, method: str, params: Any) -> Answer:
        outcome = self._call(method, params)
        return await outcome if isawaitable(outcome) else outcome

    def _call(self, method: str, params: Any) -> Answer | Awaitable[Answer]:
        return apply_to_outcome(self._port.call(method, params), self.introduce)

    def introduce(self, answer: Answer) -> Answer:
        """Lend the client's files and terminals to a session that *answer* introduces, if it does."""
        result = answer.value
        if not isinstance(result, Mapping) or "snapshot" not in result:
            return answer
        snapshot = result["snapshot"]
        self._sessions.note_options(snapshot["sid"], result.get("configOptions", ()))
        self._files.offer(snapshot["sid"], (snapshot["cwd"], *snapshot["roots"]))
        self._terminals.offer(snapshot["sid"])
        if not snapshot.get("plan"):
            return answer
        # The client follows later events than that of the plan, so that it has to be sent by itself.
        data = {"entries": snapshot["plan"]}
        event = {"sid": snapshot["sid"], "seq": 0, "at": 0, "kind": "plan", "data": data}

        def then() -> None:
            if answer.then is not None:
                answer.then()
            self.sink.notify("sidecar/event", event)

        return replace(answer, then=then)

    def interrupt(self, params: dict[str, Any]) -> None:
        """Stop a turn; a session that is unknown has none, and one that is being changed stops it later."""

        def on_done(task: asyncio.Future[Answer]) -> None:
            self._interrupting.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, SidecarError):
                log_fault("interrupting a turn", error)

        with suppress(SidecarError):
            outcome = self._port.call("sidecar/turn/interrupt", params)
            if isawaitable(outcome):
                task = asyncio.ensure_future(outcome)
                self._interrupting.add(task)
                task.add_done_callback(on_done)
