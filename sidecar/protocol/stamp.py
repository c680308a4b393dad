"""The hash of the protocol, as it is told in every handshake.

Written down, so that a start need not work it out, and so that no message changes unnoticed: a test compares
it with what the method table says, and is satisfied by whoever changes both.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMA_HASH"]

SCHEMA_HASH: Final = "sha256:70ccead780456c65dd611d03a04d5526a8919c593dfee78951533bbc64f1eeb8"
"""What ``sidecar.protocol.schema.schema_hash`` returns."""
