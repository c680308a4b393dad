"""Writes down what passes between the daemon and its clients: who said what kind of thing, and when.

It stands between the service and the faces, so that it sees the same messages whatever the face. What they
are about is redacted before it is written. Nothing waits for the disk; a trace that cannot be written ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sidecar._internal.errors import InvalidInput
from sidecar.service.redaction import redact

__all__ = ["Direction", "TraceLevel", "Tracer"]

TraceLevel: TypeAlias = Literal["off", "messages", "verbose"]
Direction: TypeAlias = Literal["in", "out"]

_log = logging.getLogger(__name__)


class Tracer:
    """The trace of one daemon: off until :meth:`start`. *folder* is where traces go that name no file."""

    def __init__(self, folder: Path, clock_ms: Callable[[], int]) -> None:
        self._folder = folder
        self._clock_ms = clock_ms
        self._level: TraceLevel = "off"
        self._file: _TraceFile | None = None

    @property
    def is_on(self) -> bool:
        """Whether anything is written down."""
        return self._level != "off"

    async def start(self, level: TraceLevel, to_file: str | None) -> Path | None:
        """Trace at *level* from now on, and return where to; None for ``off``. Raises InvalidInput."""
        old, self._file, self._level = self._file, None, "off"
        if old is not None:
            await old.drain()
        if level == "off":
            return None
        path = self._path(to_file)
        try:
            await asyncio.to_thread(_make_file, path)
        except OSError as error:
            raise InvalidInput(
                f"cannot write the trace: {error.strerror}", hint="name another file"
            ) from None
        self._file, self._level = _TraceFile(path, self._stop), level
        return path

    def note(self, client_id: str, direction: Direction, what: dict[str, Any], content: Any = None) -> None:
        """Write one message down: *what* is kept as it is, *content* redacted and only when verbose."""
        if self._file is None:
            return
        line = {"at": self._clock_ms(), "client": client_id, "dir": direction, **what}
        if self._level == "verbose" and content is not None:
            line["content"] = redact(content)
        self._file.add(json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str))

    async def drain(self) -> None:
        """Return once what was noted is in the file."""
        if self._file is not None:
            await self._file.drain()

    async def aclose(self) -> None:
        """Write what waits, and trace no more."""
        await self.start("off", None)

    def _path(self, to_file: str | None) -> Path:
        if to_file is None:
            return self._folder / f"trace-{self._clock_ms()}.jsonl"
        if not Path(to_file).is_absolute() or "\0" in to_file:
            raise InvalidInput(f"toFile {to_file!r} is no absolute path")
        return Path(to_file)

    def _stop(self, error: OSError) -> None:
        _log.warning("the trace ends, it cannot be written: %s", error.strerror)
        self._file, self._level = None, "off"


class _TraceFile:
    """A file that lines are added to, many to a write, in a thread."""

    def __init__(self, path: Path, on_error: Callable[[OSError], None]) -> None:
        self._path = path
        self._on_error = on_error
        self._waiting: list[str] = []
        self._writing: asyncio.Task[None] | None = None

    def add(self, line: str) -> None:
        self._waiting.append(line)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write())

    async def drain(self) -> None:
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while self._waiting:
            lines, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(_append, self._path, lines)
            except OSError as error:
                self._on_error(error)
                return


def _make_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    _append(path, ())


def _append(path: Path, lines: list[str] | tuple[()]) -> None:
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.writelines(f"{line}\n" for line in lines)
