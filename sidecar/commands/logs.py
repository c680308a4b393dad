"""Where the processes that serve write their log: standard error, and nothing in it looks like a secret."""

from __future__ import annotations

import logging

__all__ = ["log_to_stderr"]

_LINE = "%(asctime)s %(name)s %(levelname)s %(message)s"


class _Masked(logging.Formatter):
    """Writes a record with its exception, secrets masked: whatever an SDK or a tool's process has to say."""

    def format(self, record: logging.LogRecord) -> str:
        # Imported with the first line that is written: a start does not wait for patterns.
        from sidecar._internal.secrets import mask_secrets

        return mask_secrets(super().format(record))


def log_to_stderr(level: str) -> None:
    """Write what is logged at *level* and above to standard error, unless somebody logs already."""
    logging.basicConfig(level=level.upper())
    for handler in logging.root.handlers:
        handler.setFormatter(_Masked(_LINE))
