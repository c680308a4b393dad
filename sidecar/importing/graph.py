"""Makes the stored form of an imported conversation: nodes, their entries, and the compactions on them.

A compaction becomes a branch, as one of our own does: its summary stands for the nodes before it, and both
branches stay stored. Reads of files are found here as well: of results that show a whole file, and of calls
that write a file or edit one with a known text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Final

from sidecar.conversation import Entry, FileRead
from sidecar.importing.builder import Added, Folded, ImportBuilder, Item, ShownFile
from sidecar.importing.content import Json, as_mapping
from sidecar.importing.contract import ImportedCompaction, ImportedSession, ImportReport
from sidecar.llmgateway.contract import (
    AssistantTurn,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    UserTurn,
    join_texts,
)
from sidecar.runtime.store import SessionGraph
from sidecar.text.calls import touches_of_call

_OLD: Final = ("old_string", "oldString", "old_text", "oldText", "old_str")
_NEW: Final = ("new_string", "newString", "new_text", "newText", "new_str")


def build_session(builder: ImportBuilder, format_name: str) -> ImportedSession:
    """Return the session that *builder* has read."""
    growing = _GrowingSession(builder.cwd)
    steps = builder.steps()
    for step in steps:
        if isinstance(step, Added):
            growing.add(step.item)
        elif isinstance(step, Folded):
            growing.fold(step)
        else:
            growing.rewind(step.n_kept)
    times = [step.item.at_ms for step in steps if isinstance(step, Added)] or [0]
    report = ImportReport(
        format=format_name,
        entries=dict(growing.kinds),
        n_reads=growing.n_reads,
        n_compactions=len(growing.compactions),
        notes={reason: n for reason, n in sorted(builder.notes.items()) if n},
    )
    return ImportedSession(
        cwd=builder.cwd,
        title=builder.title,
        created_at=min(times),
        updated_at=max(times),
        entries=tuple(growing.graph.entries.values()),
        leaf=growing.graph.leaf,
        compactions=tuple(growing.compactions),
        report=report,
    )


class _GrowingSession:
    """The graph while the steps of a conversation are replayed on it."""

    def __init__(self, cwd: str) -> None:
        self.graph = SessionGraph("import", lambda: self._at_ms)
        self.compactions: list[ImportedCompaction] = []
        self.kinds: Counter[str] = Counter()
        self.n_reads = 0
        self._at_ms = 0
        self._files = KnownFiles(cwd)
        self._path: list[tuple[Item, tuple[str, ...]]] = []
        self._entries: dict[int, tuple[Entry, ...]] = {}

    def add(self, item: Item) -> None:
        found = tuple(entries_of(item, tuple(self._files.reads_of(item))))
        self._entries[id(item)] = found
        self.kinds.update(entry.kind for entry in found)
        self.n_reads += sum(len(entry.reads) for entry in found)
        self._append(item, found)

    def fold(self, step: Folded) -> None:
        before = self._path
        kept = set(map(id, step.kept))
        folded = tuple(node for item, nodes in before if id(item) not in kept for node in nodes)
        stayed = [nodes[0] for item, nodes in before if id(item) in kept]
        summary = Entry(UserTurn(tuple(step.summary.blocks)), "summary", origin=folded)
        self.graph.stand_at(None)
        self._path = []
        self.kinds["summary"] += 1
        self._append(step.summary, (summary,))
        for item in step.kept:
            self._append(item, self._entries[id(item)])
        self.compactions.append(
            ImportedCompaction(
                summary=join_texts(step.summary.blocks),
                before=tuple(node for _, nodes in before for node in nodes),
                after=tuple(node for _, nodes in self._path for node in nodes),
                kept_from=stayed[0] if stayed else None,
            )
        )

    def rewind(self, n_kept: int) -> None:
        del self._path[n_kept:]
        self.graph.stand_at(self._path[-1][1][-1] if self._path else None)
        self._files.forget()

    def _append(self, item: Item, entries: tuple[Entry, ...]) -> None:
        self._at_ms = item.at_ms
        self._entries[id(item)] = entries
        self._path.append((item, tuple(self.graph.append_entry(entry).node_id for entry in entries)))


def entries_of(item: Item, reads: tuple[FileRead, ...]) -> Iterator[Entry]:
    """Yield the entries of *item*: an answer with calls is followed by their results."""
    blocks = tuple(item.blocks)
    if item.kind != "assistant":
        yield Entry(UserTurn(blocks), item.kind, reads=reads)
        return
    yield Entry(AssistantTurn(blocks), "assistant")
    if item.calls:
        yield Entry(ToolTurn(tuple(item.results[call.id] for call in item.calls)), "tool", reads=reads)


class KnownFiles:
    """The texts of files as far as a conversation shows them whole, for the reads of its entries."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._texts: dict[str, str] = {}

    def forget(self) -> None:
        """Forget every text: the conversation went back, and the files may differ."""
        self._texts.clear()

    def reads_of(self, item: Item) -> Iterator[FileRead]:
        """Yield the reads of *item*: every file with a text that is known when it ends."""
        if "" in item.shown:
            yield from self._read(item.shown[""], "")
        for call in item.calls:
            yield from self.find_reads_of_call(call, item.results[call.id], item.shown.get(call.id))

    def find_reads_of_call(
        self, call: ToolCallBlock, result: ToolResultBlock, shown: ShownFile | None
    ) -> Iterator[FileRead]:
        """Yield the reads of a call; a file that it changed in a way that cannot be followed is forgotten."""
        if shown is not None:
            yield from self._read(shown, call.id)
            return
        body = result.output if isinstance(result.output, str) else ""
        for touch in touches_of_call(call.name, call.input, body, is_error=bool(result.is_error)):
            known = self._texts.get(self._absolute(touch.path))
            for path in touch.changed_paths:
                self._texts.pop(self._absolute(path), None)
            if touch.kind == "write" and touch.text:
                yield from self._read(ShownFile(touch.path, touch.text), call.id)
            elif touch.kind == "edit" and known is not None:
                edited = edit_text(known, as_mapping(call.input))
                if edited is not None:
                    text, first, count = edited
                    yield from self._read(ShownFile(touch.path, text), call.id, ((first, count),))

    def _read(
        self, file: ShownFile, call_id: str, ranges: tuple[tuple[int, int | None], ...] = ()
    ) -> Iterator[FileRead]:
        """Yield the read of *file*; none where its path begins at an unknown folder, or cannot be one."""
        path = self._absolute(file.path)
        try:
            uri = parse_path(path).as_uri()
        except ValueError:  # a relative path, or one with half a character
            return
        self._texts[path] = file.text
        digest = sha256(file.text.removeprefix("\ufeff").encode("utf-8", "replace")).hexdigest()
        yield FileRead(
            path=path,
            uri=uri,
            hash=f"sha256:{digest}",
            source="disk",
            call_id=call_id,
            ranges=ranges,
        )

    def _absolute(self, path: str) -> str:
        return str(parse_path(self._cwd) / parse_path(path))


def edit_text(text: str, arguments: Mapping[str, Json]) -> tuple[str, int, int] | None:
    """Return *text* after an edit, with the first line and the number of lines of its place.

    Returns:
        None where the edit is no replacement of one text that occurs, or occurs once where it must.

    >>> edit_text("a\\nb\\n", {"old_string": "b", "new_string": "c\\nd"})
    ('a\\nc\\nd\\n', 2, 2)
    """
    old, new = _first(arguments, _OLD), _first(arguments, _NEW)
    is_everywhere = bool(arguments.get("replace_all") or arguments.get("replaceAll"))
    if not old or new is None or (text.count(old) != 1 and not (is_everywhere and old in text)):
        return None
    first = text.count("\n", 0, text.index(old)) + 1
    return text.replace(old, new), first, new.count("\n") + 1


def _first(arguments: Mapping[str, Json], names: tuple[str, ...]) -> str | None:
    found = (arguments.get(name) for name in names)
    return next((value for value in found if isinstance(value, str)), None)


def parse_path(path: str) -> PurePath:
    """Return *path* as a path of the system it was recorded on."""
    is_windows = path[1:3] in (":\\", ":/") or path.startswith("\\\\")
    return PureWindowsPath(path) if is_windows else PurePosixPath(path)
