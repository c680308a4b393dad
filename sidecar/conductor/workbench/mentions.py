"""Mentions in a prompt: ``@path``, ``@path:10-40``, ``@"a path with blanks"``, ``@selection`` and others.

A mention brings its content into the conversation, in front of the prompt, which stays as it was typed. Files
are read as they are now, unsaved buffers first, through the read tool, so that all its formats and limits
hold. The lines that they show count as read by the model.

The problem is that an at sign means many things. It begins a mention only behind a blank or an opening
bracket, which e-mail addresses do not have, and a name is a mention only if such a file exists. Of the names
without a file only those are reported that can be nothing but paths: quoted ones, ones with lines or with a
folder and a suffix, and ones with a suffix of files, such as ``@gone.txt``. So ``@dataclass`` and
``@app.route`` stay words of the prompt.
"""

from __future__ import annotations

import asyncio
import mimetypes
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from sidecar._internal.cancel import CancelToken
from sidecar._internal.env import expand_home
from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar._internal.values import Value
from sidecar.capabilities.contract import ToolContext
from sidecar.capabilities.diagnostics import problem_lines
from sidecar.capabilities.paths import display_path
from sidecar.capabilities.read import ReadArguments, read_file
from sidecar.capabilities.surroundings import working_diff
from sidecar.conductor.contract import EditorRange
from sidecar.conductor.workbench.files import as_read
from sidecar.conductor.workbench.session_editor import SessionEditor, SessionPaths
from sidecar.conversation import Entry, FileRead
from sidecar.llmgateway.contract import Block, TextBlock, UserTurn
from sidecar.workspace.contract import FileAccessError, FileView
from sidecar.workspace.files import real_path

MOST_MENTIONS: Final = 20
FILE_HEADER: Final = "[File that the prompt mentions]"
NOTE_HEADER: Final = "[Note of the host, not of the user]"
_CHARS: Final = 120_000
_FILE_CHARS: Final = 30_000
_LIST_CHARS: Final = 8_000

SPECIAL: Final = {
    "selection": "the text that is selected in the editor",
    "diagnostics": "the problems that the editor shows",
    "diff": "the changes that are not committed (git)",
}
"""The mentions besides files; a file of such a name is mentioned in quotes, or with its folder."""

_MENTION: Final = re.compile(r"""(?:^|(?<=[\s(\[{'"]))@(?:"([^"\n]+)"|([^\s"@][^\s"]*))""", re.MULTILINE)
_LINES: Final = re.compile(r"(.+?):(\d{1,9})(?:-(\d{1,9}))?")
_ENDS: Final = ".,;:!?)]}'*`>"
_PATH_LIKE: Final = re.compile(r"(?!//).*/.*\.\w{1,8}")
_NAME_LIKE: Final = re.compile(r"[\w-]+\.\w{1,8}")
_MOST_NAMES: Final = 2_000


class Mention(Value):
    """A mention as it was *typed*: of *name*, with lines from *first* to *last* where they are given."""

    typed: str
    name: str
    is_quoted: bool = False
    first: int | None = None
    last: int | None = None

    @property
    def must_be_file(self) -> bool:
        """Whether it can mean nothing but a file."""
        return self.is_quoted or self.first is not None or _PATH_LIKE.fullmatch(self.name) is not None


