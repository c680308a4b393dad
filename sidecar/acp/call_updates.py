"""Tool calls and compactions as updates; restored files and changed rules, which are shown as calls.

A tool call is a ``tool_call`` and the ``tool_call_update`` messages that change it. A compaction is a
``compaction_update`` where the client takes those, else a tool call of kind ``think``. The protocol has no
word for a compaction that did nothing, was undone or expanded: for every client these are completed calls.
Pure, except that the output of running tools and the compactions in progress are collected here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar.acp.shapes import (
    Update,
    WireEvent,
    diff_content,
    make_update,
    text_block,
    text_content,
    tool_kind,
)
from sidecar.conductor.contract import report_loss
from sidecar.workspace.paths import uri_to_path

_SHOWN_CHARS: Final = 16_000
"""How much of a running tool's output is shown: its end."""

_COMPACTION_TITLE: Final = "Compact conversation"
_EXPANSION_TITLE: Final = "Show turns behind a summary again"
_META_VERSION: Final = 1


class ToolUpdates:
    """The tool calls of one session; an update replaces everything that a call shows."""

    def __init__(self) -> None:
        self._output: dict[str, str] = {}
        self._terminals: dict[str, dict[str, Any]] = {}

    def start(self, event: WireEvent) -> Update:
        """Return the beginning of a call."""
        data = event["data"]
        update = _tool_call("tool_call", data) | {"status": "in_progress"}
        return update | ({"rawInput": data["input"]} if "input" in data else {})

    def show_terminal(self, call_id: str, terminal_id: str) -> Update:
        """Return a call that shows the client's terminal, which shows the output."""
        shown = self._terminals[call_id] = {"type": "terminal", "terminalId": terminal_id}
        return make_update("tool_call_update", toolCallId=call_id, content=[shown])

    def add_output(self, event: WireEvent) -> Update:
        """Return a call with its output so far, or with the end of it."""
        call_id = event["data"]["toolCallId"]
        shown = (self._output.get(call_id, "") + event["data"]["content"])[-_SHOWN_CHARS:]
        self._output[call_id] = shown
        content = [text_content(shown)]
        return make_update("tool_call_update", toolCallId=call_id, status="in_progress", content=content)

    def finish(self, event: WireEvent) -> Update:
        """Return the end of a call: its changes of files if it made any, else its terminal or its output."""
        data = event["data"]
        self._output.pop(data["toolCallId"], None)
        terminal = self._terminals.pop(data["toolCallId"], None)
        output = data.get("content")
        content = [diff_content(diff) for diff in data.get("diffs", ())]
        if not content and terminal:
            content = [terminal]
        elif not content and isinstance(output, str) and output:
            content = [text_content(output)]
        # Older clients drop an update whose raw output is no object.
        raw = output if output is None or isinstance(output, Mapping) else {"output": output}
        update = _tool_call("tool_call_update", data) | {"content": content, "rawOutput": raw}
        return update | {"status": "failed" if data["isError"] else "completed"}


def _tool_call(update: str, data: Mapping[str, Any]) -> Update:
    return {
        "sessionUpdate": update,
        "toolCallId": data["toolCallId"],
        "name": data["name"],
        "title": data["title"],
        "kind": tool_kind(data["kind"]),
        "locations": list(data.get("locations", ())),
        "_meta": {"sidecar": {"tool": data["name"]}},
    }


def restoration_update(event: WireEvent) -> Update:
    """Return restored files as one completed call that read them."""
    files, missing = event["data"]["files"], event["data"].get("missing", ())
    names = [str(uri_to_path(file["uri"]) or file["uri"]) for file in files]
    lines = [*names, *(f"{uri} cannot be read any more" for uri in missing)]
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": f"restored-{event['sid']}-{event['seq']}",
        "title": f"Read {len(names)} {'file' if len(names) == 1 else 'files'} again",
        "kind": "read",
        "status": "completed",
        "locations": [{"path": name} for name in names],
        "content": [text_content("\n".join(lines))] if lines else [],
        "_meta": {"sidecar": {"rehydrated": event["data"]}},
    }


