r"""The apply_patch tool: changes of several files as one patch, in the format that GPT models are trained on.

A patch names its files one after the other. Each part of an update (a *hunk*) has lines that stay (a blank
before them), go (``-``) and come (``+``); ``@@ LINE`` before it names a line that it stands below::

    *** Begin Patch
    *** Update File: src/a.py
    *** Move to: src/b.py
    @@ def greet():
         name = "x"
    -    say(name)
    +    shout(name)
    *** Add File: new.txt
    +hello
    *** Delete File: old.txt
    *** End Patch

The hunks of a file are applied from the top, each below the one before. A hunk must have one place there;
below an ``@@`` line it is the next one. Its text may differ from the file's as a model errs when it copies.
Lines that only come are put below their ``@@`` line, or at the end of the file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import Location, ToolContext, ToolReply
from sidecar.capabilities.file_changes import (
    AppliedChange,
    FileChange,
    apply_changes,
    diffs_as_written,
    find_target,
    record_edited,
    record_known,
    require_current,
    require_shown,
    show_places,
)
from sidecar.capabilities.passage_match import find_drifted
from sidecar.capabilities.paths import display_path
from sidecar.capabilities.text_edit import EditedText, Passage, Replaced, splice_passages
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.text.calls import PATCHES_FILES, paths_of_patch
from sidecar.workspace.contract import FileAccessError

_NOTES_CHARS = 500

PatchAction: TypeAlias = Literal["add", "update", "delete"]
_HEADING: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_RANGE: Final = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
"""The place of a hunk in other formats of patches; the numbers are not used."""


class PatchArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the apply_patch tool."""

    input: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            description="The patch, from '*** Begin Patch' to '*** End Patch', and nothing else.",
        ),
    ]


