"""Changes of files by tools: only of texts that the model has seen, only with permission, all or none.

A tool finds its targets, asks that the model knows each as it is now, and hands over the new texts. One
question covers all of them. Where a file cannot be written after others were, those are taken back. A change
that happens while the user thinks is found by the write itself, which compares hashes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sidecar._internal.values import Value, replace
from sidecar.capabilities.contract import (
    Diff,
    PermissionDecision,
    PermissionQuestion,
    PlannedChange,
    ToolContext,
)
from sidecar.capabilities.hunks import choose_hunks, describe_choice, find_hunks
from sidecar.capabilities.output import number_lines
from sidecar.capabilities.paths import (
    PermissionRefused,
    display_path,
    require_permission,
    view_or_error,
)
from sidecar.capabilities.text_edit import EditedText, shift_ranges
from sidecar.conversation import FileRead, LineRange
from sidecar.permissions.access import EditAccess, PatchAccess
from sidecar.workspace.contract import FileAccessError, FileView
from sidecar.workspace.line_index import LineText
from sidecar.workspace.paths import ResolvedPath, is_inside

_LINES_AROUND = 3
_LINES_SHOWN = 30
_CHARS_SHOWN = 6000
_CHARS_BROUGHT = 8_000


class Target(Value):
    """A file to change: its resolved path, and its view, None while it does not exist."""

    resolved: ResolvedPath
    view: FileView | None

    @property
    def path(self) -> Path:
        """The path of the file, resolved."""
        return self.resolved.path


class FileChange(Value):
    """A file and the text that it becomes; None deletes it, and leaves one out that does not exist.

    A file that *is_moved* here from elsewhere is kept or refused as a whole.
    """

    target: Target
    text: str | None
    is_moved: bool = False

    @property
    def changes_something(self) -> bool:
        """Whether the file becomes another one than it is, or than it is not."""
        return self.text != (None if self.target.view is None else self.target.view.text)

    @property
    def diff(self) -> Diff:
        """The change for clients; a file that is deleted becomes empty in it."""
        before = self.target.view
        old_text = None if before is None else before.text
        return Diff(self.target.path, old_text, self.text or "", is_whole=self.is_moved or self.text is None)


class AppliedChange(Value):
    """A written change: the view after it, None without a file, and a note where the text was altered.

    *is_chosen* is set where the user kept only some of its hunks, or edited them; the note tells which.
    """

    view: FileView | None
    note: str | None = None
    is_chosen: bool = False


def diffs_as_written(changes: Sequence[FileChange], applied: Sequence[AppliedChange]) -> tuple[Diff, ...]:
    """Return the diffs of *changes* as they were *applied*, without new files that the user has refused."""
    return tuple(
        replace(change.diff, new_text=done.view.text) if done.is_chosen and done.view else change.diff
        for change, done in zip(changes, applied, strict=True)
        if done.view is not None or change.target.view is not None
    )


async def find_target(context: ToolContext, spelled: str) -> Target:
    """Return the file *spelled* by the model, as it is now. Raises FileAccessError but for ``notFound``."""
    resolved, view = await context.workspace.view_spelled(spelled, context.cwd, context.roots)
    view = view or await view_or_error(context, resolved.path)
    if not isinstance(view, FileAccessError):
        return Target(resolved, view)
    if view.problem != "notFound":
        raise view
    return Target(resolved, None)


def require_current(context: ToolContext, view: FileView) -> FileRead:
    """Return the record of *view*. Raises FileAccessError unless the model has read exactly this text."""
    name = display_path(view.path, context.cwd)
    record = context.reads.get(view.path)
    if record is None:
        raise FileAccessError("notReadYet", f"{name} was not read yet", hint="read it, then change it")
    if record.hash != view.hash:
        where = "in the editor" if view.source == "buffer" else "on disk"
        message = f"{name} has changed {where} since it was read"
        raise FileAccessError("changedSinceRead", message, hint="read it again")
    return record


def require_shown(context: ToolContext, view: FileView) -> FileRead:
    """Return the record of *view* as :func:`require_current` does, for a change of named passages.

    The error about a short file of the session's folders that was not read has its text, which then counts as
    read: the model may know it from a program such as ``awk``, and needs no further call to see it.
    """
    is_short = 0 < len(view.text) <= _CHARS_BROUGHT and is_inside(view.path, context.roots)
    if context.reads.get(view.path) is None and is_short:
        index = LineText(view.text)
        lines = [line.rstrip("\r\n") for line in index.lines(0, index.n_lines)]
        numbered = number_lines(lines, first=1, cap_chars=2 * _CHARS_BROUGHT + 10 * len(lines))
        record_known(context, AppliedChange(view))
        name = display_path(view.path, context.cwd)
        hint = f"here it is; make the call again if it is still right\n\n{numbered.text}"
        raise FileAccessError("notReadYet", f"{name} was not read yet", hint=hint)
    return require_current(context, view)


async def apply_changes(
    context: ToolContext, tool: str, changes: Sequence[FileChange], *, verb: str = ""
) -> tuple[AppliedChange, ...]:
    """Ask for permission once and make all *changes*, or none of them.

    Args:
        context: the surroundings of the call.
        tool: the tool that makes them.
        changes: the files, each once.
        verb: the words of the question in front of the files; without them the name of the tool.

    Raises:
        PermissionRefused: the user did not allow it.
        FileAccessError: a file has changed meanwhile, or cannot be written.
    """
    names = ", ".join(display_path(each.target.path, context.cwd) for each in changes)
    title = f"{verb or tool.replace('_', ' ').capitalize()} {names}"
    outside = [each.target.path for each in changes if not each.target.resolved.inside]
    edits = tuple(EditAccess(each.target.path, each.target.resolved.inside) for each in changes)
    question = PermissionQuestion(
        call_id=context.call_id,
        tool=tool,
        title=f"{title}, outside the workspace" if outside else title,
        subject="path" if outside else "toolCall",
        detail=", ".join(map(str, outside or [each.target.path for each in changes])),
        access=edits[0] if len(edits) == 1 else PatchAccess(edits),
        diffs=tuple(each.diff for each in changes),
    )
    decision = await require_permission(context, question)
    notes: Sequence[str | None] = [None] * len(changes)
    if decision.hunks:
        changes, notes = await asyncio.to_thread(keep_chosen, context, changes, decision)
        if not any(each.changes_something for each in changes):
            raise PermissionRefused(question.title, "the user refused each of its hunks")
    if context.checkpoints is not None:
        planned = [
            PlannedChange(each.target.path, each.target.view, each.text)
            for each in changes
            if each.changes_something
        ]
        await context.checkpoints.keep(planned)
    done: list[AppliedChange] = []
    try:
        while len(done) < len(changes):
            made, note = await make_change(context, changes[len(done)]), notes[len(done)]
            done.append(made if note is None else AppliedChange(made.view, note, is_chosen=True))
    except BaseException:  # also a cancellation: half of a change is worse than none
        for change, applied in reversed(list(zip(changes, done, strict=False))):
            with suppress(FileAccessError):  # changed by others meanwhile: theirs stays
                await take_back_change(context, change, applied)
        raise
    return tuple(done)


def keep_chosen(
    context: ToolContext, changes: Sequence[FileChange], decision: PermissionDecision
) -> tuple[list[FileChange], list[str | None]]:
    """Return *changes* with the hunks that the user has kept, and for each of them a note to the model."""
    kept, notes = [*changes], list[str | None]([None] * len(changes))
    for number, change in enumerate(changes):
        before = change.diff.old_text
        chosen = {hunk: text for (at, hunk), text in decision.hunks.items() if at == number}
        if not chosen or change.text is None or change.diff.is_whole:
            continue
        n_hunks = len(find_hunks(before, change.text))
        chosen = {hunk: text for hunk, text in chosen.items() if 0 <= hunk < n_hunks}
        text = choose_hunks(before, change.text, chosen)
        kept[number] = FileChange(change.target, None if before is None and not text else text)
        name = display_path(change.target.path, context.cwd)
        if text != change.text:
            notes[number] = describe_choice(name, change.text, text, chosen, n_hunks)
    return kept, notes


async def make_change(context: ToolContext, change: FileChange) -> AppliedChange:
    """Make one change. Raises FileAccessError when its file is not as the target has it."""
    before, path = change.target.view, change.target.path
    if change.text is None:
        if before is not None:
            await context.workspace.delete(path, expected_hash=before.hash)
        return AppliedChange(None)
    expected_hash = None if before is None else before.hash
    view = await context.workspace.write(path, change.text, expected_hash=expected_hash)
    is_altered = view.text != change.text
    if is_altered and context.checkpoints is not None:
        await context.checkpoints.correct(view)
    return AppliedChange(
        view, "[the editor changed the text on the way; read it again]" if is_altered else None
    )


async def take_back_change(context: ToolContext, change: FileChange, applied: AppliedChange) -> None:
    """Undo one change. Raises FileAccessError when its file was changed since."""
    before, path = change.target.view, change.target.path
    now = None if applied.view is None else applied.view.hash
    if before is not None:
        await context.workspace.write(path, before.text, expected_hash=now)
    elif now is not None:
        await context.workspace.delete(path, expected_hash=now)


def record_known(
    context: ToolContext, applied: AppliedChange, ranges: Sequence[LineRange] = ((1, None),)
) -> None:
    """Record the lines that the model knows of a changed file: none where the text was altered on the way.

    It knows the new text as far as it knew the old one: unread lines stay unread.
    """
    if applied.view is not None and applied.note is None:
        for line, count in ranges:
            context.reads.record(applied.view, call_id=context.call_id, first_line=line, line_count=count)


def record_edited(context: ToolContext, applied: AppliedChange, before: FileRead, edited: EditedText) -> None:
    """Record the lines that the model knows of a file after an edit, of which it knew *before*."""
    record_known(context, applied, shift_ranges(before.ranges or ((1, None),), edited.replaced))


def show_places(text: str, places: Sequence[LineRange]) -> str:
    """Return the numbered lines of *text* around *places* (first line, count), from the top."""
    lines = LineText(text)
    shown: list[str] = []
    n_done, left = 0, _CHARS_SHOWN
    for first, count in sorted(places, key=lambda place: place[0]):
        start = max(n_done + 1, first - _LINES_AROUND)
        n_lines = first + min(count or 0, _LINES_SHOWN) + _LINES_AROUND - start
        if n_lines <= 0 or left <= 0:
            continue
        around = [line.rstrip("\r\n") for line in lines.lines(start - 1, n_lines)]
        part = number_lines(around, first=start, cap_chars=left)
        left -= len(part.text)
        shown += [*(["   ..."] if n_done and start > n_done + 1 else []), part.text]
        n_done = start + part.n_lines - 1
    return "\n".join(shown)
