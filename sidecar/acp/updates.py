"""Events of a session as ``session/update``: one table, kind of event by kind of event (protocol 4.4).

Takes events as the wire has them, and gives updates. It translates and leaves out; it never makes anything
up. An event with ``seq`` 0 is from the past of a session that is being loaded: it is told whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from sidecar.acp.compaction_updates import CompactionUpdates
from sidecar.acp.shapes import (
    Update,
    WireEvent,
    commands_update,
    iso_time,
    mode_state,
    text_block,
    usage_update,
)
from sidecar.acp.tool_updates import ToolUpdates, restored_update
from sidecar.conductor.contract import PermissionRequest
from sidecar.service.streaming import StreamedText

__all__ = ["FirstUpdateMapper", "aside", "info_update", "notice_of", "plan_entries"]

_CHUNKS: Final = {"text": "agent_message_chunk", "thinking": "agent_thought_chunk"}
_PRIORITIES: Final = frozenset(("high", "medium", "low"))
_STATUSES: Final = frozenset(("pending", "in_progress", "completed"))


class FirstUpdateMapper:
    """Tells one session to the client *client_id*, which takes *notices* and *compactions* as such or not."""

    def __init__(self, *, notices: bool, compactions: bool, client_id: str | None = None) -> None:
        self.takes_notices = notices
        self.client_id = client_id
        self.streamed = StreamedText()
        self.tools = ToolUpdates()
        self.compactions = CompactionUpdates(takes_updates=compactions)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of events that say anything; a turn's end is told by the answer to its prompt."""
        return _KINDS

    def updates(self, event: WireEvent) -> Iterable[Update]:
        """Return what *event* says to the client; nothing for most of what only our own clients know."""
        tell = _TABLE.get(event["kind"])
        return () if tell is None else tell(self, event)

    def runs_in(self, call_id: str, terminal_id: str) -> Iterable[Update]:
        """Return what shows a call in a terminal of the client's."""
        return (self.tools.runs_in(call_id, terminal_id),)

    def asked(self) -> Iterable[Update]:
        """Return nothing: the question says that it is asked."""
        return ()

    def answered(self, request: PermissionRequest, *, may: bool) -> Iterator[Update]:
        """Return that the call goes on if it *may*."""
        if may:
            call_id = request.subject.tool_call_id
            yield {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": "in_progress"}


def plan_entries(event: WireEvent) -> list[dict[str, Any]]:
    """Return the entries of a plan, in the words of the protocol."""
    return [
        {
            "content": entry["content"],
            "priority": _one_of(entry["priority"], _PRIORITIES, "medium"),
            "status": _one_of(entry["status"], _STATUSES, "pending"),
        }
        for entry in event["data"]["entries"]
    ]


def notice_of(event: WireEvent) -> dict[str, Any]:
    """Return what ``fileStale``, ``retry`` and ``notice`` say to a user."""
    severity, title, description = _NOTICES[event["kind"]](event["data"])
    said: dict[str, Any] = {"severity": severity, "title": title}
    return said | ({"description": description} if description else {}) | {"_meta": _aside_meta(event)}


def aside(event: WireEvent) -> Iterator[Update]:
    """What the protocol has no word for is there for who looks for it."""
    yield {"sessionUpdate": "session_info_update", "_meta": _aside_meta(event)}


def info_update(event: WireEvent) -> Iterator[Update]:
    """Tell a session's title and when it was last at work."""
    data = event["data"]
    yield {
        "sessionUpdate": "session_info_update",
        "title": data["title"] or None,
        "updatedAt": iso_time(data["updatedAt"]),
        "_meta": {"sidecar": {"archived": data["archived"]}},
    }


def _user_message(teller: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    """A client knows its own prompts; those of the past are told, and those of others."""
    source = event["data"].get("source")
    if event["seq"] == 0 or (source is not None and source["clientId"] != teller.client_id):
        for block in event["data"]["content"]:
            yield _chunk("user_message_chunk", block, event["data"].get("nodeId"))


def _delta(kind: str) -> Callable[[FirstUpdateMapper, WireEvent], tuple[Update, ...]]:
    update = _CHUNKS[kind]

    def tell(teller: FirstUpdateMapper, event: WireEvent) -> tuple[Update, ...]:
        message_id, delta = event["data"]["messageId"], event["data"]["delta"]
        teller.streamed.add(message_id, kind, delta)
        return ({"sessionUpdate": update, "content": text_block(delta), "messageId": message_id},)

    return tell


def _message(teller: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    """Deltas have told a message already, mostly."""
    message_id, content = event["data"]["messageId"], event["data"]["content"]
    if event["seq"] != 0:
        content = [*_rest(teller.streamed, message_id, content), *_without_text(content)]
    for block in content:
        yield _chunk(_CHUNKS.get(block["type"], "agent_message_chunk"), block, message_id)


def _rest(
    streamed: StreamedText, message_id: str, content: Iterable[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    blocks = list(content)
    for kind in ("thinking", "text"):
        whole = "".join(block["text"] for block in blocks if block["type"] == kind)
        if rest := streamed.missing(message_id, kind, whole):
            yield {"type": kind, "text": rest}


def _without_text(content: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (block for block in content if block["type"] not in _CHUNKS)


def _tool_started(teller: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    yield teller.tools.started(event)


def _tool_progress(teller: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    yield teller.tools.progress(event)


def _tool_finished(teller: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    yield teller.tools.finished(event)


def _plan(_: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    yield {"sessionUpdate": "plan", "entries": plan_entries(event)}


def _usage(_: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    yield usage_update(event["data"])


def _compaction(teller: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    yield teller.compactions.told(event)


def _summary_delta(teller: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    update = teller.compactions.summary(event)
    if update is not None:
        yield update


def _rehydrated(_: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    yield restored_update(event)


def _notice(teller: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    """A client that takes no notices must not be sent any; what they say is there for who looks for it."""
    if teller.takes_notices:
        yield {"sessionUpdate": "notice", **notice_of(event)}
    else:
        yield from aside(event)


def _aside(_: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    return aside(event)


def _config(_: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    options = event["data"]["configOptions"]
    yield {"sessionUpdate": "config_option_update", "configOptions": options}
    modes = mode_state(options)
    if modes is not None:
        yield {"sessionUpdate": "current_mode_update", "currentModeId": modes["currentModeId"]}


def _commands(_: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    yield commands_update(event["data"]["commands"])


def _info(_: FirstUpdateMapper, event: WireEvent) -> Iterator[Update]:
    return info_update(event)


def _chunk(update: str, block: Mapping[str, Any], message_id: str | None) -> Update:
    content = text_block(block["text"]) if block["type"] in _CHUNKS else block
    chunk: Update = {"sessionUpdate": update, "content": content}
    return chunk if message_id is None else chunk | {"messageId": message_id}


def _one_of(word: str, known: frozenset[str], otherwise: str) -> str:
    return word if word in known else otherwise


def _aside_meta(event: WireEvent) -> dict[str, Any]:
    return {"sidecar": {event["kind"]: event["data"]}}


def _stale(data: Mapping[str, Any]) -> tuple[str, str, str]:
    what = "is gone" if data.get("nowHash") is None else "has changed"
    return "info", f"A file {what} since it was read", data["uri"]


def _retry(data: Mapping[str, Any]) -> tuple[str, str, str]:
    title = f"The model did not answer; trying again in {data['delayMs'] / 1000:g} s"
    return "warning", title, f"{data['error']} ({data['attempt']} of {data['max']})"


def _plain(data: Mapping[str, Any]) -> tuple[str, str, str]:
    return data["severity"], data["title"], data.get("description", "")


_NOTICES: Final = {"fileStale": _stale, "retry": _retry, "notice": _plain}
_TABLE: Final[dict[str, Callable[[FirstUpdateMapper, WireEvent], Iterable[Update]]]] = {
    "userMessage": _user_message,
    "textDelta": _delta("text"),
    "thinkingDelta": _delta("thinking"),
    "message": _message,
    "toolStarted": _tool_started,
    "toolProgress": _tool_progress,
    "toolFinished": _tool_finished,
    "plan": _plan,
    "usage": _usage,
    "compaction": _compaction,
    "compactionSummaryDelta": _summary_delta,
    "rehydrated": _rehydrated,
    "fileStale": _notice,
    "retry": _notice,
    "notice": _notice,
    "queue": _aside,
    "headMoved": _aside,
    "configChanged": _config,
    "commandsChanged": _commands,
    "infoChanged": _info,
}

_KINDS: Final = frozenset(_TABLE)
