"""Answers to the daemon's permission questions.

Nothing is allowed unless a handler says so: without one everything is rejected.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, TypeAlias

from sidecar.protocol.codec import from_wire, to_wire
from sidecar.protocol.messages import PermissionAnswer, PermissionRequest

__all__ = ["PermissionHandler", "allow", "answering", "reject"]

_log = logging.getLogger("sidecar_client")

PermissionHandler: TypeAlias = Callable[[PermissionRequest], PermissionAnswer | Awaitable[PermissionAnswer]]
"""Answers one question. Raising counts as a rejection; so does answering after ``expires_at``."""


def allow(request: PermissionRequest) -> PermissionAnswer:
    """Allow this once. As a handler it allows everything."""
    return _choose(request, "allow_once")


def reject(request: PermissionRequest) -> PermissionAnswer:
    """Refuse this once. As a handler it refuses everything."""
    return _choose(request, "reject_once")


def answering(handler: PermissionHandler) -> Callable[[Mapping[str, Any]], Awaitable[Any]]:
    """Return *handler* as the answer to ``sidecar/permission/request``."""

    async def answer(params: Mapping[str, Any]) -> Any:
        request = from_wire(PermissionRequest, params)
        try:
            decision = handler(request)
            return to_wire(await decision if isawaitable(decision) else decision)
        except Exception:
            _log.exception("the permission handler failed at %s; rejected", request.permission_id)
            return to_wire(reject(request))

    return answer


def _choose(request: PermissionRequest, kind: str) -> PermissionAnswer:
    for option in request.options:
        if option.kind == kind:
            return PermissionAnswer("selected", option.option_id)
    return PermissionAnswer("cancelled")
