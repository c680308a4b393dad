"""One conversation: an append-only history of entries, and the indexes folded over it.

The journal, the agent, the engines, the meter, the files and the knowledge of a session all take the same
:class:`History`. Nothing known about a conversation is kept beside it: it is an :class:`Index` that follows
the history, so after an undo, a rewind or a load it is right by construction. Pure; nothing is stored here.

An entry is a turn together with everything that was known when it was written. Its writer sets its kind. The
text of a turn is never searched for that: a prompt may begin with any words and stays a prompt. Only files of
earlier versions, which stored no kinds, are recognised by their text, once, at load.

A history is the entries from the first to the head. Extending it costs only the new entries. A history that
was moved (an undo, a rewind, a compaction) did not grow out of the one before, and :meth:`History.since` says
so. It rests on :class:`AppendOnlySeq`: every version shares one append-only buffer. A version never changes
and never sees later items; extending an older one than the newest copies it once. Extend in one thread at a
time.

An index is a state folded over the entries. A *step* takes the state so far and one entry and returns the
next state. While a history only grows the state is advanced by its new entries; when the history was moved,
it is folded again. So no undo, rewind, drop, fork or load has to remember to correct anything. An index may
reach through summaries: then the entries that a summary stands for are folded first, marked as no longer in
view. A step never awaits.

An advance costs the new entries, a move all entries of the path. So that no other session waits for that, the
path is folded before the move, in a thread, beside the present state (:meth:`Index.prepare`); the move then
takes that over.

:func:`files_seen_index` is such an index: the files that the model has seen, over the reads of the entries. A
file counts as seen as the newest entry of the path shows it. After an undo the model sees the older text
again, and so does this index: a guard that compares its hash with the file as it is now never takes a text
for known that the model cannot see. A file that only entries behind a summary show stays known, as folded
away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from operator import attrgetter, indexOf, is_
from typing import Generic, Literal, Self, TypeAlias, TypeVar, overload

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import AssistantTurn, ToolTurn, Turn

EntryKind: TypeAlias = Literal["user", "assistant", "tool", "summary", "file", "branch", "shell", "note"]
"""A prompt, an answer, tool results, the summary that a compaction wrote, a file that was restored or
mentioned, the digest of a branch that the user left, a command that the user ran, with its output, or a note
of the host, such as the state of the user's editor. A compaction drops notes before anything else.

These are the names on the wire as well. A new kind is added here and in the protocol's node values.
"""

LineRange: TypeAlias = tuple[int, int | None]
"""A first line, counted from 1, and a number of lines; None reaches the end of the file."""

T = TypeVar("T")
S = TypeVar("S")


class FileRead(Value, kw_only=True):
    """One content of a file that an entry shows to the model.

    Attributes:
        path: the resolved path; two spellings of one file are one path.
        uri: the URI that clients know the file by.
        hash: hash of the whole text as the file stood then, not only of the lines shown.
        source: ``buffer`` for unsaved text of an editor, ``disk`` otherwise.
        call_id: the tool call that read it, empty for a restored file.
        version: version of the editor's buffer, None where there is none.
        ranges: the lines shown; empty means the whole file.
    """

    path: str
    uri: str
    hash: str
    source: Literal["buffer", "disk"]
    call_id: str = ""
    version: int | None = None
    ranges: tuple[LineRange, ...] = ()


class UsageAnchor(Value):
    """The size of a model call: as the provider reported it, and as the session's meter estimated its turns.

    The difference of two estimates is better known than either of them. So the next request is taken to have
    *reported_tokens*, plus the turns' estimate of that moment, minus *estimated_tokens*.
    """

    reported_tokens: int
    estimated_tokens: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn of a conversation.

    Attributes:
        turn: the turn as the model is sent it.
        kind: the role of the entry in the conversation.
        reads: the files it shows.
        origin: for a summary, the ids of the nodes that it stands for, oldest first; for a file that a
            compaction restored, the node that showed it; for an entry that was stored again on another
            branch, its first node. They stay stored on their own branch, so an index can still reach them.
        anchor: for an answer, the size of the call that it answers; for the first entry of a branch, the
            newest size that was known before it.
        author: for a prompt, the client it came from, as long as this process runs.
        node_id: the stored node; empty until it is stored.
        parent: the node before it, None for a root.
        created_at: when it was stored, in epoch milliseconds. The node's id is a hash of these and the turn.
    """

    turn: Turn
    kind: EntryKind
    reads: tuple[FileRead, ...] = ()
    origin: tuple[str, ...] = ()
    anchor: UsageAnchor | None = None
    author: str | None = None
    node_id: str = ""
    parent: str | None = field(default=None, compare=False, repr=False)
    created_at: int = field(default=0, compare=False, repr=False)


