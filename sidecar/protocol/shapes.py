"""What of other rooms crosses the wire: a session's shapes, and the error that decoding raises.

Nothing is defined here; it is gathered for those who may see the protocol alone.
"""

from __future__ import annotations

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import (
    Compaction,
    ContextFile,
    ContextUsage,
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    PermissionSubject,
    Plan,
    SessionSnapshot,
    SessionSummary,
)

__all__ = [
    "Compaction",
    "ContextFile",
    "ContextUsage",
    "InvalidInput",
    "PermissionAnswer",
    "PermissionOption",
    "PermissionRequest",
    "PermissionSubject",
    "Plan",
    "SessionSnapshot",
    "SessionSummary",
]
