"""The read tool: a file as numbered lines, unsaved buffer first, and a record that the model has seen it.

Never changes a file; a part of a file is always marked as such.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import Location, ToolContext, ToolReply
from sidecar.capabilities.effects import READS_FILE
from sidecar.capabilities.output import NumberedLines, number_lines
from sidecar.capabilities.paths import display_path, resolve_readable, view_file
from sidecar.capabilities.typed_tool import TypedTool, error_reply
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.handles import hold_file
from sidecar.workspace.line_index import LineText

_DEFAULT_LIMIT = 2000
_MARKER_CHARS = 120
_UNSAVED = "[unsaved buffer]"
_IMAGE_MARKS = ((b"\x89PNG\r\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"), (b"RIFF", "webp"))


class ReadArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the read tool."""

    path: Annotated[str, msgspec.Meta(description="The file: absolute, or relative to the working folder.")]
    offset: Annotated[int, msgspec.Meta(ge=1, description="The first line to read, from 1.")] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, description="How many lines to read at most.")] = _DEFAULT_LIMIT


async def read_file(arguments: ReadArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Answer with a page of the file as numbered lines, and record those lines as read."""
    path = await resolve_readable(context, arguments.path, "read")
    name = display_path(path, context.cwd)
    try:
        view = await view_file(context, path)
    except FileAccessError as error:
        image = None
        if error.problem in ("binary", "tooLarge"):
            image = await asyncio.to_thread(describe_image, path)
        if image is None:
            raise
        return ToolReply(f"[{name} is {image}]", locations=(Location(path),))

    def number_page() -> tuple[NumberedLines, int]:
        text = LineText(view.text)
        lines = (line.rstrip("\r\n") for line in text.lines(arguments.offset - 1, arguments.limit))
        cap_chars = context.max_output_chars - _MARKER_CHARS
        return number_lines(lines, first=arguments.offset, cap_chars=cap_chars), text.n_lines

    page, n_lines = await asyncio.to_thread(number_page)
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


def describe_image(path: Path) -> str | None:
    """Return the format and size of the image *path* in words; None for anything else."""
    with hold_file(path) as (name, folder):
        descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0), dir_fd=folder)
    with open(descriptor, "rb") as file:
        head, n_bytes = file.read(12), os.fstat(descriptor).st_size
    kind = next((name for mark, name in _IMAGE_MARKS if head.startswith(mark)), None)
    if kind is None or (kind == "webp" and head[8:] != b"WEBP"):
        return None
    return f"an image ({kind}) of {n_bytes} bytes, not text"


READ = TypedTool(
    name="read",
    description=(
        "Read a text file. Lines come numbered; what the user has not saved yet is shown as it stands in the "
        "editor. Long files are cut with a marker that says how to read on. Read a file before changing it."
    ),
    kind="read",
    effects=READS_FILE,
    arguments=ReadArguments,
    describe=lambda arguments: f"Read {arguments.path}",
    perform=read_file,
)
