"""Hints on files that are not what the model read: diagnostics, until that is taken back.

A projection of ``fileStale`` and ``fileFresh`` and nothing else; looks at no file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lsprotocol.types import DiagnosticSeverity

from sidecar.conductor.events import Event, FileFresh, FileStale

__all__ = ["StaleDiagnostics"]

_FIRST_LINE: Final = {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}


class StaleDiagnostics:
    """The hints of one client; a ``SessionView``. *notify* sends a notification to it."""

    def __init__(self, notify: Callable[[str, Any], None]) -> None:
        self._notify = notify
        self._stale: dict[str, dict[str, FileStale]] = {}

    def saw(self, event: Event) -> None:
        """Mark a file that became stale, and take the mark from one that is fresh."""
        match event.data:
            case FileStale(uri=uri):
                self._stale.setdefault(uri, {})[event.sid] = event.data
                self._publish(uri)
            case FileFresh(uri=uri):
                self._take_away(uri, event.sid)

    def left(self, sid: str) -> None:
        """Take away the marks of session *sid*."""
        for uri in [uri for uri, stale in self._stale.items() if sid in stale]:
            self._take_away(uri, sid)

    def _take_away(self, uri: str, sid: str) -> None:
        stale = self._stale.get(uri, {})
        stale.pop(sid, None)
        self._publish(uri)
        if not stale:
            self._stale.pop(uri, None)

    def _publish(self, uri: str) -> None:
        told = dict.fromkeys(_message(stale) for stale in self._stale.get(uri, {}).values())
        diagnostics = [_diagnostic(message) for message in told]
        self._notify("textDocument/publishDiagnostics", {"uri": uri, "diagnostics": diagnostics})


def _message(stale: FileStale) -> str:
    what = "gone" if stale.now_hash is None else "changed"
    return f"{what} since the model read it"


def _diagnostic(message: str) -> dict[str, Any]:
    severity = DiagnosticSeverity.Hint.value
    return {
        "range": _FIRST_LINE,
        "severity": severity,
        "code": FileStale.kind,
        "source": "sidecar",
        "message": message,
    }
