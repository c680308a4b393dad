"""The hash of the protocol, as it is told in every handshake.

Written down, so that a start need not work it out, and so that no message changes unnoticed: a test compares it
with what the method table says, and is satisfied by whoever changes both.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMA_HASH"]

SCHEMA_HASH: Final = "sha256:dd908f4db742ce2a9137f98040da265b51c85f4be35df220ef36d71c3322cb83"
"""What ``sidecar.protocol.schema.schema_hash`` returns."""
