"""``session/*`` except prompts, and ``authenticate``: translated to the service's methods, and back.

Facts for which the protocol has no field are in ``_meta.sidecar``. Params are read by field: one that is
required and missing or wrong raises InvalidInput.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

from sidecar._internal.errors import InvalidInput
from sidecar.acp.shapes import WORK_FIELDS, iso_time, mode_state, model_state, option_of
from sidecar.conductor.errors import SessionNotFound
from sidecar.protocol.jsonrpc import member
from sidecar.service.contract import Answer

_SERVER_TYPES: Final = (None, "stdio", "http", "sse")


def fields(params: Any) -> Mapping[str, Any]:
    """Return *params* as an object; absent ones have no fields."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise InvalidInput("params must be an object")
    return params


def text(params: Mapping[str, Any], name: str) -> str:
    """Return the string *name*.

    >>> text({"cwd": "/project"}, "cwd")
    '/project'
    """
    value = params.get(name)
    if not isinstance(value, str):
        raise InvalidInput(
            f"params.{name} must be a string" if name in params else f"params.{name} is missing"
        )
    return value


def session_id(params: Mapping[str, Any]) -> str:
    """Return the session that a request names."""
    return text(params, "sessionId")


def content(params: Mapping[str, Any]) -> list[Any]:
    """Return the content blocks of a prompt; the session checks each block."""
    value = params.get("prompt")
    if not isinstance(value, list):
        raise InvalidInput("params.prompt must be an array of content blocks")
    return value


