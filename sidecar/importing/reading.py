"""Reads one session from its file: opens it, finds its format, and builds the conversation. It blocks.

JSON lines and text are read line by line, so the text of a large file is never held whole. A document is.

Both may be damaged; nothing is ever added to them. A line may hold several objects, where two writers met or
a newline was lost. The last line may be cut. A document that is cut keeps the messages before the cut.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import msgspec

from sidecar.importing.builder import ImportBuilder
from sidecar.importing.content import Json, Note
from sidecar.importing.contract import ImportedSession, ImportFailedError
from sidecar.importing.graph import build_session
from sidecar.importing.opencode import is_in_store, load_document
from sidecar.importing.registry import FORMATS, ImportFormat, recognise_format

OnProgress: TypeAlias = Callable[[int, int], object]
"""Called with the bytes that were read so far and with all bytes, now and then.

Contract: returns at once; an exception from it ends the reading.
"""

MAX_FILE_BYTES: Final = 1 << 30
MAX_DOCUMENT_BYTES: Final = 256 << 20
_MAX_LINE_BYTES: Final = 64 << 20
_PEEKED_BYTES: Final = 256 << 10
_NAMES: Final = {"api_conversation_history.json": "cline", ".aider.chat.history.md": "aider"}
"""Files whose name says the format."""

_PEEKED_RECORDS: Final = 200
"""How many records may pass before one has a known format."""

_DECODER: Final = json.JSONDecoder()
_MESSAGES: Final = re.compile(r'"(?:messages|history)"\s*:\s*\[')
_GAP: Final = re.compile(r"[\s,]*")


def read_session(
    path: Path,
    *,
    session_id: str = "",
    format_name: str = "",
    cwd: str = "",
    on_progress: OnProgress | None = None,
) -> ImportedSession:
    """Return the session in *path*.

    Args:
        path: the file.
        session_id: the agent's own id of the session, needed only for a database.
        format_name: the format; empty to recognise it.
        cwd: the folder that the session worked in, for a file that does not name it.
        on_progress: see :data:`OnProgress`.

    Raises:
        ImportFailedError: there is no such file, it is too large, it holds no conversation, or its format is
            not known.
    """
    try:
        found_stat = path.stat()
        if not stat.S_ISREG(found_stat.st_mode):  # a pipe or a device might never end
            raise ImportFailedError(f"{path.name} is not a file", hint="name the file of a session")
        if found_stat.st_size > MAX_FILE_BYTES and not is_in_store(path):
            size = f"{found_stat.st_size:,}"
            raise ImportFailedError(f"{path.name} has {size} bytes; the most is {MAX_FILE_BYTES:,}")
        builder, found = read_into_builder(path, session_id, format_name, on_progress)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ImportFailedError(f"{path.name} cannot be read: {reason}", hint="check the path") from None
    except (ValueError, sqlite3.Error) as error:
        raise ImportFailedError(f"{path.name} cannot be read: {error}", hint="the file is damaged") from None
    builder.cwd = builder.cwd or cwd
    session = build_session(builder, found.name)
    if session.leaf is None:
        raise ImportFailedError(f"{path.name} holds no messages", hint="there is nothing to import")
    return session


def peek(path: Path, format_name: str) -> ImportBuilder | None:
    """Return the beginning of the session in *path*, None where it cannot be read."""
    builder = ImportBuilder()
    try:
        with path.open("rb") as file:
            if path.suffix == ".json":
                records: Iterable[Json] = _document(file, builder.note)
            else:
                data = file.read(_PEEKED_BYTES).splitlines(keepends=True)
                records = _text(data) if FORMATS[format_name].is_text else parse_lines(data, builder.note)
        FORMATS[format_name].read(records, builder)
    except (OSError, ValueError):
        return None
    return builder


def read_into_builder(
    path: Path, session_id: str, format_name: str, on_progress: OnProgress | None
) -> tuple[ImportBuilder, ImportFormat]:
    builder = ImportBuilder(path.stat().st_mtime_ns // 1_000_000)
    if is_in_store(path):
        found = FORMATS["opencode"]
        found.read([load_document(path, session_id)], builder)
        return builder, found
    with path.open("rb") as file:
        records, is_text = open_records(file, path, builder.note, on_progress)
        head = list(islice(records, _PEEKED_RECORDS))
        known = FORMATS.get(format_name or _NAMES.get(path.name, "")) or recognise_format(head)
        if known is None:
            agents = ", ".join(each.agent for each in FORMATS.values())
            raise ImportFailedError(f"{path.name} is not a session of a known agent", hint=f"known: {agents}")
        if known.is_text != is_text:
            raise ValueError(f"its form is not that of {known.agent}")
        known.read(chain(head, records), builder)
    if path.name.startswith(".aider."):
        builder.cwd = builder.cwd or str(path.parent)
    return builder, known


def open_records(
    file: BinaryIO, path: Path, note: Note, on_progress: OnProgress | None
) -> tuple[Iterator[Json], bool]:
    """Return the records of *file*, and whether they are lines of text."""
    first = file.readline(_MAX_LINE_BYTES)
    lines = chain([first], read_lines(file, note, on_progress))
    start = first.lstrip()[:1]
    if path.suffix == ".md" or start not in (b"{", b"["):
        return iter(_text(lines)), True
    try:
        parse_json(first)
    except ValueError:
        if path.suffix != ".jsonl" and (path.suffix == ".json" or first.strip() in (b"{", b"[")):
            file.seek(0)
            return iter(_document(file, note)), False
    return parse_lines(lines, note), False


def read_lines(file: BinaryIO, note: Note, on_progress: OnProgress | None) -> Iterator[bytes]:
    """Yield the rest of *file* by lines; of one that is too long nothing is kept."""
    n_lines = 0
    while line := file.readline(_MAX_LINE_BYTES):
        n_lines += 1
        if on_progress is not None and n_lines % 100 == 0:
            on_progress(file.tell(), os.fstat(file.fileno()).st_size)
        if len(line) < _MAX_LINE_BYTES or line.endswith(b"\n"):
            yield line
            continue
        note("corruptLine")
        while (rest := file.readline(_MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
            pass


def _text(lines: Iterable[bytes]) -> Iterator[str]:
    return (line.decode("utf-8", "replace").rstrip("\r\n") for line in lines)


def _document(file: BinaryIO, note: Note) -> list[Json]:
    data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"one document of more than {MAX_DOCUMENT_BYTES:,} bytes is too large")
    return [parse_document(data.decode("utf-8", "replace"), note)]


def parse_json(data: bytes | str) -> Json:
    """Return a JSON value. Raises ValueError for anything else, and for nesting that is too deep."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        pass  # it refuses NaN and lone surrogates, which some agents write
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_lines(lines: Iterable[bytes], note: Note) -> Iterator[Json]:
    """Yield the values of *lines*, and note every damage.

    >>> notes = []
    >>> list(parse_lines([b'{"a": 1}{"a": 2}\\n', b'{x}\\n', b'{"a": 3'], notes.append)), notes
    ([{'a': 1}, {'a': 2}], ['joinedLines', 'corruptLine', 'cutFile'])
    """
    for line in lines:
        if not line.strip():
            continue
        try:
            found, is_whole = [parse_json(line)], True
        except ValueError:
            text = line.decode("utf-8", "replace")
            found, end = parse_values(text, 0)
            is_whole = end == len(text)
            if len(found) > 1 or (found and not is_whole):
                note("joinedLines")
        yield from found
        if not is_whole:
            note("corruptLine" if line.endswith(b"\n") else "cutFile")


def parse_values(text: str, start: int) -> tuple[list[Json], int]:
    """Return the JSON objects that follow each other from *start* on, and the end of the last one."""
    found: list[Json] = []
    while True:
        gap = _GAP.match(text, start)
        start = gap.end() if gap else start
        if not text.startswith("{", start):
            return found, start
        try:
            value, start = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            return found, start
        found.append(value)


def parse_document(text: str, note: Note) -> Json:
    """Return the document *text*, or the messages before its cut. Raises ValueError where there are none."""
    try:
        return parse_json(text)
    except ValueError:
        start = _MESSAGES.search(text)
        place = start.end() if start else text.find("[") + 1
        messages, _ = parse_values(text, place)
        if not messages:
            raise
    note("cutFile")
    head: dict[str, Json] = {}
    if start:
        try:
            head = json.loads(f"{text[: start.start()].rstrip().rstrip(',')}}}")
        except (ValueError, RecursionError):
            note("corruptLine")
    return {**head, "messages": messages}
