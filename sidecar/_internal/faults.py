"""One way to log what should not have happened: what, and where in the code, never what it says.

The text of an exception may quote a prompt or a file, and those stay out of every log above DEBUG.
"""

from __future__ import annotations

import logging
import traceback

__all__ = ["log_fault"]

_log = logging.getLogger("sidecar.faults")
_WHAT_CHARS = 200


def log_fault(what: str, error: BaseException) -> None:
    """Log that *what* failed: one line with the class of *error*, then the lines of code it came from.

    The line is whole before the log gets it: ``sidecar/status`` shows records without their arguments.
    """
    _log.error(f"{what[:_WHAT_CHARS]} failed with {type(error).__name__}")
    _log.warning("".join(traceback.format_tb(error.__traceback__)))
    _log.debug("it said: %s", error)
