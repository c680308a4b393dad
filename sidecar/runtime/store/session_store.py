"""The store of sessions: one file of lines a session, under one folder, and a lock file beside it.

Reading never changes a file and never waits for a writer. Everything that touches the disk runs in a worker
thread, but for taking a lock, which is a few system calls. The summary of a session is the newest ``meta``
record of its file, searched from the end in steps that grow: a session that writes its meta once a turn is
read 64 KiB deep at most.

Any id becomes a file name that is safe on every file system, and comes back. An id of letters, digits, dots,
dashes and underscores is its own name. Any other one begins with ``%`` and has its unsafe bytes as ``%XX``.
So no id leaves the folder or meets another one's file.

The system releases a lock when its holder dies, so a stale lock file means nothing. Readers take no lock.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar
from urllib.parse import unquote_to_bytes

from sidecar._internal.errors import InvalidInput
from sidecar._internal.file_lock import FileLock
from sidecar._internal.state_folder import make_private_folder
from sidecar.conversation import Entry, kind_by_role
from sidecar.llmgateway.contract import Amount, CostBudget
from sidecar.runtime.contract import Migrator, SessionNode
from sidecar.runtime.store.codec import RecogniseKind, encode_line, head_record, node_record, records_of
from sidecar.runtime.store.dag import Clock, SessionGraph, wall_clock_ms
from sidecar.runtime.store.errors import SessionLockedError, StoreUnavailable
from sidecar.runtime.store.journal import SessionJournal
from sidecar.runtime.store.lines import (
    Line,
    SessionWriters,
    append_to,
    is_sound,
    open_file,
    parse_line,
    read_lines,
    torn_path,
)
from sidecar.runtime.store.node_offsets import offsets_path, read_page
from sidecar.runtime.store.place import (
    DaySum,
    Describe,
    ListedSession,
    ListSessions,
    SessionQuery,
    StoredSummary,
)
from sidecar.runtime.store.reading import StoredSession, read_session
from sidecar.runtime.store.session_index import SETTLED_NS, FileState, SessionIndex, state_of

T = TypeVar("T", bound=ListedSession)

_SUFFIX: Final = ".jsonl"
_FIRST_STEP: Final = 65_536
_GROWTH: Final = 8
_KEPT_S: Final = 10.0
"""How long the newest session that was read is kept."""

_MAY_HOLD_META: Final = (b'{"type":"meta"', b'{"type":"batch"')
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|\Z)", re.I)
"""Names that Windows takes for a device, with any extension."""
_MAX_STEM_BYTES: Final = 240
_SPENDING: Final = "spending"
_SPENDING_BYTES: Final = 100


class SessionStore:
    """The sessions stored under *root*, which is made when something is first written.

    *migrators* run over every record on load, in order. *recognise* returns the kind of a turn that
    an earlier version stored without one.
    """

    def __init__(
        self,
        root: str | Path,
        migrators: Sequence[Migrator] = (),
        *,
        clock: Clock = wall_clock_ms,
        recognise: RecogniseKind = kind_by_role,
    ) -> None:
        self._root = Path(root)
        self._migrators = tuple(migrators)
        self._clock = clock
        self._recognise = recognise
        self._writers = SessionWriters(lambda session_id: append_to(self._path(session_id)), self.hold)
        self._indexes: list[SessionIndex[Any]] = []
        self._opened: tuple[tuple[str, FileState] | None, StoredSession] | None = None
        self._forgetting: asyncio.TimerHandle | None = None

    async def append_node(self, session_id: str, node: SessionNode) -> None:
        """Store *node* and make it the head: one write of two lines.

        Raises:
            StoreUnavailable: the lines wait and go with the next write to this session.
        """
        lines = (encode_line(node_record(node)), encode_line(head_record(node.id)))
        await self._writers.of(session_id).write(lines)

    async def load_session(self, session_id: str) -> SessionGraph:
        """Return the graph of *session_id*, empty when nothing is stored; see :meth:`open` for reports."""
        return (await asyncio.to_thread(self._read, session_id)).graph

    async def list_sessions(self) -> list[str]:
        """Return the ids of the stored sessions, sorted; none when there is no folder yet."""
        with suppress(FileNotFoundError, NotADirectoryError):
            paths = await asyncio.to_thread(lambda: [*self._root.iterdir()])
            return sorted(sid for path in paths if (sid := self._id_of(path)) is not None)
        return []

    async def open(self, session_id: str) -> StoredSession:
        """Return the graph of *session_id*, its other records, and the report on the file.

        Takes no lock and changes nothing. The newest one is kept for a few seconds, as long as its file stays
        as it is, so that its pages are quick; it is for reading only.

        Raises:
            StoreUnavailable: the file is there and cannot be read.
        """

        def read() -> tuple[tuple[str, FileState] | None, StoredSession]:
            known, state = self._opened, None
            with suppress(OSError):
                found = state_of(self._path(session_id).stat())
                # A file that was just written may change again without a new time.
                if time.time_ns() - max(found[:2]) > SETTLED_NS:
                    state = session_id, found
            if known is not None and known[0] == state and state is not None:
                return known
            return state, self._read(session_id)

        opened = await asyncio.to_thread(read)
        self._keep(opened)
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._forgetting = asyncio.get_running_loop().call_later(_KEPT_S, self._keep, None)
        return opened[1]

    def _keep(self, opened: tuple[tuple[str, FileState] | None, StoredSession] | None) -> None:
        held, self._opened = [self._opened], opened
        # The one before is freed in a thread, for it may be long.
        asyncio.get_running_loop().run_in_executor(None, held.clear)

    async def page(self, session_id: str, page: range, *, of_path: bool) -> Sequence[Entry]:
        """Return nodes of *session_id*, as :meth:`SessionPlace.page`; see :mod:`node_offsets`."""
        path, found = self._path(session_id), None
        if not self._migrators:
            with suppress(OSError):
                found = await asyncio.to_thread(
                    read_page, path, page, of_path=of_path, recognise=self._recognise
                )
        return (await self.open(session_id)).graph.page(page, of_path=of_path) if found is None else found

    def journal(self, session_id: str) -> SessionJournal:
        """Return the journal of *session_id*, stored or not. Its holder should hold :meth:`lock` too."""
        return SessionJournal(self._writers.of(session_id), lambda: self._read(session_id))

    def close(self, session_id: str) -> None:
        """Let go of the journal of *session_id*; lines that could not be written wait for the next one."""
        self._writers.close(session_id)

    async def write_waiting(self, session_id: str) -> None:
        """Write the lines that wait since *session_id* was closed. Raises StoreUnavailable."""
        await self._writers.write_waiting(session_id)

    async def settle(self) -> None:
        """Write the waiting lines of closed sessions, and keep them where that fails again."""
        await self._writers.settle()

    async def aclose(self) -> None:
        """Settle; there is nothing else to let go of."""
        await self.settle()

    async def wait_free(self, session_id: str) -> None:
        """Return: a lock is free at once."""

    async def hold(self, session_id: str) -> SessionLock:
        """Take the right to write *session_id*, as :meth:`lock`."""
        return self.lock(session_id)

    async def take_over(self, session_id: str) -> SessionLock:
        """Take the right to write *session_id*, as :meth:`lock`: a file has no holders on other machines."""
        return self.lock(session_id)

    def lock(self, session_id: str) -> SessionLock:
        """Take the right to write *session_id*; a dead process's is taken over.

        Raises:
            SessionLockedError: another holder has it.
            StoreUnavailable: the lock file cannot be made.
        """
        try:
            return SessionLock(self._path(session_id).with_suffix(".lock"), session_id)
        except OSError as error:
            raise StoreUnavailable(session_id, error) from error

    async def holders(self, session_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the other living processes that hold sessions."""

        def read() -> dict[str, int]:
            found: dict[str, int] = {}
            for session_id in session_ids:
                with suppress(OSError, ValueError):
                    found[session_id] = int(self._path(session_id).with_suffix(".lock").read_bytes())
            others = {sid: pid for sid, pid in found.items() if pid != os.getpid()}
            if others:
                import psutil  # not above: most lists name no session that is held

                def lives(pid: int) -> bool:
                    try:
                        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
                    except psutil.Error:
                        return False

                others = {sid: pid for sid, pid in others.items() if lives(pid)}
            return others

        return await asyncio.to_thread(read)

    async def exists(self, session_id: str) -> bool:
        """Whether anything is stored under *session_id*."""
        return await asyncio.to_thread(self._path(session_id).exists)

    async def delete(self, session_id: str) -> bool:
        """Remove *session_id* for good and say whether there was anything.

        Raises:
            SessionLockedError: another holder writes it.
            StoreUnavailable: it cannot be removed.
        """
        with self.lock(session_id):
            await self._writers.abandon(session_id)
            return await asyncio.to_thread(self._remove, session_id)

    async def summary(self, session_id: str) -> StoredSummary | None:
        """Return the newest meta record, age and size of *session_id*, or None when it cannot be read."""
        try:
            return await asyncio.to_thread(read_summary, self._path(session_id), session_id)
        except OSError:
            return None

    async def summaries(self) -> list[StoredSummary]:
        """Return the summaries of all sessions, the newest first; unreadable files are left out."""
        found = [await self.summary(session_id) for session_id in await self.list_sessions()]
        return sorted(filter(None, found), key=lambda each: each.modified_ms, reverse=True)

    def lister(self, kind: type[T], describe: Describe[T]) -> ListSessions[T]:
        """Return a function that lists sessions from an index; see :class:`SessionIndex`."""

        def read_line(name: str) -> T | None:
            session_id = self._id_of(Path(name))
            return None if session_id is None else describe(read_summary(self._root / name, session_id))

        index = SessionIndex(self._root, kind, _SUFFIX, read_line)
        self._indexes.append(index)

        async def list_sessions(query: SessionQuery) -> list[T]:
            return await asyncio.to_thread(index.read, query)

        return list_sessions

    def _path(self, session_id: str) -> Path:
        return self._root / f"{stem_of(session_id)}{_SUFFIX}"

    async def search(self, words: Sequence[str]) -> Set[str]:
        """Return the ids of the sessions with all *words* in them; files that cannot be read are left out."""
        wanted = [json.dumps(word, ensure_ascii=False)[1:-1].casefold() for word in words]

        session_ids = await self.list_sessions()

        def read() -> set[str]:
            found = set()
            for session_id in session_ids:
                with suppress(OSError), os.fdopen(open_file(self._path(session_id)), "rb") as file:
                    text = file.read().decode("utf-8", "replace").casefold()
                    if all(word in text for word in wanted):
                        found.add(session_id)
            return found

        return await asyncio.to_thread(read)

    async def read_raw(self, session_id: str) -> bytes:
        """Return the sound records of *session_id* as sealed lines, one a record.

        Raises:
            StoreUnavailable: the file is there and cannot be read.
        """

        def read() -> bytes:
            sound = (line.record for line in self._lines(session_id) if line.is_sound is not False)
            return b"".join(encode_line(each) for record in sound if record for each in records_of(record))

        return await asyncio.to_thread(read)

    async def write_raw(self, session_id: str, lines: bytes) -> None:
        """Append sealed *lines* to *session_id*. Raises StoreUnavailable."""
        await self._writers.of(session_id).write([lines])

    async def spend(self, day: str, amount: Amount, budget: CostBudget | None = None) -> DaySum:
        """Add *amount* to the sum of *day*, as :meth:`SessionPlace.spend`.

        The sum is one short line in a file of its own, changed in place under a lock.
        """
        try:
            return await asyncio.to_thread(spend_in, self._root / _SPENDING, day, amount, budget)
        except OSError as error:
            raise StoreUnavailable("", error) from error

    def _read(self, session_id: str) -> StoredSession:
        lines = self._lines(session_id)
        return read_session(lines, session_id, self._clock, self._migrators, self._recognise)

    def _lines(self, session_id: str) -> Iterator[Line]:
        try:
            yield from read_lines(self._path(session_id))
        except OSError as error:
            raise StoreUnavailable(session_id, error) from error

    def _id_of(self, path: Path) -> str | None:
        return session_id_of(path.stem) if path.suffix == _SUFFIX else None

    def _remove(self, session_id: str) -> bool:
        path = self._path(session_id)
        try:
            for each in (torn_path(path), offsets_path(path)):
                each.unlink(missing_ok=True)
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreUnavailable(session_id, error) from error
        for index in self._indexes:
            index.forget(path.name)
        return True


