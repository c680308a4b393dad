r"""Patches in the format that GPT models are trained on: parsed, and applied to texts.

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
Lines that only come are put below their ``@@`` line, or at the end of the file. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.passage_match import find_drifted
from sidecar.capabilities.text_edit import EditedText, Passage, Replaced, splice_passages

PatchAction: TypeAlias = Literal["add", "update", "delete"]

_HEADING: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_RANGE: Final = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
"""The place of a hunk in other formats of patches; the numbers are not used."""


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
