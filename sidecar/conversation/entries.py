"""The entries of a conversation: a turn together with everything that was known when it was written.

The writer of an entry sets its kind. The text of a turn is never searched for that: a prompt may
begin with any words and stays a prompt. Only files of earlier versions, which stored no kinds, are recognised
by their text, once, at load.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import AssistantTurn, ToolTurn, Turn

EntryKind: TypeAlias = Literal["user", "assistant", "tool", "summary", "file", "branch", "shell", "note"]
"""A prompt, an answer, tool results, the summary that a compaction wrote, a file that was restored or
mentioned, the digest of a branch that the user left, a command that the user ran, with its output, or a note
of the host, such as the state of the user's editor. A compaction drops notes before anything else.

These are the names on the wire as well. A new kind is added here and in the protocol's node values.
"""

LineRange: TypeAlias = tuple[int, int | None]
"""A first line, counted from 1, and a number of lines; None reaches the end of the file."""


class FileRead(Value, kw_only=True):
    """One content of a file that an entry shows to the model.

    Attributes:
        path: the resolved path; two spellings of one file are one path.
        uri: the URI that clients know the file by.
        hash: hash of the whole text as the file stood then, not only of the lines shown.
        source: ``buffer`` for unsaved text of an editor, ``disk`` otherwise.
        call_id: the tool call that read it, empty for a restored file.
        version: version of the editor's buffer, None where there is none.
        ranges: the lines shown; empty means the whole file.
    """

    path: str
    uri: str
    hash: str
    source: Literal["buffer", "disk"]
    call_id: str = ""
    version: int | None = None
    ranges: tuple[LineRange, ...] = ()


class UsageAnchor(Value):
    """The size of a model call: as the provider reported it, and as the session's meter estimated its turns.

    The difference of two estimates is better known than either of them. So the next request is taken to have
    *reported_tokens*, plus the turns' estimate of that moment, minus *estimated_tokens*.
    """

    reported_tokens: int
    estimated_tokens: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn of a conversation.

    Attributes:
        turn: the turn as the model is sent it.
        kind: the role of the entry in the conversation.
        reads: the files it shows.
        origin: for a summary, the ids of the nodes that it stands for, oldest first; for a file that a
            compaction restored, the node that showed it; for an entry that was stored again on another
            branch, its first node. They stay stored on their own branch, so an index can still reach them.
        anchor: for an answer, the size of the call that it answers.
        author: for a prompt, the client it came from, as long as this process runs.
        node_id: the stored node; empty until it is stored.
        parent: the node before it, None for a root.
        created_at: when it was stored, in epoch milliseconds. The node's id is a hash of these and the turn.
    """

    turn: Turn
    kind: EntryKind
    reads: tuple[FileRead, ...] = ()
    origin: tuple[str, ...] = ()
    anchor: UsageAnchor | None = None
    author: str | None = None
    node_id: str = ""
    parent: str | None = field(default=None, compare=False, repr=False)
    created_at: int = field(default=0, compare=False, repr=False)


def kind_by_role(turn: Turn) -> EntryKind:
    """Return the kind of a turn that nobody but a model, its tools and its user wrote.

    >>> kind_by_role(ToolTurn(()))
    'tool'
    """
    if isinstance(turn, AssistantTurn):
        return "assistant"
    return "tool" if isinstance(turn, ToolTurn) else "user"
