"""What both sides declare: the server all of it, the client whatever can be made of its words."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.protocol.handshake import ClientFeatures, ServerInfo, advertise, parse_client_features
from sidecar.protocol.methods import METHODS

INFO = ServerInfo("sidecar", "1.2", "abc", ("windowBudget",), ("lsp", "acp1"), event_buffer=20_000)


def test_the_server_advertises_the_method_table_and_its_limits() -> None:
    assert advertise(INFO, max_message_bytes=10, max_in_flight=5) == {
        "protocol": 1,
        "server": {"name": "sidecar", "version": "1.2", "build": "abc"},
        "engines": ["windowBudget"],
        "methods": list(METHODS),
        "limits": {"maxMessageBytes": 10, "maxInFlight": 5, "eventBuffer": 20_000},
        "faces": ["lsp", "acp1"],
    }


def test_what_is_optional_is_said_when_it_is_known() -> None:
    info = ServerInfo("s", "1", "b", (), (), 1, schema_hash="sha256:00", socket="/run/s")
    said = advertise(info, max_message_bytes=1, max_in_flight=1)
    assert (said["schemaHash"], said["socket"]) == ("sha256:00", "/run/s")


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        pytest.param({}, ClientFeatures(), id="an empty object knows protocol 1"),
        pytest.param({"protocol": [1, 2]}, ClientFeatures(), id="1 among others"),
        pytest.param({"protocol": 1}, ClientFeatures(), id="a number for a list"),
        pytest.param({"protocol": [2]}, None, id="only a later one"),
        pytest.param({"protocol": "x"}, None, id="no number"),
        pytest.param(None, None, id="nothing"),
        pytest.param(True, None, id="no object"),
        pytest.param(
            {"permission": {}, "edits": {}},
            ClientFeatures(asks_permission=True, applies_edits=True),
            id="both",
        ),
        pytest.param({"permission": False, "edits": None}, ClientFeatures(), id="said not to"),
        pytest.param(
            {"events": {"coalesceMs": 33}}, ClientFeatures(takes_events=True, coalesce_s=0.033), id="a wait"
        ),
        pytest.param(
            {"events": {"coalesceMs": 1e9}},
            ClientFeatures(takes_events=True, coalesce_s=1.0),
            id="too long a wait",
        ),
        pytest.param({"events": {"coalesceMs": -5}}, ClientFeatures(takes_events=True), id="a negative wait"),
        pytest.param(
            {"events": {"coalesceMs": "33"}}, ClientFeatures(takes_events=True), id="a wait of no kind"
        ),
        pytest.param(
            {"events": {"kinds": ["message", 5]}},
            ClientFeatures(takes_events=True, kinds=frozenset({"message"})),
            id="kinds",
        ),
        pytest.param(
            {"events": {"kinds": []}},
            ClientFeatures(takes_events=True, kinds=frozenset()),
            id="no kinds at all",
        ),
        pytest.param(
            {"events": {"optOut": ["textDelta"]}},
            ClientFeatures(takes_events=True, opt_out=frozenset({"textDelta"})),
            id="out",
        ),
        pytest.param({"events": ["odd"]}, ClientFeatures(), id="events of no shape"),
    ],
)
def test_client_wishes(declared: Any, expected: ClientFeatures | None) -> None:
    assert parse_client_features(declared) == expected


@pytest.mark.parametrize(
    ("wishes", "kind", "expected"),
    [
        (ClientFeatures(), "message", True),
        (ClientFeatures(kinds=frozenset({"message"})), "textDelta", False),
        (ClientFeatures(kinds=frozenset({"message"})), "message", True),
        (ClientFeatures(kinds=frozenset({"message"}), opt_out=frozenset({"message"})), "message", False),
    ],
)
def test_wants_kind(wishes: ClientFeatures, kind: str, expected: bool) -> None:
    assert wishes.wants_kind(kind) is expected