def kind_by_role(turn: Turn) -> EntryKind:
    """Return the kind of a turn that nobody but a model, its tools and its user wrote.

    >>> kind_by_role(ToolTurn(()))
    'tool'
    """
    if isinstance(turn, AssistantTurn):
        return "assistant"
    return "tool" if isinstance(turn, ToolTurn) else "user"


class AppendOnlySeq(Sequence[T], Generic[T]):
    """The first ``len(self)`` items of a buffer that only grows.

    Two versions compare equal only when they are the same object: compare tuples of them by content.

    >>> first = AppendOnlySeq("ab")
    >>> second = first.extended("cd")
    >>> tuple(first), tuple(second), second.since(first)
    (('a', 'b'), ('a', 'b', 'c', 'd'), ('c', 'd'))
    >>> second[1:3], second[-1]
    (('b', 'c'), 'd')
    """

    __slots__ = ("_buffer", "_n")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._buffer = list(items)
        self._n = len(self._buffer)

    def extended(self, items: Iterable[T]) -> Self:
        """Return this sequence followed by *items*."""
        longer = object.__new__(type(self))
        is_newest = self._n == len(self._buffer)
        longer._buffer = self._buffer if is_newest else self._buffer[: self._n]
        longer._buffer.extend(items)
        longer._n = len(longer._buffer)
        return longer

    def first(self, count: int) -> AppendOnlySeq[T]:
        """Return the first *count* items."""
        shorter: AppendOnlySeq[T] = AppendOnlySeq()
        shorter._buffer, shorter._n = self._buffer, min(count, self._n)
        return shorter

    def since(self, older: AppendOnlySeq[T]) -> tuple[T, ...] | None:
        """Return the items after *older*, or None when this sequence did not grow out of it."""
        if older._buffer is not self._buffer or older._n > self._n:
            return None
        return tuple(self._buffer[older._n : self._n])

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._n)
            return tuple(self._buffer[start:stop:step] if step > 0 else self._buffer[: self._n][index])
        at = index + self._n if index < 0 else index
        if not 0 <= at < self._n:
            raise IndexError(f"index {index} is outside of a sequence of {self._n} items")
        return self._buffer[at]

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[T]:
        return islice(self._buffer, self._n)

    def __reversed__(self) -> Iterator[T]:
        return map(self._buffer.__getitem__, range(self._n - 1, -1, -1))


