"""The hash of the protocol, as it is told in every handshake.

Written down, so that a start need not work it out, and so that no message changes unnoticed: a test compares
it with what the method table says, and is satisfied by whoever changes both.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMA_HASH"]

SCHEMA_HASH: Final = "sha256:19441501aab9d20cf3a07ee8489d1e66583f7a0a37c95f5b594e7c14f39d80d3"
"""What ``sidecar.protocol.schema.schema_hash`` returns."""
