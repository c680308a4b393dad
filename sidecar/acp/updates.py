"""Map events of a session to ``session/update`` of version 1: one row of a table for each kind of event.

A mapper takes events as the wire has them and translates them; it never invents anything. An event that the
protocol has no word for becomes ``_meta.sidecar`` of an otherwise empty update, and so does ``gap``, which
stands for lost events. An event with ``seq`` 0 is from the past of a session that is being loaded, and is
mapped whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from sidecar.acp.call_updates import CompactionUpdates, RuleUpdates, ToolUpdates, restoration_update
from sidecar.acp.shapes import (
    Update,
    WireEvent,
    commands_update,
    config_updates,
    iso_time,
    make_update,
    text_block,
    usage_updates,
)
from sidecar.conductor.contract import PermissionRequest
from sidecar.conductor.events import describe_retry
from sidecar.service.streaming import StreamedText

_CHUNKS: Final = {"text": "agent_message_chunk", "thinking": "agent_thought_chunk"}
_PRIORITIES: Final = frozenset(("high", "medium", "low"))
_STATUSES: Final = frozenset(("pending", "in_progress", "completed"))


class UpdateMapperV1:
    """An :class:`~sidecar.acp.version.UpdateMapper` of one session.

    Args:
        notices: whether the client takes notices.
        compactions: whether the client takes updates of compactions.
        client_id: the client, which knows its own prompts; None for the replay of the past.
    """

    def __init__(self, *, notices: bool, compactions: bool, client_id: str | None = None) -> None:
        self.takes_notices = notices
        self.client_id = client_id
        self.streamed = StreamedText()
        self.tools = ToolUpdates()
        self.compactions = CompactionUpdates(takes_updates=compactions)
        self.rules = RuleUpdates()

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of events that have updates; the end of a turn has none, but answers its prompt."""
        return _KINDS

    def updates(self, event: WireEvent) -> Iterable[Update]:
        """Return the updates of *event*; none for kinds that only our own clients know."""
        row = _TABLE.get(event["kind"])
        return () if row is None else row(self, event)

    def terminal_updates(self, call_id: str, terminal_id: str) -> Iterable[Update]:
        """Return the update that shows a tool call in a terminal of the client."""
        return (self.tools.show_terminal(call_id, terminal_id),)

    def question_updates(self) -> Iterable[Update]:
        """Return nothing: the question shows by itself."""
        return ()

    def answer_updates(self, request: PermissionRequest, *, is_allowed: bool) -> Iterator[Update]:
        """Yield that the call continues, if the user allowed it."""
        if is_allowed:
            call_id = request.subject.tool_call_id
            yield make_update("tool_call_update", toolCallId=call_id, status="in_progress")

    def prompt_updates(self, event: WireEvent) -> Iterator[Update]:
        """Yield a prompt of the past or of another client; a client knows its own prompts."""
        source = event["data"].get("source")
        if event["seq"] == 0 or (source is not None and source["clientId"] != self.client_id):
            for block in event["data"]["content"]:
                yield _chunk("user_message_chunk", block, event["data"].get("nodeId"))

    def message_updates(self, event: WireEvent) -> Iterator[Update]:
        """Yield a whole message, or in a followed session only the rest that its deltas have not brought."""
        message_id, content = event["data"]["messageId"], event["data"]["content"]
        if event["seq"] != 0:
            missing: list[Mapping[str, Any]] = []
            for kind in ("thinking", "text"):
                whole = "".join(block["text"] for block in content if block["type"] == kind)
                if rest := self.streamed.rest_of(message_id, kind, whole):
                    missing.append({"type": kind, "text": rest})
            self.streamed.has_gap = False
            content = [*missing, *(block for block in content if block["type"] not in _CHUNKS)]
        for block in content:
            yield _chunk(_CHUNKS.get(block["type"], "agent_message_chunk"), block, message_id)

    def gap_updates(self, event: WireEvent) -> Iterator[Update]:
        """Yield that events are lost; the next whole message brings all that is missing in order."""
        self.streamed.has_gap = True
        yield as_meta(event)


def plan_entries(event: WireEvent) -> list[dict[str, Any]]:
    """Return the entries of a plan; unknown priorities and statuses become the protocol's default."""
    return [
        {
            "content": entry["content"],
            "priority": entry["priority"] if entry["priority"] in _PRIORITIES else "medium",
            "status": entry["status"] if entry["status"] in _STATUSES else "pending",
        }
        for entry in event["data"]["entries"]
    ]


