"""Apply an edit in the editor's open buffer, where it can be undone, by ``workspace/applyEdit``.

The edit carries the version of the buffer it was made for, so that the editor refuses a stale one. Only the
lines that differ are replaced: cursors and marks elsewhere stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar.server.profile import ClientProfile
from sidecar.transport.peer import Peer, PeerGoneError, PeerRefused
from sidecar.workspace.contract import EditApplier, FileView, PositionEncoding
from sidecar.workspace.line_index import split_lines

_UNIT_BYTES: Final = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
_CODECS: Final = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def edit_applier(peer: Peer, profile: ClientProfile, encoding: PositionEncoding) -> EditApplier | None:
    """Return the function that edits the client's open buffers, None when the client takes no edits."""
    if profile.applies_edits:
        method = "workspace/applyEdit"
    elif profile.features is not None and profile.features.applies_edits:
        method = "sidecar/edit/apply"
    else:
        return None

    async def apply(before: FileView, new_text: str) -> bool:
        document = {"uri": before.uri, "version": before.version}
        change = {"textDocument": document, "edits": [line_edit(before.text, new_text, encoding)]}
        try:
            reply = await peer.request(method, {"label": "Agent edit", "edit": {"documentChanges": [change]}})
        except (PeerRefused, PeerGoneError):
            return False
        return isinstance(reply, Mapping) and reply.get("applied") is True

    return apply


def line_edit(old: str, new: str, encoding: PositionEncoding) -> dict[str, Any]:
    """Return the text edit that replaces the lines in which *old* and *new* differ.

    >>> line_edit("a\\nb\\nc\\n", "a\\nx\\nc\\n", "utf-16")["newText"]
    'x\\n'
    """
    before, after = split_lines(old), split_lines(new)
    most = min(len(before), len(after))
    start = next((n for n in range(most) if before[n] != after[n]), most)
    same = next((n for n in range(most - start) if before[-1 - n] != after[-1 - n]), most - start)
    last = len(before) - same
    text = "".join(after[start : len(after) - same])
    return {
        "range": {"start": _position(before, start, encoding), "end": _position(before, last, encoding)},
        "newText": text,
    }


def _position(lines: list[str], line: int, encoding: PositionEncoding) -> dict[str, int]:
    """Return the start of line number *line*; after a last line without line end, the end of its text."""
    if line < len(lines) or not lines or lines[-1].endswith(("\n", "\r")):
        return {"line": line, "character": 0}
    return {"line": line - 1, "character": len(lines[-1].encode(_CODECS[encoding])) // _UNIT_BYTES[encoding]}
