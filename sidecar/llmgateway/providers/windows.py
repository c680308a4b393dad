"""Asks a server for its models and their windows, where it tells: llama.cpp, Ollama, vLLM, LM Studio.

In a thread and within seconds; a server that does not tell, or is not there, is None and no error.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

__all__ = ["ask_window", "is_local", "list_models"]

_DEADLINE_S: Final = 4.0
_ONE_ANSWER_S: Final = 1.5
_MAX_BYTES: Final = 8 * 1024 * 1024
_IN_USE: Final = ("loaded_context_length", "max_model_len", "context_length", "context_window", "n_ctx")
_AT_MOST: Final = ("max_context_length", "n_ctx_train")
"""What a model could have, where a server does not say what it has."""


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


async def ask_window(base_url: str, model: str, key: str | None = None) -> int | None:
    """Return the window of *model* in tokens as the server at *base_url* tells it, or None. Never raises."""
    try:
        async with asyncio.timeout(_DEADLINE_S):
            return await asyncio.to_thread(_ask, base_url.rstrip("/"), model, key)
    except TimeoutError:
        return None


async def list_models(base_url: str, key: str | None = None) -> tuple[str, ...] | None:
    """Return the names of the models at *base_url*, None where nobody lists any. Never raises."""
    listed = await asyncio.to_thread(_get, f"{base_url.rstrip('/')}/models", key)
    entries = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(entries, list):
        return None
    return tuple(str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry)


def _ask(base_url: str, model: str, key: str | None) -> int | None:
    root = base_url.removesuffix("/v1")
    questions: tuple[Callable[[], int | None], ...] = (
        lambda: _of_llama_cpp(_get(f"{root}/props", key)),
        lambda: _of_running(_get(f"{root}/api/ps", key), model),
        lambda: _of_ollama(_get(f"{root}/api/show", key, {"model": model})),
        lambda: _of_entry(_get(f"{root}/api/v0/models/{quote(model)}", key)),
        lambda: _of_list(_get(f"{base_url}/models", key), model),
    )
    return next((window for question in questions if (window := question()) is not None), None)


def _get(url: str, key: str | None, body: Mapping[str, Any] | None = None) -> Any:
    """Return the JSON at *url*, None for whatever is not that."""
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    data = json.dumps(body).encode() if body is not None else None
    # A proxy of the environment has no business between here and a server next door.
    opener = build_opener(ProxyHandler({})) if is_local(url) else build_opener()
    try:
        with opener.open(Request(url, data, headers), timeout=_ONE_ANSWER_S) as answer:
            return json.loads(answer.read(_MAX_BYTES))
    except Exception:
        # Refused, silent, no JSON, too much of it: the server does not tell.
        return None


def _of_llama_cpp(props: Any) -> int | None:
    return _of_entry(props.get("default_generation_settings")) if isinstance(props, dict) else None


def _of_running(running: Any, model: str) -> int | None:
    """Return what Ollama gave the model it has loaded: less than the model could have."""
    entries = running.get("models") if isinstance(running, dict) else None
    return _of_entry(_named(entries, model, "name", "model"))


def _of_ollama(shown: Any) -> int | None:
    if not isinstance(shown, dict):
        return None
    for line in str(shown.get("parameters", "")).splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "num_ctx" and value.strip().isdigit():
            return int(value)
    info = shown.get("model_info")
    lengths = ((name, value) for name, value in info.items()) if isinstance(info, dict) else ()
    return next((_tokens(value) for name, value in lengths if name.endswith(".context_length")), None)


def _of_list(listed: Any, model: str) -> int | None:
    entries = listed.get("data") if isinstance(listed, dict) else None
    return _of_entry(_named(entries, model, "id"))


def _named(entries: Any, model: str, *names: str) -> Any:
    """Return the entry of *model*; the only one, when a server has just one model under another name."""
    if not isinstance(entries, list):
        return None
    matching = (entry for entry in entries if isinstance(entry, dict) and model in map(entry.get, names))
    return next(matching, entries[0] if len(entries) == 1 else None)


def _of_entry(entry: Any) -> int | None:
    if not isinstance(entry, dict):
        return None
    meta = entry.get("meta")
    places: Iterable[dict[str, Any]] = (entry, meta) if isinstance(meta, dict) else (entry,)
    found = (_tokens(place.get(name)) for name in (*_IN_USE, *_AT_MOST) for place in places)
    return next((window for window in found if window is not None), None)


def _tokens(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
