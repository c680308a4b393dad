"""Events of a session as notifications, for a client that knows them and for one that does not. Pure.

A projection translates and leaves out; it never makes anything up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from lsprotocol.types import MessageType

from sidecar.conductor.events import Faulted, Message, Notice
from sidecar.protocol.codec import event_to_wire
from sidecar.protocol.handshake import ClientFeatures
from sidecar.protocol.jsonrpc import encode_notification
from sidecar.transport.feed import FeedItem, Gap, Projection

__all__ = ["plain_projection", "sidecar_projection"]

_PLAIN_KINDS: Final = frozenset((Faulted.kind, Message.kind, Notice.kind))
_SEVERITIES: Final = {"error": MessageType.Error, "warning": MessageType.Warning, "info": MessageType.Info}


def sidecar_projection(wishes: ClientFeatures) -> Projection:
    """Return the projection for a client with ``experimental.sidecar``: every event it wants, as it is."""
    return Projection(wishes.wants_kind, _as_events, wishes.coalesce_s)


def plain_projection() -> Projection:
    """Return the projection for any other client: answers into its log, troubles before the user's eyes."""
    return Projection(_PLAIN_KINDS.__contains__, _as_messages)


def _as_events(item: FeedItem) -> Iterable[bytes]:
    if isinstance(item, Gap):
        gap = {"sid": item.sid, "from": item.first, "to": item.last, "reason": item.reason}
        return (encode_notification("sidecar/gap", gap),)
    return (encode_notification("sidecar/event", event_to_wire(item)),)


def _as_messages(item: FeedItem) -> Iterable[bytes]:
    if isinstance(item, Gap):
        return ()
    match item.data:
        case Message(content=content) if text := _text(content):
            return (_message("window/logMessage", MessageType.Info, text),)
        case Notice(severity=severity, title=title, description=description):
            method = "window/logMessage" if severity == "info" else "window/showMessage"
            text = f"{title}: {description}" if description else title
            return (_message(method, _SEVERITIES[severity], text),)
        case Faulted(message=text):
            return (_message("window/showMessage", MessageType.Error, text),)
    return ()


def _text(content: Iterable[Mapping[str, Any]]) -> str:
    return "\n\n".join(block["text"] for block in content if block.get("type") == "text")


def _message(method: str, severity: MessageType, text: str) -> bytes:
    return encode_notification(method, {"type": severity.value, "message": text})
