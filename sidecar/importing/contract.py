"""The values of an import: a session that was found, one that was read, and the report about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final, Literal, TypeAlias

from sidecar._internal.errors import SidecarError
from sidecar._internal.values import Value
from sidecar.conversation import Entry

NoteReason: TypeAlias = Literal[
    "corruptLine",
    "cutFile",
    "cutResult",
    "danglingCall",
    "duplicate",
    "emptyAnswer",
    "hiddenThinking",
    "hostText",
    "hostedCall",
    "image",
    "joinedLines",
    "opaqueSummary",
    "orphanResult",
    "renamedCall",
    "rewound",
    "subagent",
    "systemPrompt",
    "unknownItem",
    "unsentPrompt",
]

NOTES: Final[Mapping[NoteReason, str]] = MappingProxyType(
    {
        "corruptLine": "lines are not valid JSON and were left out",
        "cutFile": "the file ends in the middle of a message; everything before it was read",
        "cutResult": "tool results were longer than a million characters and lost their middle",
        "danglingCall": "tool calls have no recorded result; each got an error result that says so",
        "duplicate": "messages stand in the file twice and were read once",
        "emptyAnswer": "answers have no content and were left out",
        "hiddenThinking": "pieces of reasoning are encrypted and were left out",
        "hostText": "texts were written by the other agent's program, not by a user or a model; left out",
        "hostedCall": "calls ran at the provider, without a recorded result, and were left out",
        "image": "images inside tool results became the text [image]",
        "joinedLines": "lines held several messages; all of them were read",
        "opaqueSummary": "summaries are encrypted; the messages that they stand for stay in the conversation",
        "orphanResult": "tool results belong to no recorded call and were left out",
        "renamedCall": "tool calls shared an id with another call and got one of their own",
        "rewound": "messages were taken back by the user; they are on a branch of their own",
        "subagent": "messages belong to subagents and were left out",
        "systemPrompt": "system prompts of the other agent were left out",
        "unknownItem": "items are of a kind that has no counterpart and were left out",
        "unsentPrompt": "prompts were typed ahead and taken back, or never sent; left out",
    }
)
"""A sentence for each reason of a note. The count stands before it."""


class ImportFailedError(SidecarError):
    """A file cannot be imported: it is missing, too large, or no session of a known agent."""

    kind: ClassVar[str] = "fileProblem"


class FoundSession(Value, kw_only=True):
    """A session of another agent on this machine.

    Attributes:
        format: the name of the format, such as ``claude-code``.
        id: the agent's own id of the session.
        path: the file that holds it; several sessions may share a database.
        cwd: the folder it worked in, empty where that is not known.
        title: its title or its first prompt, empty where neither is known.
        updated_at: the time of its last change, in epoch milliseconds.
        size_bytes: the size of its file.
    """

    format: str
    id: str
    path: str
    cwd: str
    title: str
    updated_at: int
    size_bytes: int


class ImportReport(Value, kw_only=True):
    """The outcome of reading a session.

    Attributes:
        format: the name of the format.
        entries: the number of entries of each kind, on all branches, without copies.
        n_reads: the number of file contents that are known whole.
        n_compactions: the number of compactions.
        notes: the repairs and omissions: the number of times for each reason.
    """

    format: str
    entries: Mapping[str, int]
    n_reads: int
    n_compactions: int
    notes: Mapping[NoteReason, int]


class ImportedCompaction(Value, kw_only=True):
    """A compaction of the other agent: its summary, and the nodes of the conversation around it.

    *kept_from* is the first node before it that stayed, None where none did.
    """

    summary: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    kept_from: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSession:
    """A session as it was read, ready to be stored.

    Attributes:
        cwd: the folder it worked in, empty where the file does not name one.
        title: its title, empty where the file has none.
        entries: all entries, each after its parent.
        leaf: the head, None for a session without messages.
    """

    cwd: str
    title: str
    created_at: int
    updated_at: int
    entries: tuple[Entry, ...] = field(repr=False)
    leaf: str | None
    compactions: tuple[ImportedCompaction, ...]
    report: ImportReport
