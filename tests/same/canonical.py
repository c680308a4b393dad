"""The text of a played scene as it is stored and compared: a line for each message, in order.

Replaced is only what is truly not the same in two runs: the folder of the run, process ids, versions and the
addresses of sockets; times are seconds since the beginning. Ids are named by their order of appearance, so
that a part of the daemon that makes one id less than before does not change every line. Deltas of one message
are joined, since how many of them are merged goes by how quickly a client reads; for the same reason only the
first notification that the list of sessions has changed is kept.

Left out is what would make the records large or change all of them at once: of the texts of the client, which
the scenes have, and of whole pages, all but the beginning; in all but a few scenes the lists of options,
commands and methods. A long value that stood in an earlier line is a hash. Filler, a passage three times or
more in a row, is one passage with the number of times.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from sidecar.runtime.store.lines import is_sound
from tests.same.player import FIRST_MS, Message, Stage

__all__ = ["lines_of", "messages_of"]

_LONG_CHARS: Final = 150
_SENT_CHARS: Final = 60
_TEXT_CHARS: Final = 30_000
_DAY_MS: Final = 86_400_000
_ID: Final = re.compile(
    r"(?<![0-9a-f])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-f])"
)
_ID_START: Final = re.compile(r"(?<![0-9a-zA-Z_:/.-])[0-9a-f]{6,31}(?![0-9a-zA-Z_])")
_FILLER: Final = re.compile(r"(.{12,200}?)\1{2,}", re.DOTALL)
_FIXED: Final = {
    "durationMs": 0,
    "pid": 0,
    "rssBytes": 0,
    "uptimeMs": 0,
    "version": "0",
    "build": "0",
    "socket": "socket",
}

_FREQUENT: Final = {"sidecar/event": "event", "session/update": "update"}
"""The words that stand for the most frequent messages."""

_LISTS: Final = frozenset(
    ("agentCapabilities", "availableCommands", "capabilities", "commands", "modes", "models")
)


def lines_of(stage: Stage, *, is_whole: bool, is_grouped: bool) -> list[str]:
    """Return the canonical lines of a played scene.

    First come the messages, one client after another, then on the LSP face the session files. The order of
    messages of different connections is not kept: nobody could rely on it. Where it is not *is_whole*, lists
    that hardly differ between sessions are left out. Results of our own methods on the ACP face are hashes,
    since the LSP face has the same ones. Where it *is_grouped*, the requests of the daemon stand behind the
    other messages of their step: it makes them side by side with its work.
    """
    names, seen, lines = _Names(), set[str](), list[str]()
    folder = str(stage.place.folder)
    for number, player in enumerate(stage.players, 1):
        joined = _join_deltas(_without_repeats(player.messages))
        if is_grouped:
            joined = _group(joined)
        shown = [(side, _replace(message, folder, is_whole=is_whole)) for side, message in joined]
        for _, message in shown:
            names.learn(json.dumps(message, ensure_ascii=False))
        if len(stage.players) > 1:
            lines.append(f"# client {number}, {player.face}")
        own: set[Any] = set()
        for side, message in shown:
            named = names.apply(message)
            if side == "-->":
                named = _cut_texts(named)
                if str(message.get("method")).startswith("_sidecar/"):
                    own.add(message.get("id"))
            elif "result" in named and named["id"] in own:
                named["result"] = {"hash": _hash(named["result"])}
            short = {name: _shorten(value, seen) for name, value in named.items()}
            if short.get("method") in _FREQUENT:
                side, short = f"{side} {_FREQUENT[short['method']]}", short["params"]
            lines.append(f"{side} {json.dumps(short, ensure_ascii=False)}")
    for sid in sorted(stage.stored, key=names.number) if stage.players[0].face == "lsp" else ():
        lines.append(f"# file of session {names.apply(sid)}")
        for stored in _records(stage.stored[sid]):
            record = _replace(stored, folder, is_whole=True)
            names.learn(json.dumps(record, ensure_ascii=False))
            parts = {name: _shorten(value, seen) for name, value in names.apply(record).items()}
            lines.append(f"=== {json.dumps(parts, ensure_ascii=False)}")
    return lines


def messages_of(lines: Iterable[str], face: str) -> Iterator[tuple[str, str, Message]]:
    """Yield the messages in a record of *face*, each after the face of its client and its side.

    The parts that ``lines_of`` has left to a hash are whole again.
    """
    known: dict[str, Any] = {}
    methods = {word: method for method, word in _FREQUENT.items()}
    for line in lines:
        head, _, rest = line.partition("{")
        side, _, word = head.strip().partition(" ")
        if line.startswith("# client"):
            face = line.rpartition(" ")[2]
        elif side in ("-->", "<--"):
            content = _lengthen(json.loads("{" + rest), known)
            yield face, side, {"method": methods[word], "params": content} if word else content


def _records(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the lines of a session file, of each ``meta`` record only the members that are new.

    Checksums are checked and left out: they change with every id.
    """
    known: dict[str, Any] = {}
    for raw in content.splitlines():
        line = json.loads(raw)
        if line.pop("sum", None) is not None and not is_sound(raw):
            line["sum"] = "does not match"
        records = line["records"] if line["type"] == "batch" else [line]
        for at, record in enumerate(records):
            if record["type"] == "meta":
                news = {name: each for name, each in record.items() if known.get(name, ...) != each}
                records[at], known = {"type": "meta", **news}, record
        yield line if line["type"] == "batch" else records[0]


