"""``session/*`` and ``auth/*`` of the draft: one method to come back to a session, and no modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar._internal.errors import InvalidInput
from sidecar.acp.draft.shapes import config_options
from sidecar.acp.sessions import Handler, Sessions
from sidecar.service.contract import Answer

__all__ = ["DraftSessions"]


class DraftSessions(Sessions):
    """The session methods of one client."""

    def table(self) -> dict[str, Handler]:
        """Return the handlers, by method."""
        return {
            "auth/login": self.authenticate,
            "auth/logout": self._log_out,
            "session/new": self.new,
            "session/resume": self.resume,
            "session/fork": self.fork,
            "session/list": self.list,
            "session/set_config_option": self.set_config_option,
        }

    async def resume(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/resume``: after the whole past where the client asks for it."""
        start = params.get("replayFrom")
        if start is None:
            return await super().resume(params)
        if not isinstance(start, Mapping) or start.get("type") != "start":
            raise InvalidInput("unknown replayFrom", hint='give {"type": "start"}, or leave it out')
        return await self.load(params)

    def options(self, options: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return config options as the client knows them."""
        return config_options(options)

    def modes(self, options: Sequence[Mapping[str, Any]]) -> None:
        """There are none: a mode is a config option."""

    async def _log_out(self, _params: Mapping[str, Any]) -> Answer:
        """Nobody has to log in; who does not mind may log out."""
        return Answer({})
