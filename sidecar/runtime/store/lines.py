"""One session file as lines: appended whole or not at all, read as far as they go.

Each line ends with a checksum of its content, except in files of earlier versions. An append is one write and
one fsync. A line that a crash cut off is moved aside by the next append, never by
a reader. The functions block; their callers use a worker thread. ``LineWriter`` writes off the event loop, in
order: lines that a full disk refused go first with the next write, so none is lost and none overtakes.
``SessionWriters`` has the writers of all sessions.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import stat
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from sidecar._internal.async_cancel import keep_until_done, wait_shielded
from sidecar._internal.errors import LeaseLostError
from sidecar._internal.state_folder import make_private_folder, sync_folder
from sidecar._internal.values import Value
from sidecar.runtime.store.errors import SessionLockedError, StoreUnavailable, TakenOverError

BLOCK_BYTES: Final = 1 << 20
"""The bytes of a file that are read at once.

Around each read a thread leaves the interpreter and enters it again, before the event loop has noticed, which
then waits for its turn anew.
"""

_BLOCK: Final = 65_536
_LONG: Final = 1_000_000
_BATCH: Final = '{"type":"batch","records":['
"""The characters from which on a batch is parsed in parts, and its beginning."""

_READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_N_SEAL: Final = len(b',"sum":"01234567"}')
_SEAL: Final = re.compile(rb',"sum":"([0-9a-f]{8})"}\Z')
_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)


class Line(Value):
    """One line that is not blank: its number from 1, its record, or None when it is not a JSON object.

    *is_torn*: it is the last one, has no end, and cannot be read. *is_sound*: its checksum matches; None for
    a line without one.
    """

    number: int
    record: dict[str, Any] | None
    is_torn: bool = False
    is_sound: bool | None = None


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of *path*; none when there is no such file. Other ``OSError`` get out."""
    try:
        file = os.fdopen(open_file(path), "rb", BLOCK_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return
    with file:
        for number, line in enumerate(file, start=1):
            raw = line.removesuffix(b"\n")
            if raw.strip():
                record = parse_line(raw)
                is_torn = record is None and not line.endswith(b"\n")
                has_checksum = record is not None and record.pop("sum", None) is not None
                yield Line(number, record, is_torn, is_sound(raw) if has_checksum else None)


def open_file(path: Path, flags: int = _READ_FLAGS) -> int:
    """Return the descriptor of *path*, opened with *flags*.

    Raises:
        OSError: it cannot be opened, or is something else than a file: a pipe would block for ever.
    """
    fd = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return fd


def seal(encoded: bytes) -> bytes:
    """Return *encoded*, a JSON object that is not empty, as a line that ends with its checksum.

    >>> seal(b'{"type":"head","leaf":null}')
    b'{"type":"head","leaf":null,"sum":"a6c8d7b3"}\\n'
    """
    return b'%b,"sum":"%08x"}\n' % (encoded[:-1], zlib.crc32(encoded))


def is_sound(raw: bytes) -> bool:
    """Whether *raw*, a line without its newline, ends with the checksum of its content."""
    found = _SEAL.search(raw[-_N_SEAL:])
    return found is not None and int(found[1], 16) == zlib.crc32(b"}", zlib.crc32(memoryview(raw)[:-_N_SEAL]))


def parse_line(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object of one line, or None."""
    try:
        if len(raw) > _LONG and raw.startswith(_BATCH.encode()):
            value = parse_batch(raw.decode("utf-8"))
        else:
            value = parse_json(raw)
    except (ValueError, IndexError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_json(raw: bytes) -> Any:
    """Return the value of *raw*, which may hold half characters, and numbers that only Python's parser knows.

    Raises:
        ValueError, RecursionError: it is not JSON, or is nested too deeply.
    """
    try:
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return json.loads(raw.decode("utf-8"))


def parse_batch(text: str) -> Any:
    """Return the batch that *text* holds, parsed record by record: other threads go on in between.

    Raises:
        ValueError, IndexError: it is not a batch as ``codec.encode_batch`` writes it.
    """
    decode, records, at = json.JSONDecoder().raw_decode, [], len(_BATCH) - 1
    while text[at] in "[,":
        record, at = decode(text, at + 1)
        records.append(record)
    if text[at] != "]":
        raise ValueError("the records have no end")
    return {**json.loads('{"type":"batch"' + text[at + 1 :]), "records": records}


def torn_path(path: Path) -> Path:
    """Return where lines go that a crash cut off."""
    return path.with_name(f"{path.name}.torn")


def append_lines(path: Path, data: bytes) -> None:
    """Append *data*, whole lines, and wait until it is on disk; make folder and file when they are missing.

    Raises:
        OSError: the file is as long as it was, as far as the disk lets it.
    """
    make_private_folder(path.parent)
    is_new = not path.exists()
    fd = open_file(path, _OPEN_FLAGS)
    try:
        size = mend_end(fd, path)
        try:
            _write_all(fd, data)
            os.fsync(fd)
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, size)
            raise
    finally:
        os.close(fd)
    if is_new:
        sync_folder(path.parent)


def mend_end(fd: int, path: Path) -> int:
    """Make the file end with a whole line, and return its size.

    A last line that is whole but for its newline gets one; any other is moved aside.
    """
    size = os.fstat(fd).st_size
    if size == 0 or _read_at(fd, size - 1, 1) == b"\n":
        return size
    start, tail = _last_line(fd, size)
    if parse_line(tail) is not None:
        _write_all(fd, b"\n")
        return size + 1
    aside = os.open(torn_path(path), _OPEN_FLAGS, 0o600)
    try:
        _write_all(aside, tail + b"\n")
    finally:
        os.close(aside)
    os.ftruncate(fd, start)
    return start


def _last_line(fd: int, size: int) -> tuple[int, bytes]:
    """Return where the last line starts, and the line."""
    start, tail = size, b""
    while start > 0 and b"\n" not in tail:
        n_bytes = min(_BLOCK, start)
        start -= n_bytes
        tail = _read_at(fd, start, n_bytes) + tail
    cut = tail.rfind(b"\n") + 1
    return start + cut, tail[cut:]


def _read_at(fd: int, offset: int, n_bytes: int) -> bytes:
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, n_bytes)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


Append: TypeAlias = Callable[[bytes], None]
"""Writes whole lines. Contract: blocks until they are on disk; all or, raising OSError, none of them.

It raises FileNotFoundError when an earlier call wrote a file that is gone; the next call begins a new one.
"""

InThread: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a function that blocks in a thread."""


def append_to(path: Path) -> Append:
    """Return the append to the file *path*."""
    was_there = False

    def append(data: bytes) -> None:
        nonlocal was_there
        is_gone, was_there = was_there and not path.exists(), False
        if is_gone:
            raise FileNotFoundError(errno.ENOENT, "the session file was removed")
        append_lines(path, data)
        was_there = True

    return append


def append_nowhere(data: bytes) -> None:
    """Keep nothing: the append of a session that is not to be stored."""


class LineWriter:
    """Writes the lines of one session.

    Attributes:
        waiting: the lines that are not on disk yet; they go with the next write.
        whole: returns a function that blocks and returns all lines of the session, to write a removed file
            again; None where they are not in memory.
    """

    def __init__(self, session_id: str, append: Append, in_thread: InThread = asyncio.to_thread) -> None:
        self.whole: Callable[[], Callable[[], bytes]] | None = None
        self._session_id = session_id
        self._append = append
        self._in_thread = in_thread
        self.waiting: list[bytes] = []
        self._lost_to: str | None = None
        self._turn = asyncio.Lock()
        self._writes: set[asyncio.Task[None]] = set()

    async def write(self, lines: Sequence[bytes] = ()) -> None:
        """Write the waiting lines, then *lines*, in one write; they are on disk when this returns.

        Cancelling the caller does not cancel the write.

        Raises:
            StoreUnavailable: the lines wait for the next write.
            LeaseLostError: another daemon has taken the session over; nothing is written any more.
        """
        self.waiting.extend(lines)
        await wait_shielded(keep_until_done(asyncio.ensure_future(self._drain()), self._writes))

    async def settle(self) -> None:
        """Wait for the running writes, then write the lines that still wait. Raises as :meth:`write`."""
        await asyncio.gather(*self._writes, return_exceptions=True)
        if self.waiting:
            await self.write()

    async def abandon(self) -> None:
        """Drop the waiting lines, and wait for the running writes."""
        self.waiting.clear()
        await asyncio.gather(*self._writes, return_exceptions=True)

    async def _drain(self) -> None:
        async with self._turn:
            if self._lost_to is not None:  # lines may have come while the write was refused
                self.waiting.clear()
                raise LeaseLostError(self._session_id, self._lost_to)
            batch = tuple(self.waiting)
            if not batch:
                return
            try:
                try:
                    await self._in_thread(lambda: self._append(b"".join(batch)))
                except FileNotFoundError:
                    if self.whole is None:
                        raise
                    encode = self.whole()
                    await self._in_thread(lambda: self._append(encode()))
            except TakenOverError as error:
                self.waiting.clear()  # they must not be merged into what another one writes
                self._lost_to = error.holder
                raise LeaseLostError(self._session_id, error.holder) from error
            except OSError as error:
                raise StoreUnavailable(self._session_id, error) from error
            del self.waiting[: len(batch)]


class Hold(Protocol):
    """The right to write one session, until it is released; a second release does nothing."""

    def release(self) -> None:
        """Let another holder have it."""
        ...


class SessionWriters:
    """The writers of a place, one a session; a closed session's stays while lines of it wait.

    Args:
        append_to: returns the append of a session.
        hold: takes the right to write a session.
        in_thread: runs an append.
    """

    def __init__(
        self,
        append_to: Callable[[str], Append],
        hold: Callable[[str], Awaitable[Hold]],
        in_thread: InThread = asyncio.to_thread,
    ) -> None:
        self._append_to = append_to
        self._hold = hold
        self._in_thread = in_thread
        self._writers: dict[str, LineWriter] = {}
        self._settling = asyncio.Lock()

    def of(self, session_id: str) -> LineWriter:
        """Return the writer of *session_id*."""
        if session_id not in self._writers:
            self._writers[session_id] = LineWriter(session_id, self._append_to(session_id), self._in_thread)
        return self._writers[session_id]

    def close(self, session_id: str) -> None:
        """Forget the writer of *session_id* unless lines wait."""
        writer = self._writers.get(session_id)
        if writer is not None:
            writer.whole = None
            if not writer.waiting:
                del self._writers[session_id]

    async def write_waiting(self, session_id: str) -> None:
        """Write the lines of *session_id* that wait. Raises StoreUnavailable."""
        writer = self._writers.get(session_id)
        if writer is not None and writer.waiting:
            await writer.settle()

    @property
    def are_waiting(self) -> bool:
        """Whether lines of any session wait for the next write."""
        return any(writer.waiting for writer in self._writers.values())

    async def write_all(self) -> None:
        """Write the waiting lines of every session, and keep them where that fails again."""
        for writer in tuple(self._writers.values()):
            if writer.waiting and writer.whole is not None:
                with suppress(LeaseLostError, StoreUnavailable):
                    await writer.write()
        await self.settle()

    async def settle(self) -> None:
        """Write the waiting lines of closed sessions, and keep them where that fails again."""
        async with self._settling:
            for session_id, writer in tuple(self._writers.items()):
                if writer.whole is None and writer.waiting:
                    with suppress(SessionLockedError, LeaseLostError, StoreUnavailable):
                        held = await self._hold(session_id)
                        try:
                            await writer.settle()
                        finally:
                            self.close(session_id)
                            held.release()

    async def abandon(self, session_id: str) -> None:
        """Drop the lines of *session_id* that wait, and its writer."""
        writer = self._writers.pop(session_id, None)
        if writer is not None:
            await writer.abandon()
