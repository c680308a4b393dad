"""The offsets of the nodes in a session file, so that a page of a long session costs its own nodes.

To show a page, every turn of the file would be made, for a second and a half where there are 100,000. A scan
makes none: it takes the id and the parent of each node, and the place of its record, in a fifth of that time.
The offsets that it finds are kept in a file beside the session's, together with the state in which that was.
While it stays so, a page is a walk through the offsets, and a few reads.

The session file alone is believed. Offsets exist only for a file in which nothing is to be mended: each line
has its checksum, each parent stands before its node, and the head is one of them. A last line that a crash
cut off is left out, as every reader does. Any other file is read as a whole. So is one with a record that is
not the node on which the next follows. Offsets that are damaged, absent, or of another state are made again.

Example: a scan of ``a``, ``b`` under ``a``, ``c`` under ``a``, and the head ``c`` finds the parents
``-1, 0, 0`` and the head 2. The path to the head is 0 and 2, and a page of it reads two records.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec

from sidecar._internal.state_folder import read_state_file, replace_state_file
from sidecar.conversation import Entry
from sidecar.runtime.store.codec import RecogniseKind, entry_from_record, node_from_record
from sidecar.runtime.store.lines import BLOCK_BYTES, is_sound, open_file, parse_line
from sidecar.runtime.store.reading import Tip
from sidecar.runtime.store.session_index import SETTLED_NS, FileState, state_of

_FORMAT: Final = 1
_LEAST_BYTES: Final = 1 << 20
_MAX_BYTES: Final = 1 << 28
"""The smallest session file whose offsets are kept, and the largest file of offsets."""

_LONGEST_BATCH: Final = 1 << 26
"""A batch is split in one step, for which other threads wait: half a millisecond for each megabyte."""

_BATCH: Final = b'{"type":"batch","records":['


class _Node(msgspec.Struct):
    id: str
    parent: str | None


class _NodeLine(msgspec.Struct):
    node: _Node


class _HeadLine(msgspec.Struct):
    leaf: str | None


class _BatchLine(msgspec.Struct):
    records: list[msgspec.Raw]


_NODE: Final = msgspec.json.Decoder(_NodeLine)
_HEAD: Final = msgspec.json.Decoder(_HeadLine)
_RECORDS: Final = msgspec.json.Decoder(_BatchLine)


class _Kept(msgspec.Struct, array_like=True):
    """Offsets as they are stored: *numbers* are the starts, then the lengths, then the parents."""

    format: Literal[1]
    byte_order: str
    state: FileState
    head: int
    numbers: bytes


_KEPT: Final = msgspec.msgpack.Decoder(_Kept)


class NodeOffsets(msgspec.Struct):
    """The nodes of a file in the order they were added, each a number from 0.

    *starts* and *lengths* are the bytes of their records, *parents* their parents, -1 for none, as is *head*.
    """

    starts: array[int]
    lengths: array[int]
    parents: array[int]
    head: int

    def path(self) -> array[int]:
        """Return the nodes from the root to the head."""
        path, at = array("q"), self.head
        while at >= 0:
            path.append(at)
            at = self.parents[at]
        path.reverse()
        return path


def read_page(path: Path, page: range, *, of_path: bool, recognise: RecogniseKind) -> list[Entry] | None:
    """Return the entries of *page*, or None where the whole file must be read.

    Args:
        path: the session file.
        page: numbers of nodes, from 0.
        of_path: whether the numbers are those on the path to the head, and not those in the file.
        recognise: returns the kind of a turn that was stored without one.

    Raises:
        OSError: the file cannot be read.
    """
    with os.fdopen(open_file(path), "rb", BLOCK_BYTES) as file:
        offsets = find_offsets(path, file)
        if offsets is None:
            return None
        nodes = offsets.path() if of_path else range(len(offsets.starts))
        try:
            found = [read_entry(file, offsets, node, recognise) for node in nodes[page.start : page.stop]]
        except (ValueError, TypeError, LookupError):
            return None
    is_chain = all(after.parent == before.node_id for before, after in pairwise(found))
    return found if is_chain or not of_path else None


def find_offsets(path: Path, file: BinaryIO) -> NodeOffsets | None:
    """Return the offsets of *file*, open at *path*, kept ones or new ones, which are kept then."""
    state, kept_path = state_of(os.fstat(file.fileno())), offsets_path(path)
    with suppress(OSError, msgspec.DecodeError, ValueError):
        checksum, _, data = read_state_file(kept_path, _MAX_BYTES).partition(b"\n")
        kept = _KEPT.decode(data) if int(checksum, 16) == zlib.crc32(data) else None
        if kept is not None and (kept.state, kept.byte_order) == (state, sys.byteorder):
            numbers = array("q", kept.numbers)
            n = len(numbers) // 3
            return NodeOffsets(numbers[:n], numbers[n : 2 * n], numbers[2 * n :], kept.head)
    # A file that was just written may change again without a new state.
    is_settled = time.time_ns() - max(state[:2]) > SETTLED_NS
    found = scan(file, size=state[2])
    if found is not None and is_settled and state[2] >= _LEAST_BYTES:
        packed = b"".join((found.starts, found.lengths, found.parents))
        data = msgspec.msgpack.encode(_Kept(_FORMAT, sys.byteorder, state, found.head, packed))
        with suppress(OSError):
            replace_state_file(kept_path, b"%08x\n%b" % (zlib.crc32(data), data))
    return found


def offsets_path(path: Path) -> Path:
    """Return where the offsets of the session file *path* are kept."""
    return path.with_suffix(".offsets")


def scan(file: BinaryIO, size: int) -> NodeOffsets | None:
    """Return the offsets of the first *size* bytes of *file*, None where something is to be mended."""
    numbers: dict[str | None, int] = {None: -1}
    starts, lengths, parents, tip = array("q"), array("q"), array("q"), Tip()
    try:
        for start, record in records_in(file, size):
            if record.startswith(b'{"type":"node",'):
                node = _NODE.decode(record).node
                number = numbers.setdefault(node.id, len(starts))
                if number == len(starts):
                    starts.append(start)
                    lengths.append(len(record))
                    parents.append(numbers[node.parent])
                elif parents[number] != numbers[node.parent]:
                    return None
                else:
                    starts[number], lengths[number] = start, len(record)
                tip.follow(node.id, node.parent)
            elif record.startswith(b'{"type":"head",'):
                tip.move(_HEAD.decode(record).leaf)
        if tip.leaf is None and starts and not tip.is_rewound:
            return None
        return NodeOffsets(starts, lengths, parents, numbers[tip.leaf])
    except (ValueError, KeyError):
        return None


def records_in(file: BinaryIO, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the place and the text of each record. Raises ValueError for a line that is to be mended."""
    at = 0
    for line in file:
        raw, start = line.removesuffix(b"\n"), at
        at += len(line)
        if at > size:
            return
        if not is_sound(raw):
            is_torn = not line.endswith(b"\n") and parse_line(raw) is None
            if is_torn or not raw.strip():
                continue
            raise ValueError("the line is not as it was written")
        if not raw.startswith(_BATCH):
            yield start, raw
            continue
        if len(raw) > _LONGEST_BATCH:
            raise ValueError("the batch is too long")
        start += len(_BATCH)
        for record in map(bytes, _RECORDS.decode(raw).records):
            yield start, record
            start += len(record) + len(",")
        if raw[start - at + len(line) - 1] != ord("]"):
            raise ValueError("the batch is written in another way")


def read_entry(file: BinaryIO, offsets: NodeOffsets, number: int, recognise: RecogniseKind) -> Entry:
    """Return the entry of a node; raises as :func:`node_from_record`."""
    file.seek(offsets.starts[number])
    record = parse_line(file.read(offsets.lengths[number]))
    if record is None:
        raise ValueError("there is no record")
    return entry_from_record(record, node_from_record(record), recognise, share=str)
