"""Errors on the wire: the only map from the ``kind`` of an error to a JSON-RPC code, one for each face.

A client goes by ``data = {kind, retryable, hint?, details?}``. The code is the nearest one in the
specification of the face, and several kinds share one.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar._internal.values import Value

__all__ = ["InvalidInput"]  # raised by the codec; clients may import it from the protocol alone

REQUEST_FAILED: Final = -32803
_INTERNAL: Final = -32603


class ErrorKind(Value):
    """One row of the table: the code of an error on either face, its cause, and whether a retry can help."""

    kind: str
    lsp: int
    acp: int
    doc: str
    retryable: bool = False


_ROWS: Final = (
    ErrorKind("parse", -32700, -32700, "The body is not valid JSON."),
    ErrorKind("invalidRequest", -32600, -32600, "It is not a request, or comes at the wrong moment."),
    ErrorKind("methodNotFound", -32601, -32601, "There is no such method."),
    ErrorKind("invalidParams", -32602, -32602, "A parameter is missing, of another type or out of range."),
    ErrorKind("notInitialized", -32002, -32600, "The request came before `initialize`."),
    ErrorKind("alreadyInitialized", -32600, -32600, "`initialize` came a second time."),
    ErrorKind("messageTooLarge", -32600, -32600, "The body is over `limits.maxMessageBytes`."),
    ErrorKind(
        "overloaded",
        REQUEST_FAILED,
        -32001,
        "Too many requests are open, or wait in the session.",
        retryable=True,
    ),
    ErrorKind("cancelled", -32800, -32800, "The client cancelled the request."),
    ErrorKind("authRequired", REQUEST_FAILED, -32000, "The client has to authenticate first."),
    ErrorKind("sessionNotFound", REQUEST_FAILED, -32002, "No session is stored, or loaded, under the id."),
    ErrorKind("nodeNotFound", REQUEST_FAILED, -32002, "The session has no such node."),
    ErrorKind("compactionNotFound", REQUEST_FAILED, -32002, "The session has no such compaction."),
    ErrorKind("itemNotFound", REQUEST_FAILED, -32002, "No prompt with this id waits in the queue."),
    ErrorKind("modelNotFound", REQUEST_FAILED, _INTERNAL, "No provider serves the model."),
    ErrorKind(
        "busy", REQUEST_FAILED, -32600, "The session is at work, maybe in another process.", retryable=True
    ),
    ErrorKind(
        "controlRequired",
        REQUEST_FAILED,
        -32600,
        "The client does not control the session, or another client has the session open that it deletes.",
    ),
    ErrorKind("notSteerable", REQUEST_FAILED, -32600, "The turn that was to be steered is over."),
    ErrorKind(
        "headMoved", -32801, -32600, "The session moved on since `expectHead` or `planId`.", retryable=True
    ),
    ErrorKind("wouldExceedWindow", REQUEST_FAILED, _INTERNAL, "The restored turns do not fit the window."),
    ErrorKind(
        "storeUnavailable",
        REQUEST_FAILED,
        _INTERNAL,
        "The disk is full or read-only, or the database does not answer.",
        retryable=True,
    ),
    ErrorKind(
        "leaseLost",
        REQUEST_FAILED,
        -32600,
        "Another daemon has taken the session over. A prompt that was just sent may be stored.",
    ),
    ErrorKind("fileProblem", REQUEST_FAILED, _INTERNAL, "A file cannot be read or written."),
    ErrorKind("modelFailed", REQUEST_FAILED, _INTERNAL, "The model call failed or stopped answering."),
    ErrorKind("turnBudget", REQUEST_FAILED, _INTERNAL, "The run needed more model calls than it may make."),
    ErrorKind("invalidState", REQUEST_FAILED, _INTERNAL, "The session is in no state for this request."),
    ErrorKind("internal", _INTERNAL, _INTERNAL, "The daemon has a defect; its log says more."),
)
ERROR_KINDS: Final[dict[str, ErrorKind]] = {row.kind: row for row in _ROWS}
"""Every kind of error that a client may get."""

COMMON_ERRORS: Final = (
    "parse",
    "invalidRequest",
    "methodNotFound",
    "invalidParams",
    "notInitialized",
    "messageTooLarge",
    "overloaded",
    "cancelled",
    "internal",
)
"""The kinds that any request may be answered with; each method names its others."""


class MethodNotFound(SidecarError):
    """No method has the name *method*."""

    kind: ClassVar[str] = "methodNotFound"

    def __init__(self, method: str) -> None:
        super().__init__(
            f"there is no method {method!r}", hint="sidecar/schema lists the methods", method=method
        )


class ParseError(SidecarError):
    """The body of a message is not valid JSON."""

    kind: ClassVar[str] = "parse"


class RequestCancelled(SidecarError):
    """The client cancelled the request."""

    kind: ClassVar[str] = "cancelled"


class RequestRefused(SidecarError):
    """The connection is in no state for the request; *kind* is a kind that only the wire has."""

    def __init__(self, kind: str, message: str, *, hint: str | None = None, retryable: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind  # type: ignore[misc]  # one class for several kinds
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
