"""The read tool: a file as numbered lines, unsaved buffer first, and a record that the model has seen it.

Images are shown to models that see, documents and notebooks by page and cell. Never changes a file; a part of
a file is always marked as such.

Of a text that is too large to be held, a range of lines is read: memory is bounded by a block of the file,
not by its size. The lines in front of the range are counted and not kept; a gigabyte takes a second or two. A
line has the same number here and in the grep tool, because both divide files with the same functions.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, tee
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.capabilities.contract import Location, ToolContext, ToolReply
from sidecar.capabilities.file_formats import (
    Pages,
    is_pdf,
    load_image,
    look_at_image,
    read_notebook,
    read_pdf,
)
from sidecar.capabilities.listing import LsArguments, list_tree
from sidecar.capabilities.output import LINE_CAP, NumberedLines, number_lines
from sidecar.capabilities.paths import display_path, view_readable
from sidecar.capabilities.search_worker import count_lines, skip_mark, split_blocks
from sidecar.capabilities.typed_tool import TypedTool, error_reply
from sidecar.text.calls import READS_FILE
from sidecar.workspace.contract import FileAccessError, FileView
from sidecar.workspace.encodings import decode_text
from sidecar.workspace.files import open_regular
from sidecar.workspace.line_index import LineText

_DEFAULT_LIMIT = 2000
_MARKER_CHARS = 120
_SHORT_CHARS = 16_384
"""The lines of a text up to this size are numbered in less time than a thread takes to begin."""

_UNSAVED = "[unsaved buffer]"
_LARGE_FILE_S = 20
"""So long the lines of a file that is too large to be held are looked for."""

_BLOCK_BYTES = 1 << 20
_SHOWN_OF_CUT = LINE_CAP - 100
"""Of a line that is longer than a block so many characters are shown, with room for the mark of the cut."""


class ReadArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the read tool."""

    path: Annotated[str, msgspec.Meta(description="The file: absolute, or relative to the working folder.")]
    offset: Annotated[int, msgspec.Meta(ge=1, description="The first line, page or cell, from 1.")] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, description="How many of them to read at most.")] = (
        _DEFAULT_LIMIT
    )
    raw: Annotated[bool, msgspec.Meta(description="Show a notebook as its text, to edit it.")] = False


