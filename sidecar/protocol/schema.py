"""The protocol written down: JSON Schema, TypeScript, or the reference, all from the method table. Pure."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from typing import Literal, TypeAlias

from sidecar.protocol.methods import CLIENT_REQUESTS, EVENTS, METHODS, NOTIFICATIONS
from sidecar.protocol.schema_json import schema_document, without_prose
from sidecar.protocol.schema_markdown import markdown
from sidecar.protocol.schema_model import Shape, shapes_of
from sidecar.protocol.schema_ts import typescript

__all__ = ["FILE_NAMES", "SchemaFormat", "protocol_shapes", "schema_hash", "schema_text"]

SchemaFormat: TypeAlias = Literal["jsonschema", "ts", "markdown"]

FILE_NAMES: dict[SchemaFormat, str] = {
    "jsonschema": "sidecar.schema.json",
    "ts": "sidecar.ts",
    "markdown": "REFERENCE.md",
}
"""What a file of each form is called."""


def schema_text(form: SchemaFormat) -> str:
    """Return the protocol; it ends with a newline."""
    match form:
        case "jsonschema":
            return json.dumps(schema_document(protocol_shapes()), indent=2) + "\n"
        case "ts":
            return typescript(protocol_shapes())
        case "markdown":
            return markdown(protocol_shapes())


def schema_hash() -> str:
    """Return ``sha256:`` and the hash of the JSON Schema without its prose.

    Two daemons with the same hash exchange the same messages; a reworded description does not change it.
    """
    structure = without_prose(schema_document(protocol_shapes()))
    return f"sha256:{sha256(json.dumps(structure, sort_keys=True).encode()).hexdigest()}"


@cache
def protocol_shapes() -> dict[str, Shape]:
    """Return every shape of the protocol by name."""
    asked, answered = METHODS.values(), CLIENT_REQUESTS.values()
    from_clients = [*(row.params for row in asked), *(row.result for row in answered)]
    from_us = [
        *(row.result for row in asked),
        *(row.params for row in answered),
        *(row.params for row in NOTIFICATIONS.values()),
        *EVENTS.values(),
    ]
    return shapes_of(from_clients, are_sent_by_us=False) | shapes_of(from_us, are_sent_by_us=True)
