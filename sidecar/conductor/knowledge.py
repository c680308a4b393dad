"""What one session knows beside its conversation: asked before a prompt is answered, told what was said.

Finds are one message in the next model call and are never stored. The sources themselves are behind a port.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from sidecar._internal.secrets import mask_secrets
from sidecar.conductor.branching import node_kind
from sidecar.conductor.content import prompt_text
from sidecar.conductor.engines.base import View
from sidecar.conductor.events import Notice
from sidecar.conductor.room import CLIENTS, MODEL, USER
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
from sidecar.rooms.memory import RetrievalMemory, SlidingWindowMemory

__all__ = ["Knowledge", "Library", "NoLibrary", "saying", "with_knowledge"]

MAX_TOKENS: Final = 4_000
_WINDOW_SHARE: Final = 8
"""The message takes at most one in so many tokens of the window."""

_WORTH_TELLING: Final = 1_000
"""With fewer files the index is there before anybody has read a notice of it."""

_log = logging.getLogger(__name__)


class Library(Protocol):
    """The knowledge sources of a daemon (``rooms.knowledge.library.KnowledgeLibrary``)."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sources on offer."""
        ...

    async def open(
        self,
        sid: str,
        names: Collection[str],
        roots: Sequence[Path],
        *,
        hidden: Callable[[], Collection[str]],
        progress: Callable[[int, int], None],
    ) -> Sequence[KnowledgeSource]:
        """Return the sources *names* for a session.

        *roots* are its folders, the one it works in first; *hidden* are the ids of sayings that its model
        sees anyway; *progress* is told of (done, total) files while an index is built.
        """
        ...

    async def release(self, sid: str) -> None:
        """Let go of what a session used."""
        ...

    def listens(self, folder: Path) -> bool:
        """Whether somebody uses what was said in *folder*; if not, it is found where it is stored, later."""
        ...

    def heard(self, folder: Path, events: Sequence[RoomEvent]) -> None:
        """Take in, later, what was said in a session that works in *folder*."""
        ...

    def forget(self, sid: str) -> None:
        """Forget, later, what was said in a session that was deleted."""
        ...


class NoLibrary:
    """No source is on offer, and nothing is remembered."""

    names: tuple[str, ...] = ()

    async def open(
        self,
        sid: str,
        names: Collection[str],
        roots: Sequence[Path],
        *,
        hidden: Callable[[], Collection[str]],
        progress: Callable[[int, int], None],
    ) -> Sequence[KnowledgeSource]:
        """Return nothing."""
        return ()

    async def release(self, sid: str) -> None:
        """Do nothing."""

    def listens(self, folder: Path) -> bool:
        """Return False."""
        return False

    def heard(self, folder: Path, events: Sequence[RoomEvent]) -> None:
        """Do nothing."""

    def forget(self, sid: str) -> None:
        """Do nothing."""