async def apply_patch(arguments: PatchArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Apply a patch, and answer with the lines around its changes, as they are now."""
    plans = [await plan_file(file, context) for file in parse_patch(arguments.input)]
    # What goes away goes last: a move whose new file cannot be written loses nothing.
    planned = sorted((each for plan in plans for each in plan), key=lambda each: each[0].text is None)
    changes = [change for change, _ in planned]
    applied = await apply_changes(context, "apply_patch", changes)
    parts: list[str] = []
    for (change, edited), done in zip(planned, applied, strict=True):
        parts.append(done.note or "" if done.is_chosen else report_change(context, change, edited, done))
    text = "\n".join(parts)
    cap = context.max_output_chars - _NOTES_CHARS
    return ToolReply(
        text if len(text) <= cap else f"{text[:cap]}\n[cut: the patch was applied as a whole]",
        locations=tuple(
            Location(
                change.target.path, edited.replaced[0].first_line if edited and edited.replaced else None
            )
            for change, edited in planned
        ),
        diffs=diffs_as_written(changes, applied),
    )


async def plan_file(file: FilePatch, context: ToolContext) -> list[tuple[FileChange, EditedText | None]]:
    """Return the changes that the patch of one file makes, each with its edited passages.

    Raises:
        FileAccessError: the file was not read, has changed since, is missing, or exists already.
        InvalidInput: a hunk has no place in it.
    """
    target = await find_target(context, file.path)
    if file.action == "add":
        if target.view is not None:
            message = f"{file.path} exists already"
            raise FileAccessError(
                "changedSinceRead", message, hint="use '*** Update File' for a change of it"
            )
        return [(FileChange(target, "".join(f"{line}\n" for line in file.lines)), None)]
    if target.view is None:
        raise FileAccessError(
            "notFound", f"{file.path} does not exist", hint="use '*** Add File' for a new one"
        )
    if file.action == "delete":
        require_current(context, target.view)
        return [(FileChange(target, None), None)]
    require_shown(context, target.view)
    edited = EditedText(target.view.text, ())
    if file.hunks:
        try:
            edited = await asyncio.to_thread(apply_hunks, target.view.text, file.hunks)
        except InvalidInput as error:
            message = f"{file.path}: {error.message}; nothing was changed"
            raise InvalidInput(message, hint=error.hint) from error
    if file.move_to is None:
        if not file.hunks:
            raise InvalidInput(f"{file.path}: the update has no lines", hint="give the lines to change")
        return [(FileChange(target, edited.text), edited)]
    moved = await find_target(context, file.move_to)
    if moved.view is not None:
        raise FileAccessError(
            "changedSinceRead", f"{file.move_to} exists already", hint="choose another path"
        )
    return [(FileChange(moved, edited.text, is_moved=True), edited), (FileChange(target, None), None)]


def report_change(
    context: ToolContext, change: FileChange, edited: EditedText | None, applied: AppliedChange
) -> str:
    """Return the lines about one change for the model, and record the text that it knows now."""
    name = display_path(change.target.path, context.cwd)
    if applied.view is None:
        return f"deleted {name}"
    before = change.target.view
    if before is None or edited is None:
        record_known(context, applied)
        return "\n".join(filter(None, (f"created {name}", applied.note)))
    record = context.reads.get(before.path)
    if record is not None:
        record_edited(context, applied, record, edited)
    heading = f"edited {name}"
    heading += f" (its lines were found but for {edited.forgiven}):" if edited.forgiven else ":"
    return "\n".join(filter(None, (heading, show_places(applied.view.text, edited.places), applied.note)))


class Hunk(Struct):
    """A part of an update: the lines that it stands below, its lines before and after, and their place."""

    anchors: list[str] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    is_at_end: bool = False


class FilePatch(Struct):
    """The patch of one file: the lines of a new one, or the hunks of an update and the path it moves to."""

    action: PatchAction
    path: str
    move_to: str | None = None
    lines: list[str] = field(default_factory=list)
    hunks: list[Hunk] = field(default_factory=list)


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Return the patches of *text* by file. Raises InvalidInput for a text that is no whole patch."""
    lines = [line.removesuffix("\r") for line in text.strip().split("\n")]
    first = next((at for at, line in enumerate(lines) if line.strip() == "*** Begin Patch"), None)
    last = next((at for at, line in enumerate(lines) if line.strip() == "*** End Patch"), None)
    if first is None or last is None:
        missing = "*** Begin Patch" if first is None else "*** End Patch"
        raise InvalidInput(f"the patch has no line {missing!r}", hint="send the whole patch again")
    files: list[FilePatch] = []
    for number, line in enumerate(lines[first + 1 : last], first + 2):
        if (heading := _HEADING.fullmatch(line.rstrip())) is not None:
            action: dict[str, PatchAction] = {"Add": "add", "Update": "update", "Delete": "delete"}
            files.append(FilePatch(action[heading[1]], heading[2].strip()))
        elif not files or not take_line(files[-1], line):
            wanted = "a line with ' ', '+' or '-' before it, '@@', or a '*** ' heading"
            raise InvalidInput(f"line {number} of the patch is {line[:80]!r}", hint=f"it must be {wanted}")
    paths = [path for file in files for path in (file.path, file.move_to) if path]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if not files or twice is not None:
        problem = "the patch names no file" if twice is None else f"the patch names {twice} twice"
        raise InvalidInput(problem, hint="name each file once, with all of its changes")
    return tuple(files)


def take_line(file: FilePatch, line: str) -> bool:
    """Add the next *line* of a patch to *file*; return whether it is one."""
    if file.action == "delete":
        return not line.strip()
    if file.action == "add":
        file.lines.append(line[1:])
        return line.startswith("+") or not line
    if line.startswith("*** Move to: "):
        file.move_to = line.removeprefix("*** Move to: ").strip()
        return True
    if line.startswith("@@"):
        anchor = _RANGE.sub("@@", line).removeprefix("@@").removesuffix("@@").strip()
        if not file.hunks or file.hunks[-1].old or file.hunks[-1].new:
            file.hunks.append(Hunk())
        file.hunks[-1].anchors += [anchor] if anchor else []
        return True
    if not file.hunks:
        file.hunks.append(Hunk())
    hunk, sign, rest = file.hunks[-1], line[:1] or " ", line[1:]
    if line.strip() == "*** End of File":
        hunk.is_at_end = True
        return True
    hunk.old += [rest] if sign in " -" else []
    hunk.new += [rest] if sign in " +" else []
    return sign in " +-"


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> EditedText:
    """Return *text* with *hunks* applied. Raises InvalidInput for one that has no place, or several."""
    plain = text.replace("\r\n", "\n")
    has_end = plain.endswith("\n") or not plain
    whole = plain if has_end else f"{plain}\n"
    passages: list[Passage] = []
    forgiven: list[str] = []
    done = 0
    for number, hunk in enumerate(hunks, 1):
        try:
            passage, kind = find_hunk(whole, hunk, done)
        except InvalidInput as error:
            raise InvalidInput(f"hunk {number} of {len(hunks)}: {error.message}", hint=error.hint) from error
        done = passage.end
        passages.append(leave_out_context(whole, passage))
        forgiven += [kind] if kind else []
    if not has_end and passages and passages[-1].end == len(whole):
        # The last line has no end in the file: it keeps none.
        last = passages[-1]
        start, inserted = last.start, last.inserted.removesuffix("\n")
        if start == len(whole):
            start, inserted = start - 1, f"\n{inserted}"
        passages[-1] = Passage(start, len(plain), inserted)
    replaced = tuple(
        Replaced(whole.count("\n", 0, each.start) + 1, *(part.count("\n") for part in both))
        for each in passages
        for both in [(whole[each.start : each.end], each.inserted)]
    )
    edited = splice_passages(text, passages)
    if edited == text:
        raise InvalidInput("the patch changes nothing: the file is as it would become")
    return EditedText(edited, replaced, ", ".join(dict.fromkeys(forgiven)))


def find_hunk(text: str, hunk: Hunk, start: int) -> tuple[Passage, str]:
    """Return the passage of *text* from *start* on that *hunk* replaces, and the differences forgiven.

    Raises InvalidInput when there is none, or more than one.
    """
    for anchor in hunk.anchors:
        start = find_anchor(text, anchor, start)
    old, new = ("".join(f"{line}\n" for line in lines) for lines in (hunk.old, hunk.new))
    if not old:
        end = start if hunk.anchors and not hunk.is_at_end else len(text)
        return Passage(end, end, new), ""
    places = [(at, at + len(old), new) for at in find_lines(text, old, start)]
    kind = ""
    if not places and (drifted := find_drifted(text[start:], old, new)) is not None:
        kind = drifted.kind
        places = [
            (start + each.start, start + each.end, each.replacement)
            for each in drifted.found
            if each.replacement is not None and f"\n{text}"[start + each.start] == "\n"
        ]
    if hunk.is_at_end:
        places = [place for place in places if not text[place[1] :].strip()]
    if not places:
        line = next((line for line in hunk.old if line.strip()), "")
        below = f" below line {text.count(chr(10), 0, start)}" if start else ""
        message = f"its lines, from {line.strip()[:80]!r}, are not in the file{below}"
        raise InvalidInput(message, hint="read the file again and copy the lines")
    if len(places) > 1 and not hunk.anchors:
        lines = ", ".join(str(text.count("\n", 0, place[0]) + 1) for place in places[:5])
        hint = "give more lines around the change, or an @@ line above it"
        raise InvalidInput(f"its lines are there {len(places)} times, at lines {lines}", hint=hint)
    return Passage(*places[0]), kind


def leave_out_context(text: str, passage: Passage) -> Passage:
    """Return *passage* of *text* without the lines at both ends that stay as they are."""
    old = text[passage.start : passage.end].splitlines(keepends=True)
    new = passage.inserted.splitlines(keepends=True)
    start, end = passage.start, passage.end
    while old and new and old[0] == new[0]:
        start += len(old.pop(0))
        new.pop(0)
    while old and new and old[-1] == new[-1]:
        end -= len(old.pop())
        new.pop()
    return Passage(start, end, "".join(new))


def find_anchor(text: str, anchor: str, start: int) -> int:
    """Return the place below the next line that is *anchor* but for blanks. Raises InvalidInput for none."""
    position = start
    for line in text[start:].splitlines(keepends=True):
        position += len(line)
        if line.strip() == anchor:
            return position
    hint = "name a line of the file as it is, or leave it out"
    raise InvalidInput(f"the line {anchor[:80]!r} of its @@ is not there", hint=hint)


def find_lines(text: str, lines: str, start: int) -> Iterator[int]:
    """Yield the places from *start* on at which the whole *lines* stand."""
    at = text.find(lines, start)
    while at >= 0:
        if at == 0 or text[at - 1] == "\n":
            yield at
        at = text.find(lines, at + 1)


APPLY_PATCH = TypedTool(
    name="apply_patch",
    description=(
        "Apply a patch to files that were read before, all of it or nothing. Its lines: '*** Begin Patch'; "
        "for each file '*** Update File: PATH' (then perhaps '*** Move to: PATH'), '*** Add File: PATH' or "
        "'*** Delete File: PATH'; '*** End Patch'. An update has hunks: '@@' with perhaps a line that stands "
        "above, then lines with ' ' (stays), '-' (goes) or '+' (comes) before them, three around each "
        "change. All lines of a new file have '+'."
    ),
    kind="edit",
    effects=PATCHES_FILES,
    arguments=PatchArguments,
    describe=lambda arguments: f"Patch {', '.join(paths_of_patch(arguments.input)) or 'nothing'}",
    perform=apply_patch,
)
