"""The differences between the versions of the protocol that one agent speaks, gathered in one value.

A connection speaks one version from its handshake to its end; no other module compares version numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sidecar._internal.values import Value
from sidecar.acp.handshake import ACP_DRAFT, AcpProfile
from sidecar.acp.prompts import PromptAnswer, answer_at_end, answer_without_turn
from sidecar.acp.sessions import Request, Sessions
from sidecar.acp.shapes import diff_content, text_content
from sidecar.acp.updates import UpdateMapper, UpdateMapperV1
from sidecar.conductor.contract import PermissionRequest
from sidecar.protocol.codec import to_wire


class ProtocolVersion(Value, kw_only=True):
    """One version of the protocol.

    Attributes:
        face: the name that the daemon gives it, ``acp1`` or ``acp2``.
        mapper: makes the mapper of a session for a client of that profile and client id; the id is None for
            the replay of the past.
        sessions: makes the handlers of session methods; takes a function to call with closed sessions.
        question: makes the params of a permission request.
        prompt_answer: reads the result of a prompt from the events.
        withdrawn_answer: makes the result of a prompt that was cancelled before it began; or raises.
        steers: whether a client may add a message to a running turn by a method of its own.
    """

    face: str
    mapper: Callable[[AcpProfile, str | None], UpdateMapper]
    sessions: Callable[[Request, Callable[[str], None]], Sessions]
    question: Callable[[PermissionRequest], dict[str, Any]]
    prompt_answer: PromptAnswer
    withdrawn_answer: Callable[[], dict[str, Any]]
    steers: bool


def version_of(profile: AcpProfile) -> ProtocolVersion:
    """Return the version that the handshake has agreed on."""
    if profile.version == ACP_DRAFT:
        from sidecar.acp.draft import DRAFT  # not above: few clients speak it yet

        return DRAFT
    return _V1


def permission_meta(request: PermissionRequest) -> dict[str, Any]:
    """Return the fields of a question that only our own clients know."""
    return {"sidecar": {"permissionId": request.permission_id, "expiresAt": request.expires_at}}


def permission_question(request: PermissionRequest) -> dict[str, Any]:
    """Return the params of ``session/request_permission``."""
    subject = request.subject
    shown = [diff_content(diff) for diff in subject.diffs] or [text_content(subject.detail)]
    call = {"toolCallId": subject.tool_call_id, "title": request.title, "status": "pending", "content": shown}
    return {
        "sessionId": request.sid,
        "toolCall": call,
        "options": to_wire(request.options),
        "_meta": permission_meta(request),
    }


_V1: Final = ProtocolVersion(
    face="acp1",
    mapper=lambda profile, client_id: UpdateMapperV1(
        notices=profile.takes_notices,
        compactions=profile.takes_compactions,
        plans=profile.takes_plans,
        subagents=profile.takes_subagents,
        client_id=client_id,
    ),
    sessions=Sessions,
    question=permission_question,
    prompt_answer=answer_at_end,
    withdrawn_answer=answer_without_turn,
    steers=True,
)