class Knowledge:
    """The knowledge of one session; *tell* tells its log.

    A source may take *timeout_s* for one search. What a session says is told to the *library*, for other
    sessions and for itself; of one that is not to be kept nothing is.
    """

    def __init__(
        self,
        library: Library,
        sid: str,
        roots: Sequence[Path],
        tell: Callable[[Notice], None],
        *,
        is_kept: bool,
        timeout_s: float,
    ) -> None:
        self._library = library
        self._sid = sid
        self._roots = tuple(roots)
        self._tell = tell
        self._is_kept = is_kept
        self._timeout_s = timeout_s
        self._sources: Sequence[KnowledgeSource] = ()
        self._memories: dict[int, RetrievalMemory] = {}
        self._turns: Sequence[Turn] = ()
        self._ids: list[str | None] = []
        self._heard: tuple[Sequence[Turn], int] = ((), 0)
        self._hidden: Collection[str] = ()
        self._recalled: tuple[Turn, UserTurn | None] | None = None
        self._announced = False
        self._failed: set[str] = set()
        self._followers: list[Callable[[int, int], None]] = []

    @property
    def is_on(self) -> bool:
        """Whether there is a source to ask."""
        return bool(self._sources)

    async def open(self, names: Collection[str]) -> None:
        """Let *names* be the sources from now on."""
        if self._sources:
            await self.aclose()
        if names:
            self._sources = await self._library.open(
                self._sid, names, self._roots, hidden=lambda: self._hidden, progress=self._on_progress
            )

    async def aclose(self) -> None:
        """Let go of the sources."""
        self._sources = ()
        self._memories.clear()
        await self._library.release(self._sid)

    def max_tokens(self, window: int) -> int:
        """Return what the message may take of a window, 0 when there is none to come."""
        if not self.is_on:
            return 0
        return min(MAX_TOKENS, window // _WINDOW_SHARE) if window > 0 else MAX_TOKENS

    def follow(self, listener: Callable[[int, int], None]) -> Callable[[], None]:
        """Tell *listener* (done, total) while an index is built, until the returned disposer is called."""
        self._followers.append(listener)
        return lambda: self._followers.remove(listener)

    async def recall(self, turns: Sequence[Turn], view: View, window: int) -> UserTurn | None:
        """Return what the sources find for the newest prompt of *turns*; None for nothing.

        What *view* shows of the conversation is not searched. One prompt is asked for once.
        """
        prompt = next((turn for turn in reversed(turns) if node_kind(turn) == "user"), None)
        if not self.is_on or prompt is None:
            return None
        if self._recalled is None or self._recalled[0] is not prompt:
            ids = self._ids_of(turns)
            seen = [*(ids[index] for index in view.pinned), *ids[view.first :]]
            self._hidden = [each for each in seen if each is not None]
            self._recalled = (prompt, await self._search(prompt, window))
        return self._recalled[1]

    def listen(self, turns: Sequence[Turn], now_ms: int) -> None:
        """Hand on what is new in *turns*; another list is another conversation and is handed on whole."""
        known = self._heard[1] if turns is self._heard[0] else 0
        self._heard = (turns, len(turns))
        if self._is_kept and self._library.listens(self._roots[0]):
            events = [saying(self._sid, turn, now_ms) for turn in turns[known:]]
            self._library.heard(self._roots[0], [event for event in events if event is not None])

    async def _search(self, prompt: Turn, window: int) -> UserTurn | None:
        max_tokens = self.max_tokens(window)
        if max_tokens not in self._memories:
            self._memories[max_tokens] = RetrievalMemory(
                self._sources,
                SlidingWindowMemory(0),
                max_tokens=max_tokens,
                source_timeout_seconds=self._timeout_s,
                on_error=self._on_error,
            )
        asked = _event(self._sid, prompt, prompt_text(prompt.blocks), datetime.now(UTC))
        found = await self._memories[max_tokens].retrieve(self._sid, asked, RoomContext(Room(self._sid)))
        texts = (message.content for message in found.messages if isinstance(message.content, str))
        # Nobody has asked for these lines: what looks like a key in them does not go out by itself.
        blocks = tuple(TextBlock(mask_secrets(text)) for text in texts)
        return UserTurn(blocks) if blocks else None

    def _ids_of(self, turns: Sequence[Turn]) -> Sequence[str | None]:
        """Return for each turn the id of what it says, None for one that is not to be found."""
        if turns is not self._turns or len(turns) < len(self._ids):
            self._turns, self._ids = turns, []
        self._ids.extend(_id_of(turn) for turn in turns[len(self._ids) :])
        return self._ids

    def _on_progress(self, done: int, total: int) -> None:
        for listener in tuple(self._followers):
            listener(done, total)
        if total >= _WORTH_TELLING and not self._announced:
            self._announced = True
            text = f"{total:,} files; what is indexed so far is searched already"
            self._tell(Notice("info", "Indexing the workspace", text))
        elif done == total and self._announced:
            self._announced = False
            self._tell(Notice("info", "The workspace is indexed"))

    def _on_error(self, source: KnowledgeSource, error: BaseException) -> None:
        _log.warning("knowledge source %s failed: %s", source.name, type(error).__name__)
        if source.name not in self._failed:
            self._failed.add(source.name)
            late = isinstance(error, TimeoutError)
            why = f"it took longer than {self._timeout_s:g} s" if late else "it failed"
            text = f"{why}; prompts are answered without it whenever that happens"
            self._tell(Notice("warning", f"The knowledge source {source.name!r} gave no answer", text))


def saying(sid: str, turn: Turn, at_ms: int) -> RoomEvent | None:
    """Return what *turn* says as an event to be found later; None for digests, files and tools.

    Its id is made of who said what, so that the same words are one saying wherever they are stored.
    """
    text = _said(turn)
    return _event(sid, turn, text, datetime.fromtimestamp(at_ms / 1000, UTC)) if text else None


def with_knowledge(turns: Sequence[Turn], found: UserTurn | None) -> tuple[Turn, ...]:
    """Return *turns* with *found* right before the newest prompt: what stands before it stays as it was.

    A provider's cache then holds everything up to there; a message at the beginning would cost the whole
    conversation anew with every prompt.
    """
    if found is None:
        return tuple(turns)
    places = (index for index in range(len(turns) - 1, -1, -1) if node_kind(turns[index]) == "user")
    place = next(places, 0)
    return (*turns[:place], found, *turns[place:])


def _said(turn: Turn) -> str:
    if isinstance(turn, AssistantTurn) or node_kind(turn) == "user":
        return prompt_text(turn.blocks).strip()
    return ""


def _id_of(turn: Turn) -> str | None:
    text = _said(turn)
    if not text:
        return None
    speaker = "assistant" if isinstance(turn, AssistantTurn) else "user"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return f"{speaker}.{digest}"


def _event(sid: str, turn: Turn, text: str, said_at: datetime) -> RoomEvent:
    source = EventSource(CLIENTS, ChannelType.WEBSOCKET, participant_id=USER)
    if isinstance(turn, AssistantTurn):
        source = EventSource(MODEL, ChannelType.AI)
    return RoomEvent(
        id=_id_of(turn) or "", room_id=sid, source=source, content=TextContent(text), created_at=said_at
    )
