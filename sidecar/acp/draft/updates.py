"""Events of a session as ``session/update`` of the draft: one table, kind of event by kind of event.

Takes events as the wire has them, and gives updates. Keeps nothing but which turn was told to be running. An
event with ``seq`` 0 is from the past of a session that is being loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from sidecar.acp.draft.shapes import commands, config_options, tool_content
from sidecar.acp.shapes import Update, WireEvent, text_block, usage_update
from sidecar.acp.tool_updates import restored_update, text_content, tool_kind
from sidecar.acp.updates import aside, info_update, notice_of, plan_entries
from sidecar.conductor.contract import PermissionRequest
from sidecar.protocol.errors import acp_code

__all__ = ["DraftUpdateMapper", "message_id"]

_COMPACTION_STATUSES: Final = frozenset(("in_progress", "failed", "cancelled"))
_OUT_OF_REQUESTS: Final = "turnBudget"


class DraftUpdateMapper:
    """Tells one session to one client."""

    def __init__(self) -> None:
        self._running: str | None = None

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of events that say anything to the client."""
        return _KINDS

    def updates(self, event: WireEvent) -> Iterator[Update]:
        """Return what *event* says to the client."""
        kind, turn_id = event["kind"], event.get("turnId")
        if kind in _ENDS:
            yield from self._ended(event)
            return
        if turn_id is not None and self._running is None:
            self._running = turn_id
            yield _state("running")
        if (tell := _TABLE.get(kind)) is not None:
            yield from tell(event)

    def runs_in(self, call_id: str, terminal_id: str) -> Iterable[Update]:
        """Return nothing: clients have no terminals to lend any more."""
        return ()

    def asked(self) -> Iterator[Update]:
        """Return that the session waits for its user."""
        if self._running is not None:
            yield _state("requires_action")

    def answered(self, request: PermissionRequest, *, may: bool) -> Iterator[Update]:
        """Return that the session goes on, and with it the call if it *may*."""
        if may:
            call_id = request.subject.tool_call_id
            yield {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": "in_progress"}
        if self._running is not None:
            yield _state("running")

    def _ended(self, event: WireEvent) -> Iterator[Update]:
        """A prompt that is taken out of the queue ends, too, while another one is being answered."""
        if self._running in (None, event["turnId"]):
            was_told = self._running is not None
            self._running = None
            if was_told:
                yield _idle(event)


def message_id(node_id: str | None, turn_id: str | None, seq: int) -> str:
    """Return the id of a prompt; one that is no part of the stored conversation is named by its event."""
    return node_id or f"{turn_id}.{seq}"


def _state(state: str) -> Update:
    return {"sessionUpdate": "state_update", "state": state}


def _idle(event: WireEvent) -> Update:
    data = event["data"]
    update = _state("idle") | {"_meta": {"sidecar": {**data, "seq": event["seq"]}}}
    if "stopReason" in data:
        return update | {"stopReason": data["stopReason"]}
    if data["kind"] == _OUT_OF_REQUESTS:
        return update | {"stopReason": "max_turn_requests"}
    error = {"code": acp_code(data["kind"]), "message": data["message"], "data": {"kind": data["kind"]}}
    return update | {"stopReason": "error", "error": error}


def _user_message(event: WireEvent) -> Iterator[Update]:
    data = event["data"]
    named = message_id(data.get("nodeId"), event.get("turnId"), event["seq"])
    yield {"sessionUpdate": "user_message", "messageId": named, "content": data["content"]}


def _text_delta(event: WireEvent) -> Iterator[Update]:
    data = event["data"]
    content = text_block(data["delta"])
    yield {"sessionUpdate": "agent_message_chunk", "messageId": data["messageId"], "content": content}


def _thinking_delta(event: WireEvent) -> Iterator[Update]:
    data = event["data"]
    content = text_block(data["delta"])
    yield {
        "sessionUpdate": "agent_thought_chunk",
        "messageId": _thought(data["messageId"]),
        "content": content,
    }


def _message(event: WireEvent) -> Iterator[Update]:
    """Restate an answer whole, in place of its chunks."""
    named, content = event["data"]["messageId"], event["data"]["content"]
    thoughts = [text_block(block["text"]) for block in content if block["type"] == "thinking"]
    said = [block for block in content if block["type"] != "thinking"]
    if thoughts:
        yield {"sessionUpdate": "agent_thought", "messageId": _thought(named), "content": thoughts}
    if said:
        yield {"sessionUpdate": "agent_message", "messageId": named, "content": said}


def _thought(named: str) -> str:
    """The reasoning of an answer is a message of its own."""
    return f"{named}.thought"


def _tool_started(event: WireEvent) -> Iterator[Update]:
    data = event["data"]
    update = _call(data) | {"status": "in_progress"}
    yield update | ({"rawInput": data["input"]} if "input" in data else {})


def _tool_progress(event: WireEvent) -> Iterator[Update]:
    data = event["data"]
    content = text_content(data["content"])
    yield {
        "sessionUpdate": "tool_call_content_chunk",
        "toolCallId": data["toolCallId"],
        "content": content,
    }


def _tool_finished(event: WireEvent) -> Iterator[Update]:
    data = event["data"]
    shown = tool_content(data.get("diffs", ()), data.get("content"))
    status = "failed" if data["isError"] else "completed"
    yield _call(data) | {"status": status, "content": shown, "rawOutput": data.get("content")}


def _call(data: Mapping[str, Any]) -> Update:
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": data["toolCallId"],
        "name": data["name"],
        "title": data["title"],
        "kind": tool_kind(data["kind"]),
        "locations": list(data.get("locations", ())),
    }