class CompactionUpdates:
    """The compactions of one session, for a client that *takes_updates* or not."""

    def __init__(self, *, takes_updates: bool) -> None:
        self._takes_updates = takes_updates
        self._running: set[str] = set()
        self._ended: set[str] = set()

    def update(self, event: WireEvent) -> Update:
        """Return the state of a compaction."""
        data = event["data"]
        status, compaction_id = data["status"], data["compactionId"]
        was_running = compaction_id in self._running
        if status == "in_progress":
            self._running.add(compaction_id)
        else:
            self._running.discard(compaction_id)
        # The counts of a large conversation follow the outcome, for the same call.
        if status == "completed":
            was_running |= compaction_id in self._ended
            self._ended.add(compaction_id)
        is_known = status not in ("noop", "undone") and data["trigger"] != "expand"
        if self._takes_updates and (was_running or is_known):
            return compaction_update(data)
        return compaction_call(data, is_new=not was_running)

    def add_summary(self, event: WireEvent) -> tuple[Update, ...]:
        """Return more of a summary; nothing for a client that sees it only when it is whole."""
        if not self._takes_updates:
            return ()
        compaction_id, content = event["data"]["compactionId"], text_block(event["data"]["delta"])
        return (make_update("compaction_summary_chunk", compactionId=compaction_id, content=content),)


class RuleUpdates:
    """The rules of one session that the client was told of."""

    def __init__(self) -> None:
        self._known: dict[str, str] | None = None

    def update(self, event: WireEvent) -> tuple[Update, ...]:
        """Return a completed call that names the rules that were added and taken back; nothing for none.

        The rules that a session is opened with are not news: they come first, and outside of a turn.
        """
        rules = {rule["id"]: rule["text"] for rule in event["data"]["rules"]}
        proposed = {rule["id"] for rule in event["data"]["rules"] if rule.get("proposed")}
        known = rules if self._known is None and event.get("turnId") is None else self._known or {}
        self._known = rules
        added = [
            f"{text}\n/rules keep {name} keeps it, /rules dismiss {name} ends it"
            if name in proposed
            else f"{text}\n/forget {name} takes it back"
            for name, text in rules.items()
            if name not in known
        ]
        removed = [text for name, text in known.items() if name not in rules]
        if not added and not removed:
            return ()
        return (
            {
                "sessionUpdate": "tool_call",
                "toolCallId": f"rules-{event['sid']}-{event['seq']}",
                "title": "Keep a rule" if added else "Take a rule back",
                "kind": "think",
                "status": "completed",
                "content": [text_content("\n\n".join((*added, *(f"No longer: {text}" for text in removed))))],
                "_meta": {"sidecar": {"rulesChanged": event["data"]}},
            },
        )


def compaction_update(data: Mapping[str, Any]) -> Update:
    """Return a compaction as an update of its own kind."""
    status = data["status"]
    is_known = status in ("in_progress", "failed", "cancelled")
    update: Update = {
        "sessionUpdate": "compaction_update",
        "compactionId": data["compactionId"],
        "status": status if is_known else "completed",
        "_meta": _compaction_meta(data),
    }
    if status == "completed" and outcome_texts(data):
        update["summary"] = [text_block(text) for text in outcome_texts(data)]
    if status == "failed":
        update["error"] = data.get("error") or "the compaction failed"
    return update


def compaction_call(data: Mapping[str, Any], *, is_new: bool) -> Update:
    """Return a compaction as a call; undoing it is a call of its own, later in the client's timeline."""
    status = data["status"]
    shown = data.get("error") or data.get("reason")
    if status == "completed":
        shown = "\n\n".join(outcome_texts(data))
    call_status = {"in_progress": "in_progress", "failed": "failed", "cancelled": "failed"}
    is_undone = status == "undone"
    title = _EXPANSION_TITLE if data["trigger"] == "expand" else _COMPACTION_TITLE
    return {
        "sessionUpdate": "tool_call" if is_new else "tool_call_update",
        "toolCallId": f"{'undo' if is_undone else 'compaction'}-{data['compactionId']}",
        "title": f"{title}: undone" if is_undone else title,
        "kind": "think",
        "status": call_status.get(status, "completed"),
        "content": [text_content(shown)] if shown else [],
        "_meta": _compaction_meta(data),
    }


def outcome_texts(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the summary of a compaction and the line about its facts, as far as they are there."""
    line = ""
    if (loss := data.get("loss")) is not None:
        line = report_loss(
            loss["kept"], loss["shortened"], loss["gone"], loss.get("mended", 0), loss.get("line") or 0
        )
    return tuple(filter(None, (data.get("summary"), line)))


def _compaction_meta(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the marker that other agents use for compactions, and the whole record."""
    marker: dict[str, Any] = {"version": _META_VERSION}
    marker["trigger"] = "manual" if data["trigger"] in ("manual", "undo", "expand") else "automatic"
    names = ("preTokens", "postTokens", "durationMs", "error")
    marker |= {name: data[name] for name in names if data.get(name) is not None}
    return {"contextCompaction": marker, "sidecar": data}
