"""The tree of errors that a caller may handle, and the two ways to report all others.

Every class has a stable camelCase ``kind``; ``sidecar.protocol.errors`` alone maps kinds to JSON-RPC codes.
A message names the request, the finding and the next step. It crosses the wire as it is, so it holds no
secret, no prompt text and no stack trace.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, ParamSpec

from sidecar._internal.env import read_env

_log = logging.getLogger(__name__)
_faults = logging.getLogger("sidecar.faults")
_ACTION_CHARS = 200

P = ParamSpec("P")


class SidecarError(Exception):
    """An error that a caller may handle. ``details`` is JSON-ready."""

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


class LeaseLostError(SidecarError):
    """Another daemon, *holder*, has taken the session over; this one writes it no more."""

    kind: ClassVar[str] = "leaseLost"

    def __init__(self, session_id: str, holder: str) -> None:
        hint = (
            "load it again to take it back, once it is idle there; a prompt that you just sent may be in it"
        )
        super().__init__(f"{holder} has taken session {session_id!r} over", hint=hint, sid=session_id)


def bug(message: str) -> None:
    """Report an impossible state: raise under ``INDUSAGI_STRICT=1`` (the tests), else log it and return."""
    if read_env("strict"):
        raise AssertionError(message)
    _log.error("bug: %s", message)


def log_fault(action: str, error: BaseException) -> None:
    """Log that *action* failed: one line with the class of *error*, then the lines of code it came from.

    The text of the exception may quote a prompt or a file, so it is logged at DEBUG only. The first line is
    formatted before the log gets it: ``sidecar/status`` shows records without their arguments.
    """
    _faults.error(f"{action[:_ACTION_CHARS]} failed with {type(error).__name__}")
    _faults.warning("".join(traceback.format_tb(error.__traceback__)))
    _faults.debug("message: %s", error)


def call_all(
    followers: Iterable[Callable[P, object]], name: str, /, *args: P.args, **kwargs: P.kwargs
) -> None:
    """Call each of *followers*. The caller does not depend on them: a failure of one, a *name*, is logged."""
    for follower in tuple(followers):
        try:
            follower(*args, **kwargs)
        except Exception as error:
            log_fault(name, error)
