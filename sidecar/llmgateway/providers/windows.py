"""Look-ups of models and their windows at servers that publish them: llama.cpp, Ollama, vLLM, LM Studio.

They run in a thread and take seconds at most; without an answer the result is None, never an error.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

_DEADLINE_S: Final = 4.0
_ONE_ANSWER_S: Final = 1.5
_MAX_BYTES: Final = 8 * 1024 * 1024
_IN_USE: Final = ("loaded_context_length", "max_model_len", "context_length", "context_window", "n_ctx")
_OLLAMA_DEFAULT: Final = 4_096
_OLLAMA_ASKED: Final = 32_768
"""Enough for work with tools, and little enough for the memory of most machines."""
_AT_MOST: Final = ("max_context_length", "n_ctx_train")
"""The members that hold the largest possible window, for servers that do not publish the one in use."""


def is_local(base_url: str | None) -> bool:
    """Whether *base_url* is on this machine or in its own network.

    >>> is_local("http://localhost:8080/v1"), is_local("http://10.0.0.5/v1"), is_local("https://api.x.ai/v1")
    (True, True, False)
    """
    host = urlsplit(base_url or "").hostname or ""
    if host == "localhost" or host.endswith((".localhost", ".local")):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


def direct_mounts(base_url: str | None) -> dict[str, None]:
    """Return the ``mounts`` of an HTTP client for *base_url*: a local server is reached without any proxy.

    Other settings of the environment, such as its certificates, stay in force.

    >>> direct_mounts("https://api.x.ai/v1"), list(direct_mounts("http://localhost:8080"))
    ({}, ['http://', 'https://', 'all://'])
    """
    return dict.fromkeys(("http://", "https://", "all://")) if is_local(base_url) else {}


async def fetch_window(
    base_url: str, model: str, key: str | None = None, *, is_settable: bool = False
) -> int | None:
    """Return the window of *model* in tokens, as published at *base_url*, or None. Never raises.

    Args:
        base_url: the address of the server.
        model: the name of the model there.
        key: the key for the server, None for none.
        is_settable: whether calls set the window, as in Ollama's own format.
    """
    base_url = base_url.rstrip("/")
    root = base_url.removesuffix("/v1")

    def windows() -> Iterator[int | None]:
        """Yield the window by one interface after the other; each is requested when it is reached."""
        props = _get_json(f"{root}/props", key)
        yield _window_in(props.get("default_generation_settings")) if isinstance(props, dict) else None
        running = _window_in(_entry_of(_get_json(f"{root}/api/ps", key), "models", model, "name", "model"))
        if running is not None and not is_settable:
            yield running
        shown = _get_json(f"{root}/api/show", key, {"model": model})
        yield ollama_window(shown, running=running, is_settable=is_settable)
        yield _window_in(_get_json(f"{root}/api/v0/models/{quote(model)}", key))
        yield _window_in(_entry_of(_get_json(f"{base_url}/models", key), "data", model, "id"))

    try:
        async with asyncio.timeout(_DEADLINE_S):
            return await asyncio.to_thread(lambda: next(filter(None, windows()), None))
    except TimeoutError:
        return None


async def fetch_capabilities(base_url: str, model: str, key: str | None = None) -> frozenset[str] | None:
    """Return the capabilities of *model* at the Ollama server *base_url*: ``thinking``, ``vision``, ...

    None without an answer. Never raises.
    """
    root = base_url.rstrip("/").removesuffix("/v1")
    shown = await asyncio.to_thread(_get_json, f"{root}/api/show", key, {"model": model})
    found = shown.get("capabilities") if isinstance(shown, dict) else None
    return frozenset(map(str, found)) if isinstance(found, list) else None


async def list_models(base_url: str, key: str | None = None) -> tuple[str, ...] | None:
    """Return the names of the models at *base_url*, newest first, None without an answer. Never raises."""
    listed = await asyncio.to_thread(_get_json, f"{base_url.rstrip('/')}/models", key)
    entries = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(entries, list):
        return None
    models = [entry for entry in entries if isinstance(entry, dict) and "id" in entry]
    models.sort(key=lambda entry: _positive(entry.get("created")) or 0, reverse=True)
    return tuple(str(entry["id"]) for entry in models)


def _get_json(url: str, key: str | None, body: Mapping[str, Any] | None = None) -> Any:
    """Return the JSON at *url*, None when there is none."""
    from urllib.request import ProxyHandler, Request, build_opener  # not above: few models have a server here

    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    data = json.dumps(body).encode() if body is not None else None
    # A proxy of the environment must not stand between this process and a server of its own network.
    opener = build_opener(ProxyHandler({})) if is_local(url) else build_opener()
    try:
        with opener.open(Request(url, data, headers), timeout=_ONE_ANSWER_S) as answer:
            return json.loads(answer.read(_MAX_BYTES))
    except Exception:
        # Refused, silent, not JSON, too large: the server publishes nothing.
        return None


def ollama_window(shown: Any, *, running: int | None = None, is_settable: bool = False) -> int | None:
    """Return the window with which Ollama will run a model.

    A model has less than it could have: its author's ``num_ctx`` where that is set, else a small default of
    the server. A call that sets the window gets more, within the model's own limit.

    Args:
        shown: the description of the model.
        running: its window if it is loaded now.
        is_settable: whether calls set the window.

    Returns:
        The tokens, None when the description is of no known shape.
    """
    if not isinstance(shown, dict):
        return running
    for line in str(shown.get("parameters", "")).splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "num_ctx" and value.strip().isdigit():
            return int(value)
    info = shown.get("model_info")
    lengths = ((name, value) for name, value in info.items()) if isinstance(info, dict) else ()
    longest = next((_positive(value) for name, value in lengths if name.endswith(".context_length")), None)
    if longest is None:
        return running
    return min(longest, max(running or 0, _OLLAMA_ASKED if is_settable else _OLLAMA_DEFAULT))


def _entry_of(listed: Any, member: str, model: str, *names: str) -> Any:
    """Return the entry of *model*; the only one, when a server has just one model under another name."""
    entries = listed.get(member) if isinstance(listed, dict) else None
    if not isinstance(entries, list):
        return None
    matching = (entry for entry in entries if isinstance(entry, dict) and model in map(entry.get, names))
    return next(matching, entries[0] if len(entries) == 1 else None)


def _window_in(entry: Any) -> int | None:
    if not isinstance(entry, dict):
        return None
    meta = entry.get("meta")
    places: Iterable[dict[str, Any]] = (entry, meta) if isinstance(meta, dict) else (entry,)
    windows = (_positive(place.get(name)) for name in (*_IN_USE, *_AT_MOST) for place in places)
    return next((window for window in windows if window is not None), None)


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
