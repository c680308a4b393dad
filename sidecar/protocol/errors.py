"""The only map from an error's ``kind`` to a JSON-RPC code, one column a face (protocol 4.6).

The contract of an error is ``data = {kind, retryable, hint?, details?}``; the code is what the face's own
specification has nearest to it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sidecar._internal.errors import SidecarError

__all__ = [
    "MethodNotFound",
    "ParseProblem",
    "RequestCancelled",
    "RequestRefused",
    "acp_code",
    "error_data",
    "lsp_code",
]

REQUEST_FAILED: Final = -32803
_LSP: Final[dict[str, int]] = {
    "parse": -32700,
    "invalidRequest": -32600,
    "methodNotFound": -32601,
    "invalidParams": -32602,
    "notInitialized": -32002,
    "alreadyInitialized": -32600,
    "headMoved": -32801,
    "messageTooLarge": -32600,
    "cancelled": -32800,
    "internal": -32603,
}
_ACP: Final[dict[str, int]] = {
    "parse": -32700,
    "invalidRequest": -32600,
    "methodNotFound": -32601,
    "invalidParams": -32602,
    "notInitialized": -32600,
    "alreadyInitialized": -32600,
    "sessionNotFound": -32002,
    "nodeNotFound": -32002,
    "compactionNotFound": -32002,
    "busy": -32600,
    "notSteerable": -32600,
    "headMoved": -32600,
    "overloaded": -32001,
    "messageTooLarge": -32600,
    "cancelled": -32800,
    "authRequired": -32000,
}


class MethodNotFound(SidecarError):
    """There is no such method."""

    kind: ClassVar[str] = "methodNotFound"

    def __init__(self, method: str) -> None:
        super().__init__(
            f"no method {method!r}", hint="sidecar/status is a good first call; see README", method=method
        )


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
        self.retryable = retryable  # type: ignore[misc]


def lsp_code(kind: str) -> int:
    """Return the code of *kind* on the LSP face.

    >>> lsp_code("headMoved"), lsp_code("sessionNotFound")
    (-32801, -32803)
    """
    return _LSP.get(kind, REQUEST_FAILED)


def acp_code(kind: str) -> int:
    """Return the code of *kind* on the ACP face.

    >>> acp_code("sessionNotFound"), acp_code("modelFailed")
    (-32002, -32603)
    """
    return _ACP.get(kind, -32603)


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