def _plan(event: WireEvent) -> Iterator[Update]:
    """A session has one plan."""
    plan = {"type": "items", "planId": f"plan-{event['sid']}", "entries": plan_entries(event)}
    yield {"sessionUpdate": "plan_update", "plan": plan}


def _usage(event: WireEvent) -> Iterator[Update]:
    yield usage_update(event["data"])


def _compaction(event: WireEvent) -> Iterator[Update]:
    """What came to nothing and what was undone is completed, with no summary: there is no word for either."""
    data = event["data"]
    status = data["status"] if data["status"] in _COMPACTION_STATUSES else "completed"
    update: Update = {"sessionUpdate": "compaction_update", "compactionId": data["compactionId"]}
    update |= {"status": status, "_meta": {"sidecar": data}}
    if status == "completed":
        is_made = data["status"] == "completed" and data.get("summary")
        update["summary"] = [text_block(data["summary"])] if is_made else None
    if status == "failed":
        update["error"] = data.get("error") or "the compaction failed"
    yield update


def _summary_delta(event: WireEvent) -> Iterator[Update]:
    data = event["data"]
    content = text_block(data["delta"])
    yield {
        "sessionUpdate": "compaction_summary_chunk",
        "compactionId": data["compactionId"],
        "content": content,
    }


def _rehydrated(event: WireEvent) -> Iterator[Update]:
    yield restored_update(event) | {"sessionUpdate": "tool_call_update"}


def _notice(event: WireEvent) -> Iterator[Update]:
    yield {"sessionUpdate": "notice", **notice_of(event)}


def _config(event: WireEvent) -> Iterator[Update]:
    options = config_options(event["data"]["configOptions"])
    yield {"sessionUpdate": "config_option_update", "configOptions": options}


def _commands(event: WireEvent) -> Iterator[Update]:
    offered = commands(event["data"]["commands"])
    yield {"sessionUpdate": "available_commands_update", "availableCommands": offered}


def _nothing(_: WireEvent) -> Iterable[Update]:
    """It says only that a turn is running."""
    return ()


_ENDS: Final = frozenset(("settled", "faulted"))
_TABLE: Final[dict[str, Callable[[WireEvent], Iterable[Update]]]] = {
    "phase": _nothing,
    "userMessage": _user_message,
    "textDelta": _text_delta,
    "thinkingDelta": _thinking_delta,
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
    "queue": aside,
    "headMoved": aside,
    "configChanged": _config,
    "commandsChanged": _commands,
    "infoChanged": info_update,
}
_KINDS: Final = frozenset(_TABLE) | _ENDS
