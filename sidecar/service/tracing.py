"""Record the messages that pass between the daemon and its clients, without their content.

A trace stands between the service and the front ends, so that it records the same messages for either
protocol. Names, numbers, ids, kinds and paths are kept; text of users, models and files becomes its length.
So the shape of a conversation can be shown, and played again, without its words. Nothing waits for the disk,
and a trace that cannot be written ends.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar._internal.state_folder import make_private_folder
from sidecar._internal.surrogates import has_halves
from sidecar.conductor.contract import (
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
)
from sidecar.conductor.events import Event
from sidecar.conductor.record.log import EventLog
from sidecar.protocol.codec import event_to_wire, to_wire
from sidecar.service.contract import Answer, ClientSink

TraceLevel: TypeAlias = Literal["off", "messages", "verbose"]
Direction: TypeAlias = Literal["in", "out"]
FileNumbers: TypeAlias = tuple[int, int, int]
"""The device, the number and the size of a file, by which it is known again under its name."""

_log = logging.getLogger(__name__)

# fmt: off
_KEPT_NAMES: Final = frozenset((
    "afterHead", "asOfNode", "atNode", "backend", "beforeHead", "category", "cause", "client",
    "configId", "currentValue", "cursor", "cwd", "disposition", "dropped", "engine", "engines",
    "expectHead", "face", "format", "globs", "hash", "head", "keptFrom", "kind", "leaves",
    "level", "method", "missing", "mode", "model", "next", "nextCursor", "nodeIds", "nowHash",
    "optionId", "outcome", "parent", "part", "path", "paths", "phase", "priority", "queue",
    "readAtNode", "readHash", "reason", "rehydrated", "removed", "replay", "role", "roots",
    "severity", "sid", "source", "status", "stopReason", "summarySource", "toNode", "tool",
    "trigger", "type", "undone", "uri", "uris", "value", "view", "whenBusy",
))
# fmt: on
"""Names of fields whose strings do not reveal what a conversation is about."""

_CONTENT_NAMES: Final = frozenset(
    ("input", "output", "content", "blocks", "diffs", "edit", "info", "env", "headers", "args")
)
"""Names of fields that hold somebody's text, or secrets; only a ``type`` is kept below them."""


def redact(value: Any, name: str = "", *, is_content: bool = False) -> Any:
    """Return a JSON value with its text replaced by the length of that text.

    Args:
        value: the value.
        name: the field that the value was found under.
        is_content: whether *value* lies in a field that holds content, so that no string of it is kept.

    >>> redact({"sid": "s1", "input": [{"type": "text", "text": "my secret plan"}]})
    {'sid': 's1', 'input': [{'type': 'text', 'text': '<14 chars>'}]}
    """
    match value:
        case str():
            is_kept = name in _KEPT_NAMES or name.endswith(("Id", "Ids", "Token"))
            return value if name == "type" or (is_kept and not is_content) else f"<{len(value)} chars>"
        case Mapping():
            below = is_content or name in _CONTENT_NAMES
            return {key: redact(item, key, is_content=below) for key, item in value.items()}
        case list() | tuple():
            return [redact(item, name, is_content=is_content) for item in value]
    return value


class Tracer:
    """The trace of one daemon: off until :meth:`start`. Traces that name no file are written to *folder*.

    Attributes:
        is_on: whether anything is recorded.
    """

    def __init__(self, folder: Path, clock_ms: Callable[[], int]) -> None:
        self._folder = folder
        self._clock_ms = clock_ms
        self._level: TraceLevel = "off"
        self.is_on = False
        self._file: _TraceFile | None = None
        self._own: dict[Path, _TraceFile] = {}

    async def start(self, level: TraceLevel, to_file: str | None) -> Path | None:
        """Trace at *level* from now on, and return the file; None for ``off``.

        The file is new, or one that this daemon has traced to before. A trace that runs goes on until the new
        one begins.

        Raises:
            InvalidInput: *to_file* is not absolute, is another file, or cannot be written.
        """
        file = None
        if level != "off":
            is_odd = to_file is not None and ("\0" in to_file or has_halves(to_file))
            if to_file is not None and (is_odd or not Path(to_file).is_absolute()):
                raise InvalidInput(f"toFile {to_file!r} is not an absolute path")
            path = Path(to_file or self._folder / f"trace-{self._clock_ms()}.jsonl")
            file = self._own.get(path) or _TraceFile(path, self._stop)
            try:
                if file is not self._file:
                    await asyncio.to_thread(file.open)
            except OSError as error:
                hint = "name a file that does not exist, in a folder that can be written"
                raise InvalidInput(f"cannot write the trace to {path}: {error.strerror}", hint=hint) from None
            self._own[path] = file
        old = self._file
        self._switch(file, level)
        if old is not None and old is not file:
            await old.drain()
        return None if file is None else file.path

    def record(
        self, client_id: str, direction: Direction, message: dict[str, Any], content: Any = None
    ) -> None:
        """Record one message.

        Args:
            client_id: the client that sent or receives it.
            direction: ``in`` for a message to the daemon.
            message: the fields that are kept as they are.
            content: the rest of the message; kept at level ``verbose`` only, and redacted.
        """
        if self._file is None:
            return
        line = {"at": self._clock_ms(), "client": client_id, "dir": direction, **message}
        if self._level == "verbose" and content is not None:
            line["content"] = redact(content)
        self._file.add(json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str))

    async def drain(self) -> None:
        """Return once everything recorded so far is in the file."""
        if self._file is not None:
            await self._file.drain()

    async def aclose(self) -> None:
        """Write the rest, and end the trace."""
        await self.start("off", None)

    def _stop(self, error: OSError) -> None:
        _log.warning("the trace ends because it cannot be written: %s", error.strerror)
        self._switch(None, "off")

    def _switch(self, file: _TraceFile | None, level: TraceLevel) -> None:
        self._file, self._level, self.is_on = file, level, level != "off"


