"""Rule files: the ``AGENTS.md`` and ``CLAUDE.md`` of the user and of the project, as the model is shown them.

Which files count, in this order: the user's own, in the state directory; the files of each folder from the
root of the repository down to the session's folder; and the files of folders further down, as soon as a tool
reads or changes a file there. A line may import another file with ``@path``. A file counts once, however
many names or copies it has. Where two disagree the later one, which is nearer to the work, is to count.

Where the model sees them: the first two kinds are in the system prompt. They are read again before each
prompt, and no compaction can lose them. A folder's own rules come with the result of the call that reached
the folder, so the requests before stay as they are and a provider's cache still holds them. The entry of that
result records them as read. When a compaction folds the entry away, or blanks the result, the rules move to
the system prompt: the requests begin anew there in any case. Both facts are indexes over the conversation, so
an undo, a fork or a load needs no care here.

The author of a project is not trusted. A file of a project counts only inside the repository or the session's
folders, after all links are followed, and only as a regular file of bounded size. A repository that holds the
home folder is no project. The number of files, the depth of imports and the length of the text are bounded,
and each bound that cuts something is reported. Nothing here decides on permissions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from sidecar._internal.env import expand_home
from sidecar._internal.values import Value
from sidecar.capabilities.toolbox import SessionToolBox
from sidecar.conductor.contract import RuleFileUsage, RuleScope
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.record.session_events import OneTimeNotices
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.token_estimate import text_tokens
from sidecar.conductor.workbench.files import SessionFiles, shown_path
from sidecar.conversation import Entry, Index
from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock
from sidecar.text.calls import NO_EFFECTS, ToolEffects
from sidecar.workspace.contract import FileAccessError, FileView
from sidecar.workspace.workspace import Workspace

RULE_FILES: Final = ("AGENTS.md", "CLAUDE.md")
"""Their names, in the order in which two files of one folder are shown."""

RULE_FILE_LIMIT_BYTES: Final = 1_000_000
"""A larger rule file is not read."""

RULE_FILE_CHARS: Final = 24_000
ALL_RULES_CHARS: Final = 48_000
"""The most that is shown of one file, and of all files in the system prompt; the nearer ones go first.

All files together take no more than a quarter of the model's window, at four characters a token."""

MAX_RULE_FILES: Final = 40
MAX_IMPORTS: Final = 100
"""Words of one file that are tried as imports."""
MAX_IMPORT_DEPTH: Final = 5
MAX_FOLDERS: Final = 200
"""Of the folders further down that a session has reached, the newest count."""

_FENCE: Final = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]*`")
_IMPORT: Final = re.compile(r"(?<!\S)@([^\s`'\"<>()\[\]]{1,500})")


class RuleFile(Value, kw_only=True):
    """One rule file as it was read.

    Attributes:
        view: the file.
        name: its path as the model would write it.
        scope: the files that it is about.
        folder: for a folder's own rules, that folder as the model would write it.
        shown: the part of its text that the model is shown.
    """

    view: FileView
    name: str
    scope: RuleScope
    folder: str = ""
    shown: str = ""

    @property
    def n_cut(self) -> int:
        """The number of characters that are not shown."""
        return len(self.view.text.strip()) - len(self.shown)

    def render(self) -> str:
        """Return the file under a heading."""
        about = f", for files below {self.folder}" if self.folder else ""
        note = (
            f"\n[... {self.n_cut:,} characters cut; read {self.name} for the rest ...]" if self.n_cut else ""
        )
        return f"Rules from {self.name}{about}:\n\n{self.shown}{note}"


class _Place(Value):
    """A path at which a rule file may be, and the trees that it may resolve into."""

    path: Path
    scope: RuleScope
    inside: tuple[Path, ...]
    folder: str = ""


class FoldersReached(Struct):
    """The folders of the files that calls named with success, in the order in which they were reached."""

    open_calls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    folders: dict[str, None] = field(default_factory=dict)

    def add(self, entry: Entry, effects: Mapping[str, ToolEffects], cwd: Path) -> FoldersReached:
        """Take in one entry."""
        for block in entry.turn.blocks:
            if isinstance(block, ToolCallBlock):
                effect = effects.get(block.name, NO_EFFECTS).of(block.input)
                if effect.names_file:
                    self.open_calls[block.id] = effect.paths_in(block.input)
            elif isinstance(block, ToolResultBlock):
                paths = self.open_calls.pop(block.call_id, ())
                for path in () if block.is_error else paths:
                    folder = os.path.dirname(os.path.normpath(os.path.join(cwd, path)))
                    self.folders[folder] = None
        return self


def folders_reached_index(
    effects: Callable[[], Mapping[str, ToolEffects]], cwd: Path
) -> Index[FoldersReached]:
    """Return a new index of the folders reached from *cwd*; it reaches through summaries."""
    return Index(
        FoldersReached,
        lambda state, entry, _: state.add(entry, effects(), cwd),
        reaches_folded=True,
    )


