"""The terminals that clients lend to sessions, for the commands of their tools. Runs nothing by itself."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.capabilities.contract import RunInTerminal

__all__ = ["Terminals"]


class Terminals:
    """Who lends a terminal to which session; of several the one lent last counts."""

    def __init__(self) -> None:
        self._lent: dict[str, list[RunInTerminal]] = {}

    def lend(self, sid: str, run: RunInTerminal) -> Callable[[], None]:
        """Let session *sid* run commands by *run*; call what this returns to take it back."""
        self._lent.setdefault(sid, []).append(run)

        def take_back() -> None:
            lent = self._lent.get(sid, [])
            if run in lent:
                lent.remove(run)
            if not lent:
                self._lent.pop(sid, None)

        return take_back

    def of(self, sid: str) -> RunInTerminal | None:
        """Return how session *sid* runs commands in a terminal, None when nobody lends it one."""
        lent = self._lent.get(sid)
        return lent[-1] if lent else None
