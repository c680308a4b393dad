"""Expansion: the originals behind a summary come back into view, all of them or some.

A compaction replaced entries by a summary that names them. An expansion begins another branch on which those
entries stand again, as they were first stored and in the order in which they were said. Where only some come
back, the summary stays in front and stands for the others. The branch is recorded like that of a compaction,
so that the same undo leads back from it. Example, with a pinned prompt ``p`` and restored files ``f``::

    first stored   a b p c d e
    compacted      S(a b c) f p d e
    expanded       a b p c f d e
    only b and c   S(a) b p c f d e
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.conductor.contract import Compaction
from sidecar.conductor.errors import ExpansionTooLargeError, NodeNotFound
from sidecar.conductor.record.branching import with_partners
from sidecar.conductor.record.compactions import begin
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.window.compaction.chronicling import BACK_IN_VIEW, texts_of_compaction
from sidecar.conductor.window.compaction.compacting import Compactor
from sidecar.conductor.window.compaction.planner import CompactionPlanner
from sidecar.conductor.window.weights import entry_tokens
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import TextBlock, UserTurn

_NO_SUMMARY: Final = "no summary stands for earlier turns in this conversation"


class ExpandRequest(Value, kw_only=True):
    """The originals that are to come back.

    Attributes:
        compaction_id: the compaction of the summary; None for the one that stands.
        node_ids: some of the nodes behind it.
        first: the first node of a range of them, None for the oldest.
        last: the last node of a range, None for the newest.
    """

    compaction_id: str | None = None
    node_ids: tuple[str, ...] = ()
    first: str | None = None
    last: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all originals are to come back."""
        return not self.node_ids and self.first is None and self.last is None


class Expander:
    """Expands the summaries of one session."""

    def __init__(self, record: SessionRecord, planner: CompactionPlanner, compactor: Compactor) -> None:
        self._record = record
        self._history = record.history
        self._planner = planner
        self._engines = planner.engines
        self._compactor = compactor

    async def expand(self, request: ExpandRequest) -> Compaction:
        """Bring originals back into view, and return the record that an undo takes.

        Raises:
            CompactionNotFound: there is no such compaction.
            NodeNotFound: a node does not stand behind the summary.
            InvalidInput: no summary stands, or not that one.
            ExpansionTooLargeError: the conversation would be over the engine's limit.
        """
        history, engine = self._history.current, self._engines.own_name
        if request.compaction_id is not None:
            self._record.compactions.find(request.compaction_id)
        summary = next((entry for entry in history if entry.kind == "summary" and entry.origin), None)
        if summary is None:
            hint = "/compact makes one, and sidecar/compact/list names those there were"
            raise InvalidInput(_NO_SUMMARY, hint=hint)
        self.check_stands(summary, request.compaction_id)
        archive, automatic = self._history.graph.entries, self._engines.automatic()
        size_of = self._planner.request.size_of
        gate = self._planner.request.gate(automatic)
        limit = gate.limit or gate.window

        def expand_to(folded: Sequence[Entry], nodes: Collection[str]) -> tuple[list[Entry], int]:
            entries = expand_entries(history, summary, folded, nodes, archive)
            return entries, size_of(sum(map(entry_tokens, entries)))

        def expand() -> tuple[Collection[str], list[Entry]]:
            folded = find_originals(history, summary, archive)
            chosen = self.choose(folded, request)
            entries, tokens = expand_to(folded, chosen)
            if limit and tokens > limit:
                raise self.explain_size(folded, chosen, limit, lambda nodes: expand_to(folded, nodes)[1])
            return chosen, entries

        # In a thread: as many come back as were folded away.
        chosen, entries = await asyncio.to_thread(expand)
        begun = begin(self._record.new_id(), engine, "expand", history=history, pre_tokens=gate.tokens)
        branch = await self._history.prepare_branch(entries, self._planner.request.anchor_now())
        async with self._history.transaction():
            await self._history.replace(branch)
            done = replace(
                begun,
                status="completed",
                post_tokens=self._planner.request.used(),
                post_count=len(entries),
                after_head=self._history.head,
                undoable=True,
                info={"expandedCount": len(chosen)},
            )
            await self._compactor.keep(done)
        self._record.events.emit(done)
        return done

    def check_stands(self, summary: Entry, compaction_id: str | None) -> None:
        """Raise InvalidInput when *summary* is not that of the compaction."""
        if compaction_id is None:
            return
        after = self._history.history_at(self._record.compactions.find(compaction_id).after_head)
        texts = texts_of_compaction(summary)
        if all(texts_of_compaction(entry) != texts for entry in after if entry.kind == "summary"):
            found = f"the summary of compaction {compaction_id!r} does not stand in the conversation"
            raise InvalidInput(found, hint="leave the id out to expand the summary that does")

    def choose(self, folded: Sequence[Entry], request: ExpandRequest) -> Collection[str]:
        """Return the nodes that come back, calls with their results. Raises NodeNotFound."""
        places = {entry.node_id: place for place, entry in enumerate(folded)}
        for node in (*request.node_ids, *filter(None, (request.first, request.last))):
            if node not in places:
                raise NodeNotFound(self._record.sid, node)
        chosen = {places[node] for node in request.node_ids}
        if not request.node_ids:
            first = places[request.first] if request.first is not None else 0
            last = places[request.last] if request.last is not None else len(folded) - 1
            chosen = set(range(first, last + 1))
        if not chosen:
            raise InvalidInput("the range is empty", hint="name its older node first")
        return {folded[place].node_id for place in with_partners([entry.turn for entry in folded], chosen)}

    def explain_size(
        self,
        folded: Sequence[Entry],
        chosen: Collection[str],
        limit: int,
        weigh: Callable[[Collection[str]], int],
    ) -> ExpansionTooLargeError:
        """Return the refusal, with the newest of *chosen* that would fit.

        Args:
            folded: the entries behind the summary.
            chosen: the nodes of the entries that were to come back.
            limit: the most tokens of the conversation.
            weigh: returns the tokens of the conversation with some nodes of *folded* in view.
        """
        nodes = [entry.node_id for entry in folded if entry.node_id in chosen]

        def is_over(n_left_out: int) -> bool:
            range_back = ExpandRequest(first=nodes[n_left_out], last=nodes[-1])
            return weigh(self.choose(folded, range_back)) > limit

        n_left_out = bisect_left(range(len(nodes)), True, key=lambda place: not is_over(place))
        n_fitting = len(nodes) - n_left_out
        first = nodes[n_left_out] if n_fitting else None
        return ExpansionTooLargeError(
            self._record.sid, weigh(chosen), limit, n_chosen=len(nodes), n_fitting=n_fitting, first=first
        )


