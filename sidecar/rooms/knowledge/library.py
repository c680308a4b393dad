"""The knowledge of a daemon, by folder: one index of each kind a folder, shared by the sessions there.

An index lives as long as somebody uses it; what it holds stays on disk. It decides nothing about when to
search.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sidecar.rooms.events import RoomEvent
from sidecar.rooms.knowledge.folder import FolderSource
from sidecar.rooms.knowledge.past import PastSource, SessionArchive
from sidecar.rooms.knowledge.sessions import SessionsSource
from sidecar.rooms.knowledge.workspace import IndexProgress, WorkspaceSource
from sidecar.rooms.source import KnowledgeResult, KnowledgeSource
from sidecar.workspace.contract import WorkspacePort

__all__ = ["SESSIONS", "WORKSPACE", "KnowledgeLibrary"]

WORKSPACE: Final = "workspace"
SESSIONS: Final = "sessions"

MAX_EXCLUDED: Final = 20_000
"""More events than this cannot be kept from being found in one search; the newest are."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Shelf:
    """The indices of one folder, and the sessions that use each."""

    files: FolderSource | None = None
    past: PastSource | None = None
    readers: dict[str, set[str]] = field(default_factory=lambda: {WORKSPACE: set(), SESSIONS: set()})
    listeners: dict[str, Callable[[int, int], None]] = field(default_factory=dict)


