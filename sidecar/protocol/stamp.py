"""The hash of the protocol, as it is told in every handshake.

Written down, so that a start need not work it out, and so that no message changes unnoticed: a test compares
it with what the method table says, and is satisfied by whoever changes both.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMA_HASH"]

SCHEMA_HASH: Final = "sha256:28a88f515d91657713ecce6a0f12bc3d1f077e57d18cda612fc378203ff32902"
"""What ``sidecar.protocol.schema.schema_hash`` returns."""
