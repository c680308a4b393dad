"""The search of the grep tool, as a program of its own: a pattern that never ends can be killed with it.

It is started by path with a bare interpreter, so it imports nothing of this project, and little besides: half
of a short search is starting up. It reads from standard input the job as JSON and then the paths to search,
each ended by NUL; it writes one line of JSON for each file with matches and a last one with the number of
skipped files. It reads regular files only, and never writes any.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Iterator

_SNIFFED = 8192
_CHUNK = 262_144
_LINE_CAP = 20_000
_BEFORE_MATCH = 100
_READ_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
)
_MARKS_16 = (b"\xff\xfe", b"\xfe\xff")
_MARK_8 = b"\xef\xbb\xbf"
_TOKEN = re.compile(
    r"""(?sx)
    (?P<char> [A-Za-z0-9_ ,:;<>=!@#%&~"'/`-] | \\[.,:;<>=!@#%&~"'/`()\[\]{}*+?|^$\\-] ) (?P<weak> [*?] )?
    | (?P<other> \\. | \[\^?\]?(?:\\.|[^\]])*\] | . )
    """
)
_UNCLEAR = re.compile(r"[|{]|\\[xuUN0-9]|\(\?")


class Job:
    """The pattern to search for, and the bounds.

    *texts* are the buffers that stand for files, by path. *decoder* is the module that knows the encodings of
    older files, and the folder of the library that it uses, both loaded for the first such file.
    """

    def __init__(
        self,
        pattern: str,
        *,
        ignore_case: bool = False,
        n_context: int = 0,
        max_matches: int = 200,
        max_chars: int = 100_000,
        size_cap: int = 10_000_000,
        line_chars: int = 300,
        alarm_s: int = 0,
        texts: dict[str, str] | None = None,
        decoder: tuple[str, str] | None = None,
    ) -> None:
        self.pattern = pattern
        self.ignore_case = ignore_case
        self.n_context = n_context
        self.max_matches = max_matches
        self.max_chars = max_chars
        self.size_cap = size_cap
        self.line_chars = line_chars
        self.alarm_s = alarm_s
        self.texts = texts or {}
        self.decoder = decoder


class Search:
    """One search over many files, with counts of matches and of skipped files."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.n_matches = 0
        self.n_chars = 0
        self.n_files = 0
        self.skipped = {"large": 0, "unreadable": 0, "long_lines": 0}
        self.note: str | None = None
        flags = re.IGNORECASE if job.ignore_case else 0
        try:
            self._find = re.compile(job.pattern, flags).search
        except (re.error, OverflowError, RecursionError) as error:
            self.note = f"the pattern is not a valid regular expression ({error}); searched as plain text"
            self._find = re.compile(re.escape(job.pattern), flags).search
        literal = job.pattern if self.note else find_required_literal(job.pattern)
        self._may_hold = make_prefilter(literal, ignore_case=job.ignore_case)
        self._is_plain = literal.isascii()
        self._decode: Callable[[bytes], tuple[str, str] | None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether enough was found."""
        return self.n_matches >= self.job.max_matches or self.n_chars >= self.job.max_chars

    def lines_of(self, path: str) -> list[tuple[int, bool, str]]:
        """Return the lines of *path* to show: number from 1, whether it matches, text; none for no match."""
        self.n_files += 1
        buffered = self.job.texts.get(path)
        raw = None if buffered is None else buffered.encode("utf-8", "replace")
        try:
            raw = read_regular_file(path, self.job.size_cap) if raw is None else raw
        except OSError:
            self.skipped["unreadable"] += 1
            return []
        if raw is None:
            self.skipped["large"] += 1
            return []
        if raw.startswith(_MARKS_16):
            raw = raw.decode("utf-16", "replace").encode("utf-8", "replace")
        if not raw or b"\0" in raw[:_SNIFFED]:
            return []
        may_hold = self._may_hold(raw)
        # ASCII has the same bytes in all encodings that are known here; other letters may have others.
        if not may_hold and self._is_plain:
            return []
        text, is_utf8 = self.decode(raw.removeprefix(_MARK_8))
        if not may_hold and is_utf8:
            return []
        # An empty rest after the last line end is not a line.
        lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
        starts: dict[int, int] = {}
        for index, line in enumerate(lines):
            if match := self._find(line[:_LINE_CAP]):
                starts[index] = match.start()
            self.skipped["long_lines"] += len(line) > _LINE_CAP
        matches = list(starts)[: self.job.max_matches - self.n_matches]
        self.n_matches += len(matches)
        found = set(matches)
        around = self.job.n_context
        wanted = {near for index in matches for near in range(index - around, index + around + 1)}
        shown = sorted(wanted.intersection(range(len(lines))))
        cap = self.job.line_chars
        self.n_chars += sum(min(len(lines[index]), cap) for index in shown)
        return [
            (index + 1, index in found, cut_around(lines[index], starts.get(index, 0), cap))
            for index in shown
        ]

    def decode(self, raw: bytes) -> tuple[str, bool]:
        """Return the text of *raw*, as the read tool would show it, and whether it is UTF-8."""
        try:
            return raw.decode("utf-8"), True
        except UnicodeDecodeError:
            if self._decode is None and self.job.decoder is not None:
                self._decode = load_decoder(*self.job.decoder)
            found = self._decode(raw) if self._decode is not None else None
            return (raw.decode("utf-8", "replace") if found is None else found[0]), False


def load_decoder(module: str, library: str) -> Callable[[bytes], tuple[str, str] | None]:
    """Return ``decode_text`` of the file *module*, which may import from the folder *library*."""
    from importlib.util import module_from_spec, spec_from_file_location  # needed for old files alone

    sys.path.append(library)
    spec = spec_from_file_location("encodings_of_files", module)
    assert spec is not None
    assert spec.loader is not None
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    decode: Callable[[bytes], tuple[str, str] | None] = loaded.decode_text
    return decode


def find_required_literal(pattern: str) -> str:
    r"""Return the longest text that every match of *pattern* must hold, or "" where that is unclear.

    >>> [find_required_literal(each) for each in (r"def\s+load_(\w+)", "a|b", "colou?r")]
    ['load_', '', 'colo']
    """
    if _UNCLEAR.search(pattern):
        return ""
    runs, run, depth = [""], "", 0
    for token in _TOKEN.finditer(pattern):
        char, weak, other = token["char"], token["weak"], token["other"]
        depth += (other == "(") - (other == ")")
        if char and not weak and depth == 0:
            run += char[-1]
            continue
        runs.append(run)
        run = ""
    return max([*runs, run], key=len)


def make_prefilter(literal: str, *, ignore_case: bool) -> Callable[[bytes], bool]:
    """Return a quick test for *literal* in a file's bytes: False is certain, after True the lines decide."""
    needle = literal.encode("utf-8", "replace")
    if not needle or (ignore_case and not literal.isascii()):
        return lambda raw: True
    if not ignore_case:
        return lambda raw: needle in raw
    lower = needle.lower()
    # Beyond ASCII there are letters that fold to these, such as the Kelvin sign to k.
    return lambda raw: not raw.isascii() or lower in raw.lower()


def read_regular_file(path: str, size_cap: int) -> bytes | None:
    """Return the bytes of *path*, None for more than *size_cap*. Raises OSError for anything but a file."""
    descriptor = os.open(path, _READ_FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        raw = bytearray()
        is_large = status.st_size > size_cap
        while not is_large and (chunk := os.read(descriptor, _CHUNK)):
            raw += chunk
            is_large = len(raw) > size_cap
        return None if is_large else bytes(raw)
    finally:
        os.close(descriptor)


def cut_around(line: str, at: int, cap: int) -> str:
    """Return *line*, or *cap* characters of it around the index *at* of a match, and marks of the cut."""
    if len(line) <= cap:
        return line
    start = max(0, at - _BEFORE_MATCH)
    return f"{'...' * (start > 0)}{line[start : start + cap]} [cut: line of {len(line)} characters]"


def read_records(descriptor: int) -> Iterator[bytes]:
    """Yield each record of *descriptor*, which ends with NUL, as soon as it is complete."""
    rest = b""
    while chunk := os.read(descriptor, _CHUNK):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole


def main() -> None:
    """Run the job on standard input."""
    records = read_records(0)
    job = Job(**json.loads(next(records)))
    if job.alarm_s and hasattr(signal, "alarm"):
        # Should the daemon be gone that would kill us, the pattern still does not run for ever.
        signal.alarm(job.alarm_s)
    search = Search(job)
    for index, path in enumerate(records):
        lines = search.lines_of(os.fsdecode(path))
        if lines:
            _put({"index": index, "lines": lines})
        if search.is_full:
            break
    _put(
        {"note": search.note, "n_files": search.n_files, "skipped": search.skipped, "is_full": search.is_full}
    )


def _put(value: dict[str, object]) -> None:
    sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
