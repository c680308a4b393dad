"""The rules of a session: set by hand, or proposed by a summary; and their way to the model.

A change by hand is kept in the session's own record: it outlives every move of the conversation, and a fork
begins with it. A change that a summary proposed belongs to the prompt that it quotes: after an undo, a
rewind, a drop or a fork it counts only where that prompt is on the path. Changes are folded in the order of
their times, so that a later one takes an earlier one back. Rules that an earlier version found in prompts
stand in its summaries, and are read from there when the session is loaded.

The model is sent every rule that holds, word for word, in one of these places:

* the prompt that has it, or a summary that has it word for word, while it is in view;
* a note below the first prompt after a change by hand, so that the prompt cache keeps everything before it;
* a block at the head of the summary: the rules that nothing else in view shows. It is made once for each
  summary, so that only a compaction changes the beginning of a request.

Cost: a prompt is noted when it is recorded, and a move of the head is prepared in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, Literal, TypeVar

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.content import prompt_text
from sidecar.conductor.contract import RuleStatement, SessionRule
from sidecar.conductor.events import RulesChanged
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.records import from_record
from sidecar.conductor.token_estimate import text_tokens
from sidecar.conductor.window.compaction.chronicling import is_chronicle
from sidecar.conductor.window.rule_changes import (
    RuleChange,
    RuleNote,
    changes_of_statements,
    check_rule,
    find_earlier_rules,
    find_rule,
    fold_rules,
    list_rules,
    rule_id,
)
from sidecar.conversation import Entry, History, Index
from sidecar.llmgateway.contract import Conversation, TextBlock

MAX_CHANGES: Final = 1_000
"""How many changes a session keeps."""

MAX_NOTES: Final = 200
_BLOCK: Final = "The user's rules, word for word. They hold until the user says otherwise:"
_ADDED: Final = "The user has set these rules; they hold until the user says otherwise:"
_ENDED: Final = "These rules no longer hold:"

T = TypeVar("T")


class SessionRules:
    """The rules of one session.

    Attributes:
        all: every rule, oldest first, also the rules that were taken back.
        standing: the rules that hold, oldest first.
    """

    def __init__(self, record: SessionRecord) -> None:
        """Make the rules of a session; they are empty before :meth:`load`."""
        self._record = record
        self._history = record.history
        self._seen: History | None = None
        self._path: Mapping[str, None] = {}
        self._prompts = Index(dict[str, None], self._add_prompt, reaches_folded=True)
        record.history.follow(self)
        record.history.watch(lambda appended: self.follow())
        self._changes: tuple[RuleChange, ...] = ()
        self._earlier: tuple[RuleChange, ...] = ()
        self._notes: dict[str, RuleNote] = {}
        self._mark: str | None = None
        self._block = ""
        self.all: tuple[SessionRule, ...] = ()
        self.standing: tuple[SessionRule, ...] = ()

    def prepare(self, history: History) -> None:
        """Find the prompts of *history*, to which the conversation is about to move."""
        self._prompts.prepare(history)

    def forget(self) -> None:
        """Let go of the conversation; the rules stay as they are."""
        self._prompts.forget()
        self._seen = None

    async def load(self) -> None:
        """Read the changes, and in a thread the rules that an earlier version found."""
        self._changes = tuple(_read(RuleChange, self._record.info.rules))
        self._notes = {note.node_id: note for note in _read(RuleNote, self._record.info.rule_notes)}
        self._earlier = await asyncio.to_thread(self.find_earlier)
        self._seen = History()
        self.follow()

    def find_earlier(self) -> tuple[RuleChange, ...]:
        """Return the rules that an earlier version found, from the summaries that it wrote."""
        self._prompts.of(self._history.current)
        stored = self._history.graph.entries
        summaries = [
            prompt_text(entry.turn.blocks)
            for entry in stored.values()
            if entry.kind == "summary" and entry.origin and not any(map(is_chronicle, entry.turn.blocks))
        ]
        if not summaries:
            return ()
        prompts = [entry for entry in stored.values() if entry.kind == "user" and not entry.origin]
        texts = {entry.node_id: prompt_text(entry.turn.blocks) for entry in prompts}
        times = {entry.node_id: entry.created_at for entry in prompts}
        return tuple(find_earlier_rules(summaries, texts, times))

    @property
    def tokens(self) -> int:
        """The tokens of the block and of the notes."""
        if not self._block and not self._notes:
            return 0
        notes = (_note_text(note) for node, note in self._notes.items() if node in self._path)
        return text_tokens(self._block) + sum(map(text_tokens, notes))

    def follow(self) -> None:
        """Take over the conversation as it is now; a new prompt gets a note of the changes by hand."""
        if self._seen is None:
            return
        history = self._history.current
        added = history.since(self._seen)
        has_moved, self._seen = added is None, history
        self._path = self._prompts.of(history)
        if has_moved:
            self._settle()
        for entry in (added if self._changes else None) or ():
            if entry.kind == "user" and not entry.origin:
                self.announce(entry.node_id)

    def add(self, text: str) -> SessionRule:
        """Set a rule by hand, and return it, or the rule that says the same already.

        Raises InvalidInput for an empty or too long text, and when there are too many changes.
        """
        rule, at = check_rule(text), self._now()
        change_id = rule_id(rule, str(at), str(len(self._changes)))
        self._keep(RuleChange(id=change_id, action="add", text=rule, source="user", at=at))
        same = (each for each in self.standing if each.text.casefold() == rule.casefold())
        return next((each for each in self.all if each.id == change_id), None) or next(same)

    def remove(self, wanted: str) -> SessionRule:
        """Withdraw the rule with an id, or the only one with some words. Raises InvalidInput."""
        rule = find_rule(self.standing, wanted.strip())
        self._keep(self._change(rule, "remove"))
        return next(each for each in self.all if each.id == rule.id)

    def keep(self, wanted: str | None) -> tuple[SessionRule, ...]:
        """Keep the proposed rule with an id or some words, all of them for None; return them.

        Raises InvalidInput for words that name none, or several.
        """
        return self._decide(wanted, "keep")

    def dismiss(self, wanted: str | None) -> tuple[SessionRule, ...]:
        """Withdraw the proposed rule with an id or some words, all of them for None; return them.

        Raises InvalidInput for words that name none, or several.
        """
        return self._decide(wanted, "remove")

    def _decide(self, wanted: str | None, action: Literal["keep", "remove"]) -> tuple[SessionRule, ...]:
        proposed = [rule for rule in self.standing if rule.proposed]
        chosen = proposed if wanted is None else [find_rule(proposed, wanted.strip())]
        self._keep(*(self._change(rule, action) for rule in chosen))
        ids = {rule.id for rule in chosen}
        return tuple(rule for rule in self.all if rule.id in ids)

    def _change(self, rule: SessionRule, action: Literal["keep", "remove"]) -> RuleChange:
        return RuleChange(
            id=rule.id,
            action=action,
            text=rule.text,
            source="user",
            at=self._now(),
            node_id=rule.node_id,
        )

    def propose(self, statements: Sequence[RuleStatement], history: History) -> None:
        """Take over the statements of a model about the rules in *history* that quote the user rightly."""
        if not statements:
            return
        entries = self._history.graph.entries
        prompts: dict[str, str] = {}
        for entry in history.originals():
            if entry.kind == "user" and entry.node_id in entries:
                prompts[entry.node_id] = prompt_text(entry.turn.blocks)
        times = {node: entries[node].created_at for node in prompts}
        self._keep(*changes_of_statements(statements, prompts, times, self.all))

    def apply(self, conversation: Conversation) -> Conversation:
        """Return *conversation*, a request that shows the history, with the block and the notes."""
        history = self._history.current
        self._make_block(history)
        if not self._block and not self._notes:
            return conversation
        below: dict[int, str] = {}
        summary = _summary_of(history)
        for entry in history:
            note = self._notes.get(self._first_node(entry)) if entry.kind == "user" else None
            if note is not None:
                below[id(entry.turn)] = _note_text(note)
        turns, is_placed = list(conversation.turns), not self._block
        for index, turn in enumerate(turns):
            if not is_placed and summary is not None and turn is summary.turn:
                turns[index] = replace(turn, blocks=(TextBlock(self._block), *turn.blocks))
                is_placed = True
            elif id(turn) in below:
                turns[index] = replace(turn, blocks=(*turn.blocks, TextBlock(below[id(turn)])))
        system = conversation.system
        if not is_placed:
            system = "\n\n".join(filter(None, (system, self._block)))
        return replace(conversation, turns=tuple(turns), system=system)

    def _add_prompt(self, path: dict[str, None], entry: Entry, in_view: bool) -> dict[str, None]:
        if entry.kind == "user":
            path[self._first_node(entry)] = None
        return path

    def _first_node(self, entry: Entry) -> str:
        """Return the node at which the prompt *entry* was first stored."""
        first = entry.origin[0] if entry.origin else ""
        return first if first in self._history.graph.entries else entry.node_id

    def _settle(self) -> None:
        """Fold all changes, and publish the rules that hold if they changed."""
        before = self.standing
        changes = (*self._earlier, *self._changes)
        self.all = fold_rules(each for each in changes if each.node_id is None or each.node_id in self._path)
        self.standing = tuple(rule for rule in self.all if rule.holds)
        if self.standing != before:
            self._record.events.emit(RulesChanged(self.standing))

    def _keep(self, *changes: RuleChange) -> None:
        if not changes:
            return
        if len(self._changes) + len(changes) > MAX_CHANGES:
            raise InvalidInput(
                f"the session has {MAX_CHANGES:,} changes of rules already",
                hint="write the rules into AGENTS.md instead",
            )
        self._changes = (*self._changes, *changes)
        self._record.amend(lambda info: replace(info, rules=tuple(map(asdict, self._changes))))
        self._settle()

    def _now(self) -> int:
        """Return the time, at least that of the newest node, so that a change is later than it."""
        head = self._history.head
        return max(self._record.clock_ms(), self._history.graph.entries[head].created_at if head else 0)

    def announce(self, node: str) -> None:
        """Note the changes by hand that the model does not know yet below the prompt *node*."""
        history = self._history.current
        self._make_block(history)
        shown = self._shown_text(history)
        holding = {rule.id for rule in self.standing}
        noted = [self._notes[each] for each in self._path if each in self._notes]
        added, ended = dict[str, None](), dict[str, None]()
        for change in self._changes:
            text = change.text
            told = next((note for note in reversed(noted) if text in (*note.added, *note.ended)), None)
            if change.id in holding and change.action == "add" and change.source == "user":
                if text not in self._block and (told is None or text in told.ended):
                    added[text] = None
            elif change.action == "remove" and change.id not in holding and text in shown:
                ended.update({text: None} if told is None or text in told.added else {})
        if added or ended:
            self._notes[node] = RuleNote(node_id=node, added=tuple(added), ended=tuple(ended))
            kept = tuple(map(asdict, list(self._notes.values())[-MAX_NOTES:]))
            self._record.amend(lambda info: replace(info, rule_notes=kept))

    def _make_block(self, history: History) -> None:
        """Make the block of *history*, unless the present one was made for the same summary."""
        summary = _summary_of(history)
        mark = None if summary is None else summary.node_id or prompt_text(summary.turn.blocks)
        if mark == self._mark:
            return
        self._mark, self._block = mark, ""
        if summary is not None and self.all:
            shown = self._shown_text(history)
            told = prompt_text(summary.turn.blocks)
            self._block = list_rules(
                (_BLOCK, [rule.text for rule in self.standing if rule.text not in shown]),
                (_ENDED, [rule.text for rule in self.all if not rule.holds and rule.text in told]),
            )

    def _shown_text(self, history: History) -> str:
        """Return the texts of the block, the summary, the prompts and the notes, on one line."""
        texts = [self._block]
        for entry in history:
            if entry.kind in ("user", "summary"):
                texts.append(prompt_text(entry.turn.blocks))
            if entry.kind == "user" and (note := self._notes.get(self._first_node(entry))) is not None:
                texts.append(_note_text(note))
        return " ".join(" ".join(texts).split())


def _summary_of(history: History) -> Entry | None:
    """Return the summary of a compaction in *history*; the digest of a branch that was left is none."""
    for at, entry in enumerate(history):
        if entry.kind == "summary" and (at == 0 or entry.origin):
            return entry
    return None


def _note_text(note: RuleNote) -> str:
    return list_rules((_ADDED, note.added), (_ENDED, note.ended))


def _read(cls: type[T], records: Iterable[Mapping[str, Any]]) -> Iterable[T]:
    return filter(None, (from_record(cls, record) for record in records))
