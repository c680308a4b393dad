"""Opens the daemon behind a face that has said hello already: an editor waits for no more than that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sidecar._internal.errors import SidecarError, log_fault
from sidecar._internal.loading import loading
from sidecar.service.contract import Backend

if TYPE_CHECKING:
    from sidecar.boot import Daemon

__all__ = ["LateDaemon"]


class LateDaemon:
    """The daemon of a process with one client."""

    def __init__(self) -> None:
        self._daemon: Daemon | None = None

    def open(self, options: Mapping[str, Any]) -> Backend:
        """Return what answers the client, loaded by the first call that gets so far.

        Raises InvalidInput for *options* that cannot be, SidecarError when there is nothing to load.
        """
        daemon = self._daemon = self._daemon or _loaded()
        daemon.configure(options)
        return Backend(daemon.service, daemon.workspace)


def _loaded() -> Daemon:
    try:
        with loading():
            from sidecar.boot import build

            return build()
    except SidecarError:
        raise
    except Exception as error:
        log_fault("loading the daemon", error)
        problem = f"the daemon cannot be loaded: {type(error).__name__}, see its log"
        raise SidecarError(problem, hint='"sidecar doctor" says what is wrong on this machine') from None
