"""The grep tool: lines that match, in files as they are now, unsaved buffers included.

The search itself runs in a child process, so that a pattern that never ends can be ended, and the daemon goes
on working meanwhile. Never changes a file.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct, field

from sidecar._internal.cancel import CancelToken
from sidecar._internal.env import copy_environment
from sidecar.capabilities.contract import Location, ToolContext, ToolReply
from sidecar.capabilities.listing import TreeWalk
from sidecar.capabilities.output import lines_that_fit
from sidecar.capabilities.paths import display_path, outermost_root, resolve_readable
from sidecar.capabilities.processes import ChildEnd, ChildSpec, run_child
from sidecar.capabilities.typed_tool import TypedTool, error_reply
from sidecar.text.calls import SEARCHES
from sidecar.workspace.globs import glob_matcher
from sidecar.workspace.ignore import rules_for

_COMMAND = (
    sys.executable,
    "-I",
    "-S",
    "-X",
    "utf8",
    "-W",
    "ignore",
    str(Path(__file__).with_name("search_worker.py")),
)
_TIMEOUT_S = 20
_ALARM_S = _TIMEOUT_S + 5
_STOP_AFTER_S = _TIMEOUT_S - 5
"""After so long a file is left at the end of a block, with what was found in it."""

_NOTES_CHARS = 600
_BATCH = 256
_SKIPPED = {
    "unreadable": "files could not be read",
    "long_lines": "lines searched only up to character 20000",
}


class GrepArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the grep tool."""

    pattern: Annotated[
        str, msgspec.Meta(min_length=1, description="A regular expression (Python's), matched line by line.")
    ]
    path: Annotated[str, msgspec.Meta(description="The file or folder to search.")] = "."
    glob: Annotated[
        str | None, msgspec.Meta(description="Only files that match, such as *.py or src/**/*.{ts,tsx}.")
    ] = None
    ignore_case: Annotated[bool, msgspec.Meta(description="Take capital and small letters for the same.")] = (
        False
    )
    context: Annotated[int, msgspec.Meta(ge=0, le=200, description="Lines to show around each match.")] = 0
    offset: Annotated[int, msgspec.Meta(ge=1, description="The line to begin at in a file, from 1.")] = 1
    max_results: Annotated[int, msgspec.Meta(ge=1, le=2000, description="Matching lines to show.")] = 200


