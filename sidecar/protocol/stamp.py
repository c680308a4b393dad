"""The hash of the protocol, as it is told in every handshake.

Written down, so that a start need not work it out, and so that no message changes unnoticed: a test compares it
with what the method table says, and is satisfied by whoever changes both.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMA_HASH"]

SCHEMA_HASH: Final = "sha256:14514d1b6da45e78481cecdffeecaf6d9d4644391f0da236dd8d3953d9076af3"
"""What ``sidecar.protocol.schema.schema_hash`` returns."""
