"""Exceptions that a caller of the hub or of a session may have to handle; each has a stable ``kind``.

``protocol.errors`` maps the kinds to JSON-RPC codes::

    SidecarError
    ├── SessionNotFound, NodeNotFound, ItemNotFound, CompactionNotFound, ModelNotFound
    ├── FolderNotFound, FolderUnknownError
    ├── SessionBusyError, HeadMovedError        the same call may succeed later
    ├── QueueFullError, TooManySessionsError    as well, once there is room
    ├── ControlRequiredError, OpenElsewhereError   which client may act on the session
    ├── NotSteerableError, NotUndoableError, WouldExceedWindowError
    └── EditorSilentError                       told to the model alone
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from sidecar._internal.errors import SidecarError


class SessionNotFound(SidecarError):
    """No session is stored or loaded under the id."""

    kind: ClassVar[str] = "sessionNotFound"

    def __init__(self, sid: str) -> None:
        super().__init__(f"no session {sid!r}", hint="sidecar/session/list names the stored ones", sid=sid)


class NodeNotFound(SidecarError):
    """The session has no such node."""

    kind: ClassVar[str] = "nodeNotFound"

    def __init__(self, sid: str, node_id: str) -> None:
        hint = "sidecar/session/tree names its nodes; /rewind and /expand work without one"
        super().__init__(f"session {sid!r} has no node {node_id!r}", hint=hint, sid=sid)


class ControlRequiredError(SidecarError):
    """The client does not control the session on which it acts."""

    kind: ClassVar[str] = "controlRequired"

    def __init__(self, sid: str) -> None:
        hint = 'attach to it with the mode "control" first; reading needs no control'
        super().__init__(f"this client does not control session {sid!r}", hint=hint, sid=sid)


class EditorSilentError(SidecarError):
    """No editor has answered a question about code."""

    kind: ClassVar[str] = "editorSilent"

    def __init__(self, problem: str) -> None:
        super().__init__(problem, hint="use grep and read instead")


class OpenElsewhereError(SidecarError):
    """The session to delete is open in another client."""

    kind: ClassVar[str] = "controlRequired"

    def __init__(self, sid: str, names: Iterable[str]) -> None:
        where = ", ".join(name or "a client without a name" for name in names)
        message = f"session {sid!r} is open in {where}"
        super().__init__(message, hint="pass force: true to delete it nevertheless", sid=sid)


class ItemNotFound(SidecarError):
    """The queue has no such item: it runs already, or has ended."""

    kind: ClassVar[str] = "itemNotFound"

    def __init__(self, sid: str, item_id: str) -> None:
        hint = "sidecar/queue/list names the waiting prompts"
        super().__init__(f"no prompt {item_id!r} waits in session {sid!r}", hint=hint, sid=sid)


class CompactionNotFound(SidecarError):
    """The session has no such compaction."""

    kind: ClassVar[str] = "compactionNotFound"

    def __init__(self, sid: str, compaction_id: str | None) -> None:
        what, hint = f"no compaction {compaction_id!r}", "sidecar/compact/list names them"
        if compaction_id is None:
            what, hint = "no compaction to undo", "/rewind takes prompts back, and /checkpoint files"
        super().__init__(f"session {sid!r} has {what}", hint=hint, sid=sid)


class ModelNotFound(SidecarError):
    """The model cannot be called; *why* gives the reason."""

    kind: ClassVar[str] = "modelNotFound"

    def __init__(self, model_id: str, known: tuple[str, ...], why: str) -> None:
        examples = "openai:gpt-5, anthropic:claude-sonnet-5, google:gemini-2.5-pro, ollama:qwen3"
        hint = f"known models: {', '.join(known)}; other models are named provider:model, such as {examples}"
        super().__init__(f"no model {model_id!r}: {why}", hint=hint, model=model_id)


class FolderNotFound(SidecarError):
    """The folder of a new session does not exist, or is not a folder."""

    kind: ClassVar[str] = "invalidParams"

    def __init__(self, folder: str, found: str) -> None:
        super().__init__(
            f"cannot work in {folder!r}: {found}",
            hint="give an existing folder as an absolute path",
            folder=folder,
        )


class FolderUnknownError(SidecarError):
    """The file of the session has lost the record of its folder."""

    kind: ClassVar[str] = "invalidParams"

    def __init__(self, sid: str) -> None:
        hint = "name the folder that it worked in, as cwd of sidecar/session/load"
        super().__init__(f"the folder of session {sid!r} cannot be read from its file", hint=hint, sid=sid)


class SessionBusyError(SidecarError):
    """The session is busy and the caller did not want to wait."""

    kind: ClassVar[str] = "busy"
    retryable: ClassVar[bool] = True


class QueueFullError(SidecarError):
    """Too much waits in the session already."""

    kind: ClassVar[str] = "overloaded"
    retryable: ClassVar[bool] = True

    def __init__(self, sid: str, n_waiting: int) -> None:
        hint = "wait until some of it is done, or take prompts back with sidecar/queue/remove"
        super().__init__(f"session {sid!r} has {n_waiting} requests waiting already", hint=hint, sid=sid)


class TooManySessionsError(SidecarError):
    """As many sessions are loaded as one daemon keeps in memory."""

    kind: ClassVar[str] = "overloaded"
    retryable: ClassVar[bool] = True

    def __init__(self, n_loaded: int) -> None:
        hint = "close some with sidecar/session/close; they stay stored"
        super().__init__(f"{n_loaded} sessions are loaded, and the daemon keeps no more", hint=hint)


class NotSteerableError(SidecarError):
    """The turn to steer is not running."""

    kind: ClassVar[str] = "notSteerable"


class HeadMovedError(SidecarError):
    """The head of the session moved since the caller read it."""

    kind: ClassVar[str] = "headMoved"
    retryable: ClassVar[bool] = True

    def __init__(self, sid: str, expected: str | None, actual: str | None) -> None:
        message = f"the head of session {sid!r} is {actual!r}, not {expected!r}"
        super().__init__(message, hint="read the session again, then retry", sid=sid, head=actual)


class NotUndoableError(SidecarError):
    """The compaction changed nothing, was undone, or is not the newest one on the current branch."""

    kind: ClassVar[str] = "invalidState"

    def __init__(self, sid: str, compaction_id: str, status: str = "completed") -> None:
        if status == "completed":
            fault = f"is not the newest on the current branch of session {sid!r}"
            hint = "undo the newer compaction first, or sidecar/session/rewind to its beforeHead"
        else:
            fault = f"of session {sid!r} has nothing to undo: its status is {status!r}"
            hint = "sidecar/compact/list shows which ones can be undone"
        super().__init__(f"compaction {compaction_id!r} {fault}", hint=hint, sid=sid)


class WouldExceedWindowError(SidecarError):
    """Undoing the compaction would exceed the model's window."""

    kind: ClassVar[str] = "wouldExceedWindow"

    def __init__(self, sid: str, tokens: int, limit: int, **details: Any) -> None:
        message = (
            f"the conversation would have about {tokens:,} tokens after the undo, and the limit is {limit:,}"
        )
        hint = "pass force: true, or say /undo force, to undo it anyway"
        super().__init__(message, hint=hint, sid=sid, **details)


class ExpansionTooLargeError(SidecarError):
    """The originals behind a summary would not fit."""

    kind: ClassVar[str] = "wouldExceedWindow"

    def __init__(
        self, sid: str, tokens: int, limit: int, *, n_chosen: int, n_fitting: int, first: str | None
    ) -> None:
        message = (
            f"with these {n_chosen:,} entries the conversation would have about {tokens:,} tokens, "
            f"and the limit is {limit:,}"
        )
        hint = "none of them fits; compact first, or pin a passage"
        if n_fitting:
            hint = f"the newest {n_fitting:,} of them fit: /expand {first}.. brings them back"
        super().__init__(message, hint=hint, sid=sid)
