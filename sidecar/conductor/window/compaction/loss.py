"""The loss report: how the facts that a compaction folded away stand in the view.

A report is read from the chronicle in the view, for every engine alike. A fact is a prompt, an answer, a
failure, a result that was looked up, or, at its newest use, a file or a command. It is

- *kept* where the chronicle shows its entry whole, or names the file or the command,
- *shortened* where it shows a part of its entry,
- one *line* where its entry has no more than a share of a place, as #3 has in ``#3-5``,
- *gone* where it has not even that: no chronicle had room.

Each entry can be looked at, and brought back by its place. Counting costs the entries that are shown and
named; only the list of all facts costs the folded part.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, get_args

from sidecar._internal.values import Value
from sidecar.chronicle.chronicle import Chronicle
from sidecar.chronicle.index import SAID
from sidecar.conductor.contract import Compaction, FactName, FactState, KindLoss, Loss, ReportedFact
from sidecar.conductor.engine import CompactionResult
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.window.compaction.chronicling import SessionChronicle, chronicle_text
from sidecar.conversation import Entry, History
from sidecar.text.clip import clip

MAX_TEXT_CHARS: Final = 2_000
"""How much of a fact a report shows."""

_STATES: Final[tuple[FactState, ...]] = get_args(FactState)


class _View:
    """The part of a *chronicle* that a view shows."""

    def __init__(self, chronicle: Chronicle, n_folded: int, text: str) -> None:
        """Read *text*, the chronicle in the view, empty for none; *n_folded* entries are behind the view."""
        self.chronicle = chronicle
        self.n_folded = n_folded
        self._n_covered, self._shares = chronicle.read_shares(text)
        kept, names = range(n_folded + 1, len(chronicle) + 1), chronicle.facts.names
        self._named = chronicle.facts.names_of([*self._shares, *kept])
        self._named |= {names[line] for line in text.partition("\n\n")[0].splitlines() if line in names}
        self.share = self.shown_chars() / max(1, chronicle.chars_before(n_folded))

    def shown_chars(self) -> float:
        """Return how many characters of the folded entries are shown."""
        return sum(
            share * len(self.chronicle.ranked[place - 1].text) for place, share in self._shares.items()
        )

    def state_of_entry(self, place: int) -> FactState:
        """Return how the entry at *place* stands."""
        share = self._shares.get(place, 0.0)
        if share:
            return "kept" if share >= 1 else "shortened"
        return "line" if place <= self._n_covered else "gone"

    def list_names(
        self, files: Iterable[str], commands: Iterable[str]
    ) -> Iterator[tuple[FactName, str, str, int]]:
        """Yield the folded ones of *files* and *commands*: kind, name, line of the index, and place."""
        known = self.chronicle.facts
        for facts, names in ((known.files, files), (known.commands, commands)):
            for name in names:
                fact = facts[name]
                if fact.place <= self.n_folded:
                    for kind in fact.kinds:
                        yield kind, name, fact.line, fact.place

    def state_of_name(self, name: str, place: int) -> FactState:
        """Return how a file or a command stands."""
        if name in self._named:
            return "kept"
        return "line" if place <= self._n_covered else "gone"

    def count(self) -> Loss:
        """Return the number of facts by kind and state."""
        counts: Counter[tuple[str, FactState]] = Counter()
        kinds, n_covered = self.chronicle.facts.kinds, min(self._n_covered, self.n_folded)
        for code, said in enumerate(SAID):
            counts[said, "line"] = kinds.count(code, 0, n_covered)
            counts[said, "gone"] = kinds.count(code, n_covered, self.n_folded)
        for place in self._shares:
            if place <= self.n_folded:
                said = SAID[kinds[place - 1]]
                counts[said, "line"] -= 1
                counts[said, self.state_of_entry(place)] += 1
        facts = self.chronicle.facts
        named = self.list_names(self._named & facts.files.keys(), self._named & facts.commands.keys())
        kept = Counter((kind, place <= n_covered) for kind, _, _, place in named)
        for used, places in facts.places.items():
            n_line, n_folded = bisect_right(places, n_covered), bisect_right(places, self.n_folded)
            counts[used, "kept"] += kept[used, True] + kept[used, False]
            counts[used, "line"] += n_line - kept[used, True]
            counts[used, "gone"] += n_folded - n_line - kept[used, False]
        return loss_of(counts, self.share)

    def list_facts(self, entries: Sequence[Entry], pinned: Collection[str]) -> Iterator[ReportedFact]:
        """Yield all facts; *entries* have the places of the chronicle, *pinned* has the ids of the pins."""
        for place, (code, entry) in enumerate(zip(self.chronicle.facts.kinds, entries, strict=True), 1):
            said = SAID[code]
            if place <= self.n_folded and said:
                text = self.chronicle.ranked[place - 1].text
                fact_id, state = fact_id_of(said, entry.node_id), self.state_of_entry(place)
                yield ReportedFact(
                    fact_id, said, state, clip(text, MAX_TEXT_CHARS), entry.node_id, fact_id in pinned, place
                )
        facts = self.chronicle.facts
        for kind, name, line, place in self.list_names(facts.files, facts.commands):
            text = line.removeprefix("$ ").rpartition(" #")[0] if kind == "command" else name
            fact_id, node = fact_id_of(kind, name), entries[place - 1].node_id
            state = self.state_of_name(name, place)
            yield ReportedFact(fact_id, kind, state, text, node, fact_id in pinned, place)


def fact_id_of(kind: FactName, name: str) -> str:
    """Return the id of a fact, the same in every report."""
    return blake2b(f"{kind}\n{name}".encode(errors="replace"), digest_size=5).hexdigest()


def loss_of(counts: Mapping[tuple[str, FactState], int], share: float) -> Loss:
    """Return *counts*, in all and by kind."""
    kinds = tuple(
        KindLoss(
            kind, counts[kind, "kept"], counts[kind, "shortened"], counts[kind, "gone"], counts[kind, "line"]
        )
        for kind in get_args(FactName)
        if any(counts[kind, state] for state in _STATES)
    )
    return Loss(
        sum(each.kept for each in kinds),
        sum(each.shortened for each in kinds),
        sum(each.let_go for each in kinds),
        kinds=kinds,
        line=sum(each.line or 0 for each in kinds),
        share=round(min(1.0, share), 3),
    )


class LossReport(Value):
    """The facts of a folded part with their states, and the counts."""

    facts: tuple[ReportedFact, ...] = ()
    loss: Loss = Loss(0, 0, 0)

    def select(
        self, kinds: Collection[FactName] | None = None, states: Collection[FactState] | None = None
    ) -> Sequence[ReportedFact]:
        """Return the facts of some *kinds* and *states*, of all for None."""
        return [
            fact
            for fact in self.facts
            if (kinds is None or fact.kind in kinds) and (states is None or fact.state in states)
        ]


class LossReports:
    """Makes the loss reports of one session."""

    def __init__(self, record: SessionRecord, chronicle: SessionChronicle) -> None:
        self._record = record
        self._history = record.history
        self._chronicle = chronicle

    async def read(self, done: Compaction) -> LossReport:
        """Return the report of *done*; it is empty where nothing was folded, or nothing is any more."""
        if done.status != "completed" or done.before_head is None:
            return LossReport()
        before, view = await self.around(done)
        cut = before.node_ids.index(done.kept_from) if done.kept_from in before.node_ids else len(before)
        report = await self._report(before, cut, view)
        return replace(report, loss=with_mended(report.loss, done.info))

    async def read_now(self) -> LossReport:
        """Return the facts that stand behind the summaries of the conversation."""
        history = self._history.current
        cut = next((at for at, entry in enumerate(history) if entry.kind not in ("summary", "file")), 0)
        return await self._report(history, cut, history) if cut else LossReport()

    async def find(self, fact_id: str) -> ReportedFact | None:
        """Return a fact of the conversation, None where it has no such one."""
        history = self._history.current
        report = await self._report(history, len(history), ())
        return next((fact for fact in report.facts if fact.fact_id == fact_id), None)

    async def around(self, done: Compaction) -> tuple[History, Sequence[Entry]]:
        """Return the conversation before *done*, and the entries that the model saw right after it."""
        before = await asyncio.to_thread(self._history.history_at, done.before_head)
        return before, await asyncio.to_thread(self._history.history_at, done.after_head)

    async def _report(self, before: History, cut: int, view: Iterable[Entry]) -> LossReport:
        pinned = {pin.pin_id for pin in self._record.pins()}

        def report() -> LossReport:
            own = self._chronicle if self._chronicle.reaches(before) else SessionChronicle()
            with own.lend(before) as chronicle:
                shown = _View(chronicle, own.count_before(before, cut), chronicle_text(view))
                return LossReport(tuple(shown.list_facts(own.entries, pinned)), shown.count())

        return await asyncio.to_thread(report)


async def count_loss(
    history: History, result: CompactionResult, session_chronicle: SessionChronicle
) -> CompactionResult:
    """Return *result*, a compaction of *history* with everything that is kept, with its facts counted."""

    def count() -> Loss:
        with session_chronicle.lend(history) as chronicle:
            n_folded = session_chronicle.count_before(history, result.cut)
            return _View(chronicle, n_folded, chronicle_text(result.entries)).count()

    return replace(result, loss=with_mended(await asyncio.to_thread(count), result.info))


def with_mended(loss: Loss, info: Mapping[str, Any] | None) -> Loss:
    """Return *loss* with the number of lines that *info* names as dropped from the summary."""
    return replace(loss, mended=len((info or {}).get("mended", ())))