class Brought(Struct):
    """The content that mentions brought: notes, entries of files, and one line for each that brought none."""

    notes: list[str] = field(default_factory=list)
    files: list[Entry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def entries(self) -> tuple[Entry, ...]:
        """Return the entries in front of the prompt: a note first, then the files."""
        if not self.notes and not self.files:
            return ()
        n_files = len(self.files)
        follow = f"The prompt mentions {n_files} {'file' if n_files == 1 else 'files'}, shown below."
        texts = [*self.notes, *([follow] if self.files else [])]
        return (note_entry("\n\n".join(texts)), *self.files)


def note_entry(text: str, reads: tuple[FileRead, ...] = ()) -> Entry:
    """Return a note of the host with *text*."""
    return Entry(UserTurn((TextBlock(f"{NOTE_HEADER}\n{text}"),)), "note", reads=reads)


def find_mentions(text: str) -> Iterator[tuple[Mention, ...]]:
    """Yield the possible readings of each mention in *text*, the longest first.

    >>> [[each.name for each in readings] for readings in find_mentions("Fix @a.py:3, not me@b.org.")]
    [['a.py:3,', 'a.py:3', 'a.py']]
    """
    for found in _MENTION.finditer(text):
        quoted, plain = found.groups()
        if quoted is not None:
            yield tuple(readings_of(found[0], quoted, is_quoted=True))
            continue
        names = [plain]
        while names[-1][-1:] and names[-1][-1] in _ENDS and len(names[-1]) > 1:
            names.append(names[-1][:-1])
        yield tuple(each for name in names for each in readings_of(f"@{name}", name, is_quoted=False))


def readings_of(typed: str, name: str, *, is_quoted: bool) -> Iterator[Mention]:
    """Yield *name* as a path, and as a path with lines behind it where it has some."""
    yield Mention(typed, name, is_quoted)
    if (lines := _LINES.fullmatch(name)) is not None:
        path, first, last = lines.groups()
        yield Mention(typed, path, is_quoted, int(first), None if last is None else int(last))


class _Reads:
    """Collects the files that the read tool shows (``ReadsPort``)."""

    def __init__(self) -> None:
        self.found: list[FileRead] = []

    def record(
        self, view: FileView, *, call_id: str, first_line: int = 1, line_count: int | None = None
    ) -> None:
        self.found.append(as_read(view, first_line=first_line, line_count=line_count))

    def get(self, path: Path) -> FileRead | None:
        return None

    def path_now(self, path: Path) -> Path:
        return path


class MentionReader:
    """Reads the mentions of one session's prompts.

    Args:
        editor: the user's editor.
        make_context: returns the surroundings of a call of a tool.
    """

    def __init__(self, editor: SessionEditor, make_context: Callable[[str], ToolContext]) -> None:
        self._editor = editor
        self._make_context = make_context

    async def read(self, texts: Iterable[str], attached: Collection[Path], window: int) -> Brought:
        """Return the content of the mentions in *texts*, at most a quarter of the *window*, 0 for unknown.

        The files *attached* to the prompt by its client are left out.
        """
        brought, done, context = Brought(), set[str](), self._make_context("")
        room = min(_CHARS, window or _CHARS)
        for readings in (each for text in texts for each in find_mentions(text)):
            mention = await choose_reading(readings, context)
            if mention is None or mention.typed in done:
                continue
            if attached and path_of(mention.name, context.cwd) in attached:
                continue
            done.add(mention.typed)
            before = sum(map(n_chars, brought.files)) + sum(map(len, brought.notes))
            if len(done) > MOST_MENTIONS or before >= room:
                brought.problems.append(f"{mention.typed}: the prompt mentions too much already")
                continue
            limited = replace(context, max_output_chars=min(_FILE_CHARS, max(2_000, room - before)))
            try:
                await self.bring(mention, brought, limited)
            except SidecarError as error:
                is_missing = isinstance(error, FileAccessError) and error.problem == "notFound"
                why = "there is no such file" if is_missing else error.message
                brought.problems.append(f"{mention.typed}: {why}")
        return brought

    async def bring(self, mention: Mention, brought: Brought, context: ToolContext) -> None:
        """Add the content of *mention*. Raises SidecarError where there is none."""
        if mention.is_quoted or mention.name not in SPECIAL:
            brought.files.append(await self.read_file(mention, context))
        elif mention.name == "diff":
            diff = await asyncio.to_thread(working_diff, context.cwd, context.max_output_chars)
            brought.notes.append(f"@diff: {diff or 'there are no changes since the last commit'}")
        elif mention.name == "diagnostics":
            brought.notes.append(f"@diagnostics: {await self.list_problems(context)}")
        else:
            await self.bring_selection(brought, context)

    async def list_problems(self, context: ToolContext) -> str:
        """Return the problems of the editor as lines. Raises InvalidInput where no client reports any."""
        if self._editor.provider is None:
            raise InvalidInput("no client of the session reports diagnostics")
        listed = await self._editor.all()
        lines = problem_lines(listed.problems, context.cwd, min(_LIST_CHARS, context.max_output_chars))
        n_more = len(listed.problems) - len(lines) + listed.n_left_out
        more = [f"[{n_more} more are left out]"] if n_more else []
        return "\n".join(("", *lines, *more)) if lines or more else "the editor shows no problems"

    async def bring_selection(self, brought: Brought, context: ToolContext) -> None:
        """Add the selected lines. Raises SidecarError where there are none, or none that may be read."""
        state = self._editor.state
        active = None if state is None else state.active
        ranges = () if active is None else [each for each in active.selections if each.start != each.end]
        if active is None or not (ranges or active.selected_text):
            raise InvalidInput("nothing is selected in the editor")
        path = await asyncio.to_thread(SessionPaths(self._editor.roots).find, active.uri)
        if path is None and active.selected_text is None:
            raise InvalidInput(
                "the selection is in a file that is ignored or outside of the session's folders"
            )
        for each in ranges if path is not None else ():
            mention = Mention("@selection", str(path), True, *lines_of(each))
            brought.files.append(await self.read_file(mention, context))
        if active.selected_text is not None:
            text = active.selected_text[: context.max_output_chars]
            brought.notes.append(f"@selection, exactly:\n{text}")

    async def read_file(self, mention: Mention, context: ToolContext) -> Entry:
        """Return the entry of a file. Raises SidecarError for one that may not, or cannot, be read."""
        path = await asyncio.to_thread(allowed_path, mention.name, context)
        reads, first = _Reads(), mention.first or 1
        arguments = ReadArguments(path=str(path), offset=first)
        if mention.first is not None:
            n_lines = max(1, (mention.last or first) - first + 1)
            arguments = ReadArguments(path=str(path), offset=first, limit=n_lines)
        reply = await read_file(arguments, replace(context, reads=reads), CancelToken())
        if reply.is_error:
            raise InvalidInput(str(reply.output))
        name = display_path(path, context.cwd)
        header = f"{FILE_HEADER} {name}"
        blocks: tuple[Block, ...] = (TextBlock(f"{header}\n{reply.output}"), *reply.images)
        return Entry(UserTurn(blocks), "file", reads=tuple(reads.found))


async def choose_reading(readings: Sequence[Mention], context: ToolContext) -> Mention | None:
    """Return the first of *readings* that names a file or something special, None where none does.

    A reading that must be a file counts although there is none: the user is told so. A folder is none.
    """
    paths = {mention: path_of(mention.name, context.cwd) for mention in readings}
    existing = set(
        await context.workspace.find_existing([path for path in paths.values() if path is not None])
    )
    for mention, path in paths.items():
        if mention.name in SPECIAL and not mention.is_quoted:
            return mention
        if path in existing and path is not None:
            return None if await asyncio.to_thread(path.is_dir) else mention
    wanted = next((each for each in reversed(readings) if each.must_be_file), None)
    if wanted is None and any(_NAME_LIKE.fullmatch(each.name) for each in readings):
        suffixes = await asyncio.to_thread(list_suffixes, context.cwd)
        named = (each for each in reversed(readings) if _NAME_LIKE.fullmatch(each.name))
        wanted = next((each for each in named if Path(each.name).suffix.lower() in suffixes), None)
    return wanted


def lines_of(selected: EditorRange) -> tuple[int, int]:
    """Return the first and the last line of a selection, from 1; an end before a line leaves it out."""
    start, end = selected.start, selected.end
    ends_before = end.character == 0 and end.line > start.line
    return start.line + 1, end.line + (0 if ends_before else 1)


def list_suffixes(folder: Path) -> set[str]:
    """Return the suffixes that files usually have, or that files of *folder* have."""
    suffixes = set(mimetypes.MimeTypes().types_map[True])
    with suppress(OSError), os.scandir(folder) as entries:
        return {Path(each.name).suffix.lower() for each in islice(entries, _MOST_NAMES)} | suffixes
    return suffixes


def path_of(name: str, cwd: Path) -> Path | None:
    """Return the path that *name* spells, None where it spells none. Looks at the disk to follow links."""
    try:
        path = real_path(cwd / expand_home(name))
        path.lstat()
    except FileNotFoundError:
        return path
    except (OSError, RuntimeError, ValueError):  # too long, links in a circle, or no path at all
        return None
    return path


def allowed_path(name: str, context: ToolContext) -> Path:
    """Return the resolved file *name*. Raises InvalidInput for one that a mention does not bring."""
    path, paths = path_of(name, context.cwd), SessionPaths(context.roots)
    if path is None:
        raise InvalidInput("this is not a path")
    if not paths.is_inside(path):
        raise InvalidInput("this is outside of the session's folders")
    if paths.is_ignored(path):
        raise InvalidInput("this file is ignored (.gitignore)")
    return path


def n_chars(entry: Entry) -> int:
    """Return the length of the texts of *entry*."""
    return sum(len(block.text) for block in entry.turn.blocks if isinstance(block, TextBlock))
