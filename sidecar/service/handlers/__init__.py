"""The handlers of all methods, by resource; each module lists its own. A test compares them to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar.service.handlers import (
    checkpoint,
    compact,
    context,
    daemon,
    editor,
    extension,
    importing,
    model,
    permission,
    rule,
    session,
    turn,
)

if TYPE_CHECKING:
    from sidecar.service.contract import Handler

__all__ = ["HANDLERS"]

HANDLERS: Final[dict[str, Handler]] = {
    name: handler
    for module in (
        daemon,
        session,
        importing,
        turn,
        context,
        compact,
        rule,
        checkpoint,
        editor,
        model,
        permission,
        extension,
    )
    for name, handler in module.HANDLERS.items()
}