def find_originals(history: History, summary: Entry, archive: Mapping[str, Entry]) -> list[Entry]:
    """Return the entries that *summary* stands for as they were first stored, in that order."""
    firsts = (first_stored(each, archive) for each in history.unfold(summary))
    found = {entry.node_id: entry for entry in firsts}
    order = {node_id: place for place, node_id in enumerate(archive)}
    return sorted(found.values(), key=lambda entry: order[entry.node_id])


def first_stored(entry: Entry, archive: Mapping[str, Entry]) -> Entry:
    """Return *entry* as it was first stored; it may have been stored again on later branches."""
    while entry.kind != "summary" and entry.origin and entry.origin[0] in archive:
        entry = archive[entry.origin[0]]
    return entry


def expand_entries(
    history: History,
    summary: Entry,
    folded: Sequence[Entry],
    chosen: Collection[str],
    archive: Mapping[str, Entry],
) -> list[Entry]:
    """Return the entries of *history* with the *chosen* ones of *folded* in view again.

    Args:
        history: the path.
        summary: its entry that stands for *folded*.
        folded: the originals behind it, in the order in which they were first stored.
        chosen: the nodes that come back; the summary stands for the others, or goes where there are none.
        archive: every stored entry by its node.
    """
    order = {node_id: place for place, node_id in enumerate(archive)}
    last_folded = order[folded[-1].node_id]

    def place_of(entry: Entry) -> tuple[int, int]:
        first = first_stored(entry, archive)
        is_restored = entry.kind == "file" and first.kind != "file"
        return (last_folded, 1) if is_restored else (order.get(first.node_id, len(order)), 0)

    left = tuple(entry.node_id for entry in folded if entry.node_id not in chosen)
    others = [entry for entry in history if entry is not summary]
    back = [entry for entry in folded if entry.node_id in chosen]
    # Another text makes it another node: one node stands for the same entries on every branch.
    note = TextBlock(f"{BACK_IN_VIEW} {len(back)}]")
    turn = UserTurn((*texts_of_compaction(summary), note))
    rest = [replace(summary, turn=turn, origin=left)] if left else []
    return [*rest, *sorted([*back, *others], key=place_of)]
