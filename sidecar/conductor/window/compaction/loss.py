"""The loss report: each fact that a compaction folded away, and whether the model still sees it.

It is made by comparing texts, after the engine is done, for every engine alike. An entry is *folded*
when no entry of the resulting view shows it as it was first stored. Its facts are found by the fact index and
counted once: of prose by its words, of a command, a changed or a read file by the command or the path,
where the newest outcome stands. A fact is

- *kept* when its text stands in the view, blanks evened out,
- *shortened* when its beginning, its command or path, or the telling line of an error stands there,
- *let go* otherwise.

For example, a digest with the line ``pytest -q [exit 1]`` keeps that command, a model's summary that only
says ``pytest -q`` shortens it.

A text is looked up at the places that its rarest word has in the view, and not at all where its most telling
word has none. So the cost is one pass over the view and one over the facts, however often either repeats
itself. The facts of an entry are found once, and remembered by its node; the facts of a growing part are
put together once as well. Nothing here reads a file, awaits or calls a model; it is meant for a thread.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, get_args

from sidecar._internal.cancel import CancelToken
from sidecar.conductor.bridge import entries_to_messages
from sidecar.conductor.loss_values import FactName, FactState, KindLoss, Loss, ReportedFact
from sidecar.conversation import Entry, count_shared
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock, ToolResultBlock
from sidecar.text.calls import ToolEffects
from sidecar.text.clip import clip
from sidecar.window_budget.fact_index import FactIndex
from sidecar.window_budget.facts import KEY_CHARS, FactKind, fact_key, split_error
from sidecar.window_budget.message import AssistantMessage, Message, ToolResultMessage
from sidecar.window_budget.tool_use import open_todos

MAX_TEXT_CHARS: Final = 2_000
"""How much of a fact a report shows."""

_BATCH: Final = 500
"""How many entries are searched for facts before a look whether the report is still wanted."""

_MAX_PLACES: Final = 64
"""Where the rarest word of a text has more places than this, one search of the whole text costs less."""

_IDEOGRAPH = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"[{_IDEOGRAPH}]|[^\W{_IDEOGRAPH}]+")
"""A word, or one character of a script without blanks."""

_CALL_KINDS: Final = frozenset({FactKind.COMMAND, FactKind.MODIFIED, FactKind.READ, FactKind.SEARCH})
"""Kinds of facts that stand in the arguments of a call, while the index has them at its result."""

_KEYED_KINDS: Final = frozenset({FactKind.COMMAND, FactKind.MODIFIED, FactKind.READ})
_NAMES: Final[Mapping[FactKind, FactName]] = {
    kind: next(name for name in get_args(FactName) if name == kind.name.lower()) for kind in FactKind
}


@dataclass(frozen=True, slots=True)
class HeldFact:
    """A fact and the node that holds it; two facts of one *kind* with one *key* are the same.

    *anchors* are the most telling words of its forms, with blanks between them: a text without any of them
    holds no form of it. A long session holds many facts, and a tuple would be a fifth of the memory of each.
    """

    kind: FactKind
    key: str
    text: str
    node_id: str
    anchors: str = field(init=False)

    def __post_init__(self) -> None:
        """Find the anchors."""
        forms = (whole_words(self.text), *shorter_forms(self))
        anchors = (max(_WORD.findall(form), key=rank_word, default="") for form in forms)
        object.__setattr__(self, "anchors", " ".join(dict.fromkeys(anchors)))

    @property
    def fact_id(self) -> str:
        """The name of the fact, the same in every report."""
        name = f"{self.kind._name_}\n{self.key}"
        return blake2b(name.encode(errors="replace"), digest_size=5).hexdigest()


def rank_word(word: str) -> tuple[bool, int]:
    """Return how telling *word* is: one that is no plain word before others, then the longer one.

    >>> max(["sidecar", "parser_3", "py"], key=rank_word)
    'parser_3'
    """
    return not word.isalpha(), len(word)


class TextLookup:
    """A text in which others are looked up.

    >>> shown = TextLookup("It listens on\\n  port 7013, says 解析器。")
    >>> shown.holds("listens on port 7013"), shown.holds("port 701"), shown.holds("解析")
    (True, False, True)
    """

    def __init__(self, text: str) -> None:
        self._text = even_out(text)
        self._places: dict[str, list[int]] = {"": []}
        for word in _WORD.finditer(self._text):
            self._places.setdefault(word.group(), []).append(word.start())

    def has_word_of(self, words: Iterable[str]) -> bool:
        """Return whether any of *words* stands in the text, as the empty one does."""
        return not self._places.keys().isdisjoint(words)

    def holds(self, text: str) -> bool:
        """Return whether *text*, its blanks evened out, stands there as whole words."""
        rarest: Sequence[int] = ()
        offset, least = 0, _MAX_PLACES + 1
        for word in _WORD.finditer(text):
            places = self._places.get(word.group())
            if places is None:
                return False
            if len(places) < least:
                rarest, offset, least = places, word.start(), len(places)
        if not rarest:
            return text in self._text
        return any(self._text.startswith(text, at - offset) for at in rarest if at >= offset)


class FactLedger:
    """The facts of entries, found once for each, until *cancel*."""

    def __init__(self, cancel: CancelToken | None = None) -> None:
        self.cancel = cancel or CancelToken()
        self._facts: dict[str, tuple[HeldFact, ...]] = {}
        self._folded: Sequence[Entry] = ()
        self._newest: dict[FactKind, dict[str, HeldFact]] = {kind: {} for kind in FactKind}
        self._todos: dict[str, HeldFact] = {}
        self._calls: dict[str, tuple[ToolCallBlock, str]] = {}

    def facts_of(
        self, folded: Sequence[Entry], shown: Sequence[Entry], tools: Mapping[str, ToolEffects]
    ) -> list[HeldFact]:
        """Return the facts of the *folded* entries, each once and where it was said last.

        Args:
            folded: the entries behind a view, oldest first.
            shown: the view. The calls of folded results may be there, and a todo list newer than theirs.
            tools: the effects of the tools.

        Raises:
            CancelledByToken: the session was closed.
        """
        for entry in shown:
            self._note_calls(entry)
        n_same = count_shared(self._folded, folded)
        if n_same < len(self._folded):
            n_same, self._newest, self._todos = 0, {kind: {} for kind in FactKind}, {}
        new = [entry for entry in folded[n_same:] if entry.node_id not in self._facts]
        for first in range(0, len(new), _BATCH):
            self.cancel.raise_if_cancelled()
            self.add(new[first : first + _BATCH], tools)
        self._folded = folded
        for entry in folded[n_same:]:
            for fact in self._facts[entry.node_id]:
                self._newest[fact.kind][fact.key] = fact
            if (todos := todos_of(entry)) is not None:
                self._todos = {item: HeldFact(FactKind.TODO, item, item, entry.node_id) for item in todos}
        newest = self._newest
        if not any(todos_of(entry) is not None for entry in shown):
            newest = newest | {FactKind.TODO: newest[FactKind.TODO] | self._todos}
        return [fact for facts in newest.values() for fact in facts.values()]

    def add(self, entries: Sequence[Entry], tools: Mapping[str, ToolEffects]) -> None:
        """Find the facts of *entries*, of which none is known."""
        called = {
            block.id for entry in entries for block in entry.turn.blocks if isinstance(block, ToolCallBlock)
        }
        messages, holders = list[Message](), list[tuple[str, str]]()
        for entry in entries:
            self._note_calls(entry)
            for message in entries_to_messages((entry,)):
                call, node = None, entry.node_id
                if isinstance(message, ToolResultMessage):
                    call, node = self._calls.get(message.tool_call_id, (None, node))
                if call is not None and call.id not in called:
                    messages.append(AssistantMessage((call,)))
                    holders.append(("", ""))
                messages.append(message)
                holders.append((entry.node_id, node))
        by_node: dict[str, list[HeldFact]] = {entry.node_id: [] for entry in entries}
        prompts = {entry.node_id: prose_of(entry) for entry in entries if entry.kind == "user"}
        for fact in FactIndex(tools).extend(messages).all():
            holder, call_node = holders[fact.index]
            whole = fact.kind is FactKind.REQUEST and holder in prompts
            text = even_out(prompts[holder] if whole else fact.text)
            key = fact_key(fact.kind, text) if fact.kind in _KEYED_KINDS else text
            node = call_node if fact.kind in _CALL_KINDS else holder
            by_node[holder].append(HeldFact(fact.kind, key, text, node))
        self._facts.update((node, tuple(facts)) for node, facts in by_node.items())

    def _note_calls(self, entry: Entry) -> None:
        for block in entry.turn.blocks:
            if isinstance(block, ToolCallBlock):
                self._calls[block.id] = block, entry.origin[0] if entry.origin else entry.node_id


@dataclass(frozen=True, slots=True)
class LossReport:
    """The facts of a folded part with their states, by kind, and the counts."""

    facts: Sequence[tuple[HeldFact, FactState]] = ()
    loss: Loss = field(default_factory=lambda: Loss(0, 0, 0))

    def select(
        self, kinds: Collection[FactName] | None = None, states: Collection[FactState] | None = None
    ) -> Sequence[tuple[HeldFact, FactState]]:
        """Return the facts of some *kinds* and *states*, of all for None."""
        return [
            (fact, state)
            for fact, state in self.facts
            if (kinds is None or _NAMES[fact.kind] in kinds) and (states is None or state in states)
        ]


def report_facts(facts: Iterable[HeldFact], shown: TextLookup) -> LossReport:
    """Return the report of *facts*, which stand or do not in the text that is *shown*."""
    by_kind: dict[FactKind, list[tuple[HeldFact, FactState]]] = {kind: [] for kind in FactKind}
    for fact in facts:
        by_kind[fact.kind].append((fact, state_of(fact, shown)))
    found = [each for some in by_kind.values() for each in some]
    return LossReport(found, count_states(found))


def count_facts(facts: Iterable[HeldFact], shown: TextLookup) -> Loss:
    """Return the counts of :func:`report_facts` alone.

    It keeps nothing for each fact: a hundred thousand new objects would make Python look through all others.
    """
    return count_states((fact, state_of(fact, shown)) for fact in facts)


def state_of(fact: HeldFact, shown: TextLookup) -> FactState:
    """Return whether *fact* is kept in *shown*, shortened there, or let go.

    >>> fact = HeldFact(FactKind.COMMAND, "pytest -q", "pytest -q [exit 1]", "n1")
    >>> [state_of(fact, TextLookup(text)) for text in ("pytest -q [exit 1]", "ran pytest -q", "pytest -x")]
    ['kept', 'shortened', 'gone']
    """
    if not shown.has_word_of(fact.anchors.split(" ")):
        return "gone"
    if shown.holds(whole_words(fact.text)):
        return "kept"
    return "shortened" if any(map(shown.holds, shorter_forms(fact))) else "gone"


def shorter_forms(fact: HeldFact) -> Iterator[str]:
    """Yield the texts of which one stands for *fact* where it is not shown whole."""
    if fact.key != fact.text:
        yield whole_words(fact.key)
    if len(fact.key) > KEY_CHARS:
        yield whole_words(f"{fact.key[:KEY_CHARS]}…")
    if fact.kind is FactKind.ERROR:
        subject, line = split_error(fact.text)
        if subject:
            yield whole_words(line)


def whole_words(text: str) -> str:
    """Return *text* without an ellipsis at its end and the word that it cuts.

    >>> whole_words("fix the par…"), whole_words("fix")
    ('fix the', 'fix')
    """
    return text.removesuffix("…").rpartition(" ")[0] or text.removesuffix("…") if text.endswith("…") else text


def even_out(text: str) -> str:
    """Return *text* with one blank for each run of blanks and line ends; itself where it has no other."""
    evened = " ".join(text.split())
    return text if evened == text else evened


def prose_of(entry: Entry) -> str:
    """Return the prose of *entry*."""
    return "\n".join(block.text for block in entry.turn.blocks if isinstance(block, TextBlock))


def todos_of(entry: Entry) -> tuple[str, ...] | None:
    """Return the open items of a todo list that *entry* writes, None for no list."""
    lists = (open_todos(block) for block in entry.turn.blocks if isinstance(block, ToolCallBlock))
    return next((todos for todos in lists if todos is not None), None)


def text_shown(entries: Iterable[Entry]) -> str:
    """Return all texts that the model sees of *entries*: prose, arguments of calls, and results."""
    return "\n".join(text for entry in entries for block in entry.turn.blocks for text in texts_in(block))


def texts_in(value: object) -> Iterator[str]:
    """Yield the texts inside a block, or inside a value of JSON."""
    match value:
        case str():
            yield value
        case TextBlock(text=text):
            yield text
        case ToolCallBlock(input=given):
            yield from texts_in(given)
        case ToolResultBlock(output=output):
            yield from texts_in(output)
        case Mapping():
            for each in value.values():
                yield from texts_in(each)
        case list() | tuple():
            for each in value:
                yield from texts_in(each)


def count_states(facts: Iterable[tuple[HeldFact, FactState]]) -> Loss:
    """Return the counts of *facts*, in all and by kind."""
    counts = Counter((fact.kind, state) for fact, state in facts)
    kinds = tuple(
        KindLoss(_NAMES[kind], *(counts[kind, state] for state in get_args(FactState)))
        for kind in FactKind
        if any(counts[kind, state] for state in get_args(FactState))
    )
    kept, shortened, let_go = (sum(counts[kind, state] for kind in FactKind) for state in get_args(FactState))
    return Loss(kept, shortened, let_go, kinds=kinds)


def as_reported(fact: HeldFact, state: FactState, pinned: Collection[str]) -> ReportedFact:
    """Return *fact* as clients see it; *pinned* are the ids of the pins."""
    text = clip(fact.text, MAX_TEXT_CHARS)
    fact_id = fact.fact_id
    return ReportedFact(fact_id, _NAMES[fact.kind], state, text, fact.node_id, fact_id in pinned)
