"""Sessions of other agents: found where those agents keep them, read, and mapped to entries.

A format is one pure module that turns the records of a file into calls of :class:`ImportBuilder`, which
repairs and counts. :mod:`~sidecar.importing.finding` and :mod:`~sidecar.importing.reading` do the input; both
block, so their callers run them in a thread.
"""

from sidecar.importing.contract import (
    NOTES,
    FoundSession,
    ImportedCompaction,
    ImportedSession,
    ImportFailedError,
    ImportReport,
    NoteReason,
)
from sidecar.importing.finding import Place, find_sessions, usual_places
from sidecar.importing.reading import read_session
from sidecar.importing.registry import FORMATS

__all__ = [
    "FORMATS",
    "NOTES",
    "FoundSession",
    "ImportFailedError",
    "ImportReport",
    "ImportedCompaction",
    "ImportedSession",
    "NoteReason",
    "Place",
    "find_sessions",
    "read_session",
    "usual_places",
]
