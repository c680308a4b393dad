"""The views of sessions in an editor: hints on stale files, code lenses, and documents.

A view exists only when the client declared the capability for it, and computes only when the client looks. A
file that is not as the model read it gets a hint, until the model reads it again. A file that the model has
in its context gets a lens with its cost and a way to drop it. A conversation can be opened as a read-only
document, as it is now or as it was around a compaction, and so can the report of the facts that the
compaction kept and let go.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote, unquote

from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar._internal.values import Value
from sidecar.conductor.contract import Compaction
from sidecar.conductor.events import Event, Faulted, FileFresh, FileStale, HeadChanged, Rehydrated, Settled
from sidecar.conductor.record.log import EventLog
from sidecar.server.handshake import DOCUMENT_SCHEME
from sidecar.service.streaming import follow_events
from sidecar.transport.peer import Peer, PeerGoneError, PeerRefused
from sidecar.workspace.files import real_path
from sidecar.workspace.paths import uri_to_path

_CHANGES: Final = (Settled, Faulted, Rehydrated, HeadChanged)

Spawn: TypeAlias = Callable[[Awaitable[None], str], object]
"""Runs work as a task of the connection; the text names the work when it fails."""


class SessionView(Protocol):
    """A view of the sessions that a client follows. Nothing here blocks or raises."""

    def on_event(self, event: Event) -> None:
        """Handle one event of a followed session."""
        ...

    def on_unfollow(self, sid: str) -> None:
        """Stop showing session *sid*."""
        ...


class _Followed(Value):
    log: EventLog
    stop: Callable[[], None]


class SessionViews:
    """The views of one client, and the sessions that they show."""

    def __init__(self) -> None:
        self._views: list[SessionView] = []
        self._followed: dict[str, _Followed] = {}

    @property
    def sids(self) -> tuple[str, ...]:
        """The sessions that are followed."""
        return tuple(self._followed)

    def add(self, view: SessionView) -> None:
        """Add a view; it is given the events from now on."""
        self._views.append(view)

    def seq(self, sid: str) -> int | None:
        """Return the number of a session's newest event, None when it is not followed."""
        followed = self._followed.get(sid)
        return None if followed is None else followed.log.seq

    def follow(self, log: EventLog) -> None:
        """Give the views every event that *log* still has, and those to come."""

        def deliver(event: Event) -> bool:
            for view in self._views:
                view.on_event(event)
            return False

        followed = self._followed.get(log.sid)
        if self._views and (followed is None or followed.log is not log):
            self.unfollow(log.sid)
            self._followed[log.sid] = _Followed(log, follow_events(log, 0, deliver))

    def unfollow(self, sid: str) -> None:
        """Let the views forget session *sid*."""
        followed = self._followed.pop(sid, None)
        if followed is not None:
            followed.stop()
            for view in self._views:
                view.on_unfollow(sid)

    def close(self) -> None:
        """Stop following; the views are left as they are, because the client is gone."""
        for followed in self._followed.values():
            followed.stop()
        self._followed.clear()


class RefreshRequester:
    """Asks a client to refresh views of one kind, once for each view that it has looked at since.

    However often a view changes, the client is asked once until it has looked again; a view that it has not
    looked at is not mentioned.
    """

    def __init__(self, peer: Peer, method: str, spawn: Spawn) -> None:
        self._peer = peer
        self._method = method
        self._spawn = spawn
        self._looked_at: set[str] = set()

    def mark_looked_at(self, uri: str) -> None:
        """Record that the client has just been shown *uri*."""
        self._looked_at.add(uri)

    def refresh(self, uri: str) -> None:
        """Ask the client to refresh *uri*, if it has looked at it."""
        if uri in self._looked_at:
            self._looked_at.discard(uri)
            self._spawn(self._request({"uri": uri}), self._method)

    def refresh_all(self) -> None:
        """Ask the client to refresh everything, with one request that names nothing."""
        if self._looked_at:
            self._looked_at.clear()
            self._spawn(self._request(None), self._method)

    async def _request(self, params: Any) -> None:
        try:
            await self._peer.request(self._method, params)
        except (PeerRefused, PeerGoneError):
            return  # the client refreshes when it likes


