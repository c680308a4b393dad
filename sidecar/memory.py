"""The empty memory facade: it exists so that the import path does.

Conversation memory lives in :mod:`sidecar.runtime.memory`, :mod:`sidecar.window_budget`,
:mod:`sidecar.rooms.memory` and :mod:`sidecar.agentcore.memory`. Nothing is ever added here.
"""

from __future__ import annotations

__all__: list[str] = []
