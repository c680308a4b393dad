"""Conversations as documents that an editor can open and compare: now, and before and after a compaction.

Read only, and made anew whenever they are asked for. The text is that of ``sidecar/session/export``.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote, unquote

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.events import Event
from sidecar.server.attention import RefreshRequester
from sidecar.server.lenses import Ask
from sidecar.server.lsp import DOCUMENT_SCHEME
from sidecar.server.views import is_change

__all__ = ["SessionDocuments", "transcript_uri"]

_SHAPE: Final = re.compile(
    DOCUMENT_SCHEME
    + r":/*(?P<sid>[^/?#]+)/(?:transcript|compaction/(?P<id>[^/?#]+)/(?P<at>before|after))\.md"
)


class SessionDocuments:
    """The documents one client may open; a ``SessionView``, for a transcript changes with its session."""

    def __init__(self, ask: Ask, attention: RefreshRequester) -> None:
        self._ask = ask
        self._attention = attention

    async def text(self, uri: str) -> str:
        """Return the text of the document *uri*. Raises InvalidInput, and what the export raises."""
        found = _SHAPE.fullmatch(uri)
        if found is None:
            hint = "open sidecar-session:/SID/transcript.md or .../SID/compaction/ID/before.md or after.md"
            raise InvalidInput(f"{uri!r:.200} is no document of a session", hint=hint)
        sid, compaction_id = unquote(found["sid"]), found["id"]
        view: Any = "active"
        if compaction_id is None:
            self._attention.looked_at(transcript_uri(sid))
        else:
            view = {"compactionId": unquote(compaction_id), "at": found["at"]}
        exported = await self._ask("sidecar/session/export", {"sid": sid, "view": view})
        return str(exported["text"])

    def saw(self, event: Event) -> None:
        """Let the client read the transcript again if it shows it."""
        if is_change(event):
            self._attention.changed(transcript_uri(event.sid))

    def left(self, sid: str) -> None:
        """Do nothing: what is stored can be read all the same."""


def transcript_uri(sid: str) -> str:
    """Return the URI of the conversation *sid* as it is now.

    >>> transcript_uri("5f0c")
    'sidecar-session:/5f0c/transcript.md'
    """
    return f"{DOCUMENT_SCHEME}:/{quote(sid, safe='')}/transcript.md"