class RuleFiles:
    """The rule files of one session.

    Attributes:
        above: the files of the user, and of the project down to the session's folder.
        below: the files of the folders further down that were reached.
        reached: the index of those folders.
    """

    def __init__(
        self, record: SessionRecord, deps: SessionDeps, files: SessionFiles, tools: SessionToolBox
    ) -> None:
        """Make the rule files of a session.

        Args:
            record: the session, with its conversation.
            deps: has the files as they are now, and the state directory with the user's own rules.
            files: the record of the files that the model has seen.
            tools: the tools; their calls reach folders.
        """
        self._record = record
        self._roots = roots = record.roots
        self._home = home = deps.home
        self._workspace = deps.workspace
        self._files = files
        self.reached = folders_reached_index(tools.effects, roots[0])
        record.history.follow(self.reached)
        self._project = self._roots
        # The marks of repositories, then the places of rule files; most sessions have no file there.
        folders = (roots[0], *roots[0].parents)
        self._candidates = [
            *(folder / ".git" for folder in folders),
            *(folder / name for folder in (home, *folders) if folder is not None for name in RULE_FILES),
        ]
        self.above: tuple[RuleFile, ...] = ()
        self.below: tuple[RuleFile, ...] = ()

    async def refresh(self) -> None:
        """Read all files as they are now, the editor's unsaved text included."""
        folders_then = self.reached.of(self._record.history.current).folders
        reached = dict.fromkeys(self._files.path_now(Path(each)) for each in folders_then)
        existing = await self._workspace.find_existing(self._candidates)
        cwd, repository = self._roots[0], None
        if existing and existing[0].name == ".git" and is_project(existing[0].parent):
            repository = existing[0].parent
        self._project = self._roots if repository is None else (*self._roots, repository)
        if not reached and (not existing or existing[-1].name == ".git"):
            self.above = self.below = ()
            return
        above = self._begin_reading()
        if self._home is not None:
            anywhere = (Path(self._home.anchor),)  # only the user writes there
            await above.read([_Place(self._home / name, "user", anywhere) for name in RULE_FILES])
        chain = [
            folder for folder in (*reversed(cwd.parents), cwd) if repository in (folder, *folder.parents)
        ]
        folders = chain or [cwd]
        await above.read(
            [_Place(folder / name, "project", self._project) for folder in folders for name in RULE_FILES]
        )
        self.above = self._fit(above.found)
        if reached:
            below = self._begin_reading(self.above)
            places = (place for each in list(reached)[-MAX_FOLDERS:] for place in self._places_below(each))
            await below.read([*dict.fromkeys(places)])
            self.below = self._fit(below.found)
        else:
            self.below = ()
        for rule_file in (*self.above, *self.below):
            if rule_file.n_cut:
                text = f"{rule_file.name} has {len(rule_file.view.text):,} characters"
                self._record.notices.add_unused(
                    f"{text}; the model is shown {len(rule_file.shown):,} of them"
                )

    def text(self) -> str:
        """Return the rules for the system prompt, without rules of folders that the conversation shows."""
        below = (each for each in self.below if not self._is_in_view(each))
        return "\n\n".join(each.render() for each in (*self.above, *below))

    def usage(self) -> tuple[RuleFileUsage, ...]:
        """Return the files with their sizes, in the order in which they count."""
        return tuple(
            RuleFileUsage(
                uri=each.view.uri,
                scope=each.scope,
                in_system=each.scope != "folder" or not self._is_in_view(each),
                tokens=text_tokens(each.render()),
                size_bytes=each.view.size_bytes,
                cut_chars=each.n_cut,
            )
            for each in (*self.above, *self.below)
        )

    async def show(self, path: Path, call_id: str) -> str:
        """Return the rules for the file *path* that the model has not seen yet, for the result of a call.

        They are recorded as read by the call *call_id*.
        """
        reading = self._begin_reading((*self.above, *self.below))
        await reading.read(self._places_below(path.parent))
        # Another call may have shown them meanwhile; from here on nothing is awaited.
        known = {each.view.path for each in self.below}
        new = self._fit([each for each in reading.found if each.view.path not in known])
        self.below += new
        for each in new:
            n_lines = each.shown.count("\n") + 1 if each.n_cut else None
            self._files.record(each.view, call_id=call_id, line_count=n_lines)
        self._record.notices.emit_pending()
        return "\n\n".join(f"[{each.render()}\n]" for each in new)

    def _fit(self, files: Sequence[RuleFile]) -> tuple[RuleFile, ...]:
        return share_room(files, min(ALL_RULES_CHARS, self._record.window or ALL_RULES_CHARS))

    def _begin_reading(self, known: Sequence[RuleFile] = ()) -> _Reading:
        return _Reading(self._roots[0], self._workspace, self._record.notices, known)

    def _is_in_view(self, rule_file: RuleFile) -> bool:
        return self._files.shows(rule_file.view)

    def _places_below(self, folder: Path) -> list[_Place]:
        """Return the places between the session's folder that holds *folder* and *folder* itself."""
        cwd = self._roots[0]
        root = next((each for each in self._roots if folder.is_relative_to(each)), None)
        if root is None:
            return []
        above = [each for each in (folder, *folder.parents) if each.is_relative_to(root) and each != cwd]
        return [
            _Place(each / name, "folder", self._project, shown_path(each, cwd))
            for each in reversed(above)
            for name in RULE_FILES
        ]


