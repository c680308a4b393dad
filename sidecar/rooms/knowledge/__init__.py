"""Knowledge sources with an index: the files of a workspace, and the messages of stored sessions.

Drivers over SQLite's full-text search. The lists of files and the stored sessions are their callers'.
"""

from sidecar.rooms.knowledge.sessions import SessionEntry, SessionsSource
from sidecar.rooms.knowledge.workspace import WorkspaceSource

__all__ = ["SessionEntry", "SessionsSource", "WorkspaceSource"]
