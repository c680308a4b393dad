"""Checkpoints as values: the kept files of a session, and the files that a restore takes back. Pure.

The problem: a session changes a file several times, other people and programs change it in between, changes
fail or are cut off by a crash, and files are taken back and changed again. Taking a change back must never
take the work of others with it.

Each change is recorded with the hash of the file before it and the hash that it leads to. From the present
hash of a file, the session's changes are followed backwards, newest first. A change that led to the hash is
stepped over, to the hash before it. A change that began with the hash was never made, or was taken back by
others, and is left out. At any other hash somebody else has written in between, and the file stays as it is.
The cost is one step for each change of the file.

For example, a session wrote A to B and B to C. With C present both changes can be taken back, and with B
present the first one; with a user's D present neither can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, Literal, TypeAlias

from sidecar._internal.values import Value

CheckpointCause: TypeAlias = Literal["turn", "restore"]
RestoreOutcome: TypeAlias = Literal["restored", "removed", "unchanged", "changedSince", "notKept", "outside"]

TAKEN_BACK: Final = ("restored", "removed")
"""The outcomes of files that a restore changes."""

_CONTEXT: Final = 3
_MOST_COMPARED: Final = 2_000
_MOST_CHARS: Final = 30_000


class KeptChange(Value, kw_only=True):
    """The ``checkpoint`` record: one change of a file, as it was planned, and the file before it.

    Attributes:
        change_id: a later record with the same id replaces this one.
        checkpoint_id: the checkpoint; the changes of one turn share it.
        before: the hash of the file before the change, None where there was none.
        after: the hash that the change leads to, None where it deletes the file.
        content: the name of the kept content, None for none.
        is_text: whether that is the text of an editor in UTF-8, and not the bytes of the disk.
        mode: the mode of the file on disk, None where it is not known.
        problem: why nothing was kept.
        head: the newest node of the conversation at that time.
        call_id: the tool call; empty for a restore.
    """

    change_id: str
    checkpoint_id: str
    at: int
    cause: CheckpointCause
    path: str
    uri: str
    before: str | None
    after: str | None
    content: str | None = None
    is_text: bool = False
    mode: int | None = None
    problem: str | None = None
    turn_id: str | None = None
    head: str | None = None
    call_id: str = ""


class CheckpointFile(Value):
    """A file of a checkpoint; *created* when it did not exist before, *problem* says why it was not kept.

    *renamedFrom* is its URI when it was changed, where the user has renamed it since.
    """

    uri: str
    created: bool
    problem: str | None = None
    renamed_from: str | None = None


class FileCheckpoint(Value):
    """The files that a turn or a restore changed, as they were before its first change of each."""

    checkpoint_id: str
    at: int
    cause: CheckpointCause
    files: tuple[CheckpointFile, ...]
    turn_id: str | None = None


class FileRestore(Value):
    """A file that a restore takes back, or leaves as it is.

    *outcome* is ``restored``; ``removed`` for a file that the session had created; or, where the file stays
    as it is, ``unchanged`` (it has that content already), ``changedSince`` (others have changed it),
    ``notKept`` or ``outside`` (of the session's folders). *reason* says more.
    """

    uri: str
    outcome: RestoreOutcome
    reason: str | None = None


class FileDiff(Value):
    """The changes of a file since it was kept, as a unified diff, empty where there is no text to compare.

    It has the changes by others as well. *outcome* is the outcome that a restore would have now. *truncated*
    says that lines are missing.
    """

    uri: str
    outcome: RestoreOutcome
    diff: str
    truncated: bool = False
    reason: str | None = None


def find_changes(records: Sequence[Mapping[str, Any]]) -> list[KeptChange]:
    """Return the changes among the *records* of a session, oldest first."""
    from sidecar.conductor.records import from_record  # not above: a client needs the shapes alone

    found = (from_record(KeptChange, each) for each in records if each.get("type") == "checkpoint")
    return [change for change in found if change is not None]


def find_origin(
    changes: Sequence[KeptChange], wanted: Collection[str], now: str | None
) -> tuple[KeptChange | None, bool]:
    """Return the oldest wanted change that can be taken back, and whether that reaches all that were made.

    Args:
        changes: the changes of one file, oldest first.
        wanted: the ids of the changes to take back; newer ones are taken back with them.
        now: the present hash of the file, None where there is none.

    >>> def change(name, before, after):
    ...     fixed = {"checkpoint_id": "", "at": 0, "cause": "turn", "path": "", "uri": ""}
    ...     return KeptChange(change_id=name, before=before, after=after, **fixed)
    >>> both = [change("1", "A", "B"), change("2", "B", "C")]
    >>> [(found and found.change_id, whole) for now in "CBAD"
    ...  for found, whole in [find_origin(both, {"1", "2"}, now)]]
    [('1', True), ('1', True), (None, True), (None, False)]
    """
    found: KeptChange | None = None
    first = min((at for at, each in enumerate(changes) if each.change_id in wanted), default=len(changes))
    if first < len(changes) and changes[first].before == now:
        return None, True
    for change in reversed(changes[first:]):
        if change.after == now:
            now = change.before
            found = change if change.change_id in wanted else found
        elif change.before != now:
            return found, False
    return found, True


def list_checkpoints(
    changes: Sequence[KeptChange], renamed_from: Callable[[KeptChange], str | None] = lambda change: None
) -> tuple[FileCheckpoint, ...]:
    """Return the checkpoints of *changes*, oldest first; each file once, as before its first change.

    *renamed_from* returns the URI at that time of a file that the user has renamed since, None for others.
    """
    grouped: dict[str, dict[str, KeptChange]] = {}
    for change in changes:
        grouped.setdefault(change.checkpoint_id, {}).setdefault(change.path, change)
    return tuple(
        FileCheckpoint(
            checkpoint_id,
            first.at,
            first.cause,
            tuple(
                CheckpointFile(each.uri, each.before is None, each.problem, renamed_from(each))
                for each in files.values()
            ),
            first.turn_id,
        )
        for checkpoint_id, files in grouped.items()
        for first in [next(iter(files.values()))]
    )


def unified_diff(old: str, new: str, name: str, old_name: str | None = None) -> tuple[str, bool]:
    """Return a diff of the file *name* with three lines of context, and whether lines are missing.

    *old_name* is its name before, where that was another one.

    >>> print(unified_diff("a\\nb\\n", "a\\nc\\n", "x.py")[0])
    --- a/x.py
    +++ b/x.py
    @@ -1,2 +1,2 @@
     a
    -b
    +c
    """
    before, after = old.splitlines(), new.splitlines()
    pairs = enumerate(zip(before, after, strict=False))
    start = next((at for at, (one, other) in pairs if one != other), min(len(before), len(after)))
    shift = max(0, start - _CONTEXT)
    lines = [f"--- a/{old_name or name}", f"+++ b/{name}"]
    is_whole = len(before) + len(after) - 2 * start <= _MOST_COMPARED
    before, after = before[shift:], after[shift:]
    if not is_whole:
        before, after = before[:_MOST_COMPARED], after[:_MOST_COMPARED]
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        lines.append(
            f"@@ -{shift + old_from + 1},{old_to - old_from} +{shift + new_from + 1},{new_to - new_from} @@"
        )
        for tag, first, last, new_first, new_last in group:
            if tag == "equal":
                lines += [f" {line}" for line in before[first:last]]
                continue
            lines += [f"-{line}" for line in before[first:last]]
            lines += [f"+{line}" for line in after[new_first:new_last]]
    text = "\n".join(lines) if lines[2:] else ""
    return text[:_MOST_CHARS], not is_whole or len(text) > _MOST_CHARS
