"""The knowledge of a daemon, by folder: one index of each kind for a folder, shared by the sessions there.

An index lives as long as a session uses it; its content stays on disk. The library does not decide when to
search.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from sidecar.rooms.events import RoomEvent
from sidecar.rooms.knowledge.sessions import SessionArchive, SessionsIndex
from sidecar.rooms.knowledge.workspace import FilesIndex, FolderIndex
from sidecar.rooms.source import KnowledgeResult, KnowledgeSource
from sidecar.workspace.workspace import Workspace

WORKSPACE: Final = "workspace"
SESSIONS: Final = "sessions"

MAX_EXCLUDED: Final = 20_000
"""One search can leave out so many events, the newest ones."""

_log = logging.getLogger(__name__)


class _FolderIndexes(Struct, eq=False):
    """The indexes of one folder, the sessions that use each, and the listeners of its progress."""

    files: FolderIndex | None = None
    sessions: SessionsIndex | None = None
    users: dict[str, set[str]] = field(default_factory=lambda: {WORKSPACE: set(), SESSIONS: set()})
    listeners: dict[str, Callable[[int, int], None]] = field(default_factory=dict)

    def report(self, done: int, total: int) -> None:
        """Pass the progress of the files on to all listeners."""
        for listener in tuple(self.listeners.values()):
            listener(done, total)


class KnowledgeLibrary:
    """The knowledge sources on offer. *home* is the folder of the indexes, None for memory.

    Attributes:
        in_use: the folders with a session that searches them; the others catch up at their next start.
    """

    names: tuple[str, ...] = (WORKSPACE, SESSIONS)

    def __init__(self, workspace: Workspace, archive: SessionArchive, home: Path | None) -> None:
        self._workspace = workspace
        self._archive = archive
        self._home = home
        self._folders: dict[Path, _FolderIndexes] = {}
        self.in_use: set[Path] = set()

    async def open(
        self,
        sid: str,
        names: Collection[str],
        roots: Sequence[Path],
        *,
        excluded_ids: Callable[[], Collection[str]],
        progress: Callable[[int, int], None],
    ) -> Sequence[KnowledgeSource]:
        """Return the sources *names* for a session; missing content is indexed in the background.

        Args:
            sid: the session, to be named in :meth:`release`.
            names: names of sources on offer.
            roots: the session's folders, resolved; the first is the working folder, and sessions of that
                folder are searched.
            excluded_ids: returns the ids of events that need not be found, because they are in the model's
                view. The part of an id before the first full stop is the speaker.
            progress: receives (done, total) files of all folders together. Contract: never raises.
        """
        sources: list[KnowledgeSource] = []
        if WORKSPACE in names:
            totals: dict[Path, tuple[int, int]] = {}

            def report(root: Path, done: int, total: int) -> None:
                totals[root] = (done, total)
                progress(sum(each[0] for each in totals.values()), sum(each[1] for each in totals.values()))

            for root in drop_nested_folders(roots):
                folder = self._folders.setdefault(root, _FolderIndexes())
                folder.users[WORKSPACE].add(sid)
                folder.listeners[sid] = partial(report, root)
                if folder.files is None:
                    folder.files = FolderIndex(
                        self._workspace,
                        root,
                        self._database(root, WORKSPACE),
                        on_progress=folder.report,
                        on_error=_log_gap,
                    )
                    await folder.files.start()
                sources.append(_SessionFiles(folder.files.index, is_own=root == roots[0]))
        if SESSIONS in names:
            folder = self._folders.setdefault(roots[0], _FolderIndexes())
            folder.users[SESSIONS].add(sid)
            self.in_use.add(roots[0])
            if folder.sessions is None:
                database = self._database(roots[0], SESSIONS)
                folder.sessions = SessionsIndex(self._archive, roots[0], database, on_error=_log_gap)
                folder.sessions.start()
            sources.append(_OtherSessions(folder.sessions, excluded_ids))
        return sources

    async def release(self, sid: str) -> None:
        """Release the indexes of a session; one without any user left is closed."""
        closing: list[Callable[[], Awaitable[None]]] = []
        for root, folder in self._folders.items():
            folder.listeners.pop(sid, None)
            for users in folder.users.values():
                users.discard(sid)
            if folder.files is not None and not folder.users[WORKSPACE]:
                closing.append(folder.files.close)
                folder.files = None
            if folder.sessions is not None and not folder.users[SESSIONS]:
                closing.append(folder.sessions.close)
                folder.sessions = None
                self.in_use.discard(root)
        for close in closing:
            await close()

    def ingest(self, folder: Path, events: Sequence[RoomEvent]) -> None:
        """Index new messages of a session of *folder*, where that folder's sessions are in use."""
        indexes = self._folders.get(folder)
        if indexes is not None and indexes.sessions is not None:
            indexes.sessions.ingest(events)

    def forget(self, sid: str) -> None:
        """Forget a session that was deleted; an index that is not in use forgets it at its next start."""
        for folder in self._folders.values():
            if folder.sessions is not None:
                folder.sessions.forget(sid)

    def _database(self, folder: Path, kind: str) -> Path | None:
        if self._home is None:
            return None
        digest = hashlib.blake2b(str(folder).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        return self._home / f"{folder.name or 'root'}-{digest}" / f"{kind}.db"


class _SessionFiles(KnowledgeSource):
    """A folder's files for one session: places are cited so that its tools find them."""

    def __init__(self, index: FilesIndex, *, is_own: bool) -> None:
        self._index = index
        self._is_own = is_own

    @property
    def name(self) -> str:
        """``workspace``."""
        return WORKSPACE

    async def search(
        self, query: str, *, room_id: str | None = None, limit: int = 5
    ) -> list[KnowledgeResult]:
        """Return files, ``path:line`` and the lines from there; of another folder by their whole path."""
        cited: list[KnowledgeResult] = []
        for hit in await self._index.find(query, limit=limit):
            place = f"{hit.title if self._is_own else hit.key}:{hit.chunk.line}"
            content = f"{place}\n{hit.chunk.text}" if hit.chunk.text else place
            cited.append(KnowledgeResult(content, hit.score, WORKSPACE))
        return cited


class _OtherSessions(KnowledgeSource):
    """A folder's sessions for one session, without the messages in its model's view."""

    def __init__(self, index: SessionsIndex, excluded_ids: Callable[[], Collection[str]]) -> None:
        self._index = index
        self._excluded_ids = excluded_ids

    @property
    def name(self) -> str:
        """``sessions``."""
        return SESSIONS

    async def search(
        self, query: str, *, room_id: str | None = None, limit: int = 5
    ) -> list[KnowledgeResult]:
        """Return messages, each with its speaker, its day, and whether it is from this conversation."""
        exclude = list(self._excluded_ids())[-MAX_EXCLUDED:]
        cited: list[KnowledgeResult] = []
        for hit in await self._index.find(query, limit=limit, exclude=exclude):
            created_at = datetime.fromtimestamp(hit.created_at_ms / 1000, UTC)
            which = "this conversation" if hit.room == room_id else "a conversation"
            origin = f"{which}, {hit.key.partition('.')[0]}, {created_at:%Y-%m-%d}"
            cited.append(KnowledgeResult(hit.chunk.text, hit.score, origin, {"event_id": hit.key}))
        return cited


def drop_nested_folders(roots: Sequence[Path]) -> list[Path]:
    """Return *roots*, each once, without any that is inside another one."""
    once = list(dict.fromkeys(roots))
    return [root for root in once if not any(root != each and root.is_relative_to(each) for each in once)]


def _log_gap(error: Exception) -> None:
    _log.warning("a knowledge index has a gap: %s", type(error).__name__)
