"""A git worktree for a sub-agent: the project as it is now, apart from the user's files, and the way back.

Several sub-agents that change files at the same time would see each other's half-made work. So one can be
given a worktree, below the folder of git's own files. It has the files of the project as they are on disk,
with changes that are not committed and with new files, but for ignored ones and unsaved buffers. For that
they are written into a commit of no branch, by an index of its own: the user's index, branch and files are
not touched.

In the end the tree is compared with that commit. Without a change it is removed. Else its changes are merged
into the session's folder, file by file: a file that is as it was takes the new text, and one that has changed
meanwhile is merged by its lines. All of it is one change of files, with one question that shows its diffs,
and kept by checkpoints as every edit is. A file that cannot be merged stays out, as do binary files, links
and changed modes; then the tree stays, on a branch of its own, and so it does when the user refuses.

git runs only in a repository with a configuration that names no program, and runs no hooks.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from sidecar._internal.env import copy_environment
from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.capabilities.contract import Diff, ToolContext
from sidecar.capabilities.file_changes import FileChange, apply_changes, diffs_as_written, find_target
from sidecar.capabilities.surroundings import find_program
from sidecar.permissions.repository import find_repository, has_submodules, names_programs
from sidecar.workspace.contract import FileAccessError

_TIMEOUT_S: Final = 120.0
_WITHOUT: Final = "leave worktree out, and it works in the folder itself"
_GIT: Final = (
    *("--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "commit.gpgsign=false", "-c", "user.name=sidecar", "-c", "user.email=sidecar@localhost"),
)
_FILE_MODES: Final = ("100644", "100755")
_NO_FILE: Final = "000000"
_BOM: Final = "\ufeff"
_PLACE: Final = "sidecar"
"""The folder of all worktrees, among git's own files."""

_BASE: Final = "The files before: "
"""The beginning of the message of each first commit."""


class Worktree(Value):
    """A worktree at *path* on *branch*, which began at the commit *base*.

    *top* is the work tree of the user, and *folder* the place of the session's folder in the new one.
    """

    path: Path
    branch: str
    base: str
    top: Path
    folder: Path


class ChangedFile(Value):
    """A file that a worktree has changed, with its texts before and after; None for no file."""

    name: str
    old: str | None
    new: str | None


class Merge(Value):
    """The changes that a merge has made, and the files that it has left out, each with the reason."""

    made: tuple[Diff, ...]
    left_out: tuple[str, ...]


def make_worktree(cwd: Path, name: str, new_id: str) -> Worktree:
    """Make a worktree for the work *name* in the repository of *cwd*. Blocks.

    Raises InvalidInput where there is no repository, or git must not or does not run in it.
    """
    repository = find_repository(cwd)
    if repository is None:
        raise InvalidInput("a worktree needs git, and this folder is in no repository", hint=_WITHOUT)
    if names_programs(repository) or has_submodules(repository):
        raise InvalidInput("the repository names programs or has submodules", hint=_WITHOUT)
    top = Path(_git(cwd, "rev-parse", "--show-toplevel").strip())
    shared = top / _git(top, "rev-parse", "--git-common-dir").strip()
    place = shared / _PLACE
    place.mkdir(exist_ok=True)
    word = "-".join(re.findall(r"[a-z0-9]+", name.lower()))[:30].strip("-") or "task"
    path, branch = place / f"{word}-{new_id[:8]}", f"sidecar/{word}-{new_id[:8]}"
    index = place / f"{new_id}.index"
    try:
        known = top / _git(top, "rev-parse", "--git-path", "index").strip()
        if known.exists():
            shutil.copyfile(known, index)
        own = {"GIT_INDEX_FILE": str(index)}
        _git(top, "add", "--all", env=own)
        tree = _git(top, "write-tree", env=own).strip()
    finally:
        index.unlink(missing_ok=True)
    head = _git(top, "rev-parse", "--quiet", "--verify", "HEAD", may_fail=True).strip()
    parents = ("-p", head) if head else ()
    base = _git(top, "commit-tree", tree, *parents, "-m", f"{_BASE}{name}").strip()
    _git(top, "worktree", "add", "--quiet", "-b", branch, str(path), base)
    return Worktree(path, branch, base, top, path / cwd.relative_to(top))


def find_changed(tree: Worktree) -> tuple[Sequence[ChangedFile], Sequence[str]]:
    """Return the changed text files of *tree*, and the names of the other changes. Blocks."""
    _git(tree.path, "add", "--all")
    raw = _git(tree.path, "diff", "--cached", "--raw", "--no-renames", "--abbrev=40", "-z", tree.base)
    fields = raw.split("\0")[:-1]
    found, others = list[ChangedFile](), list[str]()
    for head, name in zip(fields[::2], fields[1::2], strict=True):
        before, after, *_ = head.removeprefix(":").split()
        try:
            if before != after and _NO_FILE not in (before, after):
                raise ValueError
            old = partial(_raw_git, tree.path, "cat-file", "--filters", f"{tree.base}:{name}")
            new = (tree.path / name).read_bytes
            found.append(ChangedFile(name, read_text(before, old), read_text(after, new)))
        except ValueError:  # binary, a link, another mode, or another encoding
            others.append(f"{name} cannot be merged as text")
    return found, others


def remove_worktree(tree: Worktree) -> None:
    """Remove *tree* with its branch. Blocks."""
    _git(tree.top, "worktree", "remove", "--force", str(tree.path))
    _git(tree.top, "branch", "--quiet", "-D", tree.branch)