def extras(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``_meta.sidecar``: wishes beyond the protocol, such as a model."""
    found = member(params, "_meta", "sidecar")
    return found if isinstance(found, Mapping) else {}


def optional_text(params: Mapping[str, Any], name: str) -> str | None:
    """Return the string *name*, or None where it is absent or null."""
    return None if params.get(name) is None else text(params, name)


def further_roots(params: Mapping[str, Any]) -> list[str]:
    """Return the ``additionalDirectories``; as the schema asks, values that are no strings are skipped."""
    value = params.get("additionalDirectories")
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def brief_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's ``systemPrompt`` as a param: a text to append to the daemon's own.

    Clients of other agents send it as ``_meta.systemPrompt``. A client that would replace the whole prompt is
    refused: tools and summaries rely on it.
    """
    prompt = params.get("systemPrompt")
    if prompt is None:
        prompt = member(params, "_meta", "systemPrompt")
    match prompt:
        case None:
            return {}
        case {"append": str(added)}:
            return {"brief": added}
        case {"mode": "append", "content": [_, *_] as blocks}:
            texts = [text for each in blocks if isinstance(text := member(each, "text"), str)]
            if len(texts) == len(blocks):
                return {"brief": "\n\n".join(texts)}
        case str() | {"mode": "override"}:
            hint = '{"mode": "append", "content": [...]} adds to it'
            problem = "the system prompt cannot be replaced, because tools and summaries rely on it"
            raise InvalidInput(problem, hint=hint)
    hint = 'such as {"mode": "append", "content": [{"type": "text", "text": "..."}]}'
    raise InvalidInput("systemPrompt must be an object with texts to append", hint=hint)


def tool_servers(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``mcpServers`` as a param if the client sent it, without servers of an unknown type."""
    value = params.get("mcpServers")
    if value is None:
        return {}
    if not isinstance(value, list):
        raise InvalidInput("params.mcpServers must be an array of servers")
    servers = [each for each in value if isinstance(each, Mapping) and each.get("type") in _SERVER_TYPES]
    return {"mcpServers": servers}


Request: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Answer]]
"""``async (method, params) -> Answer``: one request to the service. Raises SidecarError."""

Handler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Answer]]
"""Answers one method, given the fields of its params. Raises SidecarError."""

_LISTED_IN_META: Final = ("phase", "messages", "tokens", "lastCompactionAt", *WORK_FIELDS)


class Sessions:
    """The session methods of one client; *on_closed* is called with each session that it closes."""

    def __init__(self, request: Request, on_closed: Callable[[str], None]) -> None:
        self._request = request
        self._on_closed = on_closed
        self._options: dict[tuple[str, str], str] = {}

    def note_options(self, sid: str, options: Sequence[Mapping[str, Any]]) -> None:
        """Record the config options that are the mode and the model of a session."""
        for category in ("mode", "model"):
            if (option := option_of(options, category)) is not None:
                self._options[sid, category] = option["id"]

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers by method."""
        return {
            **self.common_handlers(),
            "authenticate": self.authenticate,
            "session/load": self.load,
            "session/set_mode": self.set_mode,
            "session/set_model": self.set_model,
        }

    def common_handlers(self) -> dict[str, Handler]:
        """Return the handlers of the methods that all versions of the protocol have."""
        return {
            "session/new": self.new,
            "session/resume": self.resume,
            "session/fork": self.fork,
            "session/list": self.list,
            "session/close": self.close,
            "session/delete": self.delete,
            "session/set_config_option": self.set_config_option,
        }

    async def authenticate(self, params: Mapping[str, Any]) -> Answer:
        """Refuse ``authenticate``, because there is no method of authentication."""
        found = text(params, "methodId")
        raise InvalidInput(f"no authentication method {found!r}", hint="none is needed: start a session")

    async def new(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/new``; the events of the session come after the answer."""
        given: dict[str, Any] = {"cwd": text(params, "cwd"), "roots": further_roots(params)}
        given |= tool_servers(params) | brief_of(params)
        return self._introduction(await self._request("sidecar/session/new", {**extras(params), **given}))

    async def load(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/load``; the protocol requires the whole past before the answer."""
        answer = await self._load(params, replay="full")
        if answer.then is not None:
            answer.then()
        return Answer(self._state(answer.value))

    async def resume(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/resume``, which is a load without the past."""
        answer = await self._load(params, replay="none")
        return replace(answer, value=self._state(answer.value))

    async def fork(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/fork`` with a session that continues another."""
        given = {"sid": session_id(params), "cwd": text(params, "cwd"), **tool_servers(params)}
        given |= {"roots": further_roots(params), **brief_of(params)}
        return self._introduction(await self._request("sidecar/session/fork", {**extras(params), **given}))

    async def list(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/list``, the newest first."""
        wanted = {name: optional_text(params, name) for name in ("cwd", "cursor")}
        given = {name: value for name, value in wanted.items() if value is not None}
        found = (await self._request("sidecar/session/list", given)).value
        next_page = {name: found[name] for name in ("nextCursor",) if name in found}
        sessions = [
            {
                "sessionId": session["sid"],
                "cwd": session["cwd"],
                "title": session["title"] or None,
                "updatedAt": iso_time(session["updatedAt"]),
                "_meta": {"sidecar": {name: session[name] for name in _LISTED_IN_META if name in session}},
            }
            for session in found["sessions"]
        ]
        return Answer({"sessions": sessions, **next_page})

    async def close(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/close``; running work is cancelled, and the session stays stored."""
        sid = session_id(params)
        await self._request("sidecar/session/close", {"sid": sid})
        self._on_closed(sid)
        return Answer({})

    async def delete(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/delete``; a session that does not exist counts as deleted."""
        sid = session_id(params)
        with suppress(SessionNotFound):
            await self._request("sidecar/session/delete", {**extras(params), "sid": sid})
        self._on_closed(sid)
        return Answer({})

    async def set_mode(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/set_mode``; a mode is a value of the config option of category ``mode``."""
        return await self._choose(session_id(params), "mode", text(params, "modeId"))

    async def set_model(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/set_model``, as panels send it that do not know config options."""
        return await self._choose(session_id(params), "model", text(params, "modelId"))

    async def _choose(self, sid: str, category: str, value: str) -> Answer:
        config_id = self._options.get((sid, category))
        if config_id is None:
            raise InvalidInput(f"session {sid!r} has no {category} here", hint="load or resume it first")
        given = {"sid": sid, "configId": config_id, "value": value}
        await self._request("sidecar/session/setConfigOption", given)
        return Answer({})

    async def set_config_option(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/set_config_option`` with all options."""
        given = {
            "sid": session_id(params),
            "configId": text(params, "configId"),
            "value": params.get("value"),
        }
        answer = await self._request("sidecar/session/setConfigOption", given)
        return Answer({"configOptions": self.options(answer.value["configOptions"])})

    async def _load(self, params: Mapping[str, Any], *, replay: str) -> Answer:
        given: dict[str, Any] = {
            "sid": session_id(params),
            "cwd": text(params, "cwd"),
            "replay": replay,
        }
        given |= {"roots": further_roots(params), **tool_servers(params), **brief_of(params)}
        return await self._request("sidecar/session/load", given)

    def options(self, options: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return config options in the shape of this version."""
        return options

    def modes(self, options: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """Return the modes, None when there are none."""
        return mode_state(options)

    def models(self, options: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """Return the models, None when there are none."""
        return model_state(options)

    def _introduction(self, answer: Answer) -> Answer:
        """Return the answer that introduces a new session."""
        return replace(answer, value={"sessionId": answer.value["sid"], **self._state(answer.value)})

    def _state(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that every answer about a session has."""
        options = result["configOptions"]
        state: dict[str, Any] = {"configOptions": self.options(options)}
        if (modes := self.modes(options)) is not None:
            state["modes"] = modes
        if (models := self.models(options)) is not None:
            state["models"] = models
        names = ("snapshot", "usage", "integrity", "seq")
        return state | {"_meta": {"sidecar": {name: result[name] for name in names if name in result}}}