class _TraceFile:
    """A file that a thread appends lines to, many in one write."""

    def __init__(self, path: Path, on_error: Callable[[OSError], None]) -> None:
        self.path = path
        self._numbers: FileNumbers | None = None
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
                await asyncio.to_thread(self._append, lines)
            except OSError as error:
                self._on_error(error)
                return

    def open(self) -> None:
        """Make the file and its folder, or find it as it was left. Raises OSError."""
        make_private_folder(self.path.parent)
        self._append(())

    def _append(self, lines: Sequence[str]) -> None:
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        is_new = self._numbers is None
        descriptor = os.open(self.path, flags | os.O_CREAT | os.O_EXCL if is_new else flags, 0o600)
        with open(descriptor, "a", encoding="utf-8", errors="replace") as file:
            if not is_new and self._numbers != _numbers_of(descriptor):
                raise FileExistsError(errno.EEXIST, "another file has its name")
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            self._numbers = _numbers_of(descriptor)


def _numbers_of(descriptor: int) -> FileNumbers:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size


class TracedSink:
    """A :class:`~sidecar.service.contract.ClientSink` that records the messages it passes on to *sink*."""

    def __init__(self, sink: ClientSink, tracer: Tracer, client_id: str) -> None:
        self.face = sink.face
        self.client_name = sink.client_name
        self.follows_children = sink.follows_children
        self.load = sink.load
        # Progress and parts of results repeat what the events show, and are not recorded.
        self.progress = sink.progress
        self.send_part = sink.send_part
        self._sink = sink
        self._tracer = tracer
        self._client_id = client_id
        self._n_calls = 0
        self._followed: dict[str, Callable[[], None]] = {}

    def follow(self, log: EventLog, after_seq: int, parent: str | None = None) -> None:
        """Send the events of *log*, and record each when it happens."""
        self._sink.follow(log, after_seq, parent)
        self._stop_recording(log.sid)
        self._followed[log.sid] = log.follow(self._record_newest)

    def unfollow(self, sid: str) -> None:
        """Stop sending the events of *sid*."""
        self._sink.unfollow(sid)
        self._stop_recording(sid)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send one notification."""
        self._tracer.record(self._client_id, "out", {"method": method}, params)
        self._sink.notify(method, params)

    def replay(self, sid: str, events: Iterator[Event]) -> None:
        """Send the past of a session, and record each event when it is made."""

        def record() -> Iterator[Event]:
            for event in events:
                if self._tracer.is_on:
                    self._record_event(event)
                yield event

        self._sink.replay(sid, record())

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user."""
        message = {"method": "sidecar/permission/request", "id": request.permission_id}
        self._tracer.record(self._client_id, "out", message, to_wire(request))
        answer = await self._sink.request_permission(request)
        self._tracer.record(self._client_id, "in", {**message, "answer": True}, to_wire(answer))
        return answer

    async def elicit(self, form: Elicitation) -> ElicitationAnswer | None:
        """Show a form to the user."""
        message = {"method": "sidecar/elicit", "id": form.elicitation_id}
        self._tracer.record(self._client_id, "out", message, to_wire(form))
        answer = await self._sink.elicit(form)
        if answer is not None:
            self._tracer.record(self._client_id, "in", {**message, "answer": True}, to_wire(answer))
        return answer

    def trace_call(
        self, method: str, params: Any, answer: Callable[[], Answer | Awaitable[Answer]]
    ) -> Answer | Awaitable[Answer]:
        """Call *answer*, and record the request and its answer or error.

        Args:
            method: the method of the request.
            params: its params, as they came.
            answer: answers the request, now or later; its errors are raised here.
        """
        self._n_calls += 1
        call = {"method": method, "id": self._n_calls}
        self._tracer.record(self._client_id, "in", call, params)
        try:
            outcome = answer()
        except Exception as error:
            self._record_error(call, error)
            raise
        if isinstance(outcome, Answer):
            self._record_answer(call, outcome)
            return outcome

        async def trace_later() -> Answer:
            try:
                answer = await outcome
            except BaseException as error:
                self._record_error(call, error)
                raise
            self._record_answer(call, answer)
            return answer

        return trace_later()

    def close(self) -> None:
        """Stop recording events."""
        for sid in tuple(self._followed):
            self._stop_recording(sid)

    def _stop_recording(self, sid: str) -> None:
        if (stop := self._followed.pop(sid, None)) is not None:
            stop()

    def _record_newest(self, log: EventLog) -> None:
        if self._tracer.is_on and log.newest is not None:
            self._record_event(log.newest)

    def _record_event(self, event: Event) -> None:
        message = {"method": "sidecar/event", "kind": event.kind, "seq": event.seq}
        self._tracer.record(self._client_id, "out", message, event_to_wire(event))

    def _record_answer(self, call: dict[str, Any], answer: Answer) -> None:
        self._tracer.record(self._client_id, "out", {**call, "answer": True}, answer.data)

    def _record_error(self, call: dict[str, Any], error: BaseException) -> None:
        kind = error.kind if isinstance(error, SidecarError) else "internal"
        if isinstance(error, asyncio.CancelledError):
            kind = "cancelled"
        self._tracer.record(self._client_id, "out", {**call, "error": kind})
