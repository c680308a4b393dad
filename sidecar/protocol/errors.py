"""The only map from an error's ``kind`` to a JSON-RPC code, one column a face (protocol 4.6).

The contract of an error is ``data = {kind, retryable, hint?, details?}``; the code is what the face's own
specification has nearest to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from sidecar._internal.errors import SidecarError

__all__ = [
    "ERROR_KINDS",
    "ErrorKind",
    "MethodNotFound",
    "ParseProblem",
    "RequestCancelled",
    "RequestRefused",
    "acp_code",
    "error_data",
    "lsp_code",
]

REQUEST_FAILED: Final = -32803
_INTERNAL: Final = -32603


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One row of the table: an error's code on either face, when it comes, and whether to try again."""

    kind: str
    lsp: int
    acp: int
    doc: str
    retryable: bool = False


_ROWS: Final = (
    ErrorKind("parse", -32700, -32700, "The body is no JSON."),
    ErrorKind("invalidRequest", -32600, -32600, "The message is none, or comes at the wrong moment."),
    ErrorKind("methodNotFound", -32601, -32601, "There is no such method."),
    ErrorKind("invalidParams", -32602, -32602, "A parameter is missing, of another type or out of range."),
    ErrorKind("notInitialized", -32002, -32600, "A request came before `initialize`."),
    ErrorKind("alreadyInitialized", -32600, -32600, "`initialize` came a second time."),
    ErrorKind("messageTooLarge", -32600, -32600, "The body is over `limits.maxMessageBytes`."),
    ErrorKind("overloaded", REQUEST_FAILED, -32001, "Too many requests are open.", retryable=True),
    ErrorKind("cancelled", -32800, -32800, "The client cancelled the request."),
    ErrorKind("authRequired", REQUEST_FAILED, -32000, "The daemon wants to know who asks."),
    ErrorKind("sessionNotFound", REQUEST_FAILED, -32002, "No session is stored, or loaded, under the id."),
    ErrorKind("nodeNotFound", REQUEST_FAILED, -32002, "The session has no such node."),
    ErrorKind("compactionNotFound", REQUEST_FAILED, -32002, "The session has no such compaction."),
    ErrorKind("itemNotFound", REQUEST_FAILED, -32002, "Nothing waits in the queue under the id."),
    ErrorKind("modelNotFound", REQUEST_FAILED, _INTERNAL, "Nobody serves the model."),
    ErrorKind("busy", REQUEST_FAILED, -32600, "The session is at work, here or elsewhere.", retryable=True),
    ErrorKind("notSteerable", REQUEST_FAILED, -32600, "The turn the words were meant for is over."),
    ErrorKind(
        "headMoved", -32801, -32600, "The session moved on since `expectHead` or `planId`.", retryable=True
    ),
    ErrorKind("wouldExceedWindow", REQUEST_FAILED, _INTERNAL, "What would come back does not fit."),
    ErrorKind("storeUnavailable", REQUEST_FAILED, _INTERNAL, "The disk refuses.", retryable=True),
    ErrorKind("fileProblem", REQUEST_FAILED, _INTERNAL, "A file cannot be read or written."),
    ErrorKind("modelFailed", REQUEST_FAILED, _INTERNAL, "The model's call failed, or it fell silent."),
    ErrorKind("toolFailed", REQUEST_FAILED, _INTERNAL, "A tool broke the run."),
    ErrorKind("compactionFailed", REQUEST_FAILED, _INTERNAL, "Making room in the middle of a run failed."),
    ErrorKind("turnBudget", REQUEST_FAILED, _INTERNAL, "The run needed more model calls than it may make."),
    ErrorKind("invalidState", REQUEST_FAILED, _INTERNAL, "What was asked does not fit how things stand."),
    ErrorKind("internal", _INTERNAL, _INTERNAL, "A defect of the daemon; its log says more."),
)
ERROR_KINDS: Final[dict[str, ErrorKind]] = {row.kind: row for row in _ROWS}
"""Every kind of error that a client may get."""


class MethodNotFound(SidecarError):
    """There is no such method."""

    kind: ClassVar[str] = "methodNotFound"

    def __init__(self, method: str) -> None:
        super().__init__(f"no method {method!r}", hint="sidecar/schema names the methods", method=method)


class ParseProblem(SidecarError):
    """The bytes are no JSON."""

    kind: ClassVar[str] = "parse"


class RequestCancelled(SidecarError):
    """The client cancelled the request."""

    kind: ClassVar[str] = "cancelled"


class RequestRefused(SidecarError):
    """The request does not fit the state of the connection; *kind* says how."""

    def __init__(self, kind: str, message: str, *, hint: str | None = None, retryable: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind  # type: ignore[misc]  # one class for the kinds that only the wire knows
        self.retryable = retryable  # type: ignore[misc]  # as the kind


def lsp_code(kind: str) -> int:
    """Return the code of *kind* on the LSP face.

    >>> lsp_code("headMoved"), lsp_code("sessionNotFound")
    (-32801, -32803)
    """
    return ERROR_KINDS[kind].lsp if kind in ERROR_KINDS else REQUEST_FAILED


def acp_code(kind: str) -> int:
    """Return the code of *kind* on the ACP face.

    >>> acp_code("sessionNotFound"), acp_code("modelFailed")
    (-32002, -32603)
    """
    return ERROR_KINDS[kind].acp if kind in ERROR_KINDS else _INTERNAL


def error_data(error: SidecarError) -> dict[str, Any]:
    """Return the ``data`` object of *error*."""
    data: dict[str, Any] = {"kind": error.kind, "retryable": error.retryable}
    details = dict(error.details)
    for name in ("sid", "turnId"):
        if name in details:
            data[name] = details.pop(name)
    if error.hint:
        data["hint"] = error.hint
    if details:
        data["details"] = details
    return data