class KnowledgeLibrary:
    """The knowledge sources on offer. *home* is where indices are kept, None for memory."""

    names = (WORKSPACE, SESSIONS)

    def __init__(self, workspace: WorkspacePort, archive: SessionArchive, home: Path | None) -> None:
        self._workspace = workspace
        self._archive = archive
        self._home = home
        self._shelves: dict[Path, _Shelf] = {}

    async def open(
        self,
        sid: str,
        names: Collection[str],
        roots: Sequence[Path],
        *,
        excluded_ids: Callable[[], Collection[str]],
        progress: Callable[[int, int], None],
    ) -> Sequence[KnowledgeSource]:
        """Return the sources *names* for a session; what they lack is indexed in the background.

        Args:
            sid: the session, to be named in :meth:`release`.
            names: of the sources on offer.
            roots: the session's folders, resolved; the first is where it works, and whose past it shares.
            excluded_ids: the ids of events that need not be found, because the model sees them anyway.
            What stands before the first full stop of an id is who spoke.
            progress: is told of (done, total) files of all folders together. Contract: never raises.
        """
        sources: list[KnowledgeSource] = []
        if WORKSPACE in names:
            told = _Totals(progress)
            for root in _outermost(roots):
                files = await self._files(sid, root, told.of(root))
                sources.append(_Files(files.source, shown_from=roots[0], root=root))
        if SESSIONS in names:
            sources.append(_Past(self._past(sid, roots[0]).source, excluded_ids))
        return sources

    async def release(self, sid: str) -> None:
        """Let go of what a session used; an index that nobody uses any more is closed."""
        closing: list[Callable[[], Awaitable[None]]] = []
        for shelf in self._shelves.values():
            shelf.listeners.pop(sid, None)
            for readers in shelf.readers.values():
                readers.discard(sid)
            if shelf.files is not None and not shelf.readers[WORKSPACE]:
                closing.append(shelf.files.close)
                shelf.files = None
            if shelf.past is not None and not shelf.readers[SESSIONS]:
                closing.append(shelf.past.close)
                shelf.past = None
        for close in closing:
            await close()

    def is_in_use(self, folder: Path) -> bool:
        """Whether somebody uses the past of *folder*; if not, the next start catches up with it."""
        shelf = self._shelves.get(folder)
        return shelf is not None and shelf.past is not None

    def ingest(self, folder: Path, events: Sequence[RoomEvent]) -> None:
        """Take in what was said in a session of *folder*, where somebody uses that folder's past."""
        shelf = self._shelves.get(folder)
        if shelf is not None and shelf.past is not None:
            shelf.past.ingest(events)

    def forget(self, sid: str) -> None:
        """Forget a session that was deleted; where nobody uses its folder's past, the next start does."""
        for shelf in self._shelves.values():
            if shelf.past is not None:
                shelf.past.forget(sid)

    async def settled(self) -> None:
        """Return when everything told so far is indexed."""
        for shelf in tuple(self._shelves.values()):
            if shelf.files is not None:
                await shelf.files.settled()
            if shelf.past is not None:
                await shelf.past.settled()

    async def _files(self, sid: str, root: Path, progress: Callable[[int, int], None]) -> FolderSource:
        shelf = self._shelf(root)
        shelf.readers[WORKSPACE].add(sid)
        shelf.listeners[sid] = progress
        if shelf.files is None:

            def tell(at: IndexProgress) -> None:
                for listener in tuple(shelf.listeners.values()):
                    listener(at.done, at.total)

            shelf.files = FolderSource(
                self._workspace, root, self._database(root, WORKSPACE), progress=tell, trouble=_note
            )
            await shelf.files.start()
        return shelf.files

    def _past(self, sid: str, folder: Path) -> PastSource:
        shelf = self._shelf(folder)
        shelf.readers[SESSIONS].add(sid)
        if shelf.past is None:
            shelf.past = PastSource(self._archive, folder, self._database(folder, SESSIONS), trouble=_note)
            shelf.past.start()
        return shelf.past

    def _shelf(self, folder: Path) -> _Shelf:
        return self._shelves.setdefault(folder, _Shelf())

    def _database(self, folder: Path, kind: str) -> Path | None:
        if self._home is None:
            return None
        digest = hashlib.blake2b(str(folder).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        return self._home / f"{folder.name or 'root'}-{digest}" / f"{kind}.db"


class _Totals:
    """Adds up the progress of several folders."""

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self._tell = tell
        self._known: dict[Path, tuple[int, int]] = {}

    def of(self, root: Path) -> Callable[[int, int], None]:
        """Return who is to be told of the folder *root*."""

        def note(done: int, total: int) -> None:
            self._known[root] = (done, total)
            self._tell(sum(each[0] for each in self._known.values()), sum(e[1] for e in self._known.values()))

        return note


class _Files(KnowledgeSource):
    """A folder's files for one session: places are cited so that its tools find them."""

    def __init__(self, source: WorkspaceSource, *, shown_from: Path, root: Path) -> None:
        self._source = source
        self._is_own = root == shown_from

    @property
    def name(self) -> str:
        """``workspace``."""
        return WORKSPACE

    async def search(
        self, query: str, *, room_id: str | None = None, limit: int = 5
    ) -> list[KnowledgeResult]:
        """Return files; those of another folder than the session's own by their whole path."""
        found = await self._source.search(query, limit=limit)
        return found if self._is_own else list(map(_with_whole_path, found))


class _Past(KnowledgeSource):
    """A folder's conversations for one session, without what its model sees anyway."""

    def __init__(self, source: SessionsSource, excluded_ids: Callable[[], Collection[str]]) -> None:
        self._source = source
        self._excluded_ids = excluded_ids

    @property
    def name(self) -> str:
        """``sessions``."""
        return SESSIONS

    async def search(
        self, query: str, *, room_id: str | None = None, limit: int = 5
    ) -> list[KnowledgeResult]:
        """Return what was said: by whom, when, and whether in this conversation."""
        exclude = list(self._excluded_ids())[-MAX_EXCLUDED:]
        found = await self._source.search(query, limit=limit, exclude=exclude)
        return [_with_day(result, room_id) for result in found]


def _with_whole_path(result: KnowledgeResult) -> KnowledgeResult:
    _, _, text = result.content.partition("\n")
    place = f"{result.metadata['path']}:{result.metadata['line']}"
    return replace(result, content=f"{place}\n{text}" if text else place)


def _with_day(result: KnowledgeResult, room_id: str | None) -> KnowledgeResult:
    said_at = datetime.fromtimestamp(result.metadata["created_at_ms"] / 1000, UTC)
    which = "this conversation" if result.metadata["session_id"] == room_id else "a conversation"
    speaker = result.metadata["event_id"].partition(".")[0]
    return replace(result, source=f"{which}, {speaker}, {said_at:%Y-%m-%d}")


def _outermost(roots: Sequence[Path]) -> list[Path]:
    """Return *roots*, each once, without those inside another one."""
    once = list(dict.fromkeys(roots))
    return [root for root in once if not any(root != each and root.is_relative_to(each) for each in once)]


def _note(error: Exception) -> None:
    _log.warning("a knowledge index has a gap: %s", type(error).__name__)
