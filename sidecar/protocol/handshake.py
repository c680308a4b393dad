"""The handshake: the capabilities that server and client declare, the same object on both faces.

On the LSP face it is ``experimental.sidecar``, on the ACP face ``_meta.sidecar``. A handshake never fails
because of it: a declaration of unknown shape counts as absent.

The hash of the schema and the names of the methods are written down here, so that a start need not load the
method table, and so that no message changes unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar._internal.values import Value
from sidecar.protocol.jsonrpc import member

PROTOCOL: Final = 1
_MAX_COALESCE_MS: Final = 1000


SCHEMA_HASH: Final = "sha256:556b7f04a481bef65cea5209eed815b77982b849ab1c176a1b9c4a25ce1195bf"
"""The hash that ``sidecar.protocol.schema.schema_hash`` returns; a test compares the two."""

METHOD_NAMES: Final = (
    "sidecar/status",
    "sidecar/schema",
    "sidecar/log/tail",
    "sidecar/trace/set",
    "sidecar/attach",
    "sidecar/detach",
    "sidecar/session/new",
    "sidecar/session/load",
    "sidecar/session/list",
    "sidecar/session/read",
    "sidecar/session/tree",
    "sidecar/session/fork",
    "sidecar/session/rewind",
    "sidecar/session/rename",
    "sidecar/session/archive",
    "sidecar/session/unarchive",
    "sidecar/session/delete",
    "sidecar/session/close",
    "sidecar/session/export",
    "sidecar/session/setConfigOption",
    "sidecar/session/import",
    "sidecar/turn/start",
    "sidecar/turn/run",
    "sidecar/turn/steer",
    "sidecar/turn/interrupt",
    "sidecar/queue/list",
    "sidecar/queue/edit",
    "sidecar/queue/remove",
    "sidecar/context/usage",
    "sidecar/context/files",
    "sidecar/context/drop",
    "sidecar/context/pin",
    "sidecar/context/expand",
    "sidecar/rehydrate/preview",
    "sidecar/rehydrate/run",
    "sidecar/fs/watch",
    "sidecar/fs/unwatch",
    "sidecar/compact/preview",
    "sidecar/compact/compare",
    "sidecar/compact/start",
    "sidecar/compact/cancel",
    "sidecar/compact/undo",
    "sidecar/compact/list",
    "sidecar/compact/read",
    "sidecar/rule/list",
    "sidecar/rule/add",
    "sidecar/rule/remove",
    "sidecar/rule/keep",
    "sidecar/rule/dismiss",
    "sidecar/checkpoint/list",
    "sidecar/checkpoint/diff",
    "sidecar/checkpoint/restore",
    "sidecar/complete",
    "sidecar/highlight",
    "sidecar/model/list",
    "sidecar/permission/rules",
    "sidecar/extension/list",
)
"""The names in ``sidecar.protocol.methods.METHODS``, in the order of the table; a test compares the two."""


class ServerInfo(Value):
    """The declaration of the daemon.

    *event_buffer* is the number of events kept for each session; *socket* is the path to attach further
    clients.
    """

    name: str
    version: str
    build: str
    engines: tuple[str, ...]
    faces: tuple[str, ...]
    event_buffer: int
    schema_hash: str | None = None
    socket: str | None = None


class ClientFeatures(Value):
    """The declaration of a client that knows this protocol.

    *takes_events* is whether events were declared at all. *kinds* are the kinds of events to send, None for
    all; *opt_out* are kinds and notifications to leave out. *coalesce_s*, in seconds, at most 1, is how long
    a delta but the first may wait for more of its message. *shows_forms* and *shows_urls* are the kinds of
    questions that it shows. *answers_queries* are the kinds of ``sidecar/editor/query`` that it answers.
    """

    takes_events: bool = False
    coalesce_s: float = 0.0
    kinds: frozenset[str] | None = None
    opt_out: frozenset[str] = frozenset()
    asks_permission: bool = False
    shows_forms: bool = False
    shows_urls: bool = False
    applies_edits: bool = False
    answers_diagnostics: bool = False
    answers_queries: frozenset[str] = frozenset()

    def wants_kind(self, kind: str) -> bool:
        """Whether events of *kind* are to be sent."""
        return kind not in self.opt_out and (self.kinds is None or kind in self.kinds)


def face_names(*, with_draft: bool) -> tuple[str, ...]:
    """Return the names of the protocols that a client may speak; all have the same service behind them."""
    return ("lsp", "acp1", "acp2") if with_draft else ("lsp", "acp1")


def advertise(info: ServerInfo, *, max_message_bytes: int, max_in_flight: int) -> dict[str, Any]:
    """Return the declaration of the server as JSON-ready data."""
    limits = {
        "maxMessageBytes": max_message_bytes,
        "maxInFlight": max_in_flight,
        "eventBuffer": info.event_buffer,
    }
    declared: dict[str, Any] = {
        "protocol": PROTOCOL,
        "server": {"name": info.name, "version": info.version, "build": info.build},
        "engines": list(info.engines),
        "methods": list(METHOD_NAMES),
        "limits": limits,
        "faces": list(info.faces),
    }
    optional = {"schemaHash": info.schema_hash, "socket": info.socket}
    return declared | {name: value for name, value in optional.items() if value is not None}


def parse_client_features(declared: Any) -> ClientFeatures | None:
    """Return the features in a client's declaration, or None if it does not speak this protocol.

    >>> parse_client_features({"protocol": [1], "events": {"coalesceMs": 20}, "permission": {}}).coalesce_s
    0.02
    >>> parse_client_features({"protocol": [2]}) is None, parse_client_features(None) is None
    (True, True)
    """
    if not isinstance(declared, Mapping) or PROTOCOL not in _items(declared.get("protocol", [PROTOCOL])):
        return None
    kinds, wait_ms = member(declared, "events", "kinds"), member(declared, "events", "coalesceMs")
    wait_ms = wait_ms if isinstance(wait_ms, int | float) and not isinstance(wait_ms, bool) else 0
    return ClientFeatures(
        takes_events=_is_declared(declared.get("events")),
        coalesce_s=min(max(wait_ms, 0), _MAX_COALESCE_MS) / 1000,
        kinds=frozenset(_names(kinds)) if isinstance(kinds, list) else None,
        opt_out=frozenset(_names(member(declared, "events", "optOut"))),
        asks_permission=_is_declared(declared.get("permission")),
        shows_forms=_is_declared(member(declared, "elicitation", "form")),
        shows_urls=_is_declared(member(declared, "elicitation", "url")),
        applies_edits=_is_declared(declared.get("edits")),
        answers_diagnostics=_is_declared(declared.get("diagnostics")),
        answers_queries=frozenset(_names(member(declared, "editor", "query"))),
    )


def _is_declared(value: Any) -> bool:
    """Return whether a capability is declared: as true, or as an object, even an empty one."""
    return isinstance(value, Mapping) or value is True


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _names(value: Any) -> list[str]:
    return [name for name in _items(value) if isinstance(name, str)]
