"""Put a permission question to the user by ``session/request_permission``.

Whatever is not a clear answer with one of our options is ``cancelled``: the hub counts that as a rejection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sidecar.acp.shapes import Update
from sidecar.acp.tool_updates import diff_content, text_content
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.protocol.codec import to_wire
from sidecar.transport.peer import Peer, PeerGone, PeerRefused

__all__ = ["ask_permission"]

_CANCELLED: Final = PermissionAnswer("cancelled")


async def ask_permission(
    peer: Peer, request: PermissionRequest, update: Callable[[str, Update], None]
) -> PermissionAnswer:
    """Return the user's answer; where that is a yes, *update* tells that the call goes on.

    Cancelling it takes the question back.
    """
    try:
        reply = await peer.request("session/request_permission", _question(request))
    except (PeerRefused, PeerGone):
        return _CANCELLED
    answer = _answer(reply, request)
    if _is_leave(answer, request):
        call_id = request.subject.tool_call_id
        goes_on = {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": "in_progress"}
        update(request.sid, goes_on)
    return answer


def _question(request: PermissionRequest) -> dict[str, Any]:
    subject = request.subject
    shown = [diff_content(diff) for diff in subject.diffs] or [text_content(subject.detail)]
    call = {"toolCallId": subject.tool_call_id, "title": request.title, "status": "pending", "content": shown}
    return {
        "sessionId": request.sid,
        "toolCall": call,
        "options": to_wire(request.options),
        "_meta": {"sidecar": {"permissionId": request.permission_id, "expiresAt": request.expires_at}},
    }


def _answer(reply: Any, request: PermissionRequest) -> PermissionAnswer:
    outcome = reply.get("outcome") if isinstance(reply, Mapping) else None
    if not isinstance(outcome, Mapping) or outcome.get("outcome") != "selected":
        return _CANCELLED
    option_id = outcome.get("optionId")
    is_known = any(option.option_id == option_id for option in request.options)
    return PermissionAnswer("selected", option_id) if is_known else _CANCELLED


def _is_leave(answer: PermissionAnswer, request: PermissionRequest) -> bool:
    chosen = (option.kind for option in request.options if option.option_id == answer.option_id)
    return next(chosen, "").startswith("allow")
