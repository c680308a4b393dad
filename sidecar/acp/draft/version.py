"""The differences of the draft: a prompt is answered once it has its place, and updates report the rest.

Files and terminals of the client and modes are gone from it. One method resumes a session, with or without
its past. Everything that is as in version 1 stands there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sidecar._internal.errors import InvalidInput
from sidecar.acp.draft.updates import DraftUpdateMapper, config_options, message_id, tool_content
from sidecar.acp.sessions import Handler, Sessions
from sidecar.acp.version import ProtocolVersion, permission_meta
from sidecar.conductor.contract import PermissionRequest
from sidecar.conductor.events import Event, Faulted, Settled, UserMessage
from sidecar.conductor.record.queue import TurnFault
from sidecar.protocol.codec import to_wire
from sidecar.protocol.errors import RequestCancelled
from sidecar.service.contract import Answer
from sidecar.service.handlers.turn import TurnFailed


class DraftSessions(Sessions):
    """The session methods of one client."""

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers by method."""
        return {
            **self.common_handlers(),
            "auth/login": self.authenticate,
            "auth/logout": self.log_out,
        }

    async def log_out(self, _params: Mapping[str, Any]) -> Answer:
        """Answer ``auth/logout``, which changes nothing because nobody has to log in."""
        return Answer({})

    async def resume(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/resume``, after the whole past where the client requests it."""
        start = params.get("replayFrom")
        if start is None:
            return await super().resume(params)
        if not isinstance(start, Mapping) or start.get("type") != "start":
            raise InvalidInput("unknown replayFrom", hint='send {"type": "start"}, or leave it out')
        return await self.load(params)

    def options(self, options: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return config options in the shape of the draft."""
        return config_options(options)

    def modes(self, options: Sequence[Mapping[str, Any]]) -> None:
        """Return None: a mode is a config option."""

    def models(self, options: Sequence[Mapping[str, Any]]) -> None:
        """Return None: the model is a config option."""


def permission_question(request: PermissionRequest) -> dict[str, Any]:
    """Return the params of ``session/request_permission``."""
    subject = request.subject
    shown = tool_content(subject.diffs, subject.detail)
    call = {"toolCallId": subject.tool_call_id, "status": "pending", "content": shown}
    return {
        "sessionId": request.sid,
        "title": request.title,
        "subject": {"type": "tool_call", "toolCall": call},
        "options": to_wire(request.options),
        "_meta": permission_meta(request),
    }


def answer_at_place(event: Event, turn_id: str) -> dict[str, Any] | None:
    """Return the place of a prompt in the conversation. Raises SidecarError for a prompt that gets none."""
    if event.turn_id != turn_id:
        return None
    match event.data:
        case UserMessage(node_id=node_id):
            return {"messageId": message_id(node_id, turn_id, event.seq)}
        case Faulted(error_kind=kind, message=message):
            raise TurnFailed(event.sid, turn_id, TurnFault(kind, message))
        case Settled():
            return _withdrawn_answer()
    return None


def _withdrawn_answer() -> dict[str, Any]:
    raise RequestCancelled("the prompt was withdrawn before it entered the conversation")


DRAFT: Final = ProtocolVersion(
    face="acp2",
    mapper=lambda _profile, _client_id: DraftUpdateMapper(),
    sessions=DraftSessions,
    question=permission_question,
    prompt_answer=answer_at_place,
    withdrawn_answer=_withdrawn_answer,
    steers=False,
)
