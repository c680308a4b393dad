"""Messages of ``sidecar/checkpoint/*``."""

from __future__ import annotations

from sidecar._internal.values import Value
from sidecar.conductor.workbench.kept_changes import FileCheckpoint, FileDiff, FileRestore


class CheckpointListResult(Value):
    """The checkpoints, oldest first."""

    checkpoints: tuple[FileCheckpoint, ...]


class CheckpointDiffParams(Value):
    """The changes of files to compare: those since a checkpoint began, or all that the session has made.

    *to_node* asks for the changes that a rewind to this node takes back, of all files, and *compaction_id*
    for the changes that the undo of this compaction takes back.
    """

    sid: str
    checkpoint_id: str | None = None
    to_node: str | None = None
    uris: tuple[str, ...] | None = None
    compaction_id: str | None = None


class CheckpointDiffResult(Value):
    """The files, 200 at most, each from its content before the changes to the present one.

    *uncovered* names others that may have changed files, such as a command in the background.
    """

    files: tuple[FileDiff, ...]
    uncovered: tuple[str, ...] = ()


class CheckpointRestoreParams(Value):
    """The checkpoint to take files back to: *uris*, or every file that the session has changed since."""

    sid: str
    checkpoint_id: str
    uris: tuple[str, ...] | None = None


class CheckpointRestoreResult(Value):
    """The files that were taken back, and the files that stay as they are; a new checkpoint undoes it."""

    files: tuple[FileRestore, ...]
    seq: int
