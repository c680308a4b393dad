"""Knowledge sources that hold something: the workspace's files, and what was said in stored conversations.

Drivers over SQLite's full-text search. They list no files and read no store themselves; both are handed to
them.
"""

from sidecar.rooms.knowledge.sessions import SessionEntry, SessionsSource
from sidecar.rooms.knowledge.workspace import IndexProgress, WorkspaceSource

__all__ = ["IndexProgress", "SessionEntry", "SessionsSource", "WorkspaceSource"]
