"""Compactions as ``compaction_update`` where the client takes those, else as a tool call of kind ``think``.

What came to nothing and what was undone is a completed tool call for every client: the protocol has no word
for either. Pure, but for which compactions have begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar.acp.shapes import Update, WireEvent, text_block
from sidecar.acp.tool_updates import text_content

__all__ = ["CompactionUpdates"]

_TITLE: Final = "Compact conversation"
_STATUSES: Final = {"in_progress": "in_progress", "failed": "failed", "cancelled": "cancelled"}
_META_VERSION: Final = 1


class CompactionUpdates:
    """The compactions of one session, for a client that *takes_updates* or not."""

    def __init__(self, *, takes_updates: bool) -> None:
        self._takes_updates = takes_updates
        self._begun: set[str] = set()

    def told(self, event: WireEvent) -> Update:
        """Return how a compaction stands."""
        data = event["data"]
        status, compaction_id = data["status"], data["compactionId"]
        has_begun = compaction_id in self._begun
        if status == "in_progress":
            self._begun.add(compaction_id)
        else:
            self._begun.discard(compaction_id)
        if self._takes_updates and (has_begun or status not in ("noop", "undone")):
            return _as_compaction(data)
        return _as_call(data, is_new=not has_begun)

    def summary(self, event: WireEvent) -> Update | None:
        """Return more of a summary, None for a client that sees it only when it is whole."""
        if not self._takes_updates:
            return None
        data = event["data"]
        update: Update = {"sessionUpdate": "compaction_summary_chunk", "compactionId": data["compactionId"]}
        return update | {"content": text_block(data["delta"])}


def _as_compaction(data: Mapping[str, Any]) -> Update:
    update: Update = {
        "sessionUpdate": "compaction_update",
        "compactionId": data["compactionId"],
        "status": _STATUSES.get(data["status"], "completed"),
        "_meta": _meta(data),
    }
    if data["status"] == "completed" and data.get("summary"):
        update["summary"] = [text_block(data["summary"])]
    if data["status"] == "failed":
        update["error"] = data.get("error") or "the compaction failed"
    return update


def _as_call(data: Mapping[str, Any], *, is_new: bool) -> Update:
    status = data["status"]
    shown = data.get("summary") if status == "completed" else data.get("error") or data.get("reason")
    call_status = {"in_progress": "in_progress", "failed": "failed", "cancelled": "failed"}
    return {
        "sessionUpdate": "tool_call" if is_new else "tool_call_update",
        "toolCallId": _call_id(data),
        "title": f"{_TITLE}: undone" if status == "undone" else _TITLE,
        "kind": "think",
        "status": call_status.get(status, "completed"),
        "content": [text_content(shown)] if shown else [],
        "_meta": _meta(data),
    }


def _call_id(data: Mapping[str, Any]) -> str:
    """Undoing is a call of its own: the compaction it takes back stays where it was in the timeline."""
    prefix = "undo" if data["status"] == "undone" else "compaction"
    return f"{prefix}-{data['compactionId']}"


def _meta(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the marker that other agents use for their compactions, and all we know."""
    marker: dict[str, Any] = {"version": _META_VERSION}
    marker["trigger"] = "manual" if data["trigger"] in ("manual", "undo") else "automatic"
    names = ("preTokens", "postTokens", "durationMs", "error")
    marker |= {name: data[name] for name in names if data.get(name) is not None}
    return {"contextCompaction": marker, "sidecar": data}