class History(AppendOnlySeq[Entry]):
    """The path of a conversation through its stored nodes.

    Args:
        entries: the path, oldest first.
        archive: every stored entry of the conversation by its node, on all its branches. It may grow; it is
            never copied.

    Attributes:
        turns: the turn of each entry, as one growing sequence.
    """

    __slots__ = ("_archive", "_node_ids", "_originals", "turns")

    def __init__(self, entries: Iterable[Entry] = (), archive: Mapping[str, Entry] | None = None) -> None:
        super().__init__(entries)
        self._archive: Mapping[str, Entry] = {} if archive is None else archive
        self.turns: AppendOnlySeq[Turn] = AppendOnlySeq(map(attrgetter("turn"), self))
        self._node_ids: AppendOnlySeq[str] = AppendOnlySeq(map(attrgetter("node_id"), self))
        self._originals: AppendOnlySeq[Entry] | None = None

    @property
    def head(self) -> str | None:
        """The newest stored node of the path, None for an empty one."""
        return (self._buffer[self._n - 1].node_id or None) if self._n else None

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The nodes of the path, oldest first."""
        return tuple(self._node_ids)

    def first(self, count: int) -> History:
        """Return the history of the first *count* entries."""
        shorter = History((), self._archive)
        shorter._buffer, shorter._n = self._buffer, min(count, self._n)
        shorter.turns, shorter._node_ids = self.turns.first(count), self._node_ids.first(count)
        return shorter

    def extended(self, entries: Iterable[Entry]) -> History:
        """Return this history followed by *entries*."""
        added = tuple(entries)
        longer = super().extended(added)
        longer._archive = self._archive
        longer.turns = self.turns.extended(map(attrgetter("turn"), added))
        longer._node_ids = self._node_ids.extended(map(attrgetter("node_id"), added))
        longer._originals = None
        if known := self._originals:
            is_new = all(each.node_id and not each.origin and each.kind != "summary" for each in added)
            longer._originals = known.extended(added) if is_new else None
        return longer

    def with_entries(self, entries: Iterable[Entry]) -> History:
        """Return a history of *entries*, some of this one."""
        return History(entries, self._archive).share_originals(self)

    def share_originals(self, before: History) -> Self:
        """Return this history, with the originals of *before*, if they are known, where it compacts that."""
        if before._originals is None:
            return self
        shown: set[str] = set()
        for entry in self:
            is_summary = entry.kind == "summary" and entry.origin
            shown.update(entry.origin if is_summary else entry.origin[:1] or (entry.node_id,))
        known: set[str] = set()
        is_whole = "" not in shown
        for entry in before:
            first = entry.origin[0] if entry.origin and entry.kind != "summary" else entry.node_id
            known |= {entry.node_id, first}
            is_whole &= entry.node_id in shown or first in shown or before.is_restored(entry)
        if is_whole and shown <= known:
            self._originals = before._originals
        return self

    def node_at(self, index: int) -> str | None:
        """Return the node of the entry at *index*, None behind the end."""
        return self[index].node_id if index < len(self) else None

    def unfold(self, entry: Entry, keeps: Callable[[Entry], bool] | None = None) -> Iterator[Entry]:
        """Yield the entries that *entry*, a summary, stands for, oldest first.

        An earlier summary among them is replaced by its own entries, unless *keeps* is true of it. A node
        that is not stored any more is passed over.
        """
        pending = list(reversed(entry.origin))
        while pending:
            found = self._archive.get(pending.pop())
            if found is None:
                continue
            if found.kind == "summary" and found.origin and not (keeps and keeps(found)):
                pending.extend(reversed(found.origin))
            else:
                yield found

    def is_restored(self, entry: Entry) -> bool:
        """Whether *entry* is a file that a compaction brought back, not a mention that was stored again."""
        shown_at = self._archive.get(entry.origin[0]) if entry.origin else None
        is_mention = shown_at is not None and shown_at.turn == entry.turn
        return entry.kind == "file" and bool(entry.origin) and not is_mention

    def newest_first(self) -> Iterator[tuple[Entry, int | None]]:
        """Yield every entry of this path, the newest first, and in place of a summary those it stands for.

        Each comes with its index in the path, None for one behind a summary. Costs only those taken.
        """
        for index in range(self._n - 1, -1, -1):
            entry = self._buffer[index]
            pending = [reversed(entry.origin)] if entry.kind == "summary" and entry.origin else []
            if not pending:
                yield entry, index
            while pending:
                for node in pending[-1]:
                    found = self._archive.get(node)
                    if found is not None and found.kind == "summary" and found.origin:
                        pending.append(reversed(found.origin))
                        break
                    if found is not None:
                        yield found, None
                else:
                    pending.pop()

    def originals(self) -> AppendOnlySeq[Entry]:
        """Return the entries of this path as they were first stored, folded ones included.

        Summaries are left out, and files that came back with them, unless their nodes are gone. A path that
        grows, and one that is compacted, has them from the path before.
        """
        if self._originals is None:
            is_plain = not any(entry.origin or entry.kind == "summary" for entry in self)
            self._originals = AppendOnlySeq(self if is_plain else self.find_originals())
        return self._originals

    def find_originals(self) -> Sequence[Entry]:
        """Return :meth:`originals`, looked for among all stored entries."""
        found: dict[str, Entry] = {}
        for entry in self:
            folded = list(self.unfold(entry)) if entry.kind == "summary" else []
            for each in folded or [entry]:
                first = each
                while first.origin and first.kind != "summary" and first.origin[0] in self._archive:
                    first = self._archive[first.origin[0]]
                if first is not each and first.kind == "summary":
                    continue  # a file that nothing but a summary was known to show
                found[first.node_id or f"unstored {id(first)}"] = first
        # A thread may ask while the archive grows, so its ids are copied in one step.
        stored = {node_id: at for at, node_id in enumerate(tuple(self._archive))}
        return sorted(found.values(), key=lambda entry: stored.get(entry.node_id, len(stored)))

    def list_folded(self) -> tuple[Entry, ...]:
        """Return the :meth:`originals` that no entry of this path shows unchanged."""
        shown = {
            entry.origin[0] if entry.origin else entry.node_id: entry.turn
            for entry in self
            if entry.kind != "summary"
        }
        return tuple(entry for entry in self.originals() if shown.get(entry.node_id) != entry.turn)


class Index(Generic[S]):
    """A state that follows a history.

    >>> from sidecar.llmgateway.contract import TextBlock, UserTurn
    >>> prompts = Index(lambda: 0, lambda n, entry, in_view: n + (entry.kind == "user"))
    >>> hello = History([Entry(UserTurn((TextBlock("hello"),)), "user")])
    >>> prompts.of(hello), prompts.of(hello.extended(hello)), prompts.of(History())
    (1, 2, 0)
    """

    def __init__(
        self,
        start: Callable[[], S],
        step: Callable[[S, Entry, bool], S],
        *,
        reaches_folded: bool = False,
    ) -> None:
        """Make an index.

        Args:
            start: makes the state of an empty conversation.
            step: returns the state after one more entry. It owns the state it is given and may change and
                return it. Its last argument says whether the model still sees the entry.
            reaches_folded: whether entries behind summaries are folded as well, as not in view.
        """
        self._start = start
        self._step = step
        self._reaches_folded = reaches_folded
        self._present = (History(), start())
        self._next: tuple[History, S] | None = None
        self._is_used = False

    def of(self, history: History) -> S:
        """Return the state of *history*."""
        self._is_used = True
        known, state = self._present
        if (added := history.since(known)) is None:
            if self._next is not None and history.since(self._next[0]) is not None:
                known, state = self._next  # known without a look at each entry, which every index would take
            else:
                begun = [(History(), self._start()), self._present, *([self._next] if self._next else [])]
                found = (each for each in begun if count_shared(each[0], history) == len(each[0]))
                known, state = max(found, key=lambda each: len(each[0]))
            self._next, added = None, history[len(known) :]
        self._present = history, self._fold(state, history, added)
        return self._present[1]

    def prepare(self, history: History) -> None:
        """Fold *history*, to which the conversation is about to move, beside the present state.

        May run in a thread while the present state is in use. An index that nobody uses stays as it is.
        Without this, the undo of 100,000 messages holds up all sessions for a second.
        """
        if self._is_used and history.since(self._present[0]) is None:
            self._next = history, self._fold(self._start(), history, history)

    def peek(self, history: History) -> S:
        """Return the state of *history*, a move to which is prepared, and stay at the present one.

        The steps of the index must make new states and not change the present one.

        >>> prompts = Index(lambda: 0, lambda n, entry, in_view: n + 1)
        >>> prompts.peek(History()), prompts.of(History())
        (0, 0)
        """
        known, state = self._next or self._present
        if history.since(known) is None and count_shared(known, history) < len(known):
            known, state = History(), self._start()
        return self._fold(state, history, history[len(known) :])

    def apart(self, copy: Callable[[S], S]) -> Index[S]:
        """Return an index at the same place, which goes on by itself; *copy* returns a state of its own."""
        other = Index(self._start, self._step, reaches_folded=self._reaches_folded)
        other._present = self._present[0], copy(self._present[1])
        return other

    def forget(self) -> None:
        """Go back to before everything."""
        self._present, self._next = (History(), self._start()), None

    def _fold(self, state: S, history: History, added: Sequence[Entry]) -> S:
        """Return *state* after the entries *added*, with which *history* ends."""
        for entry in added:
            if entry.kind == "summary" and self._reaches_folded:
                for folded in history.unfold(entry):
                    state = self._step(state, folded, False)
            state = self._step(state, entry, True)
        return state


def count_shared(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many items both begin with, each the same object."""
    try:
        return indexOf(map(is_, one, other), False)
    except ValueError:
        return min(len(one), len(other))