def spend_in(path: Path, day: str, amount: Amount, budget: CostBudget | None) -> DaySum:
    """Add *amount* to the sum of *day* in the file at *path*; a file of an earlier day begins anew.

    Blocks. A file that holds anything else counts as empty.
    """
    make_private_folder(path.parent)
    lock = FileLock(path)
    try:
        lock.take()
        spent = Amount()
        with suppress(ValueError):
            stored, usd, tokens = path.read_text("ascii", "replace").split()
            if stored >= day:  # the clock of another daemon may be ahead
                day, spent = stored, Amount(float(usd), int(tokens))
        if budget is not None and not budget.allows(spent, amount):
            return DaySum(spent, is_added=False)
        total = spent.plus(amount)
        if amount != Amount():
            with path.open("r+b") as file:
                line = f"{day} {total.usd!r} {total.tokens}"
                file.write(f"{line:<{_SPENDING_BYTES}}\n".encode())
        return DaySum(total)
    finally:
        lock.release()


def read_summary(path: Path, session_id: str) -> StoredSummary:
    """Return the summary of the file *path*. Raises OSError when it cannot be read."""
    with os.fdopen(open_file(path), "rb") as file:
        stat = os.fstat(file.fileno())
        step = _FIRST_STEP
        while True:
            start = max(0, stat.st_size - step)
            file.seek(start)
            meta = find_newest_meta(file.read(stat.st_size - start), is_whole=start == 0)
            if meta is not None or start == 0:
                return StoredSummary(session_id, meta, stat.st_mtime_ns // 1_000_000, stat.st_size)
            step *= _GROWTH


def find_newest_meta(data: bytes, *, is_whole: bool) -> Mapping[str, Any] | None:
    """Return the last meta record among the lines of *data*; its first line may lack the beginning."""
    lines = data.split(b"\n")
    for raw in reversed(lines if is_whole else lines[1:]):
        line = parse_line(raw) if raw.startswith(_MAY_HOLD_META) else None
        if line is None or ("sum" in line and not is_sound(raw)):
            continue
        found = [record for record in records_of(line) if record.get("type") == "meta"]
        if found:
            return {name: value for name, value in found[-1].items() if name != "sum"}
    return None


def stem_of(session_id: str) -> str:
    """Return the file name of *session_id*, without an extension.

    Raises:
        InvalidInput: the name would be longer than file systems allow.

    >>> stem_of("s-1"), stem_of("../escape"), stem_of("con")
    ('s-1', '%2E%2E%2Fescape', '%63on')
    """
    if _SAFE.match(session_id) and not _RESERVED.match(session_id) and not session_id.endswith("."):
        return session_id
    data = session_id.encode("utf-8", "surrogatepass")
    stem = "".join([f"%{byte:02X}" if must_escape(byte, i) else chr(byte) for i, byte in enumerate(data)])
    if len(stem) > _MAX_STEM_BYTES:
        raise InvalidInput(f"a session id of {len(session_id)} characters is too long", hint="use 1 to 128")
    return stem or "%"


def session_id_of(stem: str) -> str | None:
    """Return the id that has the file name *stem*, or None for a name that no id has.

    >>> session_id_of("%2E%2E%2Fescape"), session_id_of("not one of ours")
    ('../escape', None)
    """
    try:
        session_id = "" if stem == "%" else unquote_to_bytes(stem).decode("utf-8", "surrogatepass")
        return session_id if stem_of(session_id) == stem else None
    except (UnicodeError, InvalidInput):
        return None


def must_escape(byte: int, index: int) -> bool:
    """Whether *byte* must be escaped: the first one always, so that the name cannot be some id's own."""
    char = chr(byte)
    return index == 0 or char == "." or not (char.isascii() and (char.isalnum() or char in "-_"))


class SessionLock:
    """The right to write one session, until :meth:`release` or the end of this process."""

    def __init__(self, path: Path, session_id: str) -> None:
        """Take the lock.

        Raises:
            SessionLockedError: another holder has it, in this process or another one.
            OSError: the lock file cannot be created.
        """
        self._path = path
        self._lock: FileLock | None = take_lock(path, session_id)

    def release(self) -> None:
        """Release the lock and remove its file; a second call does nothing."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        if sys.platform != "win32":
            with suppress(OSError):
                self._path.unlink()
        lock.release()

    def __enter__(self) -> SessionLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def take_lock(path: Path, session_id: str) -> FileLock:
    make_private_folder(path.parent)
    while True:
        lock = FileLock(path)
        try:
            if not lock.try_take():
                raise SessionLockedError(session_id, lock.read_holder())
            if lock.is_current():
                lock.write_holder()
                return lock
        except BaseException:
            lock.release()
            raise
        # The previous holder removed the file between our open and our lock, which then guards nothing.
        lock.release()
