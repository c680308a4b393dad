"""Ignore rules of a tree, and the walk over the entries they keep.

The problem: a search or a watch must leave out the same entries that git would, in trees of strangers,
without reading each ignore file more than once.

- Rules come from ``.gitignore`` and ``.ignore`` files: a deeper file is stronger than a higher one, and in
  one folder ``.ignore`` is stronger than ``.gitignore``. Below them all stands a small list of folders that
  hold no work of a person, such as ``node_modules``, and of the names of copies that editors keep.
- The strongest line that matches decides. A negated line brings an entry back, except ``.git``.
- An entry in an ignored folder stays ignored, as with git.

Each folder has its levels: its own rules, if it has any, then the levels of the folder above. They are made
when a folder is first met and kept, so that an entry costs one expression for each ignore file above it.
Example: with ``*.log`` in ``/p/.gitignore`` and ``!keep.log`` in ``/p/a/.gitignore``, the levels of ``/p/a/``
are (own, root); ``/p/a/keep.log`` meets its own level first and is kept, ``/p/a/b.log`` falls through to the
root's and is ignored.

Links to folders are never followed, so that no loop of links is walked. A folder that cannot be read is
empty.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from sidecar._internal.values import Value
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.files import BOM, read_bytes
from sidecar.workspace.globs import GlobRules

IGNORE_FILES = (".gitignore", ".ignore")
_IGNORE_FILE_LIMIT_BYTES = 250_000
_ALWAYS = ".git"
_FOLDERS = frozenset(
    {".hg", ".svn", ".jj", "node_modules", "bower_components", ".yarn", ".pnpm-store", ".next", ".nuxt"}
    | {".venv", "venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".tox"}
    | {".nox", ".eggs", "dist", "build", "target", ".gradle", ".terraform", ".direnv"}
)
_FILES = frozenset({".DS_Store", "Thumbs.db"})
_COPIES = re.compile(r"#.*#|\.#.*|.*~|\..*\.(?:sw[a-p]|kate-swp)")
"""An editor's own copy of a file: saved by itself, kept from before, locked or swapped."""


class Listing(Value):
    """The entries of one folder by name, without the *n_ignored* ones that the rules leave out."""

    entries: tuple[os.DirEntry[str], ...] = ()
    n_ignored: int = 0


class _Level(Value):
    """The ignore files of one folder; paths are matched from *n_prefix* on."""

    n_prefix: int
    rules: GlobRules


class IgnoreRules:
    """The ignore rules below one root, read when they are needed and kept until :meth:`forget`.

    Used by one thread at a time. Paths are absolute and below the root.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._levels: dict[str, tuple[_Level, ...]] = {}
        self._verdicts: dict[Path, bool] = {}

    def forget(self) -> None:
        """Read the ignore files anew; one of them has changed."""
        self._levels.clear()
        self._verdicts.clear()

    def list_folder(self, folder: str) -> Listing:
        """Return the entries of *folder*; an unreadable one has none."""
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            return Listing()
        folder = os.path.join(folder, "")
        levels = self._levels_of(folder)
        kept = tuple(
            entry for entry in entries if not _is_left_out(folder, entry.name, is_folder(entry), levels)
        )
        return Listing(kept, len(entries) - len(kept))

    def is_ignored(self, path: Path) -> bool:
        """Whether the rules leave *path* out, itself or with a folder above it. It need not exist."""
        return self._leaves_out(path, os.path.isdir(path))

    def _leaves_out(self, path: Path, is_folder: bool) -> bool:
        if len(str(path)) <= len(self._root):
            return False
        folder = os.path.join(path.parent, "")
        above_is_ignored = self._verdicts.get(path.parent)
        if above_is_ignored is None:
            above_is_ignored = self._verdicts[path.parent] = self._leaves_out(path.parent, True)
        return above_is_ignored or _is_left_out(folder, path.name, is_folder, self._levels_of(folder))

    def _levels_of(self, folder: str) -> tuple[_Level, ...]:
        """Return the patterns that hold in *folder* (with a separator behind), the strongest first."""
        levels = self._levels.get(folder)
        if levels is None:
            above = os.path.join(os.path.dirname(folder[:-1]), "")
            inherited = self._levels_of(above) if len(folder) > len(self._root) + 1 else ()
            rules = GlobRules(line for name in IGNORE_FILES for line in read_ignore_lines(Path(folder, name)))
            levels = (_Level(len(folder), rules), *inherited) if rules else inherited
            self._levels[folder] = levels
        return levels


def walk(
    start: Path, root: Path, *, cap: int, is_cancelled: Callable[[], bool] = lambda: False
) -> Iterator[os.DirEntry[str]]:
    """Yield the entries below a folder by name, each folder before its own entries.

    Args:
        start: the folder to walk.
        root: a folder at or above *start*, where the ignore rules begin; see :func:`rules_for`.
        cap: the number of entries after which the walk ends.
        is_cancelled: polled before each entry; True ends the walk.
    """
    rules = rules_for(start, root)
    n_yielded = 0
    pending = [iter(rules.list_folder(str(start)).entries)]
    while pending:
        entry = next(pending[-1], None)
        if entry is None:
            pending.pop()
            continue
        if n_yielded >= cap or is_cancelled():
            return
        n_yielded += 1
        yield entry
        if is_folder(entry):
            pending.append(iter(rules.list_folder(entry.path).entries))


def rules_for(start: Path, root: Path) -> IgnoreRules:
    """Return the ignore rules that hold below *start*, beginning at *root*, a folder at or above it.

    If they leave *start* itself out, only the rules at and below it hold: a caller that names an ignored
    folder wants to see into it.
    """
    rules = IgnoreRules(root)
    return IgnoreRules(start) if rules.is_ignored(start) else rules


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether *entry* is a folder and no link or junction to one."""
    try:
        return entry.is_dir(follow_symlinks=False) and not _is_junction(entry)
    except OSError:  # gone since it was listed
        return False


def _is_left_out(folder: str, name: str, is_folder: bool, levels: tuple[_Level, ...]) -> bool:
    if name == _ALWAYS:
        return True
    for level in levels:
        relative = folder[level.n_prefix :] + name
        if os.sep != "/":
            relative = relative.replace(os.sep, "/")
        verdict = level.rules.verdict(relative, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return name in _FOLDERS if is_folder else name in _FILES or _COPIES.fullmatch(name) is not None


def read_ignore_lines(path: Path) -> list[str]:
    """Return the lines of an ignore file; a link, or anything else that is not a text file, has none."""
    try:
        # As with git, a link does not count: it could lead anywhere, and the user has not asked for it.
        raw = read_bytes(path, _IGNORE_FILE_LIMIT_BYTES, follow_links=False)
    except FileAccessError:  # missing, or not a list of patterns
        return []
    return raw.decode("utf-8", "surrogateescape").removeprefix(BOM).split("\n")


if sys.platform == "win32":

    def _is_junction(entry: os.DirEntry[str]) -> bool:
        return entry.stat(follow_symlinks=False).st_reparse_tag == stat.IO_REPARSE_TAG_MOUNT_POINT

else:

    def _is_junction(entry: os.DirEntry[str]) -> bool:
        return False
