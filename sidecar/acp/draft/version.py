"""What is special about the draft: a prompt is answered once it has its place, and updates tell the rest.

Client files, terminals and modes are gone from it; what it has in common with the first edition is there.
"""

from __future__ import annotations

from typing import Any, Final

from sidecar.acp.draft.sessions import DraftSessions
from sidecar.acp.draft.shapes import tool_content
from sidecar.acp.draft.updates import DraftUpdateMapper, message_id
from sidecar.acp.permission import meta
from sidecar.acp.version import ProtocolVersion
from sidecar.conductor.contract import PermissionRequest
from sidecar.conductor.events import Event, Faulted, Settled, UserMessage
from sidecar.conductor.queue import TurnFault
from sidecar.protocol.codec import to_wire
from sidecar.protocol.errors import RequestCancelled
from sidecar.service.handlers.turn import TurnFailed

__all__ = ["DRAFT"]


def _question(request: PermissionRequest) -> dict[str, Any]:
    subject = request.subject
    shown = tool_content(subject.diffs, subject.detail)
    call = {"toolCallId": subject.tool_call_id, "status": "pending", "content": shown}
    return {
        "sessionId": request.sid,
        "title": request.title,
        "subject": {"type": "tool_call", "toolCall": call},
        "options": to_wire(request.options),
        "_meta": meta(request),
    }


def _prompt_answer(event: Event, turn_id: str) -> dict[str, Any] | None:
    """Return the place of a prompt in the conversation once it has one. Raises what speaks against that."""
    if event.turn_id != turn_id:
        return None
    match event.data:
        case UserMessage(node_id=node_id):
            return {"messageId": message_id(node_id, turn_id, event.seq)}
        case Faulted(error_kind=kind, message=message):
            raise TurnFailed(event.sid, turn_id, TurnFault(kind, message))
        case Settled():
            return _taken_back()
    return None


def _taken_back() -> dict[str, Any]:
    raise RequestCancelled("the prompt was taken back before it entered the conversation")


DRAFT: Final = ProtocolVersion(
    face="acp2",
    teller=lambda _profile, _client_id: DraftUpdateMapper(),
    sessions=DraftSessions,
    question=_question,
    prompt_answer=_prompt_answer,
    taken_back=_taken_back,
    steers=False,
)
