"""Parts of the demonstration: its files, which are put back as they were, and the checks of its claims."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from sidecar._internal.values import Value
from sidecar.commands.terminal import Screen
from sidecar.workspace.ignore import walk

_LEAST_BYTES: Final = 400
_SMALL_BYTES: Final = 1_500
_MOST_BYTES: Final = 9_000
_LOOK_AT: Final = 5_000
_WORDS: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{5,}")
_PROSE: Final = frozenset({".md", ".rst", ".txt"})


class DemoFiles(Value, kw_only=True):
    """The files of a folder that the demonstration uses.

    Attributes:
        folder: their common folder.
        on_disk: changed on disk. It and *in_buffer* are small, so that a compaction can restore them and
            still save tokens.
        in_buffer: changed only in an unsaved buffer.
        other: a larger file.
        more: files that fill a window, the large ones first.
    """

    folder: Path
    on_disk: Path
    in_buffer: Path
    other: Path
    more: tuple[Path, ...]

    def name(self, file: Path) -> str:
        """Return *file* as the user would type it, always recognisable as a path."""
        path = file.relative_to(self.folder).as_posix()
        return path if "/" in path else f"./{path}"


def choose_files(folder: Path) -> DemoFiles | None:
    """Return the files to use in *folder*, None when fewer than three have a suitable size."""
    entries = walk(folder, folder, cap=_LOOK_AT)
    suitable = [path for entry in entries if is_suitable(path := Path(entry.path))]
    if len(suitable) < 3:
        return None
    small = _sort_by_size(suitable, _SMALL_BYTES)
    # Prose first for the change on disk: nothing rebuilds itself because of it.
    on_disk = next((path for path in small if path.suffix.lower() in _PROSE), small[0])
    rest = [path for path in small if path != on_disk]
    in_buffer = next((path for path in rest if path.suffix.lower() not in _PROSE), rest[0])
    other = next(path for path in _sort_by_size(rest, _MOST_BYTES) if path != in_buffer)
    more = tuple(path for path in reversed(_sort_by_size(rest, 0)) if path not in (in_buffer, other))
    return DemoFiles(folder=folder, on_disk=on_disk, in_buffer=in_buffer, other=other, more=more)


def _sort_by_size(paths: list[Path], size_bytes: int) -> list[Path]:
    """Return *paths*, the nearest to a size first."""
    return sorted(paths, key=lambda path: (abs(path.stat().st_size - size_bytes), str(path)))


@contextmanager
def add_on_disk(file: Path, line: str) -> Iterator[None]:
    """Add *line* in front of *file* in this block; afterwards its bytes and times are as before."""
    before, times = file.read_bytes(), file.stat()
    try:
        _overwrite(file, line.encode() + b"\n" + before)
        yield
    finally:
        _overwrite(file, before)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _overwrite(file: Path, content: bytes) -> None:
    """Give *file* another content. It is empty at no moment: a watcher may look at any."""
    with file.open("r+b", buffering=0) as opened:
        opened.write(content)
        opened.truncate()


def content_hash(text: str) -> str:
    """Return the daemon's hash of *text*."""
    return "sha256:" + sha256(text.encode()).hexdigest()


def is_suitable(path: Path) -> bool:
    """Whether *path* is a text of the size that the demo needs."""
    try:
        if not path.is_file() or not _LEAST_BYTES <= path.stat().st_size <= _MOST_BYTES:
            return False
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return False
    return "\0" not in text and bool(_WORDS.search(text))


_CITED: Final = re.compile(r"`(?P<path>[^`\n]+):(?P<line>\d+)` (?P<text>[^\n]*)")
_CODE: Final = re.compile(r"(`+) ?(.*?) ?\1")


class Checks(Struct):
    """The claims that were checked, each shown with its outcome."""

    screen: Screen
    n_true: int = 0
    false_claims: list[str] = field(default_factory=list)

    def check(self, claim: str, is_true: bool, found: str = "") -> None:
        """Show whether *claim* is true.

        Args:
            claim: one sentence.
            is_true: the outcome.
            found: a description of the finding, shown when the claim is false.
        """
        if is_true:
            self.n_true += 1
            self.screen.line(f"✓ {claim}", "green")
        else:
            self.false_claims.append(claim)
            self.screen.line(f"✗ {claim}; found {found or 'something else'}", "bold red")

    def close(self, seconds: float) -> int:
        """Show the outcome of all and return the exit code."""
        if self.false_claims:
            self.screen.line(f"\nNot true: {'; '.join(self.false_claims)}.", "bold red")
            return 1
        self.screen.line(f"\nAll {self.n_true} checks held, in {seconds:.1f} s.", "bold green")
        return 0


def count_citations(answer: str, folder: Path, buffers: Mapping[Path, str]) -> tuple[int, int]:
    """Return the number of cited places in *answer*, and the number of wrong ones.

    A place is wrong when the cited line does not contain the quoted text.

    Args:
        answer: the text of the model.
        folder: the base of the cited paths.
        buffers: the texts of open files that differ from the disk.
    """
    found = list(_CITED.finditer(answer))
    n_wrong = 0
    for match in found:
        file, number = folder / match["path"], int(match["line"])
        text = buffers.get(file)
        if text is None:
            text = file.read_bytes().decode("utf-8", "replace") if file.is_file() else ""
        lines = text.split("\n")
        code = _CODE.fullmatch(match["text"])
        quoted = code[2] if code else match["text"]
        start = " ".join(quoted.rstrip("…. ").split())  # a long line is cut, with dots
        if not (0 < number <= len(lines) and start in " ".join(lines[number - 1].split())):
            n_wrong += 1
    return len(found), n_wrong


def pairs_are_whole(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether every tool result in *nodes* follows its call."""
    calls: set[str] = set()
    for node in nodes:
        for block in node["blocks"]:
            if block["kind"] == "tool_call":
                calls.add(block["id"])
            elif block["kind"] == "tool_result" and block["callId"] not in calls:
                return False
    return True
