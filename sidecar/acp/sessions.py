"""``session/*`` but for prompts: the protocol's words for what the service does with sessions.

A translation both ways. What the protocol has no field for is in ``_meta.sidecar``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

from sidecar._internal.errors import InvalidInput
from sidecar.acp.params import extras, optional_text, session_id, text, texts, tool_servers
from sidecar.acp.shapes import iso_time, mode_option, mode_state
from sidecar.conductor.errors import SessionNotFound
from sidecar.service.contract import Answer

__all__ = ["Ask", "Handler", "Sessions"]

Ask: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Answer]]
"""``async (method, params) -> Answer``: one request to the service. Raises SidecarError."""

Handler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Answer]]
"""Answers one method. Raises SidecarError."""

_LISTED_IN_META: Final = ("phase", "messages", "tokens", "lastCompactionAt")


class Sessions:
    """The session methods of one client."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._mode_options: dict[str, str] = {}

    def introduced(self, sid: str, options: Sequence[Mapping[str, Any]]) -> None:
        """Take note of a session that the client is about to hear of, and of its config options."""
        mode = mode_option(options)
        if mode is not None:
            self._mode_options[sid] = mode["id"]

    def table(self) -> dict[str, Handler]:
        """Return the handlers, by method."""
        return {
            "authenticate": self.authenticate,
            "session/new": self.new,
            "session/load": self.load,
            "session/resume": self.resume,
            "session/fork": self.fork,
            "session/list": self.list,
            "session/set_mode": self.set_mode,
            "session/set_config_option": self.set_config_option,
        }

    async def authenticate(self, params: Mapping[str, Any]) -> Answer:
        """Refuse: there is no method of authentication."""
        found = text(params, "methodId")
        raise InvalidInput(f"no authentication method {found!r}", hint="none is needed: start a session")

    async def new(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/new``; what the session has to say comes behind the answer."""
        given: dict[str, Any] = {"cwd": text(params, "cwd"), "roots": texts(params, "additionalDirectories")}
        given |= tool_servers(params)
        return self._opened(await self._ask("sidecar/session/new", {**extras(params), **given}))

    async def load(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/load``; the protocol wants the whole past to come before the answer."""
        answer = await self._load(params, "full")
        if answer.then is not None:
            answer.then()
        return Answer(self._state(answer.value))

    async def resume(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/resume``: as load, without the past."""
        answer = await self._load(params, "none")
        return replace(answer, value=self._state(answer.value))

    async def fork(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/fork`` with a session that goes on from where another stands."""
        given = {"sid": session_id(params), "cwd": text(params, "cwd"), **tool_servers(params)}
        roots = texts(params, "additionalDirectories")
        return self._opened(
            await self._ask("sidecar/session/fork", {**extras(params), **given, "roots": roots})
        )

    async def list(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/list``, the newest first."""
        wanted = {name: optional_text(params, name) for name in ("cwd", "cursor")}
        given = {name: value for name, value in wanted.items() if value is not None}
        found = (await self._ask("sidecar/session/list", given)).value
        next_page = {name: found[name] for name in ("nextCursor",) if name in found}
        return Answer({"sessions": [_listed(session) for session in found["sessions"]], **next_page})

    async def close(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/close``; what runs is cancelled, what is stored stays."""
        await self._ask("sidecar/session/close", {"sid": session_id(params)})
        return Answer({})

    async def delete(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/delete``; the session is gone for good, also one that was never there."""
        with suppress(SessionNotFound):
            await self._ask("sidecar/session/delete", {"sid": session_id(params)})
        return Answer({})

    async def set_mode(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/set_mode``: a mode is the value of the config option of category ``mode``."""
        sid, mode_id = session_id(params), text(params, "modeId")
        if sid not in self._mode_options:
            raise InvalidInput(f"session {sid!r} has no modes here", hint="load or resume it first")
        given = {"sid": sid, "configId": self._mode_options[sid], "value": mode_id}
        await self._ask("sidecar/session/setConfigOption", given)
        return Answer({})

    async def set_config_option(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/set_config_option`` with how all options stand."""
        given = {
            "sid": session_id(params),
            "configId": text(params, "configId"),
            "value": params.get("value"),
        }
        answer = await self._ask("sidecar/session/setConfigOption", given)
        return Answer({"configOptions": self.options(answer.value["configOptions"])})

    async def _load(self, params: Mapping[str, Any], replay: str) -> Answer:
        given = {"sid": session_id(params), "cwd": text(params, "cwd"), "replay": replay}
        roots = texts(params, "additionalDirectories")
        return await self._ask("sidecar/session/load", {**given, "roots": roots, **tool_servers(params)})

    def options(self, options: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return config options as the client knows them."""
        return options

    def modes(self, options: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """Return what modes there are, None for none."""
        return mode_state(options)

    def _opened(self, answer: Answer) -> Answer:
        """Return the answer that introduces a new session."""
        return replace(answer, value={"sessionId": answer.value["sid"], **self._state(answer.value)})

    def _state(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a session's own answers say of it."""
        options = result["configOptions"]
        state: dict[str, Any] = {"configOptions": self.options(options)}
        if (modes := self.modes(options)) is not None:
            state["modes"] = modes
        told = ("snapshot", "usage", "integrity", "seq")
        return state | {"_meta": {"sidecar": {name: result[name] for name in told if name in result}}}


def _listed(session: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sessionId": session["sid"],
        "cwd": session["cwd"],
        "title": session["title"] or None,
        "updatedAt": iso_time(session["updatedAt"]),
        "_meta": {"sidecar": {name: session[name] for name in _LISTED_IN_META if name in session}},
    }
