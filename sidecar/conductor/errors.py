"""What a caller of a session may have to handle; each class has its stable ``kind``."""

from __future__ import annotations

from typing import Any, ClassVar

from sidecar._internal.errors import SidecarError

__all__ = [
    "CompactionNotFound",
    "FolderNotFound",
    "HeadMovedError",
    "ItemNotFound",
    "ModelNotFound",
    "NodeNotFound",
    "NotSteerableError",
    "NotUndoableError",
    "SessionBusyError",
    "SessionNotFound",
    "WouldExceedWindowError",
]


class SessionNotFound(SidecarError):
    """No session is stored or loaded under the id."""

    kind: ClassVar[str] = "sessionNotFound"

    def __init__(self, sid: str) -> None:
        super().__init__(f"no session {sid!r}", hint="sidecar/session/list names the stored ones", sid=sid)


class NodeNotFound(SidecarError):
    """The session has no such node."""

    kind: ClassVar[str] = "nodeNotFound"

    def __init__(self, sid: str, node_id: str) -> None:
        hint = "sidecar/session/tree names its nodes"
        super().__init__(f"session {sid!r} has no node {node_id!r}", hint=hint, sid=sid)


class ItemNotFound(SidecarError):
    """The queue has no such item: it is running, or over."""

    kind: ClassVar[str] = "itemNotFound"

    def __init__(self, sid: str, item_id: str) -> None:
        hint = "sidecar/queue/list names those that wait"
        super().__init__(f"nothing waits in session {sid!r} as {item_id!r}", hint=hint, sid=sid)


class CompactionNotFound(SidecarError):
    """The session has no such compaction."""

    kind: ClassVar[str] = "compactionNotFound"

    def __init__(self, sid: str, compaction_id: str | None) -> None:
        what = "no compaction yet" if compaction_id is None else f"no compaction {compaction_id!r}"
        hint = "sidecar/compact/list names them"
        super().__init__(f"session {sid!r} has {what}", hint=hint, sid=sid)


class ModelNotFound(SidecarError):
    """The model cannot be called; *why* says what it lacks."""

    kind: ClassVar[str] = "modelNotFound"

    def __init__(self, model_id: str, known: tuple[str, ...], why: str) -> None:
        examples = "openai:gpt-5, anthropic:claude-sonnet-5, google:gemini-2.5-pro, ollama:qwen3"
        hint = (
            f"known models: {', '.join(known)}; one of a provider is named provider:model, such as {examples}"
        )
        super().__init__(f"no model {model_id!r}: {why}", hint=hint, model=model_id)


class FolderNotFound(SidecarError):
    """The folder a session is to work in is missing or no folder."""

    kind: ClassVar[str] = "invalidParams"

    def __init__(self, folder: str, found: str) -> None:
        super().__init__(
            f"cannot work in {folder!r}: {found}", hint="give an existing folder as an absolute path"
        )


class SessionBusyError(SidecarError):
    """The session is at work and the caller did not want to wait."""

    kind: ClassVar[str] = "busy"
    retryable: ClassVar[bool] = True


class NotSteerableError(SidecarError):
    """There is no such running turn to steer."""

    kind: ClassVar[str] = "notSteerable"


class HeadMovedError(SidecarError):
    """The session moved on since the caller looked at it."""

    kind: ClassVar[str] = "headMoved"
    retryable: ClassVar[bool] = True

    def __init__(self, sid: str, expected: str | None, actual: str | None) -> None:
        message = f"session {sid!r} is at {actual!r} and not at {expected!r}"
        super().__init__(message, hint="read the session again, then retry", sid=sid, head=actual)


class NotUndoableError(SidecarError):
    """The compaction is not the newest one on the branch the session stands on."""

    kind: ClassVar[str] = "invalidState"

    def __init__(self, sid: str, compaction_id: str) -> None:
        message = f"compaction {compaction_id!r} is not on the branch session {sid!r} stands on"
        hint = "undo the newer compaction first, or sidecar/session/rewind to its beforeHead"
        super().__init__(message, hint=hint, sid=sid)


class WouldExceedWindowError(SidecarError):
    """Undoing would bring back more than the model's window holds."""

    kind: ClassVar[str] = "wouldExceedWindow"

    def __init__(self, sid: str, tokens: int, limit: int, **details: Any) -> None:
        message = f"undoing would need about {tokens} tokens and the limit is {limit}"
        super().__init__(message, hint="pass force: true to undo all the same", sid=sid, **details)
