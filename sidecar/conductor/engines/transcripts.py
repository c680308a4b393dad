"""The messages of one session for the window budget, over all of its compactions.

A compaction puts a digest in the place of its oldest entries, and nothing that they say is forgotten. The
fact index goes on over all of it, so each digest is chosen anew from all facts and never from the text of the
digest before it. After an undo, a rewind or a fork it is cut back to the part that both paths share.

Cost: an advance costs the new entries, a compaction one comparison for each entry ever stored. Only entries
that were not known before are searched for facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sidecar.capabilities.effects import EffectKind, ToolEffects
from sidecar.conductor.bridge import entries_to_messages, extend_transcript
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import ToolCallBlock
from sidecar.window_budget import Transcript
from sidecar.window_budget.contract import CallEffect, CallEffects
from sidecar.window_budget.tool_use import TOOL_EFFECTS

_EFFECTS: Final[dict[EffectKind, CallEffect]] = {
    "none": CallEffect(is_minor=True),
    "reads": CallEffect(reads=True, is_repeatable=True),
    "searches": CallEffect(searches=True, is_repeatable=True),
    "edits": CallEffect(writes="part", is_repeatable=True),
    "patches": CallEffect(patches=True, is_repeatable=True),
    "writes": CallEffect(writes="whole", is_repeatable=True),
    "runs": CallEffect(runs=True, is_repeatable=True),
    "anything": CallEffect(),
}


class SessionTranscript:
    """The transcript of one session; *tools* are the effects of the tools on offer."""

    def __init__(self, tools: CallEffects) -> None:
        self._history = History()
        self._originals: list[Entry] = []
        self._starts = [0]
        self._transcript = Transcript(tools)

    def of(self, history: History) -> Transcript:
        """Return the transcript of *history*."""
        added = history.since(self._history)
        self._history = history
        originals = history.originals() if added is None else ()
        if added is None:
            n_shared = shared_length(self._originals, originals)
            is_branch = n_shared < len(self._originals) or self._transcript.position(0)
            if is_branch or any(entry.origin for entry in history):
                self.follow_branch(originals, n_shared)
                return self._transcript
            added = originals[n_shared:]
        for entry in added:
            self.take(entry)
        return self._transcript

    def take(self, entry: Entry) -> None:
        """Add one entry."""
        self._transcript = extend_transcript(self._transcript, (entry.turn,), (entry.kind,))
        self._originals.append(entry)
        self._starts.append(self._transcript.position(len(self._transcript)))
        if entry.kind != "user":
            # A prompt is read with what follows it, so that the model need not wait for that.
            self._transcript.read_on()

    def follow_branch(self, originals: Sequence[Entry], n_shared: int) -> None:
        """Take over a path that did not grow out of the one before.

        Args:
            originals: its entries as they were first stored.
            n_shared: the number of first entries that it shares with the path before.
        """
        facts, history = self._transcript.facts, self._history
        if n_shared < len(self._originals):
            # The results of open calls are among the entries that follow, so the calls are read once more.
            while n_shared and has_calls(originals[n_shared - 1]):
                n_shared -= 1
            facts = facts.first(self._starts[n_shared])
        del self._originals[n_shared:], self._starts[n_shared + 1 :]
        for entry in originals[n_shared:]:
            facts = facts.extend(entries_to_messages((entry,)))
            self._originals.append(entry)
            self._starts.append(len(facts))
        n_front = len(history) - kept_length(history, originals)
        messages, n_new = entries_to_messages(history), len(entries_to_messages(history[:n_front]))
        summaries = [entry for entry in history if entry.kind == "summary"]
        knows_folded = bool(summaries) and all(any(history.unfold(each)) for each in summaries)
        self._transcript = Transcript.after_compaction(
            messages[:n_new], messages[n_new:], facts, knows_folded=knows_folded
        )


def shared_length(known: Sequence[Entry], entries: Sequence[Entry]) -> int:
    """Return how many turns both begin with."""
    pairs = enumerate(zip(known, entries, strict=False))
    differing = (at for at, (a, b) in pairs if a.turn is not b.turn and a.turn != b.turn)
    return next(differing, min(len(known), len(entries)))


def kept_length(history: History, originals: Sequence[Entry]) -> int:
    """Return how many entries at the end of *history* are the last ones of *originals*, or stand for them."""
    pairs = zip(reversed(history), reversed(originals), strict=False)
    kept = (a.kind == b.kind and b.node_id in (a.node_id, *a.origin) for a, b in pairs)
    return next((at for at, is_kept in enumerate(kept) if not is_kept), min(len(history), len(originals)))


def has_calls(entry: Entry) -> bool:
    """Whether *entry* calls tools."""
    return any(isinstance(block, ToolCallBlock) for block in entry.turn.blocks)


def call_effects(tools: Mapping[str, ToolEffects]) -> CallEffects:
    """Return the effects of *tools*, those on offer, and of common tool names, for the window budget."""
    found = dict(TOOL_EFFECTS)
    for name, effects in tools.items():
        effect, names = _EFFECTS[effects.kind], effects.arguments
        is_patch = effect.patches  # its paths are in the patch
        found[name] = effect if is_patch else replace(effect, path_arguments=names, command_arguments=names)
    return found