async def read_file(arguments: ReadArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Answer with the file in the form that fits it."""
    path, view = await view_readable(context, arguments.path, "read")
    name = display_path(path, context.cwd)
    if path.suffix.lower() == ".pdf" and await asyncio.to_thread(is_pdf, path):
        pages = await asyncio.to_thread(
            read_pdf,
            path,
            first=arguments.offset,
            limit=arguments.limit,
            cap_chars=context.max_output_chars,
            is_cancelled=lambda: cancel.cancelled,
        )
        return show_pages(name, path, "page", pages, context.max_output_chars)
    if isinstance(view, FileAccessError):
        if view.problem == "isDirectory":
            return await list_tree(LsArguments(path=arguments.path), context, cancel)
        if view.problem not in ("binary", "tooLarge"):
            raise view
        other = await asyncio.to_thread(read_other, arguments, path, name, context, cancel)
        if other is None and view.problem == "tooLarge":
            message = f"cannot read {path} as text: it does not begin with text"
            raise FileAccessError("binary", message, hint="look at it with a tool for its format") from view
        if other is None:
            raise view
        return other
    if path.suffix.lower() == ".ipynb" and not arguments.raw and view.text:
        cells = await asyncio.to_thread(
            read_notebook, view.text, first=arguments.offset, limit=arguments.limit
        )
        return show_pages(name, path, "cell", cells, context.max_output_chars)
    return await read_lines(arguments, view, name, context)


def read_other(
    arguments: ReadArguments, path: Path, name: str, context: ToolContext, cancel: CancelToken
) -> ToolReply | None:
    """Return the reply for a file that is no text, or too large to be held; None for an unknown format."""
    place = (Location(path),)
    image = look_at_image(path)
    if image is not None:
        shown = load_image(path, image) if context.sees_images else "this model sees no images"
        if isinstance(shown, str):
            reason = f"; {shown}" if context.sees_images else ""
            return ToolReply(f"[{name} is {image.describe()}{reason}]", locations=place)
        return ToolReply(f"[{name} is {image.describe()}, shown below]", locations=place, images=(shown,))
    ends_at = time.monotonic() + _LARGE_FILE_S

    def is_over() -> bool:
        return cancel.cancelled or time.monotonic() > ends_at

    with open_regular(path, follow_links=False) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        cap_chars = context.max_output_chars - 3 * _MARKER_CHARS
        found = read_range(file, arguments.offset, arguments.limit, cap_chars=cap_chars, is_over=is_over)
    if found is None:
        return None
    if not found.text:
        if not found.ends:
            problem = f"read: line {found.last} of {name} is as far as {_LARGE_FILE_S} s of reading go"
            return error_reply(problem, "search it with grep from an offset, or use a command")
        problem = f"read: {name} has no line {arguments.offset}, it has {found.last}"
        return error_reply(problem, "read with a smaller offset")
    encoding = "" if found.codec.startswith("utf-8") else f", decoded as {found.codec}"
    note = f"lines {arguments.offset}-{found.last} of a file of {n_bytes} bytes{encoding}"
    rest = "the file ends here" if found.ends else f"read with offset={found.last + 1} for more"
    return ToolReply(f"{found.text}\n[{note}, too large to be edited here; {rest}]", locations=place)


def show_pages(name: str, path: Path, unit: str, pages: Pages, cap_chars: int) -> ToolReply:
    """Return the reply with pages or cells, each under its number, as many as fit."""
    if not pages.texts:
        problem = f"read: {name} has no {unit} {pages.first}, it has {pages.n_all}"
        return error_reply(problem, "read with a smaller offset")
    parts: list[str] = []
    left = cap_chars - _MARKER_CHARS
    for number, text in enumerate(pages.texts, pages.first):
        part = f"[{unit} {number}]\n{text or '[no text]'}"
        if len(part) > left and parts:
            break
        parts.append(part if len(part) <= left else f"{part[:left]} [cut: {len(text)} characters]")
        left -= len(part) + 1
    last = pages.first - 1 + len(parts)
    if last < pages.n_all:
        parts.append(
            f"[cut: {unit}s {pages.first}-{last} of {pages.n_all}; read with offset={last + 1} for more]"
        )
    return ToolReply("\n".join(parts), locations=(Location(path),))


async def read_lines(arguments: ReadArguments, view: FileView, name: str, context: ToolContext) -> ToolReply:
    """Answer with a page of the file as numbered lines, and record those lines as read."""

    def number_page() -> tuple[NumberedLines, int]:
        text = LineText(view.text)
        lines = (line.rstrip("\r\n") for line in text.lines(arguments.offset - 1, arguments.limit))
        cap_chars = context.max_output_chars - _MARKER_CHARS
        return number_lines(lines, first=arguments.offset, cap_chars=cap_chars), text.n_lines

    is_short = len(view.text) <= _SHORT_CHARS
    page, n_lines = number_page() if is_short else await asyncio.to_thread(number_page)
    if page.n_lines == 0 and view.text:
        return error_reply(
            f"read: {name} has no line {arguments.offset}, it has {n_lines}", "read with a smaller offset"
        )
    first = arguments.offset if view.text else 1
    last = first - 1 + page.n_lines
    is_cut = last < n_lines
    # Exactly the lines of the page count as read.
    context.reads.record(
        view, call_id=context.call_id, first_line=first, line_count=page.n_lines if is_cut else None
    )
    # The marker does not name a version: a client without shared buffers has none.
    parts = [_UNSAVED] if view.unsaved else []
    if not view.codec.startswith("utf-8"):
        parts.append(f"[decoded as {view.codec}; an edit keeps that encoding]")
    parts.append(page.text if view.text else "[empty file]")
    if is_cut:
        parts.append(f"[cut: lines {first}-{last} of {n_lines}; read with offset={last + 1} for more]")
    return ToolReply("\n".join(parts), locations=(Location(view.path, first),))


class LineRange(Value, kw_only=True):
    """Numbered lines of a file.

    Attributes:
        text: the lines with their numbers; empty for a range that was not reached.
        last: the number of the last line in *text*, or of the last line that was reached.
        ends: whether the file ends there.
        codec: how the bytes became text.
    """

    text: str
    last: int
    ends: bool
    codec: str = "utf-8"


def read_range(
    file: BinaryIO, first: int, limit: int, *, cap_chars: int, is_over: Callable[[], bool]
) -> LineRange | None:
    """Return a range of the lines of *file*, None for a file that is empty or not text.

    Args:
        file: the opened file, read from where it stands.
        first: the number of the first line, from 1.
        limit: the most lines to return.
        cap_chars: the most characters to return, but for one line at least.
        is_over: whether to stop; asked before each block.
    """
    chunks = iter(lambda: b"" if is_over() else file.read(_BLOCK_BYTES), b"")
    n_before, blocks = 0, split_blocks(skip_mark(chunks), _BLOCK_BYTES)
    for block in blocks:
        n_lines = count_lines(block[0])
        if n_before + n_lines >= first:
            break
        n_before += n_lines
    else:
        return LineRange(text="", last=n_before, ends=not is_over()) if n_before else None
    start = first - 1 - n_before
    lines, rest = tee(islice(lines_of(chain([block], blocks)), start, None))
    page = number_lines(islice(lines, limit), first=first, cap_chars=cap_chars)
    ends = next(islice(rest, page.n_lines, None), None) is None and not is_over()
    codec = (decode_text(block[0]) or ("", "utf-8"))[1]
    return LineRange(text=page.text, last=first - 1 + page.n_lines, ends=ends, codec=codec)


def lines_of(blocks: Iterable[tuple[bytes, bool]]) -> Iterator[str]:
    """Yield the lines of *blocks* without their ends; a line that is not whole is cut in sight."""
    for raw, is_whole in blocks:
        decoded = decode_text(raw)
        text = raw.decode("utf-8", "replace") if decoded is None else decoded[0]
        *lines, newest = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
        yield from lines
        yield newest if is_whole else f"{newest[:_SHOWN_OF_CUT]} [cut: more than {len(newest)} characters]"


READ = TypedTool(
    name="read",
    description=(
        "Read a file of any size: text as numbered lines, as it stands in the editor where the user has not "
        "saved it yet, PDF documents by page, notebooks by cell, images where the model sees them. Long "
        "files are cut with a marker that says how to read on. Read a file before changing it."
    ),
    kind="read",
    effects=READS_FILE,
    arguments=ReadArguments,
    describe=lambda arguments: f"Read {arguments.path}",
    perform=read_file,
)
