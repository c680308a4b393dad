"""Put a permission question to the user: by the protocol's own request, or with the editor's buttons.

Whatever is not a clear yes is ``cancelled``: the hub counts that as a rejection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lsprotocol.types import MessageType

from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.protocol.codec import to_wire
from sidecar.server.profile import ClientProfile
from sidecar.transport.peer import Peer, PeerGone, PeerRefused

__all__ = ["ask_permission"]

_CANCELLED: Final = PermissionAnswer("cancelled")


async def ask_permission(peer: Peer, profile: ClientProfile, request: PermissionRequest) -> PermissionAnswer:
    """Return the user's answer. Cancelling it takes the question back."""
    try:
        if profile.wishes is not None and profile.wishes.asks_permission:
            return _answer(await peer.request("sidecar/permission/request", to_wire(request)), request)
        if profile.may_be_asked:
            return _choice(await peer.request("window/showMessageRequest", _buttons(request)), request)
    except (PeerRefused, PeerGone):
        return _CANCELLED
    return _CANCELLED


def _answer(reply: Any, request: PermissionRequest) -> PermissionAnswer:
    if not isinstance(reply, Mapping) or reply.get("outcome") != "selected":
        return _CANCELLED
    option_id = reply.get("optionId")
    is_known = any(option.option_id == option_id for option in request.options)
    return PermissionAnswer("selected", option_id) if is_known else _CANCELLED


def _buttons(request: PermissionRequest) -> dict[str, Any]:
    lines = (request.title, request.description, request.subject.detail)
    return {
        "type": MessageType.Warning.value,
        "message": "\n".join(line for line in dict.fromkeys(lines) if line),
        "actions": [{"title": option.name} for option in request.options],
    }


def _choice(reply: Any, request: PermissionRequest) -> PermissionAnswer:
    title = reply.get("title") if isinstance(reply, Mapping) else None
    chosen = next((option for option in request.options if option.name == title), None)
    return PermissionAnswer("selected", chosen.option_id) if chosen else _CANCELLED
