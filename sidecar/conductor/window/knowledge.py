"""Knowledge of one session: the sources to search before an answer, and the turns that sessions add to them.

The results of a search are one message in the next model call, right before the newest prompt, and are never
stored. Every settled turn is added to the library, which makes it searchable for later sessions. The sources
themselves are behind the :class:`Library` port.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sidecar._internal.errors import InvalidInput
from sidecar._internal.secrets import mask_secrets
from sidecar.conductor.content import prompt_text
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.events import Notice
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.record.shelf import SessionShelf
from sidecar.conversation import Entry, History, Index
from sidecar.llmgateway.contract import AssistantTurn, TextBlock, Turn, UserTurn
from sidecar.rooms import (
    ChannelType,
    EventSource,
    KnowledgeSource,
    Room,
    RoomContext,
    RoomEvent,
    TextContent,
)
from sidecar.runtime.store.place import SessionQuery

if TYPE_CHECKING:
    from sidecar.rooms.memory import RetrievalMemory

MAX_TOKENS: Final = 4_000
"""The most tokens of the message with the results."""

_WINDOW_SHARE: Final = 8
"""The message takes at most this fraction, 1/8, of the window."""

_MIN_FILES_FOR_NOTICE: Final = 1_000
"""With fewer files the index is built before anybody has read a notice about it."""

_log = logging.getLogger(__name__)


class Knowledge:
    """The knowledge of one session.

    A source that takes too long for a search is not waited for. Events of an ephemeral session are not added
    to the library.

    Attributes:
        sources: the open sources.
    """

    def __init__(self, record: SessionRecord, deps: SessionDeps) -> None:
        self._library = deps.library
        self._sid = record.sid
        self._roots = record.roots
        self._history = record.history
        self._emit = record.events.emit
        self._clock_ms = deps.clock_ms
        self._is_kept = not record.info.ephemeral
        self._timeout_s = deps.knowledge_timeout_s
        record.history.follow(self)
        record.follow_stores(self.ingest)
        self.sources: Sequence[KnowledgeSource] = ()
        self._memories: dict[int, RetrievalMemory] = {}
        self._ids: Index[list[str | None]] = Index(list, _add_id)
        self._ingested = History()
        self._excluded_ids: Collection[str] = ()
        self._recalled: tuple[Turn, UserTurn | None] | None = None
        self._announced = False
        self._failed: set[str] = set()
        self._followers: list[Callable[[int, int], None]] = []

    async def open(self, names: Collection[str]) -> None:
        """Close the open sources, and open the sources *names*."""
        if self.sources:
            await self.aclose()
        if names:
            self.sources = await self._library.open(
                self._sid,
                names,
                self._roots,
                excluded_ids=lambda: self._excluded_ids,
                progress=self._on_progress,
            )

    def prepare(self, history: History) -> None:
        """Take in *history*, to which the conversation is about to move."""
        self._ids.prepare(history)

    def forget(self) -> None:
        """Let go of the conversation."""
        self._ids.forget()
        self._recalled, self._ingested = None, History()

    async def aclose(self) -> None:
        """Close the sources."""
        self.sources = ()
        self._memories.clear()
        await self._library.release(self._sid)

    def max_tokens(self, window: int) -> int:
        """Return the most tokens that the message takes of a *window* in tokens, 0 when no source is open."""
        if not self.sources:
            return 0
        return min(MAX_TOKENS, window // _WINDOW_SHARE) if window > 0 else MAX_TOKENS

    def follow(self, listener: Callable[[int, int], None]) -> Callable[[], None]:
        """Call *listener* with (done, total) files during indexing, until the returned function is called."""
        self._followers.append(listener)
        return lambda: self._followers.remove(listener)

    async def recall(self, history: History, window: int) -> UserTurn | None:
        """Return a message with the results for the newest prompt of *history*, None when there are none.

        Turns of *history* are excluded from the results. A prompt is searched for once; later calls return
        the same message.
        """
        prompt = next((entry.turn for entry in reversed(history) if entry.kind == "user"), None)
        if not self.sources or prompt is None:
            return None
        if self._recalled is None or self._recalled[0] is not prompt:
            self._excluded_ids = [each for each in self._ids.of(history) if each is not None]
            self._recalled = (prompt, await self._search(prompt, window))
        return self._recalled[1]

    def ingest(self) -> None:
        """Add the new entries of the history to the library, or all of them when it was moved."""
        if self._roots[0] not in self._library.in_use:
            return
        history, now_ms = self._history.current, self._clock_ms()
        added = history.since(self._ingested)
        self._ingested = history
        if self._is_kept:
            events = [event_of(self._sid, entry, now_ms) for entry in (history if added is None else added)]
            self._library.ingest(self._roots[0], [event for event in events if event is not None])

    async def _search(self, prompt: Turn, window: int) -> UserTurn | None:
        from sidecar.rooms.memory import (  # not above: few sessions search
            RetrievalMemory,
            SlidingWindowMemory,
        )

        max_tokens = self.max_tokens(window)
        if max_tokens not in self._memories:
            self._memories[max_tokens] = RetrievalMemory(
                self.sources,
                SlidingWindowMemory(0),
                max_tokens=max_tokens,
                source_timeout_seconds=self._timeout_s,
                on_error=self._on_error,
            )
        query = _event(self._sid, prompt, prompt_text(prompt.blocks), datetime.now(UTC))
        found = await self._memories[max_tokens].retrieve(self._sid, query, RoomContext(Room(self._sid)))
        texts = (message.content for message in found.messages if isinstance(message.content, str))
        # Nobody chose to send these lines, so what looks like a key in them is masked.
        blocks = tuple(TextBlock(mask_secrets(text)) for text in texts)
        return UserTurn(blocks) if blocks else None

    def _on_progress(self, done: int, total: int) -> None:
        for listener in tuple(self._followers):
            listener(done, total)
        if total >= _MIN_FILES_FOR_NOTICE and not self._announced:
            self._announced = True
            text = f"{total:,} files; the part that is indexed is searched already"
            self._emit(Notice("info", "Indexing the workspace", text))
        elif done == total and self._announced:
            self._announced = False
            self._emit(Notice("info", "The workspace is indexed"))

    def _on_error(self, source: KnowledgeSource, error: BaseException) -> None:
        _log.warning("knowledge source %s failed: %s", source.name, type(error).__name__)
        if source.name not in self._failed:
            self._failed.add(source.name)
            is_late = isinstance(error, TimeoutError)
            why = f"it took longer than {self._timeout_s:g} s" if is_late else "it failed"
            text = f"{why}; prompts are answered without it whenever that happens"
            self._emit(Notice("warning", f"The knowledge source {source.name!r} did not answer", text))


def event_of(sid: str, entry: Entry, at_ms: int) -> RoomEvent | None:
    """Return a prompt or an answer as a searchable event, None for summaries, files and tool results.

    The id of the event is a hash of its role and its text, so the same text is one event wherever it is
    stored.
    """
    text = _searchable_text(entry)
    return _event(sid, entry.turn, text, datetime.fromtimestamp(at_ms / 1000, UTC)) if text else None


def with_knowledge(turns: Sequence[Turn], found: UserTurn | None, prompt: Turn | None) -> tuple[Turn, ...]:
    """Return *turns*, the turns to send, with *found* right before *prompt*, the newest one.

    The turns before it stay as they were, so a provider's prompt cache still holds them. A message at the
    beginning would make every prompt pay for the whole conversation again.
    """
    if found is None:
        return tuple(turns)
    place = next((index for index in range(len(turns) - 1, -1, -1) if turns[index] is prompt), 0)
    return (*turns[:place], found, *turns[place:])


def _searchable_text(entry: Entry) -> str:
    return prompt_text(entry.turn.blocks).strip() if entry.kind in ("user", "assistant") else ""


def _add_id(ids: list[str | None], entry: Entry, in_view: bool) -> list[str | None]:
    text = _searchable_text(entry)
    ids.append(_id_of(entry.turn, text) if text else None)
    return ids


def _id_of(turn: Turn, text: str) -> str:
    speaker = "assistant" if isinstance(turn, AssistantTurn) else "user"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return f"{speaker}.{digest}"


def _event(sid: str, turn: Turn, text: str, created_at: datetime) -> RoomEvent:
    from sidecar.conductor.window.engines.room import CLIENTS, MODEL, USER  # not above, as before

    source = EventSource(CLIENTS, ChannelType.WEBSOCKET, participant_id=USER)
    if isinstance(turn, AssistantTurn):
        source = EventSource(MODEL, ChannelType.AI)
    return RoomEvent(
        id=_id_of(turn, text), room_id=sid, source=source, content=TextContent(text), created_at=created_at
    )


class StoredSessions:
    """The stored sessions of each folder, as the knowledge library reads them. Never writes."""

    def __init__(self, store: SessionShelf) -> None:
        self._store = store

    async def sessions(self, folder: Path) -> Mapping[str, int]:
        """Return the time of the last change of each session of *folder*, in epoch milliseconds, by id."""
        stored = await self._store.list(SessionQuery(cwd=str(folder), children=False))
        return {each.sid: each.updated_at for each in stored}

    async def events(self, session_id: str) -> Sequence[RoomEvent]:
        """Return the searchable events of a session on all its branches, the compacted turns included."""
        entries = (await self._store.graph(session_id)).entries.values()
        events = (event_of(session_id, entry, entry.created_at) for entry in entries)
        return [event for event in events if event is not None]


def check_sources(wanted: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the knowledge sources *wanted*, each once. Raises InvalidInput for one that is not *known*."""
    if unknown := [name for name in wanted if name not in known]:
        hint = f"known sources: {', '.join(known) or 'none'}"
        raise InvalidInput(f"no knowledge source {unknown[0]!r}", hint=hint)
    return tuple(dict.fromkeys(wanted))