def notice_of(event: WireEvent) -> dict[str, Any]:
    """Return the notice of ``fileStale``, ``retry``, ``compactionNear`` or ``notice`` for a user."""
    data = event["data"]
    match event["kind"]:
        case "fileStale":
            change = "is gone" if data.get("nowHash") is None else "has changed"
            severity, title, description = "info", f"A file {change} since it was read", data["uri"]
        case "retry":
            title = describe_retry(data["delayMs"], data.get("withdrawn"))
            title = title[0].upper() + title[1:]
            severity, description = "warning", f"{data['error']} ({data['attempt']} of {data['max']})"
        case "compactionNear":
            severity, title = "info", "A compaction is near"
            share = f"{data['used']:,} of {data['limit']:,} tokens"
            description = f"{share}; /compact with a wish decides what the summary stresses"
        case _:
            severity, title, description = data["severity"], data["title"], data.get("description", "")
    notice = {"severity": severity, "title": title, "_meta": _event_meta(event)}
    return notice | ({"description": description} if description else {})


def as_meta(event: WireEvent) -> Update:
    """Return an event that the protocol has no word for as ``_meta`` of an otherwise empty update."""
    return make_update("session_info_update", _meta=_event_meta(event))


def info_update(event: WireEvent) -> Update:
    """Return a session's title and the time of its last activity."""
    data = event["data"]
    meta = {"sidecar": {"archived": data["archived"]}}
    title, updated_at = data["title"] or None, iso_time(data["updatedAt"])
    return make_update("session_info_update", title=title, updatedAt=updated_at, _meta=meta)


def _event_meta(event: WireEvent) -> dict[str, Any]:
    return {"sidecar": {event["kind"]: event["data"]}}


def _delta(kind: str) -> Callable[[UpdateMapperV1, WireEvent], tuple[Update, ...]]:
    update = _CHUNKS[kind]

    def row(mapper: UpdateMapperV1, event: WireEvent) -> tuple[Update, ...]:
        message_id, delta = event["data"]["messageId"], event["data"]["delta"]
        if mapper.streamed.has_gap:
            return ()
        mapper.streamed.add(message_id, kind, delta)
        return (make_update(update, content=text_block(delta), messageId=message_id),)

    return row


def _chunk(update: str, block: Mapping[str, Any], message_id: str | None) -> Update:
    content = text_block(block["text"]) if block["type"] in _CHUNKS else block
    chunk = make_update(update, content=content)
    return chunk if message_id is None else chunk | {"messageId": message_id}


def _notice(mapper: UpdateMapperV1, event: WireEvent) -> tuple[Update, ...]:
    """Return a notice, or a chunk of the conversation for a client without notices.

    A problem is written into the conversation, where its user looks, and so is the end of a message that does
    not count. Another try of the model and news of a turn are thoughts; other news and changed files are
    ``_meta`` alone.
    """
    notice = notice_of(event)
    if mapper.takes_notices:
        return (make_update("notice", **notice),)
    is_news = notice["severity"] == "info"
    if event["kind"] == "fileStale" or (is_news and event.get("turnId") is None):
        return (as_meta(event),)
    is_withdrawal = event["kind"] == "retry" and event["data"].get("withdrawn") is not None
    is_thought = (event["kind"] == "retry" and not is_withdrawal) or is_news
    update = "agent_thought_chunk" if is_thought else "agent_message_chunk"
    text = ": ".join(
        filter(None, (notice["severity"].capitalize(), notice["title"], notice.get("description")))
    )
    # Many clients join all chunks, so that the blank lines alone keep it apart from the answer.
    chunk = _chunk(update, {"type": "text", "text": f"\n\n{text}\n\n"}, f"notice-{event['seq']}")
    return (chunk | {"_meta": notice["_meta"]},)


_TABLE: Final[dict[str, Callable[[UpdateMapperV1, WireEvent], Iterable[Update]]]] = {
    "userMessage": UpdateMapperV1.prompt_updates,
    "textDelta": _delta("text"),
    "thinkingDelta": _delta("thinking"),
    "message": UpdateMapperV1.message_updates,
    "toolStarted": lambda mapper, event: (mapper.tools.start(event),),
    "toolProgress": lambda mapper, event: (mapper.tools.add_output(event),),
    "toolFinished": lambda mapper, event: (mapper.tools.finish(event),),
    "plan": lambda _, event: (make_update("plan", entries=plan_entries(event)),),
    "usage": lambda _, event: tuple(usage_updates(event["data"])),
    "compaction": lambda mapper, event: (mapper.compactions.update(event),),
    "compactionSummaryDelta": lambda mapper, event: mapper.compactions.add_summary(event),
    "rehydrated": lambda _, event: (restoration_update(event),),
    "compactionNear": _notice,
    "fileStale": _notice,
    "retry": _notice,
    "notice": _notice,
    "gap": UpdateMapperV1.gap_updates,
    "queue": lambda _, event: (as_meta(event),),
    "headMoved": lambda _, event: (as_meta(event),),
    "pinsChanged": lambda _, event: (as_meta(event),),
    "rulesChanged": lambda mapper, event: mapper.rules.update(event) or (as_meta(event),),
    "configChanged": lambda _, event: config_updates(event["data"]["configOptions"]),
    "commandsChanged": lambda _, event: (commands_update(event["data"]["commands"]),),
    "infoChanged": lambda _, event: (info_update(event),),
}

_KINDS: Final = frozenset(_TABLE)
