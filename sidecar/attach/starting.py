"""Starting the shared daemon: one program at a time does it, and its log says why when it does not start."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress

from sidecar._internal.file_lock import FileLock
from sidecar.attach.errors import AttachError
from sidecar.attach.place import Place

__all__ = ["START_S", "connect_or_start", "log_tail", "open_log"]

START_S = 30.0
"""How long a daemon may take until it can be connected to."""

_LOG_BYTES = 1024 * 1024
_TAIL_BYTES = 4096
_TAIL_LINES = 8


def connect_or_start(
    place: Place, connect: Callable[[], socket.socket | None], start: Callable[[], None]
) -> socket.socket:
    """Return what *connect* finds, after *start* when it finds nothing. Raises AttachError."""
    found = connect()
    if found is not None:
        return found
    place.make()
    starting = FileLock(place.start_lock)
    try:
        starting.take()
        found = connect()
        if found is None:
            start()
            found = connect()
    finally:
        starting.release()
    if found is None:
        raise AttachError(f"the shared daemon was started and is gone again; {log_tail(place)}")
    return found


def open_log(place: Place) -> int:
    """Open the log for appending; a long one is put aside, in place of the one before."""
    with suppress(FileNotFoundError):
        if place.log.stat().st_size > _LOG_BYTES:
            place.log.replace(place.log.with_suffix(".log.1"))
    return os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def log_tail(place: Place) -> str:
    """Return where the log is, and its last lines."""
    with suppress(OSError):
        last = place.log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace").splitlines()
        if last:
            return "\n".join((f"{place.log} ends with:", *last[-_TAIL_LINES:]))
    return f"see {place.log}"
