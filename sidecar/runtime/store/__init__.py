"""Sessions on disk: content-addressed nodes, one append-only file each, safe to lose power under.

``SessionStore`` keeps them, ``SessionGraph`` is one in memory, ``SessionJournal`` writes one.
"""

from sidecar.runtime.store.codec import canonical_json, hash_node, turn_from_record, turn_to_record
from sidecar.runtime.store.dag import Clock, SessionGraph, new_id, wall_clock_ms
from sidecar.runtime.store.errors import SessionLockedError, StoreUnavailable, UnknownNodeError
from sidecar.runtime.store.journal import SessionBranch, SessionJournal, journal_in_memory
from sidecar.runtime.store.lines import Hold
from sidecar.runtime.store.place import SessionPlace, StoredSummary
from sidecar.runtime.store.reading import IntegrityReport, StoredSession, heal
from sidecar.runtime.store.session_store import SessionLock, SessionStore

__all__ = [
    "Clock",
    "Hold",
    "IntegrityReport",
    "SessionBranch",
    "SessionGraph",
    "SessionJournal",
    "SessionLock",
    "SessionLockedError",
    "SessionPlace",
    "SessionStore",
    "StoreUnavailable",
    "StoredSession",
    "StoredSummary",
    "UnknownNodeError",
    "canonical_json",
    "hash_node",
    "heal",
    "journal_in_memory",
    "new_id",
    "turn_from_record",
    "turn_to_record",
    "wall_clock_ms",
]
