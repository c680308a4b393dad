"""The handlers of all methods, by resource; each module lists its own. A test compares them to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar.service.handlers import compact, context, daemon, importing, session, turn, workbench

if TYPE_CHECKING:
    from sidecar.service.contract import Handler

__all__ = ["HANDLERS"]

HANDLERS: Final[dict[str, Handler]] = {
    name: handler
    for module in (daemon, session, importing, turn, context, compact, workbench)
    for name, handler in module.HANDLERS.items()
}