def is_change(event: Event) -> bool:
    """Return whether the conversation is another one after *event*, so that views of it are outdated."""
    data = event.data
    return isinstance(data, _CHANGES) or (isinstance(data, Compaction) and data.status != "in_progress")


Request: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Calls a method of the service and returns its result. Raises SidecarError."""

_MAX_FACTS: Final = 500
_STATES: Final = {
    "gone": "## Let go",
    "line": "## In one line of several",
    "shortened": "## Shortened",
    "kept": "## Kept word for word",
}
_FIRST_LINE: Final = {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}
_TOP: Final = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}
_HINT: Final = 4
_DOCUMENT_URI: Final = re.compile(
    DOCUMENT_SCHEME
    + r":/*(?P<sid>[^/?#]+)/(?:transcript|compaction/(?P<id>[^/?#]+)/(?P<at>before|after|facts))\.md"
)


class StaleDiagnostics:
    """The hints on files that changed since the model read them; *notify* sends a notification."""

    def __init__(self, notify: Callable[[str, Any], None]) -> None:
        self._notify = notify
        self._stale: dict[str, dict[str, FileStale]] = {}

    def on_event(self, event: Event) -> None:
        """Add the hint of a file that became stale, or remove that of a file that is fresh again."""
        match event.data:
            case FileStale(uri=uri):
                self._stale.setdefault(uri, {})[event.sid] = event.data
                self._publish(uri)
            case FileFresh(uri=uri):
                self._remove(uri, event.sid)

    def on_unfollow(self, sid: str) -> None:
        """Remove the hints of session *sid*."""
        for uri in [uri for uri, stale in self._stale.items() if sid in stale]:
            self._remove(uri, sid)

    def _remove(self, uri: str, sid: str) -> None:
        stale = self._stale.get(uri, {})
        stale.pop(sid, None)
        self._publish(uri)
        if not stale:
            self._stale.pop(uri, None)

    def _publish(self, uri: str) -> None:
        """Send the hints on *uri*; sessions with the same hint share one."""
        stale = self._stale.get(uri, {}).values()
        words = dict.fromkeys("gone" if each.now_hash is None else "changed" for each in stale)
        diagnostics = [
            {
                "range": _FIRST_LINE,
                "severity": _HINT,
                "code": FileStale.kind,
                "source": "sidecar",
                "message": f"{word} since the model read it",
            }
            for word in words
        ]
        self._notify("textDocument/publishDiagnostics", {"uri": uri, "diagnostics": diagnostics})


class ContextLenses:
    """The code lenses of one client; without a *refresh* it asks for them when it likes."""

    def __init__(self, views: SessionViews, request: Request, refresh: RefreshRequester | None) -> None:
        self._views = views
        self._request = request
        self._refresh = refresh
        self._files: dict[str, tuple[int, dict[Path, Mapping[str, Any]]]] = {}

    async def lenses_of(self, uri: str) -> list[dict[str, Any]]:
        """Return the lenses of a document: some for each session that has it in its context."""
        if self._refresh is not None:
            self._refresh.mark_looked_at(uri)
        path = uri_to_path(uri)
        if path is None:
            return []
        lenses: list[dict[str, Any]] = []
        for sid in self._views.sids:
            files = await self._files_of(sid)
            file = files.get(path) or files.get(real_path(path))
            if file is None or not file["inWindow"]:
                continue
            commands: list[tuple[str, str, Any]] = [(lens_title(file), "sidecar.context", {"sid": sid})]
            if (node := file.get("readAtNode")) is not None:
                params = {"sid": sid, "nodeIds": [node], "expectHead": None}
                commands.append(("drop from context", "sidecar.drop", params))
            for title, name, argument in commands:
                command = {"title": title, "command": name, "arguments": [argument]}
                lenses.append({"range": _TOP, "command": command})
        return lenses

    def on_event(self, event: Event) -> None:
        """Let the client ask again when its lenses may have changed."""
        if self._refresh is not None and (is_change(event) or isinstance(event.data, FileStale | FileFresh)):
            self._refresh.refresh_all()

    def on_unfollow(self, sid: str) -> None:
        """Forget session *sid*."""
        self._files.pop(sid, None)
        if self._refresh is not None:
            self._refresh.refresh_all()

    async def _files_of(self, sid: str) -> Mapping[Path, Mapping[str, Any]]:
        """Return the files that *sid* has read; kept, for an editor asks for all its documents at once."""
        now = self._views.seq(sid)
        seq, files = self._files.get(sid, (None, {}))
        if now is None or now == seq:
            return files
        try:
            result = await self._request("sidecar/context/files", {"sid": sid})
        except SidecarError:
            return {}  # the session was closed meanwhile
        files = {path: file for file in result["files"] if (path := uri_to_path(file["uri"])) is not None}
        self._files[sid] = now, files
        return files


def lens_title(file: Mapping[str, Any]) -> str:
    """Return the title of the lens on *file*, one of the result of ``sidecar/context/files``.

    >>> lens_title({"tokens": 1234, "turnsAgo": 3, "stale": True})
    'in context, 1.2k tokens, read 3 turns ago, changed since'
    """
    tokens, turns_ago = file["tokens"], file.get("turnsAgo")
    parts = ["in context"]
    if tokens >= 1_000:
        short = f"{tokens / 1_000:.1f}k" if tokens < 9_950 else f"{round(tokens / 1_000)}k"
        parts.append(f"{short} tokens")
    elif tokens:
        parts.append(f"{tokens} tokens")
    if turns_ago is not None:
        parts.append(f"read {turns_ago} turn{'s' * (turns_ago > 1)} ago" if turns_ago else "read this turn")
    if file["stale"]:
        parts.append("changed since")
    return ", ".join(parts)


class SessionDocuments:
    """The conversations that one client may open as documents. Their text is that of an export."""

    def __init__(self, request: Request, refresh: RefreshRequester) -> None:
        self._request = request
        self._refresh = refresh

    async def text_of(self, uri: str) -> str:
        """Return the text of the document *uri*. Raises InvalidInput, and the errors of the export."""
        found = _DOCUMENT_URI.fullmatch(uri)
        if found is None:
            names = "before.md, after.md or facts.md"
            hint = f"open sidecar-session:/SID/transcript.md or .../SID/compaction/ID/{names}"
            raise InvalidInput(f"{uri!r:.200} is not a document of a session", hint=hint)
        sid, compaction_id = unquote(found["sid"]), found["id"]
        view: Any = "active"
        if compaction_id is None:
            self._refresh.mark_looked_at(transcript_uri(sid))
        elif found["at"] == "facts":
            return await self.facts_text(sid, unquote(compaction_id))
        else:
            view = {"compactionId": unquote(compaction_id), "at": found["at"]}
        exported = await self._request("sidecar/session/export", {"sid": sid, "view": view})
        return str(exported["text"])

    async def facts_text(self, sid: str, compaction_id: str) -> str:
        """Return the facts that a compaction folded away, as Markdown, those it let go first."""
        parts = ["# The facts behind a compaction"]
        for state in ("gone", "line", "shortened", "kept"):
            params = {"sid": sid, "compactionId": compaction_id, "part": "loss", "states": [state]}
            found = await self._request("sidecar/compact/read", {**params, "limit": _MAX_FACTS})
            counts, *lines = found["content"].splitlines()
            more = ["", f"There are more than these {_MAX_FACTS}."] if found.get("nextCursor") else []
            parts += [*([counts] if len(parts) == 1 else []), "\n".join((_STATES[state], "", *lines, *more))]
        return "\n\n".join(parts) + "\n"

    def on_event(self, event: Event) -> None:
        """Let the client read the transcript again if it shows it."""
        if is_change(event):
            self._refresh.refresh(transcript_uri(event.sid))

    def on_unfollow(self, sid: str) -> None:
        """Do nothing: a stored conversation can still be read."""


def transcript_uri(sid: str) -> str:
    """Return the URI of the conversation *sid* as it is now.

    >>> transcript_uri("5f0c")
    'sidecar-session:/5f0c/transcript.md'
    """
    return f"{DOCUMENT_SCHEME}:/{quote(sid, safe='')}/transcript.md"
