"""The transcript of one session, as the window budget's engine reads it.

:class:`SessionTranscript` keeps the messages of one session over all of its compactions. A digest takes the
place of the oldest entries, and nothing that they say is forgotten: the fact index goes on over all of them,
so each digest is chosen anew from all facts. After an undo, a rewind or a fork it is cut back to the part
that both paths share. An advance costs the new entries, a compaction one comparison for each entry ever
stored. New entries are searched for facts: a few at once, the many of a loaded session in slices while the
event loop is idle, the rest when a compaction asks for it. Until then they are only weighed.

A long path is taken in before the conversation moves to it, in a thread, beside the transcript in use.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from time import perf_counter
from typing import Final

from sidecar.conductor.bridge import (
    entries_to_messages,
    extend_transcript,
    has_calls,
    kept_length,
    shared_length,
    turn_starts,
)
from sidecar.conversation import AppendOnlySeq, Entry, EntryKind, History, count_shared
from sidecar.llmgateway.contract import ToolCallBlock, Turn
from sidecar.text.calls import ToolEffects
from sidecar.window_budget import Message, Transcript
from sidecar.window_budget.fact_index import FactIndex

READ_AT_ONCE: Final = 64
"""So many new messages are read for facts at once; more are read in slices."""

_SLICE: Final = 16
_SLICE_S: Final = 0.004
_PAUSE_S: Final = 0.016
"""The messages between two looks at the clock, the length of a slice of reading, and the pause behind it."""


class SessionTranscript:
    """The transcript of one session; *tools* are the effects of the tools on offer.

    Attributes:
        history: the history that it was last asked for.
    """

    def __init__(self, tools: Mapping[str, ToolEffects]) -> None:
        self.history = History()
        self._originals: list[Entry] = []
        self._known: AppendOnlySeq[Entry] = AppendOnlySeq()
        self._starts = array("I", [0])
        self._transcript = Transcript(tools)
        self._called: set[str] = set()
        self._is_behind = self._is_reading = self._is_left = False
        self._reading = Lock()

    def copy(self) -> SessionTranscript:
        """Return the same transcript, which goes on by itself. Only one of them should go on."""
        copy = SessionTranscript(self._transcript.tools)
        copy.history, copy._transcript, copy._is_behind = self.history, self._transcript, self._is_behind
        copy._originals, copy._starts, copy._known = [*self._originals], self._starts[:], self._known
        copy._called = {*self._called}
        return copy

    def move_ahead(self, history: History) -> SessionTranscript:
        """Return the transcript of *history*, made in a thread, while this one is still in use.

        This one is read for facts no further: both would add to the same index.
        """
        with self._reading:
            self._is_left = True
        moved = self.copy()
        moved.of(history)
        moved._transcript = moved._transcript.detach()
        return moved

    def with_tools(self, tools: Mapping[str, ToolEffects], changed: Collection[str]) -> SessionTranscript:
        """Return the transcript with the effects *tools*; the tools *changed* differ from those so far.

        It begins anew only where one of those was called: calls before it were read with other effects.
        """
        if not self._called.isdisjoint(changed):
            return SessionTranscript(tools)
        same = self.copy()
        same._transcript, self._is_left = self._transcript.with_tools(tools), True
        return same

    def leads_to(self, history: History) -> bool:
        """Whether *history* begins with the entries of this transcript."""
        return 0 < count_shared(self.history, history) == len(self.history)

    def of(self, history: History) -> Transcript:
        """Return the transcript of *history*."""
        if history is self.history and not self._is_behind:
            return self._transcript
        added = history.since(self.history)
        if added is None and self.leads_to(history):
            added = history[len(self.history) :]
        self.history = history
        if added is None:
            originals = history.originals()
            n_shared = self.count_shared_originals(originals)
            if self._transcript.position(0) or any(entry.origin for entry in history):
                self.follow_branch(originals, n_shared)
                self._is_behind = self._transcript.n_unread > READ_AT_ONCE
                self._read_soon()
                return self._transcript
            if n_shared < len(self._originals):
                facts = self._facts_of(originals, n_shared)[1]
                self._transcript = self._transcript.first(self._starts[n_shared], facts)
                del self._originals[n_shared:], self._starts[n_shared + 1 :]
            added = originals[n_shared:]
            self._is_behind = self._transcript.n_unread > 0
        if added:
            self.take(added)
        self._is_behind = self._is_behind or len(added) > READ_AT_ONCE
        if self._is_behind:
            self._read_soon()
        elif added and added[-1].kind != "user":
            # A prompt is read with what follows it, so that the model need not wait for that.
            self._transcript.read_on()
        return self._transcript

    def take(self, added: Sequence[Entry]) -> None:
        """Add the last entries of the history."""
        turns, kinds = list[Turn](), list[EntryKind]()
        for entry in added:
            turns.append(entry.turn)
            kinds.append(entry.kind)
            self._originals.append(entry)
            for block in entry.turn.blocks:
                if isinstance(block, ToolCallBlock):
                    self._called.add(block.name)
        self._transcript = extend_transcript(self._transcript, turns, kinds)
        # Results that follow other results stay one message, so the turn before them counts.
        before = self.history.turns[-len(added) - 1 : -len(added)]
        starts = turn_starts((*before, *turns))[len(before) :]
        end = self._starts[-1]
        for start in starts[1:]:
            self._starts.append(end + start - starts[0])

    def count_shared_originals(self, originals: AppendOnlySeq[Entry]) -> int:
        """Return how many entries the path before and *originals* begin with; costs the new ones."""
        later, n_known = originals.since(self._known), len(self._known)
        self._known = originals
        if later is None:
            return shared_length(self._originals, originals)
        return n_known + shared_length(self._originals[n_known:], later)

    def _facts_of(self, originals: Sequence[Entry], n_shared: int) -> tuple[int, FactIndex]:
        """Return how many of the first *n_shared* of *originals* were read, and their facts."""
        facts, n_read = self._transcript.known_facts, n_shared
        if n_shared < len(self._originals) or len(facts) < self._starts[n_shared]:
            n_read = min(n_shared, bisect_right(self._starts, len(facts)) - 1)
            # The results of open calls are among the entries that follow, so the calls are read once more.
            while n_read and has_calls(originals[n_read - 1]):
                n_read -= 1
            facts = facts.first(self._starts[n_read])
        return n_read, facts

    def _read_soon(self) -> None:
        """Begin to read in slices; a thread, which has no event loop, leaves that to the next call."""
        with suppress(RuntimeError):
            loop = asyncio.get_running_loop()
            if self._is_behind and not self._is_reading:
                self._is_reading = True
                loop.call_later(_PAUSE_S, self.read_slice)

    def read_slice(self) -> None:
        """Read a few messages, and go on a little later."""
        self._is_reading = False
        until = perf_counter() + _SLICE_S
        with self._reading:
            if self._is_left:
                return
            while self._transcript.read_on(_SLICE):
                if perf_counter() >= until:
                    self._read_soon()
                    return
        self._is_behind = False

    def follow_branch(self, originals: Sequence[Entry], n_shared: int) -> None:
        """Take over a path that did not grow out of the one before.

        Args:
            originals: its entries as they were first stored.
            n_shared: the number of first entries that it shares with the path before.
        """
        history, unread = self.history, list[Message]()
        n_read, facts = self._facts_of(originals, n_shared)
        del self._originals[n_read:], self._starts[n_read + 1 :]
        for entry in originals[n_read:]:
            unread += entries_to_messages((entry,))
            self._originals.append(entry)
            self._starts.append(len(facts) + len(unread))
            for block in entry.turn.blocks:
                if isinstance(block, ToolCallBlock):
                    self._called.add(block.name)
        n_front = len(history) - kept_length(history, originals)
        messages, n_new = entries_to_messages(history), len(entries_to_messages(history[:n_front]))
        summaries = [entry for entry in history if entry.kind == "summary"]
        knows_folded = bool(summaries) and all(any(history.unfold(each)) for each in summaries)
        self._transcript = Transcript.after_compaction(
            messages[:n_new], messages[n_new:], facts, unread, knows_folded=knows_folded
        )
        if len(unread) <= READ_AT_ONCE:
            self._transcript.read_on(READ_AT_ONCE)


async def read_all(transcript: Transcript, *, with_text: bool) -> None:
    """Read all of *transcript* for facts, and *with_text* for a summarising model, in slices."""
    until = perf_counter() + _SLICE_S
    while transcript.read_on(_SLICE) or (with_text and transcript.flatten_on(_SLICE)):
        if perf_counter() >= until:
            await asyncio.sleep(0)
            until = perf_counter() + _SLICE_S
