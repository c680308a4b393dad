"""Copies of sessions from one place to another, record by record, and read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from sidecar._internal.errors import SidecarError
from sidecar.runtime.store.place import SessionPlace

CopyOutcome: TypeAlias = Literal["copied", "continued", "there", "differs"]
"""It was copied; its new records were added to an older copy; the same is there; something else is there."""


class CopyDiffersError(SidecarError):
    """The copy of a session differs from the session."""

    kind = "storeUnavailable"
    retryable = True


async def copy_session(source: SessionPlace, target: SessionPlace, session_id: str) -> CopyOutcome:
    """Copy *session_id*, which stays in *source*; another session of its id in *target* is left as it is.

    Nobody may write it meanwhile, in either place. A copy that was broken off is continued by the next one.

    Raises:
        SessionLockedError: somebody has it open, here or there.
        StoreUnavailable: a place does not answer.
        CopyDiffersError: the copy is there and differs.
    """
    held = await source.hold(session_id)
    try:
        records = await source.read_raw(session_id)
        held_there = await target.hold(session_id)
        try:
            return await write_missing(records, target, session_id)
        finally:
            target.close(session_id)
            held_there.release()
    finally:
        held.release()


async def write_missing(records: bytes, target: SessionPlace, session_id: str) -> CopyOutcome:
    """Append the lines of *records* that *target* has not, and read all of them back."""
    lines, there = _split(records), _split(await target.read_raw(session_id))
    if there == lines:
        return "there"
    if there != lines[: len(there)]:
        return "differs"
    for piece in split_lines(lines[len(there) :]):
        await target.write_raw(session_id, piece)
    if _split(await target.read_raw(session_id)) != lines:
        raise CopyDiffersError(f"the copy of session {session_id!r} is not what was written", sid=session_id)
    return "continued" if there else "copied"


def split_lines(lines: Sequence[bytes], n_bytes: int = 4_000_000) -> Iterator[bytes]:
    """Yield *lines* in pieces of about *n_bytes*, so that a slow network brings each of them in time.

    >>> [*split_lines([b"a", b"bb", b"c"], 2)]
    [b'abb', b'c']
    """
    piece = bytearray()
    for line in lines:
        piece += line
        if len(piece) >= n_bytes:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _split(records: bytes) -> list[bytes]:
    return records.splitlines(keepends=True)
