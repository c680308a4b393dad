"""The files that a model has read, kept in memory: what the tools of a session record their reads in."""

from __future__ import annotations

from pathlib import Path

from sidecar.conductor.workbench.files import as_read
from sidecar.conversation import FileRead, merge_reads
from sidecar.workspace.contract import FileTrackerPort, FileView


class RecordedReads:
    """Implements ``capabilities.contract.ReadsPort``; *tracker* compares the files, where one is given."""

    def __init__(self, tracker: FileTrackerPort | None = None) -> None:
        self._tracker = tracker
        self._files: dict[Path, FileRead] = {}

    def record(
        self, view: FileView, *, call_id: str, first_line: int = 1, line_count: int | None = None
    ) -> None:
        """Record a read; ranges of one content are joined."""
        read = as_read(view, call_id=call_id, first_line=first_line, line_count=line_count)
        before = self._files.get(view.path)
        self._files[view.path] = read if before is None else merge_reads(before, read)
        if self._tracker is not None:
            self._tracker.expect(view.path, view.uri, view.hash)

    def get(self, path: Path) -> FileRead | None:
        """Return the newest read of *path*."""
        return self._files.get(path)

    def path_now(self, path: Path) -> Path:
        """Return *path*: the user of these tests renames nothing."""
        return path


def expect(tracker: FileTrackerPort, view: FileView) -> None:
    """Let *tracker* compare the file of *view* with it from now on."""
    tracker.expect(view.path, view.uri, view.hash)