ReadNow: TypeAlias = Callable[[FileRead, int], FileRead]
"""Returns a read of an entry that was stored at a time under the path that the file has now."""

WeighRead: TypeAlias = Callable[[Entry, str], int]
"""Returns the tokens of one call's result in an entry, or of a restored file for an empty call id."""


class SeenFile(Value, kw_only=True):
    """One file as the model has seen it.

    Attributes:
        read: the newest content, with all lines of it that were shown.
        node_id: the entry that shows it.
        in_view: whether the model still sees that entry.
        tokens: the tokens that the entry spends on it.
        n_prompts: the prompts of the conversation up to that entry.
    """

    read: FileRead
    node_id: str
    in_view: bool
    tokens: int
    n_prompts: int


class FilesSeen:
    """The state of the index.

    Attributes:
        files: every file by its path, the least recently shown first.
        n_prompts: the prompts of the conversation.
        touched: the paths that changed since :meth:`take_touched`, in order.
    """

    def __init__(self) -> None:
        self.files: dict[str, SeenFile] = {}
        self.n_prompts = 0
        self.touched: dict[str, None] = {}

    def take_touched(self) -> tuple[str, ...]:
        """Return the paths with a new read since the last call."""
        touched, self.touched = tuple(self.touched), {}
        return touched

    def rename(self, read_now: Callable[[FileRead], FileRead]) -> None:
        """Let every file count under the path of *read_now*."""
        before = self.files
        found = [replace(each, read=read_now(each.read)) for each in before.values()]
        self.files = {each.read.path: each for each in found}
        self.touched |= dict.fromkeys(before.keys() ^ self.files.keys())


