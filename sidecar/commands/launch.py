"""The light parts of a daemon process: its log, its handshake, and the daemon that is loaded later.

An editor waits for the handshake with its window open, so nothing here loads a session, a model or a tool.
Values of the handshake that are defined in heavy modules are repeated here; a test compares the two.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from sidecar import __version__
from sidecar._internal.allocator import exclude_loaded_modules
from sidecar._internal.env import speaks_acp_draft
from sidecar._internal.errors import SidecarError, log_fault
from sidecar._internal.loading import reinstall_command
from sidecar.protocol.handshake import SCHEMA_HASH, ServerInfo, face_names
from sidecar.service.contract import Backend

if TYPE_CHECKING:
    from sidecar.acp import AgentInfo
    from sidecar.boot import Daemon

_LOG_LINE = "%(asctime)s %(name)s %(levelname)s %(message)s"
_BUILD: Final = f"python-{'.'.join(map(str, sys.version_info[:3]))}"
_ENGINES: Final = ("windowBudget", "runtime", "agentcore", "slidingWindow", "summarizing", "none")
_EVENT_BUFFER: Final = 50_000

WARM_UP_AFTER_S: Final = 1.0
"""The time for a client's first session, which would wait for the interpreter while libraries are loaded."""


class _MaskingFormatter(logging.Formatter):
    """Formats a record with its exception, and masks secrets that an SDK or a tool may have logged."""

    def format(self, record: logging.LogRecord) -> str:
        # Imported with the first line that is written, so that a start does not compile its patterns.
        from sidecar._internal.secrets import mask_secrets

        return mask_secrets(super().format(record))


def log_to_stderr(level: str) -> None:
    """Write records of *level* and above to standard error, unless logging is set up already."""
    logging.basicConfig(level=level.upper())
    for handler in logging.root.handlers:
        handler.setFormatter(_MaskingFormatter(_LOG_LINE))


def server_info(socket: str | None = None) -> ServerInfo:
    """Return the daemon's description for language clients; *socket* is where more clients may attach."""
    return ServerInfo(
        name="sidecar",
        version=__version__,
        build=_BUILD,
        engines=_ENGINES,
        faces=face_names(with_draft=speaks_acp_draft()),
        event_buffer=_EVENT_BUFFER,
        schema_hash=SCHEMA_HASH,
        socket=socket,
    )


def agent_info(socket: str | None = None) -> AgentInfo:
    """Return the daemon's description for agent panels; *socket* is where more clients may attach."""
    from sidecar.acp import AgentInfo  # not above: language clients do not need it

    return AgentInfo("Sidecar", server_info(socket), reaches_mcp=find_spec("mcp") is not None)


class LazyDaemon:
    """The daemon of a process with one client, loaded after the handshake."""

    def __init__(self, on_load: Callable[[], object]) -> None:
        """*on_load* is called when the daemon is loaded."""
        self._daemon: Daemon | None = None
        self._on_load = on_load

    def open(self, options: Mapping[str, Any]) -> Backend:
        """Return the client's backend; the first call that gets so far loads the daemon.

        Raises:
            InvalidInput: *options* are not valid.
            SidecarError: the daemon cannot be loaded on this machine.
        """
        if self._daemon is None:
            try:
                from sidecar.boot import build

                self._daemon = build()
            except SidecarError:
                raise
            except ImportError as error:
                problem = f"a part of the installation cannot be loaded: {error}"
                raise SidecarError(problem, hint=f"install it again with: {reinstall_command()}") from None
            except Exception as error:
                log_fault("loading the daemon", error)
                problem = f"the daemon cannot be loaded: {type(error).__name__}, see its log"
                hint = '"sidecar doctor" shows what is wrong on this machine'
                raise SidecarError(problem, hint=hint) from None
            exclude_loaded_modules()
            self._on_load()
            self._daemon.warm_up(WARM_UP_AFTER_S)
        self._daemon.configure(options)
        return Backend(self._daemon.service, self._daemon.workspace)