class _Reading:
    """One pass over some places: the files found, each once, imports behind the file that names them."""

    def __init__(
        self, cwd: Path, workspace: Workspace, notices: OneTimeNotices, known: Sequence[RuleFile]
    ) -> None:
        """*known* are files that are left out."""
        self._cwd = cwd
        self._workspace = workspace
        self._notices = notices
        self._paths = {each.view.path for each in known}
        self._hashes = {each.view.hash for each in known}
        self._n_known = len(known)
        self.found: list[RuleFile] = []

    async def read(self, places: Sequence[_Place], importers: tuple[Path, ...] = ()) -> None:
        """Read the files at *places*; many a place has none. *importers* lead to the file that names them."""
        existing = set(await self._workspace.find_existing([place.path for place in places]))
        for place in places:
            if place.path not in existing and not importers:
                continue
            name = shown_path(place.path, self._cwd)
            if place.path in existing and len(importers) > MAX_IMPORT_DEPTH:
                text = f"it is imported too deep, and {MAX_IMPORT_DEPTH} levels are read"
                self._notices.add_unused(f"{name} is not used: {text}")
            elif place.path in existing:
                await self._read(place, name, importers)
            elif place.path.suffix == ".md":  # else a word like @someone
                importer = shown_path(importers[-1], self._cwd)
                self._notices.add_unused(
                    f"{name} is not used: {importer} imports it, and there is no such file"
                )

    async def _read(self, place: _Place, name: str, importers: tuple[Path, ...]) -> None:
        try:
            view = await self._workspace.view_project_file(
                place.path, place.inside, limit_bytes=RULE_FILE_LIMIT_BYTES
            )
        except FileAccessError as problem:
            if problem.problem != "isDirectory":
                self._notices.add_unused(f"{name} is not used: {problem.message}")
            return
        if view.path in importers:
            self._notices.add_unused(
                f"{name} imports itself, through {len(importers)} files; it is shown once"
            )
        text = view.text.strip()
        if view.path in self._paths or view.hash in self._hashes or not text:
            return
        if len(self.found) + self._n_known >= MAX_RULE_FILES:
            self._notices.add_unused(f"{name} is not used: there are {MAX_RULE_FILES} rule files before it")
            return
        self._paths.add(view.path)
        self._hashes.add(view.hash)
        shown = text[:RULE_FILE_CHARS]
        self.found.append(RuleFile(view=view, name=name, scope=place.scope, folder=place.folder, shown=shown))
        paths = dict.fromkeys(resolve_import(view.path, each) for each in find_imports(shown))
        imports = [replace(place, path=path) for path in islice(paths, MAX_IMPORTS)]
        await self.read(imports, (*importers, view.path))


def share_room(files: Sequence[RuleFile], max_chars: int) -> tuple[RuleFile, ...]:
    """Return *files* cut to *max_chars* for all of them together; the last ones go first."""
    left, shared = max_chars, list[RuleFile]()
    for each in reversed(files):
        shared.append(replace(each, shown=each.shown[:left]))
        left -= len(shared[-1].shown)
    return tuple(reversed(shared))


def is_project(repository: Path) -> bool:
    """Return whether *repository* is that of a project: one that holds the home folder is the user's own.

    Any project unpacked below it could link to files of the user.
    """
    return not Path(os.path.expanduser("~")).is_relative_to(repository)


def resolve_import(importer: Path, imported: str) -> Path:
    """Return the path that the file *importer* names as *imported*: beside it, in the home folder, or whole.

    >>> resolve_import(Path("/p/docs/AGENTS.md"), "../style.md").as_posix()
    '/p/style.md'
    """
    return Path(os.path.normpath(importer.parent / expand_home(imported)))


def find_imports(text: str) -> Iterator[str]:
    """Yield the paths that *text* imports with ``@path``, but not those in code.

    >>> list(find_imports("See @docs/style.md, not `@x.md` or a@b.md.\\n@~/own.md"))
    ['docs/style.md', '~/own.md']
    """
    for found in _IMPORT.finditer(_CODE.sub("", _FENCE.sub("", text))):
        if path := found[1].rstrip(".,;:!?"):
            yield path