def files_seen_index(weigh: WeighRead, read_now: ReadNow = lambda read, _: read) -> Index[FilesSeen]:
    """Return a new index of the files seen; it reaches through summaries."""

    def add(state: FilesSeen, entry: Entry, in_view: bool) -> FilesSeen:
        if in_view and entry.kind == "user":
            state.n_prompts += 1
        for stored in entry.reads:
            read = read_now(stored, entry.created_at)
            before = state.files.pop(read.path, None)
            state.files[read.path] = SeenFile(
                read=read if before is None else merge_reads(before.read, read),
                node_id=entry.node_id,
                in_view=in_view,
                tokens=weigh(entry, read.call_id) if in_view else 0,
                n_prompts=state.n_prompts,
            )
            state.touched[read.path] = None
        return state

    return Index(FilesSeen, add, reaches_folded=True)


def merge_reads(older: FileRead, newer: FileRead) -> FileRead:
    """Return *newer* with the lines of *older* as well, where both show the same content."""
    if older.hash != newer.hash:
        return newer
    whole: tuple[LineRange, ...] = ((1, None),)
    return replace(newer, ranges=merge_ranges((older.ranges or whole) + (newer.ranges or whole)))


def merge_ranges(ranges: Iterable[LineRange]) -> tuple[LineRange, ...]:
    """Return *ranges* in order and joined; the empty tuple is the whole file.

    >>> merge_ranges([(5, 5), (1, 4), (20, None)])
    ((1, 9), (20, None))
    >>> merge_ranges([(1, 10), (8, None)])
    ()
    """
    merged: list[tuple[int, float]] = []
    for start, end in sorted((first, inf if count is None else first + count) for first, count in ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    # A range of no lines means that nothing was shown, while no range at all means the whole file.
    merged = [each for each in merged if each[0] < each[1]] or merged[:1]
    if merged == [(1, inf)]:
        return ()
    return tuple((start, None if end == inf else int(end) - start) for start, end in merged)
