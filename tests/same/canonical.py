"""The text of a played scene as it is stored and compared: a line for each message, in order.

Replaced is only what is truly not the same in two runs: the folder of the run, process ids, versions and the
addresses of sockets. Ids are named by their order of appearance, so that a part of the daemon that makes one
id less than before does not change every line. Deltas of one message are joined, since how many of them are
merged goes by how quickly a client reads; for the same reason only the first notification that the list of
sessions has changed is kept. A long value that stood in an earlier line is a hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.same.player import Message

__all__ = ["lines_of"]

_LONG_CHARS: Final = 300
_ID: Final = re.compile(
    r"(?<![0-9a-f])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-f])"
)
_ID_START: Final = re.compile(r"(?<![0-9a-zA-Z_:/.-])[0-9a-f]{6,31}(?![0-9a-zA-Z_])")
_FIXED: Final = {"pid": 0, "rssBytes": 0, "uptimeMs": 0, "version": "0", "build": "0", "socket": "socket"}
_DELTAS: Final = ("textDelta", "thinkingDelta", "compactionSummaryDelta")


def lines_of(messages: Iterable[tuple[str, Message]], folder: Path) -> list[str]:
    """Return the canonical lines of the *messages* of one client that were exchanged in *folder*."""
    names = _Names()
    joined = _join_deltas(_without_repeats(messages))
    shown = [(side, _replace(message, str(folder))) for side, message in joined]
    for _, message in shown:
        names.learn(json.dumps(message, ensure_ascii=False))
    seen: set[str] = set()
    return [
        f"{side} {json.dumps(_shorten(names.apply(message), seen), ensure_ascii=False)}"
        for side, message in shown
    ]


class _Names:
    """The names of ids, by their order of appearance."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def learn(self, text: str) -> None:
        """Name the ids in *text*."""
        for found in _ID.findall(text):
            self._names.setdefault(found.replace("-", ""), f"id-{len(self._names) + 1}")

    def apply(self, value: Any) -> Any:
        """Return *value* with names in place of ids, and of beginnings of ids."""
        if isinstance(value, dict):
            return {self.apply(key): self.apply(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.apply(item) for item in value]
        if isinstance(value, str):
            whole = _ID.sub(lambda found: self._names[found[0].replace("-", "")], value)
            return _ID_START.sub(self._name_of_start, whole)
        return value

    def _name_of_start(self, found: re.Match[str]) -> str:
        begun = [name for each, name in self._names.items() if each.startswith(found[0])]
        return f"{begun[0]}~{len(found[0])}" if len(begun) == 1 else found[0]


def _without_repeats(messages: Iterable[tuple[str, Message]]) -> Iterator[tuple[str, Message]]:
    is_known = False
    for side, message in messages:
        is_list = str(message.get("method", "")).endswith("sidecar/sessions/changed")
        if not (is_list and is_known):
            yield side, message
        is_known |= is_list


def _join_deltas(messages: Iterable[tuple[str, Message]]) -> Iterator[tuple[str, Message]]:
    last: tuple[str, Message] | None = None
    for side, message in messages:
        if last is not None and _is_same_text(last[1], message):
            joined = last[1]["params"]["data"]["delta"] + message["params"]["data"]["delta"]
            params = message["params"]
            last = side, {**message, "params": {**params, "data": {**params["data"], "delta": joined}}}
            continue
        if last is not None:
            yield last
        last = side, message
    if last is not None:
        yield last


def _is_same_text(first: Message, second: Message) -> bool:
    """Whether both are deltas of one message; all members but the text, its number and its time are equal."""
    kinds = [message.get("params", {}) for message in (first, second)]
    if any(not isinstance(each, dict) or each.get("kind") not in _DELTAS for each in kinds):
        return False
    one, other = ({**each["data"], "delta": "", "kind": each["kind"]} for each in kinds)
    return one == other


def _replace(value: Any, folder: str, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _replace(item, folder, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_replace(item, folder) for item in value]
    if key in _FIXED and isinstance(value, str | int):
        return _FIXED[key]
    return value.replace(folder, "/same") if isinstance(value, str) else value


def _shorten(value: Any, seen: set[str]) -> Any:
    """Return *value* with a hash in place of each long part that stood in an earlier line."""
    if not isinstance(value, dict | list | str):
        return value
    text = json.dumps(value, ensure_ascii=False)
    if len(text) < _LONG_CHARS:
        return value
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    if digest in seen:
        return {"as before": digest}
    shown: Any = value
    if isinstance(value, dict):
        shown = {name: _shorten(item, seen) for name, item in value.items()}
    elif isinstance(value, list):
        shown = [_shorten(item, seen) for item in value]
    seen.add(digest)
    return shown