async def search_lines(arguments: GrepArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Answer with the lines that match, found by a child process."""
    start = await resolve_readable(context, arguments.path, "grep")
    views = await context.workspace.open_views()
    texts = {str(view.path): view.text for view in views if view.unsaved}
    search = _Search(arguments, context, start, texts, cancel)
    output = bytearray()
    end = await run_child(
        ChildSpec(_COMMAND, context.cwd, copy_environment(), _TIMEOUT_S, search.write_input),
        on_output=output.extend,
        on_start=lambda pid: context.child_started(pid, f"grep {arguments.pattern[:60]}"),
        cancel=cancel,
    )
    search.is_over = True
    if end.reason == "cancelled":
        return error_reply("grep: cancelled")
    return await asyncio.to_thread(search.reply, bytes(output), end)


class _Search(Struct):
    """One search: its arguments, the files sent to the child in order, and a note if there were too many."""

    arguments: GrepArguments
    context: ToolContext
    start: Path
    texts: Mapping[str, str]
    cancel: CancelToken
    paths: list[str] = field(default_factory=list)
    capped_note: str | None = None
    is_over: bool = False

    async def write_input(self, write: Callable[[bytes], None]) -> None:
        """Send the job and then the files, as they are found."""
        job = {
            "pattern": self.arguments.pattern,
            "ignore_case": self.arguments.ignore_case,
            "n_context": self.arguments.context,
            "max_matches": self.arguments.max_results,
            "max_chars": self.context.max_output_chars,
            "first_line": self.arguments.offset,
            "alarm_s": _ALARM_S,
            "stop_after_s": _STOP_AFTER_S,
            "texts": self.texts,
            "decoder": find_decoder(),
        }

        def send() -> None:
            write(json.dumps(job).encode() + b"\0")
            files = self._files()
            while batch := list(islice(files, _BATCH)):
                self.paths += batch
                write(b"".join(os.fsencode(path) + b"\0" for path in batch))

        await asyncio.to_thread(send)

    def _files(self) -> Iterator[str]:
        """Yield the files to search, and after them the buffers below *start* that are no files yet."""
        if os.path.isfile(self.start) or str(self.start) in self.texts:
            yield str(self.start)
            return
        root = outermost_root(self.start, self.context)
        matches = glob_matcher(self.arguments.glob or "**")
        drafts = {path for path in self.texts if Path(path).is_relative_to(self.start)}
        tree = TreeWalk(self.start, root, lambda: self.is_over or self.cancel.cancelled)
        for relative, entry in tree:
            if entry.is_file(follow_symlinks=False) and matches(relative):
                drafts.discard(entry.path)
                yield entry.path
        self.capped_note = tree.note_of_cut() if tree.is_capped else None
        rules = rules_for(self.start, root)
        for path in map(Path, sorted(drafts)):
            if matches(path.relative_to(self.start).as_posix()) and not rules.is_ignored(path):
                yield str(path)

    def reply(self, output: bytes, end: ChildEnd) -> ToolReply:
        """Return the child's findings as lines. Its last value is the summary; a killed child sent none."""
        found = [json.loads(line) for line in output.split(b"\n")[:-1] if line.startswith(b"{")]
        summary = found.pop() if found and "n_files" in found[-1] else None
        if summary is None and end.reason == "exited":
            return error_reply(f"grep: the search failed (exit code {end.exit_code})", "try another pattern")
        lines = [
            line
            for file in found
            for line in format_matches(
                display_path(self.paths[file["index"]], self.context.cwd), file["lines"]
            )
        ]
        kept = lines_that_fit(lines, self.context.max_output_chars - _NOTES_CHARS)
        notes = [] if lines else [f"no matches in {len(self.paths)} files"]
        if summary is None:
            notes.append(f"[stopped after {_TIMEOUT_S} s: simplify the pattern or narrow the path]")
        else:
            notes += [f"[{summary['note']}]"] if summary["note"] else []
            notes += [f"[{n} {_SKIPPED[reason]}]" for reason, n in summary["skipped"].items() if n]
        if summary is not None and summary["stopped_at"] is not None and len(kept) == len(lines):
            at, name = (
                summary["stopped_at"],
                display_path(self.paths[summary["n_files"] - 1], self.context.cwd),
            )
            notes.append(
                f"[{name}: searched up to line {at}; for the rest search path={name}, offset={at + 1}]"
            )
        if len(kept) < len(lines) or (summary is not None and summary["is_full"]):
            notes.append("[cut: there may be more; narrow the pattern, glob or path, or raise max_results]")
        if self.capped_note:
            notes.append(self.capped_note)
        return ToolReply("\n".join(kept + notes), locations=(Location(self.start),))


@cache
def find_decoder() -> tuple[str, str] | None:
    """Return the module of the encodings and the folder of its library, None where they are not files."""
    found = [find_spec(name) for name in ("sidecar.workspace.encodings", "charset_normalizer")]
    places = [spec.origin for spec in found if spec is not None and spec.origin is not None]
    return (places[0], str(Path(places[1]).parents[1])) if len(places) == 2 else None


def format_matches(name: str, found: Sequence[tuple[int, bool, str]]) -> list[str]:
    """Return the lines of one file as ``path:line: text``, those around a match as ``path-line- text``.

    >>> format_matches("a.py", [(3, False, "x"), (4, True, "y"), (9, True, "z")])
    ['a.py-3- x', 'a.py:4: y', '--', 'a.py:9: z']
    """
    lines: list[str] = []
    has_context = not all(is_match for _, is_match, _ in found)
    previous = found[0][0]
    for number, is_match, text in found:
        if has_context and number > previous + 1:
            lines.append("--")
        sign = ":" if is_match else "-"
        lines.append(f"{name}{sign}{number}{sign} {text}")
        previous = number
    return lines


GREP = TypedTool(
    name="grep",
    description=(
        "Search files of any size for lines that match a regular expression. Ignored files are left out, "
        "unsaved buffers are searched as they stand in the editor. Results are path:line: text."
    ),
    kind="search",
    effects=SEARCHES,
    arguments=GrepArguments,
    describe=lambda arguments: f"Search for {arguments.pattern}",
    perform=search_lines,
)
