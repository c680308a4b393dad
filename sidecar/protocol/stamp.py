"""The hash of the protocol, as it is told in every handshake.

Written down, so that a start need not work it out, and so that no message changes unnoticed: a test compares
it with what the method table says, and is satisfied by whoever changes both.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMA_HASH"]

SCHEMA_HASH: Final = "sha256:99166dd32707b9f2b1779e321832baad4711352fae66b6327ef236a919ec1d4f"
"""What ``sidecar.protocol.schema.schema_hash`` returns."""
