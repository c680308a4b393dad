"""The output of tools in bounds, with a marker at every cut; the other words of a tool are its own.

Of a command the model gets the beginning and the end, and a long output goes to a file as a whole. The file
lies in a folder of the session in the state directory, has a bound, and is removed with the session; of many
files the oldest go. Codes for colours and cursors are taken out of both.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

from sidecar._internal.state_folder import make_private_folder
from sidecar._internal.values import Value

LINE_CAP = 2000
"""Characters of one line that are shown."""

_GUTTER = 7

_MOST_FILE_BYTES: Final = 10_000_000
_MOST_FILES: Final = 20
_NOTE_CHARS: Final = 400
_ESCAPES: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""The codes by which a command colours its output or moves the cursor."""


class NumberedLines(Value):
    """Numbered lines as one text, and their number."""

    text: str
    n_lines: int


def number_lines(lines: Iterable[str], *, first: int, cap_chars: int) -> NumberedLines:
    r"""Return *lines* (without their ends) numbered from *first*, as many as fit *cap_chars*, one at least.

    >>> number_lines(["a", "b"], first=9, cap_chars=100)
    NumberedLines(text='     9\ta\n    10\tb', n_lines=2)
    """
    shown: list[str] = []
    left = cap_chars
    for number, line in enumerate(lines, first):
        body = cut_line(line)
        left -= len(body) + _GUTTER + 1
        if left < 0 and shown:
            break
        shown.append(f"{number:>6}\t{body}")
    return NumberedLines("\n".join(shown), len(shown))


def lines_that_fit(lines: Iterable[str], cap_chars: int) -> list[str]:
    """Return the first of *lines* that fit *cap_chars* together, each with its end.

    >>> lines_that_fit(["a", "bb", "c"], 6)
    ['a', 'bb']
    """
    kept: list[str] = []
    for line in lines:
        cap_chars -= len(line) + 1
        if cap_chars < 0:
            break
        kept.append(line)
    return kept


def cut_line(line: str, cap: int = LINE_CAP) -> str:
    """Return *line*, or its first *cap* characters and a marker.

    >>> cut_line("abcdef", 4)
    'abcd [cut: 4 of 6 characters]'
    """
    return line if len(line) <= cap else f"{line[:cap]} [cut: {cap} of {len(line)} characters]"


class HeadTail:
    """The beginning and the end of a stream of bytes of any length, in bounded memory."""

    def __init__(self, cap_bytes: int) -> None:
        cap_bytes = max(0, cap_bytes)
        self._head_cap = cap_bytes // 2
        self._tail_cap = cap_bytes - self._head_cap
        self._head = bytearray()
        self._tail = bytearray()
        self._n_dropped = 0

    def add(self, data: bytes) -> None:
        """Append *data*."""
        room = self._head_cap - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_cap:
            self._drop_middle()

    def text(self) -> str:
        """Return the kept bytes as text, with a marker where some are missing."""
        self._drop_middle()
        if not self._n_dropped:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        head, tail = self._head.decode("utf-8", "replace"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[cut: {self._n_dropped} bytes of output not shown here]\n{tail}"

    def _drop_middle(self) -> None:
        excess = max(0, len(self._tail) - self._tail_cap)
        del self._tail[:excess]
        self._n_dropped += excess


def output_folder(home: Path, session_id: str) -> Path:
    """Return the folder for the long outputs of a session in the state directory *home*."""
    return home / "output" / quote(session_id, safe="")


def remove_outputs(home: Path, session_id: str) -> None:
    """Remove the long outputs of a session."""
    shutil.rmtree(output_folder(home, session_id), ignore_errors=True)


class CommandOutput:
    """The output of one command, in bounded memory.

    Args:
        cap_chars: the length of :meth:`text`.
        folder: the folder for a file with all of it, None for no file.
        name: the name of the file; it is made safe.
    """

    def __init__(self, cap_chars: int, folder: Path | None, name: str) -> None:
        self._shown = HeadTail(cap_chars - _NOTE_CHARS)
        self._cap_bytes = max(0, cap_chars - _NOTE_CHARS)
        self._first = bytearray()
        self._path = None if folder is None else folder / f"{quote(name, safe='')[:100]}.txt"
        self._file: BinaryIO | None = None
        self.n_bytes = 0

    def add(self, data: bytes) -> None:
        """Append *data*."""
        self._shown.add(data)
        self.n_bytes += len(data)
        if self._path is None:
            return
        if self._file is None:
            self._first += data
            if self.n_bytes <= self._cap_bytes:
                return
            try:
                make_room_for(self._path)
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
                self._file = os.fdopen(os.open(self._path, flags, 0o600), "wb")
            except OSError:  # a full disk, perhaps: the model has both ends of the output
                self._path = None
                return
            data, self._first = bytes(self._first), bytearray()
        with suppress(OSError):
            self._file.write(data[: max(0, _MOST_FILE_BYTES - self._file.tell())])

    def close(self) -> None:
        """Finish the file; nothing may be added afterwards. Works on the disk: call it in a worker thread."""
        if self._file is None or self._path is None:
            return
        try:
            self._file.close()
            raw = self._path.read_bytes()
            if b"\x1b" in raw:
                self._path.write_bytes(strip_codes(raw))
        except OSError:
            self._path = None

    def text(self) -> str:
        """Return the output for a model, with the name of the file."""
        text = strip_codes(self._shown.text().encode()).decode()
        separator = "" if not text or text.endswith("\n") else "\n"
        note = self.describe_file()
        return f"{text}{separator}{note}\n" if note else text

    def describe_file(self) -> str:
        """Return the line that names the file; empty where there is none."""
        if self._file is None or self._path is None:
            return ""
        what = (
            "all of it is" if self.n_bytes <= _MOST_FILE_BYTES else f"the first {_MOST_FILE_BYTES} bytes are"
        )
        return f"[{self.n_bytes} bytes of output; {what} in {self._path}; read a part of that file]"


def strip_codes(raw: bytes) -> bytes:
    """Return *raw* without codes for colours and cursors."""
    return _ESCAPES.sub(b"", raw)


def make_room_for(path: Path) -> None:
    """Make the folder of the new file *path*, and remove the oldest files of too many. Raises OSError."""
    make_private_folder(path.parent)
    files = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime_ns)
    for each in files[: max(0, len(files) + 1 - _MOST_FILES)]:
        each.unlink(missing_ok=True)