def has_worktrees(folder: Path) -> bool:
    """Whether *folder* is in the worktree of a sub-agent, or its repository has some. Blocks."""
    repository = find_repository(folder)
    if repository is None:
        return False
    place = repository / _PLACE
    return any(each.parent.name == _PLACE for each in (folder, *folder.parents)) or (
        place.is_dir() and any(place.iterdir())
    )


def find_worktree(folder: Path) -> Worktree | None:
    """Return the worktree of a sub-agent that works in *folder*, None where that is none. Blocks.

    Raises InvalidInput where git must not or does not run in it, or its base is lost.
    """
    path = next((each for each in (folder, *folder.parents) if each.parent.name == _PLACE), None)
    if path is None or not (path / ".git").is_file() or not (path.parent.parent / "worktrees").is_dir():
        return None
    repository = find_repository(path)
    if repository is None or names_programs(repository):
        raise InvalidInput("the repository names programs", hint=_WITHOUT)
    top = _git(path, "worktree", "list", "--porcelain").splitlines()[0].removeprefix("worktree ")
    base = _git(path, "log", "-1", "--format=%H", f"--grep=^{_BASE}", "HEAD").strip()
    if not base:
        raise InvalidInput("the first commit of the worktree is lost", hint=_WITHOUT)
    return Worktree(path, f"sidecar/{path.name}", base, Path(top), folder)


def discard_worktree(folder: Path) -> Worktree | None:
    """Remove the worktree of a sub-agent that worked in *folder*, unless it has work that is nowhere else.

    Then it is returned; None means that none is left. Blocks. Raises InvalidInput as :func:`find_worktree`.
    """
    tree = find_worktree(folder)
    if tree is None:
        return None
    changed, others = find_changed(tree)
    if others or not all(is_merged(tree, file) for file in changed):
        return tree
    remove_worktree(tree)
    return None


def is_merged(tree: Worktree, file: ChangedFile) -> bool:
    """Whether the user's folder has the change *file* of *tree*. Blocks."""
    path = tree.top / file.name
    try:
        return (path.read_text("utf-8") if path.exists() else None) == file.new
    except (OSError, UnicodeDecodeError):
        return False


def describe_place(tree: Worktree) -> str:
    """Return where the work of a sub-agent is."""
    return f"its work is in {tree.path}, on the branch {tree.branch}"


async def merge_changes(context: ToolContext, tree: Worktree) -> Merge:
    """Merge the changes of *tree* into the session's folder, after a question.

    Raises:
        PermissionRefused: the user did not allow it.
        FileAccessError: a file was changed while the user thought, or cannot be written.
    """
    files, left_out = await asyncio.to_thread(find_changed, tree)
    changes, reasons = list[FileChange](), [*left_out]
    for file in files:
        try:
            target = await find_target(context, str(tree.top / file.name))
        except FileAccessError as error:
            reasons.append(f"{file.name}: {error.message}")
            continue
        now = None if target.view is None else target.view.text
        text: str | None = file.new
        if now == file.new:
            continue
        if now != file.old:
            merged = None
            if now is not None and file.old is not None and file.new is not None:
                merged = await asyncio.to_thread(merge_lines, now, file.old, file.new)
            if merged is None:
                reasons.append(f"{file.name} has changed meanwhile in the same place")
                continue
            text = merged
        changes.append(FileChange(target, text))
    applied = await apply_changes(context, "merge", changes) if changes else ()
    reasons += [each.note for each in applied if each.is_chosen and each.note is not None]
    return Merge(diffs_as_written(changes, applied), tuple(reasons))


def merge_lines(now: str, old: str, new: str) -> str | None:
    """Return *now* with the changes from *old* to *new*; None where both changed the same lines. Blocks."""
    with tempfile.TemporaryDirectory(prefix="sidecar-") as folder:
        names = []
        for name, text in (("now", now), ("old", old), ("new", new)):
            (Path(folder) / name).write_bytes(text.encode())
            names.append(name)
        try:
            return _raw_git(Path(folder), "merge-file", "-p", *names).decode()
        except InvalidInput:
            return None


def read_text(mode: str, read: Callable[[], bytes]) -> str | None:
    """Return the text of a file with the *mode* of git, None for no file.

    Raises ValueError for another kind of file.
    """
    if mode == _NO_FILE:
        return None
    if mode not in _FILE_MODES:
        raise ValueError(mode)
    text = read().decode("utf-8")
    if "\0" in text:
        raise ValueError(mode)
    return text.removeprefix(_BOM)


def _git(cwd: Path, *arguments: str, env: Mapping[str, str] | None = None, may_fail: bool = False) -> str:
    try:
        return os.fsdecode(_raw_git(cwd, *arguments, env=env))
    except InvalidInput:
        if may_fail:
            return ""
        raise


def _raw_git(cwd: Path, *arguments: str, env: Mapping[str, str] | None = None) -> bytes:
    """Return the output of git. Raises InvalidInput when it is not installed, or fails."""
    program = find_program("git")
    if program is None:
        raise InvalidInput("git is not installed", hint=_WITHOUT)
    inherited = {name: value for name, value in copy_environment().items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            [program, *_GIT, *arguments],
            cwd=cwd,
            env={**inherited, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidInput(f"git {arguments[0]} did not run: {type(error).__name__}", hint=_WITHOUT) from None
    if done.returncode != 0:
        why = os.fsdecode(done.stderr).strip().splitlines()
        raise InvalidInput(f"git {arguments[0]} failed: {why[-1] if why else done.returncode}", hint=_WITHOUT)
    return done.stdout
