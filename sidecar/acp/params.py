"""Read the params of ACP requests by field. A required field that is missing or wrong raises InvalidInput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar._internal.errors import InvalidInput

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
    meta = params.get("_meta")
    found = meta.get("sidecar") if isinstance(meta, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def optional_text(params: Mapping[str, Any], name: str) -> str | None:
    """Return the string *name*, or None where it is absent or null."""
    return None if params.get(name) is None else text(params, name)


def further_roots(params: Mapping[str, Any]) -> list[str]:
    """Return the ``additionalDirectories``; as the schema asks, values that are no strings are skipped."""
    value = params.get("additionalDirectories")
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def tool_servers(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``mcpServers`` as a param if the client sent it, without servers of an unknown type."""
    value = params.get("mcpServers")
    if value is None:
        return {}
    if not isinstance(value, list):
        raise InvalidInput("params.mcpServers must be an array of servers")
    servers = [each for each in value if isinstance(each, Mapping) and each.get("type") in _SERVER_TYPES]
    return {"mcpServers": servers}
