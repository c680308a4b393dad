"""The params of ACP requests, read field by field. What is needed and does not fit raises InvalidInput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar._internal.errors import InvalidInput

__all__ = ["content", "extras", "fields", "optional_text", "session_id", "text", "texts", "tool_servers"]

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
    """Return the session a request is about."""
    return text(params, "sessionId")


def content(params: Mapping[str, Any]) -> list[Any]:
    """Return the content blocks of a prompt; the session looks into them."""
    value = params.get("prompt")
    if not isinstance(value, list):
        raise InvalidInput("params.prompt must be an array of content blocks")
    return value


def extras(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a client asks for beyond the protocol, such as a model: ``_meta.sidecar``."""
    meta = params.get("_meta")
    found = meta.get("sidecar") if isinstance(meta, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def optional_text(params: Mapping[str, Any], name: str) -> str | None:
    """Return the string *name*, or None where it is absent or null."""
    return None if params.get(name) is None else text(params, name)


def texts(params: Mapping[str, Any], name: str) -> list[str]:
    """Return the strings of the list *name*; the schema asks to leave out what is none, and not to fail."""
    value = params.get(name)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def tool_servers(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``mcpServers`` as a param where the client gave them, without those of a type unknown here."""
    value = params.get("mcpServers")
    if not isinstance(value, list):
        return {}
    servers = [each for each in value if isinstance(each, Mapping) and each.get("type") in _SERVER_TYPES]
    return {"mcpServers": servers}
