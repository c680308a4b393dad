"""Put a permission question to the user by ``session/request_permission``.

Whatever is not a clear answer with one of our options is ``cancelled``: the hub counts that as a rejection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar.acp.tool_updates import diff_content, text_content
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.protocol.codec import to_wire
from sidecar.transport.peer import Peer, PeerGone, PeerRefused

__all__ = ["ask_permission", "may_go_on", "meta", "question"]

_CANCELLED: Final = PermissionAnswer("cancelled")


async def ask_permission(peer: Peer, params: dict[str, Any], request: PermissionRequest) -> PermissionAnswer:
    """Return the user's answer to *request*, put as *params*. Cancelling it takes the question back."""
    try:
        return _answer(await peer.request("session/request_permission", params), request)
    except (PeerRefused, PeerGone):
        return _CANCELLED


def question(request: PermissionRequest) -> dict[str, Any]:
    """Return the params of the question."""
    subject = request.subject
    shown = [diff_content(diff) for diff in subject.diffs] or [text_content(subject.detail)]
    call = {"toolCallId": subject.tool_call_id, "title": request.title, "status": "pending", "content": shown}
    return {
        "sessionId": request.sid,
        "toolCall": call,
        "options": to_wire(request.options),
        "_meta": meta(request),
    }


def meta(request: PermissionRequest) -> dict[str, Any]:
    """Return what our own clients know besides."""
    return {"sidecar": {"permissionId": request.permission_id, "expiresAt": request.expires_at}}


def may_go_on(answer: PermissionAnswer, request: PermissionRequest) -> bool:
    """Whether *answer* is a yes."""
    chosen = (option.kind for option in request.options if option.option_id == answer.option_id)
    return next(chosen, "").startswith("allow")


def _answer(reply: Any, request: PermissionRequest) -> PermissionAnswer:
    outcome = reply.get("outcome") if isinstance(reply, Mapping) else None
    if not isinstance(outcome, Mapping) or outcome.get("outcome") != "selected":
        return _CANCELLED
    option_id = outcome.get("optionId")
    is_known = any(option.option_id == option_id for option in request.options)
    return PermissionAnswer("selected", option_id) if is_known else _CANCELLED
