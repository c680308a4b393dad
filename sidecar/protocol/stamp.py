"""The hash of the protocol, as it is told in every handshake.

Written down, so that a start need not work it out, and so that no message changes unnoticed: a test compares
it with what the method table says, and is satisfied by whoever changes both.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMA_HASH"]

SCHEMA_HASH: Final = "sha256:877688cd5f965359198b531dde4ba7f63ec28ff8b09a5fc5c054220887e89c8e"
"""What ``sidecar.protocol.schema.schema_hash`` returns."""
