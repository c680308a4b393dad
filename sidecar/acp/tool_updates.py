"""Tool calls as ``tool_call`` and ``tool_call_update``.

Pure, but for the output that is gathered while a tool runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar.acp.shapes import Update, WireEvent, text_block
from sidecar.workspace.uris import uri_to_path

__all__ = ["ToolUpdates", "diff_content", "restored_update", "text_content", "tool_kind"]

_KINDS: Final = frozenset(
    ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
)
_SHOWN_CHARS: Final = 16_000
"""How much of a running tool's output is shown: its end."""


class ToolUpdates:
    """The calls of one session; an update replaces what a call shows, so its output is gathered here."""

    def __init__(self) -> None:
        self._output: dict[str, str] = {}
        self._terminals: dict[str, dict[str, Any]] = {}

    def started(self, event: WireEvent) -> Update:
        """Return the beginning of a call."""
        data = event["data"]
        update = _call("tool_call", data) | {"status": "in_progress", "_meta": _meta(data)}
        return update | ({"rawInput": data["input"]} if "input" in data else {})

    def runs_in(self, call_id: str, terminal_id: str) -> Update:
        """Return a call with the client's terminal that it runs in, which shows what it puts out."""
        shown = self._terminals[call_id] = {"type": "terminal", "terminalId": terminal_id}
        return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "content": [shown]}

    def progress(self, event: WireEvent) -> Update:
        """Return a call with what it has put out so far, or the end of that."""
        call_id = event["data"]["toolCallId"]
        shown = (self._output.get(call_id, "") + event["data"]["content"])[-_SHOWN_CHARS:]
        self._output[call_id] = shown
        update: Update = {"sessionUpdate": "tool_call_update", "toolCallId": call_id}
        return update | {"status": "in_progress", "content": [text_content(shown)]}

    def finished(self, event: WireEvent) -> Update:
        """Return the end of a call: its changes of files where it made some, else what it says."""
        data = event["data"]
        self._output.pop(data["toolCallId"], None)
        said, diffs = data.get("content"), [diff_content(diff) for diff in data.get("diffs", ())]
        terminal = self._terminals.pop(data["toolCallId"], None)
        spoken = [text_content(said)] if isinstance(said, str) and said else []
        content = diffs or ([terminal] if terminal else spoken)
        update = _call("tool_call_update", data) | {"content": content, "rawOutput": said}
        return update | {"status": "failed" if data["isError"] else "completed", "_meta": _meta(data)}


def tool_kind(kind: str) -> str:
    """Return *kind* as the protocol has it; kinds that it does not know are ``other``."""
    return kind if kind in _KINDS else "other"


def text_content(text: str) -> dict[str, Any]:
    """Return *text* as content of a call."""
    return {"type": "content", "content": text_block(text)}


def diff_content(diff: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change of a file as content of a call."""
    return {"type": "diff", **{key: diff[key] for key in ("path", "oldText", "newText") if key in diff}}


def restored_update(event: WireEvent) -> Update:
    """Return the files that came back into the conversation as one completed call that read them."""
    files, missing = event["data"]["files"], event["data"].get("missing", ())
    names = [_path(file["uri"]) for file in files]
    said = "\n".join([*names, *(f"{uri} cannot be read any more" for uri in missing)])
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": f"restored-{event['sid']}-{event['seq']}",
        "title": f"Read {len(names)} {'file' if len(names) == 1 else 'files'} again",
        "kind": "read",
        "status": "completed",
        "locations": [{"path": name} for name in names],
        "content": [text_content(said)] if said else [],
        "_meta": {"sidecar": {"rehydrated": event["data"]}},
    }


def _call(update: str, data: Mapping[str, Any]) -> Update:
    return {
        "sessionUpdate": update,
        "toolCallId": data["toolCallId"],
        "title": data["title"],
        "kind": tool_kind(data["kind"]),
        "locations": list(data.get("locations", ())),
    }


def _meta(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"sidecar": {"tool": data["name"]}}


def _path(uri: str) -> str:
    path = uri_to_path(uri)
    return uri if path is None else str(path)
