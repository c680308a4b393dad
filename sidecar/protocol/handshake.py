"""What server and client declare of themselves, the same object on both faces (protocol 4.2).

On the LSP face it is ``experimental.sidecar``, on the ACP face ``_meta.sidecar``. What a client declares in a
shape nobody knows counts as not declared: a handshake never fails for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sidecar.protocol.stamp import METHOD_NAMES

__all__ = ["PROTOCOL", "ClientWishes", "ServerInfo", "advertise", "client_wishes", "faces"]

PROTOCOL: Final = 1
_MAX_COALESCE_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What the daemon says of itself.

    *event_buffer* is how many events of a session are kept; *socket* is where further clients may attach.
    """

    name: str
    version: str
    build: str
    engines: tuple[str, ...]
    faces: tuple[str, ...]
    event_buffer: int
    schema_hash: str | None = None
    socket: str | None = None


@dataclass(frozen=True, slots=True)
class ClientWishes:
    """What a client that knows this protocol asks for.

    *kinds* of events it wants, None for all; *opt_out* are kinds and notifications it does not want.
    *coalesce_s*: how long a delta may wait for more of its message.
    """

    coalesce_s: float = 0.0
    kinds: frozenset[str] | None = None
    opt_out: frozenset[str] = frozenset()
    asks_permission: bool = False
    applies_edits: bool = False

    def wants_kind(self, kind: str) -> bool:
        """Whether events of *kind* are to be sent."""
        return kind not in self.opt_out and (self.kinds is None or kind in self.kinds)


def faces(*, with_draft: bool) -> tuple[str, ...]:
    """Return the protocols a client may speak; behind each is the same service."""
    return ("lsp", "acp1", "acp2") if with_draft else ("lsp", "acp1")


def advertise(info: ServerInfo, *, max_message_bytes: int, max_in_flight: int) -> dict[str, Any]:
    """Return the server's side of the handshake."""
    limits = {
        "maxMessageBytes": max_message_bytes,
        "maxInFlight": max_in_flight,
        "eventBuffer": info.event_buffer,
    }
    said: dict[str, Any] = {
        "protocol": PROTOCOL,
        "server": {"name": info.name, "version": info.version, "build": info.build},
        "engines": list(info.engines),
        "methods": list(METHOD_NAMES),
        "limits": limits,
        "faces": list(info.faces),
    }
    optional = {"schemaHash": info.schema_hash, "socket": info.socket}
    return said | {name: value for name, value in optional.items() if value is not None}


def client_wishes(declared: Any) -> ClientWishes | None:
    """Return what the client *declared*, or None for one that does not speak this protocol.

    >>> client_wishes({"protocol": [1], "events": {"coalesceMs": 20}, "permission": {}}).coalesce_s
    0.02
    >>> client_wishes({"protocol": [2]}) is None, client_wishes(None) is None
    (True, True)
    """
    if not isinstance(declared, Mapping) or PROTOCOL not in _items(declared.get("protocol", [PROTOCOL])):
        return None
    events = declared.get("events")
    events = events if isinstance(events, Mapping) else {}
    kinds = events.get("kinds")
    return ClientWishes(
        coalesce_s=_coalesce_s(events.get("coalesceMs")),
        kinds=frozenset(_names(kinds)) if isinstance(kinds, list) else None,
        opt_out=frozenset(_names(events.get("optOut"))),
        asks_permission=_is_declared(declared.get("permission")),
        applies_edits=_is_declared(declared.get("edits")),
    )


def _coalesce_s(value: Any) -> float:
    is_number = type(value) in (int, float)
    return min(max(value, 0), _MAX_COALESCE_MS) / 1000 if is_number else 0.0


def _is_declared(value: Any) -> bool:
    """Whether a capability is there: an object, be it empty, or true."""
    return isinstance(value, Mapping) or value is True


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _names(value: Any) -> list[str]:
    return [name for name in _items(value) if isinstance(name, str)]
