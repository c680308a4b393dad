"""The one tree of errors that callers may handle, and ``bug()`` for what cannot happen.

Every class has a stable camelCase ``kind``; ``sidecar.protocol.errors`` alone maps kinds to JSON-RPC codes.
A message says what was asked, what was found and what to do next; it holds no secret, no prompt text and no
stack trace, because it crosses the wire as it is.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from sidecar._internal.env import read_env

__all__ = ["InvalidInput", "SidecarError", "bug"]

_log = logging.getLogger(__name__)


class SidecarError(Exception):
    """Something a caller may handle. ``details`` is JSON-ready."""

    kind: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details


class InvalidInput(SidecarError):
    """A parameter is missing, of the wrong type or out of range."""

    kind = "invalidParams"


def bug(message: str) -> None:
    """Report what cannot happen: raise under ``INDUSAGI_STRICT=1`` (the tests), else record it and go on."""
    if read_env("strict"):
        raise AssertionError(message)
    _log.error("bug: %s", message)
