"""One conversation: an append-only history of entries, and the indexes folded over it.

The journal, the agent, the engines, the meter, the files and the knowledge of a session all take the same
:class:`History`. Nothing known about a conversation is kept beside it: it is an :class:`Index` that follows
the history, so after an undo, a rewind or a load it is right by construction. Pure; nothing is stored here.
"""

from sidecar.conversation.files_seen import FilesSeen, SeenFile, files_seen_index, merge_ranges, merge_reads
from sidecar.conversation.history import (
    AppendOnlySeq,
    Entry,
    EntryKind,
    FileRead,
    History,
    Index,
    LineRange,
    UsageAnchor,
    count_shared,
    kind_by_role,
)

__all__ = [
    "AppendOnlySeq",
    "Entry",
    "EntryKind",
    "FileRead",
    "FilesSeen",
    "History",
    "Index",
    "LineRange",
    "SeenFile",
    "UsageAnchor",
    "count_shared",
    "files_seen_index",
    "kind_by_role",
    "merge_ranges",
    "merge_reads",
]