class _Names:
    """The names of ids, by their order of appearance."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def learn(self, text: str) -> None:
        """Name the ids in *text*."""
        for found in _ID.findall(text):
            self._names.setdefault(found.replace("-", ""), f"id-{len(self._names) + 1}")

    def number(self, word: str) -> int:
        """Return the place of an id among all ids, in the order of their appearance."""
        return list(self._names).index(word.replace("-", ""))

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


def _group(messages: Iterable[tuple[str, Message]]) -> Iterator[tuple[str, Message]]:
    """Yield the messages of each step; progress, by token, and requests of the daemon stand at its end.

    Reports of progress are left out: those that come before the client knows the token are dropped or merged.
    So are requests that were made before in the same step: how often a file is read again goes by the load.
    """
    step: list[tuple[tuple[str, str], tuple[str, Message]]] = []
    methods: dict[Any, str] = {}

    def ordered() -> Iterator[tuple[str, Message]]:
        made: list[tuple[str, Message]] = []
        for (kind, _), message in sorted(step, key=lambda each: each[0]):
            if kind != "requests" or message not in made:
                yield message
                made.append(message)

    for side, message in messages:
        method, number = message.get("method"), message.get("id")
        group = ("", "")
        if side == "<--" and method is not None and number is not None:
            methods[number] = method
        if number in methods and (side == "<--") == (method is not None):
            group, message = ("requests", methods[number]), {**message, "id": "s"}
        elif method == "$/progress":
            if message["params"]["value"]["kind"] == "report":
                continue
            group = ("progress", str(message["params"]["token"]))
        elif side == "-->":
            yield from ordered()
            step.clear()
        step.append((group, (side, message)))
    yield from ordered()


def _join_deltas(messages: Iterable[tuple[str, Message]]) -> Iterator[tuple[str, Message]]:
    last: tuple[str, Message] | None = None
    for side, message in messages:
        joined = _join(last[1], message) if last is not None else None
        if last is not None and joined is None:
            yield last
        last = side, message if joined is None else joined
    if last is not None:
        yield last


def _join(first: Message, second: Message) -> Message | None:
    """Return two parts of one text as one message, None for any two others."""
    path = next((path for path, is_part in _PARTS if is_part(first) and is_part(second)), None)
    if path is None:
        return None
    (one, text), (other, more) = _take_text(first, path), _take_text(second, path)
    is_whole_so_far = path == _OUTPUT_SO_FAR
    if _without_number(one) != _without_number(other):
        return None
    joined: Message = _put_text(other, path, more if is_whole_so_far else text + more)
    return joined


_Path: TypeAlias = tuple[str | int, ...]
_OUTPUT_SO_FAR: Final[_Path] = ("params", "update", "content", 0, "content", "text")


def _is_event(*kinds: str) -> Callable[[Message], bool]:
    return lambda message: message.get("params", {}).get("kind") in kinds


def _is_update(*kinds: str) -> Callable[[Message], bool]:
    return lambda message: message.get("params", {}).get("update", {}).get("sessionUpdate") in kinds


def _is_output_so_far(message: Message) -> bool:
    update = message.get("params", {}).get("update", {})
    return {*update} == {"sessionUpdate", "toolCallId", "status", "content"} and [
        each.get("type") for each in update["content"]
    ] == ["content"]


_PARTS: Final[tuple[tuple[_Path, Callable[[Message], bool]], ...]] = (
    (("params", "data", "delta"), _is_event("textDelta", "thinkingDelta", "compactionSummaryDelta")),
    (("params", "data", "content"), _is_event("toolProgress")),
    (
        ("params", "update", "content", "text"),
        _is_update("agent_message_chunk", "agent_thought_chunk", "compaction_summary_chunk"),
    ),
    (_OUTPUT_SO_FAR, _is_output_so_far),
)
"""Where the text is in messages that bring a part of one, and how they are told from others."""


def _take_text(message: Message, path: _Path) -> tuple[Message, str]:
    value: Any = message
    for name in path:
        value = value[name]
    return _put_text(message, path, ""), str(value)


def _put_text(value: Any, path: _Path, text: str) -> Any:
    if not path:
        return text
    copied: Any = list(value) if isinstance(value, list) else dict(value)
    copied[path[0]] = _put_text(value[path[0]], path[1:], text)
    return copied


def _without_number(message: Message) -> Message:
    return {**message, "params": {**message["params"], "seq": 0, "at": 0}}


def _replace(value: Any, folder: str, key: str = "", *, is_whole: bool) -> Any:
    if not is_whole and key == "configOptions":
        return {option["id"]: option["currentValue"] for option in value}
    if not is_whole and key in _LISTS and isinstance(value, list | dict):
        return "..."
    if isinstance(value, dict):
        return {name: _replace(item, folder, name, is_whole=is_whole) for name, item in value.items()}
    if isinstance(value, list):
        return [_replace(item, folder, is_whole=is_whole) for item in value]
    if key in _FIXED and type(value) is type(_FIXED[key]):
        return _FIXED[key]
    if type(value) is int and 0 <= value - FIRST_MS < _DAY_MS:
        return f"+{(value - FIRST_MS) // 1000} s"
    if isinstance(value, str) and len(value) > _TEXT_CHARS:
        return f"{value[:_LONG_CHARS]}..."
    return _FILLER.sub(_count_filler, value.replace(folder, "/same")) if isinstance(value, str) else value


def _count_filler(found: re.Match[str]) -> str:
    return f"{found[1]}[{len(found[0]) // len(found[1])} times]"


def _cut_texts(value: Any) -> Any:
    """Return a message of the client with the beginning of each of its texts, without scripts of models."""
    if isinstance(value, dict):
        return {name: "..." if name == "models" else _cut_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_cut_texts(item) for item in value]
    if isinstance(value, str) and len(value) > _SENT_CHARS:
        return f"{value[:_SENT_CHARS]}..."
    return value


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()[:12]


def _lengthen(value: Any, known: dict[str, Any]) -> Any:
    """Return what ``_shorten`` was given, and add its long parts to *known*, by their hash."""
    if isinstance(value, dict):
        if "as before" in value:
            return known[value["as before"]]
        value = {name: _lengthen(item, known) for name, item in value.items()}
    elif isinstance(value, list):
        value = [_lengthen(item, known) for item in value]
    if isinstance(value, dict | list | str) and len(json.dumps(value, ensure_ascii=False)) >= _LONG_CHARS:
        known[_hash(value)] = value
    return value


def _shorten(value: Any, seen: set[str]) -> Any:
    """Return *value* with a hash in place of each long part that stood in an earlier line."""
    if not isinstance(value, dict | list | str):
        return value
    if len(json.dumps(value, ensure_ascii=False)) < _LONG_CHARS:
        return value
    digest = _hash(value)
    if digest in seen:
        return {"as before": digest}
    shown: Any = value
    if isinstance(value, dict):
        shown = {name: _shorten(item, seen) for name, item in value.items()}
    elif isinstance(value, list):
        shown = [_shorten(item, seen) for item in value]
    seen.add(digest)
    return shown
