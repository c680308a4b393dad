"""Builds an imported conversation: pairs calls with results, folds, rewinds, and counts repairs.

A recorded conversation comes as prompts, pieces of answers, results and compactions in the order of their
writing, which is not the order that a model may be sent. Results of parallel calls come in any order, some
after the user's next words, some never; one answer is written in pieces with results between them. So an
answer is kept open by its group, and a result finds its call by id wherever that stands. Only at the end,
in :meth:`ImportBuilder.steps`, does each answer become an assistant turn with one tool turn behind it.

Invariant: every call has exactly one result, in the order of the calls, right behind its answer. A result
that was never recorded is an error that says so; nothing else is added.

For example ``answer(call 1), answer(call 2), prompt, result(2), result(1)`` of one group becomes
``assistant(1, 2), tool(1, 2), user``. The cost is linear in the recording.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from msgspec import Struct, field

from sidecar._internal.values import Value
from sidecar.conversation import EntryKind
from sidecar.importing.content import Json, as_list, flatten, is_image
from sidecar.importing.contract import NoteReason
from sidecar.llmgateway.contract import Block, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock
from sidecar.runtime.wire import NO_RESULT

MAX_RESULT_CHARS: Final = 1_000_000


class Item(Struct, eq=False):
    """One message while it is read.

    Attributes:
        kind: the kind of its entry.
        at_ms: its time, in epoch milliseconds.
        key: the agent's id of the message.
        blocks: its content; the calls of an answer among it.
        results: the result of each call, by the call's id in *blocks*.
        shown: the whole text of a file that a result shows, by the same id; for a file item by "".
    """

    kind: EntryKind
    at_ms: int
    key: str
    blocks: list[Block]
    results: dict[str, ToolResultBlock] = field(default_factory=dict)
    shown: dict[str, ShownFile] = field(default_factory=dict)

    @property
    def calls(self) -> list[ToolCallBlock]:
        """The calls of an answer."""
        return [block for block in self.blocks if isinstance(block, ToolCallBlock)]


class ShownFile(Value):
    """The whole text of a file, as the agent showed it to its model."""

    path: str
    text: str


class Added(Value):
    """A step: *item* follows the head."""

    item: Item


class Folded(Value):
    """A step: *summary* stands for the conversation so far, but for the items that are *kept*."""

    summary: Item
    kept: tuple[Item, ...]


class Rewound(Value):
    """A step: the conversation goes on behind its first *n_kept* items."""

    n_kept: int


Step: TypeAlias = Added | Folded | Rewound


class ImportBuilder:
    """The conversation of one session while it is read.

    Attributes:
        id: the agent's own id of the session.
        cwd: the folder it worked in.
        title: its title.
        notes: the number of repairs and omissions, by reason.
    """

    def __init__(self, default_ms: int = 0) -> None:
        """*default_ms* is the time of messages that have none."""
        self.id = ""
        self.cwd = ""
        self.title = ""
        self.notes: Counter[NoteReason] = Counter()
        self.path: list[Item] = []
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self._steps: list[Step] = []
        self._open: Item | None = None
        self._group: object = None
        self._now_ms = default_ms
        self._waiting: defaultdict[str, list[tuple[Item, deque[str]]]] = defaultdict(list)
        self._taken_ids: set[str] = set()
        self._n_of: Counter[str] = Counter()

    @property
    def first_prompt(self) -> Sequence[Block]:
        """The blocks of the first prompt, none before there is one."""
        items = (step.item for step in self._steps if isinstance(step, Added) and step.item.kind == "user")
        with_words = (item.blocks for item in items if any(isinstance(b, TextBlock) for b in item.blocks))
        return next(with_words, ())

    def note(self, reason: NoteReason, n: int = 1) -> None:
        """Count a repair or an omission."""
        self.notes[reason] += n

    def prompt(self, blocks: Iterable[Block], *, at_ms: int | None = None, key: str = "") -> None:
        """Add a prompt; one without content is left out."""
        self._add("user", blocks, at_ms, key)

    def command(
        self, command: str, output: str, exit_code: object, *, at_ms: int | None = None, key: str = ""
    ) -> None:
        """Add a *command* that the user ran, with its *output*; its *exit_code* may be anything."""
        code = exit_code if isinstance(exit_code, int) else "n/a"
        self._add("shell", [TextBlock(f"$ {command}\n{output}\n[exit {code}]")], at_ms, key)

    def file(self, text: str, shown: ShownFile | None, *, at_ms: int | None = None) -> None:
        """Add a file that the host showed to the model, as *text* of its own words."""
        item = self._add("file", [TextBlock(text)], at_ms, "")
        if item is not None and shown is not None:
            item.shown[""] = shown

    def answer(
        self, blocks: Iterable[Block], *, at_ms: int | None = None, key: str = "", group: object = None
    ) -> None:
        """Add an answer, or a piece of the open one.

        Args:
            blocks: its texts, reasoning and calls.
            at_ms: its time in epoch milliseconds.
            key: the agent's id of the message.
            group: pieces of one group are one answer until something else is added; None is never a group.
        """
        kept = [block for block in blocks if not _is_blank(block)]
        if not kept:
            self.note("emptyAnswer", group is None)
            return
        if self._open is not None and group is not None and group == self._group:
            item = self._open
        else:
            self.end_answer()
            item = Item("assistant", self._time(at_ms), key, [])
            self._append(item)
            self._open, self._group = item, group
        for block in kept:
            item.blocks.append(self.give_own_id(item, block) if isinstance(block, ToolCallBlock) else block)

    def result(
        self,
        call_id: str,
        content: Json,
        *,
        is_error: bool = False,
        shown: ShownFile | None = None,
    ) -> None:
        """Record the result of the newest call of *call_id* that waits for one."""
        if not self._waiting.get(call_id):
            self.note("duplicate" if call_id in self._waiting else "orphanResult")
            return
        # Of several answers that use an id the newest counts; within it the calls go in order.
        item, own_ids = self._waiting[call_id][-1]
        own_id = own_ids.popleft()
        if not own_ids:
            self._waiting[call_id].pop()
        self.note("image", sum(map(is_image, as_list(content))))
        item.results[own_id] = ToolResultBlock(own_id, self.cut_result(flatten(content)), is_error or None)
        if shown is not None and not is_error:
            item.shown[own_id] = shown

    def fold(
        self, summary: str, *, kept: Iterable[Item] = (), at_ms: int | None = None, key: str = ""
    ) -> None:
        """Let *summary* stand for the conversation so far, but for the items that are *kept*.

        Without words, as where it is encrypted, the conversation stays as it is.
        """
        self.end_answer()
        if not summary.strip():
            self.note("opaqueSummary")
            return
        item = Item("summary", self._time(at_ms), key, [TextBlock(summary)])
        if not self.path:  # the beginning of the recording is missing
            self._append(item)
            return
        chosen = set(map(id, kept))
        stay = tuple(each for each in self.path if id(each) in chosen)
        self._steps.append(Folded(item, stay))
        self.path = []
        self._places.clear()
        for each in (item, *stay):
            self._follow(each)

    def rewind(self, n_kept: int) -> None:
        """Go on behind the first *n_kept* items; the others stay on a branch of their own."""
        if n_kept < len(self.path):
            self.end_answer()
            self.note("rewound", len(self.path) - n_kept)
            self._steps.append(Rewound(n_kept))
            for item in self.path[n_kept:]:
                self._places[item.key].pop()
            del self.path[n_kept:]

    def rewind_to(self, key: str, *, before: bool = False) -> None:
        """Go on behind the item with *key*, or *before* it; an unknown key changes nothing."""
        place = self.place_of(key)
        if place is not None:
            self.rewind(place + (not before))

    def place_of(self, key: str) -> int | None:
        """Return the index in the conversation of the newest item with *key*, None for an unknown key."""
        places = self._places.get(key) if key else None
        return places[-1] if places else None

    def items_from(self, key: str) -> list[Item]:
        """Return the items of the conversation from the one with *key* on, none for an unknown key."""
        places = self._places.get(key) if key else None
        return self.path[places[0] :] if places else []

    def end_answer(self) -> None:
        """Let the next piece begin an answer of its own."""
        self._open = None

    def steps(self) -> list[Step]:
        """Return the steps of the conversation, with a result for every call."""
        for item in (step.item for step in self._steps if isinstance(step, Added)):
            for call in item.calls:
                if call.id not in item.results:
                    self.note("danglingCall")
                    item.results[call.id] = ToolResultBlock(call.id, NO_RESULT, True)
        return self._steps

    def _add(self, kind: EntryKind, blocks: Iterable[Block], at_ms: int | None, key: str) -> Item | None:
        self.end_answer()
        kept = [block for block in blocks if not _is_blank(block)]
        if not kept:
            return None
        item = Item(kind, self._time(at_ms), key, kept)
        self._append(item)
        return item

    def _append(self, item: Item) -> None:
        self._follow(item)
        self._steps.append(Added(item))

    def _follow(self, item: Item) -> None:
        self._places[item.key].append(len(self.path))
        self.path.append(item)

    def _time(self, at_ms: int | None) -> int:
        self._now_ms = self._now_ms if at_ms is None else at_ms
        return self._now_ms

    def give_own_id(self, item: Item, call: ToolCallBlock) -> ToolCallBlock:
        """Return *call* under an id that no other call of the session has."""
        base = own_id = call.id or "call"
        while own_id in self._taken_ids:
            self._n_of[base] += 1
            own_id = f"{base}_{self._n_of[base] + 1}"
        self._taken_ids.add(own_id)
        self.notes["renamedCall"] += own_id != call.id
        waiting = self._waiting[call.id]
        if not waiting or waiting[-1][0] is not item:
            waiting.append((item, deque()))
        waiting[-1][1].append(own_id)
        return replace(call, id=own_id)

    def cut_result(self, text: str) -> str:
        """Return the text of a result without its middle where it is longer than the most."""
        if len(text) <= MAX_RESULT_CHARS:
            return text
        self.note("cutResult")
        half = MAX_RESULT_CHARS // 2
        return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def _is_blank(block: Block) -> bool:
    return isinstance(block, TextBlock | ThinkingBlock) and not block.text.strip()
