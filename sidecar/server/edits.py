"""Apply an edit in the editor's open buffer, where it can be undone, by ``workspace/applyEdit``.

The edit carries the version of the buffer it was made for, so that the editor refuses a stale one. It
replaces a range for each place that differs: cursors, marks and folds elsewhere stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any, Final

from sidecar.server.profile import ClientProfile
from sidecar.transport.peer import Peer, PeerGoneError, PeerRefused
from sidecar.workspace.contract import EditApplier, FileView, PositionEncoding
from sidecar.workspace.line_index import split_lines

_UNIT_BYTES: Final = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
_MAX_COMPARED_LINES: Final = 5_000
"""Larger changes replace one range: to compare lines takes time that grows with their square."""

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
        edits = await asyncio.to_thread(minimal_edits, before.text, new_text, encoding)
        change = {"textDocument": document, "edits": edits}
        try:
            reply = await peer.request(method, {"label": "Agent edit", "edit": {"documentChanges": [change]}})
        except (PeerRefused, PeerGoneError):
            return False
        return isinstance(reply, Mapping) and reply.get("applied") is True

    return apply


def minimal_edits(old: str, new: str, encoding: PositionEncoding) -> list[dict[str, Any]]:
    """Return the text edits that make *new* of *old*, one for each group of lines that differs.

    A group that only adds or only removes lines is compared together with the line before it, so that a last
    line is added as in :func:`minimal_edit`.
    """
    old_lines, new_lines = split_lines(old), split_lines(new)
    if max(len(old_lines), len(new_lines)) > _MAX_COMPARED_LINES:
        return [minimal_edit(old, new, encoding)]
    edits: list[dict[str, Any]] = []
    for tag, start, end, new_start, new_end in SequenceMatcher(None, old_lines, new_lines).get_opcodes():
        if tag == "equal":
            continue
        n_before = min(start, new_start, int(tag != "replace"))
        start, new_start = start - n_before, new_start - n_before
        piece, new_piece = "".join(old_lines[start:end]), "".join(new_lines[new_start:new_end])
        edit = minimal_edit(piece, new_piece, encoding)
        for position in edit["range"].values():
            position["line"] += start
        edits.append(edit)
    return edits or [minimal_edit(old, new, encoding)]


def minimal_edit(old: str, new: str, encoding: PositionEncoding) -> dict[str, Any]:
    """Return the text edit that makes *new* of *old* and replaces as little as one range can.

    Where several ranges do, it is the first one: a line that is added at the end of the file is then added
    after the text of the last line, and not behind the last line end, where Neovim first makes a line of its
    own and removes it with a second change.

    >>> minimal_edit("a\\nb\\n", "a\\nb\\nc\\n", "utf-16")["newText"]
    '\\nc'
    """
    n_same = _common_prefix_length(old[::-1], new[::-1])
    end, new_end = len(old) - n_same, len(new) - n_same
    start = _common_prefix_length(old[:end], new[:new_end])
    # No position in an editor is between CR and LF, nor between the halves of a character.
    if _is_inside_line_end(old, end):
        end, new_end = end + 1, new_end + 1
    if _is_inside_line_end(old, start):
        start -= 1
    return {
        "range": {"start": _position(old, start, encoding), "end": _position(old, end, encoding)},
        "newText": new[start:new_end],
    }


def _common_prefix_length(one: str, other: str) -> int:
    """Return how many first characters are equal; halves the range, for comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _is_inside_line_end(text: str, index: int) -> bool:
    return text[max(0, index - 1) : index + 1] == "\r\n"


def _position(text: str, index: int, encoding: PositionEncoding) -> dict[str, int]:
    lines = split_lines(text[:index])
    last = lines.pop() if lines and not lines[-1].endswith(("\n", "\r")) else ""
    n_units = len(last.encode(_CODECS[encoding], "surrogatepass")) // _UNIT_BYTES[encoding]
    return {"line": len(lines), "character": n_units}
