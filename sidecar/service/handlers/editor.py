"""``sidecar/editor/context`` and ``sidecar/complete``: the editor of a client, and completion of prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.clients import EditorReport, cut_report
from sidecar.conductor.workbench.files import existing_folder
from sidecar.protocol import messages as m
from sidecar.protocol.codec import from_wire

if TYPE_CHECKING:
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection
    from sidecar.workspace.contract import PositionEncoding

_MAX_TEXT: Final = 1_000_000
_MAX_LIMIT: Final = 1_000


def read_report(params: Any, encoding: PositionEncoding) -> EditorReport:
    """Return the params of ``sidecar/editor/context``, within the limits. Raises InvalidInput.

    *encoding* is the unit of characters where the params do not name one.
    """
    raw = params if isinstance(params, Mapping) else {}
    cut, n_tabs_cut, n_cut = cut_report(raw)
    typed = from_wire(m.EditorContextParams, cut)
    return EditorReport(
        has_active="active" in raw,
        active=typed.active,
        tabs=typed.tabs,
        n_tabs_cut=n_tabs_cut,
        diagnostics=None if typed.diagnostics is None else {each.uri: each for each in typed.diagnostics},
        n_cut=n_cut,
        replaces_diagnostics=typed.replaces_diagnostics,
        encoding=typed.position_encoding or encoding,
    )


async def complete(connection: Connection, params: m.CompleteParams) -> m.CompleteResult:
    """Complete the prompt that is typed."""
    from sidecar.conductor.completing import (  # not above: a plain prompt needs it not
        Prompt,
        complete_prompt,
    )

    if len(params.text) > _MAX_TEXT:
        raise InvalidInput(f"the text has {len(params.text)} characters, the limit is {_MAX_TEXT}")
    if params.position < 0:
        raise InvalidInput(f"the position of the cursor is {params.position}", hint="it counts from 0")
    session = None if params.sid is None else connection.hub.session(params.sid)
    folder = existing_folder(params.cwd) if session is None and params.cwd is not None else None
    prompt = Prompt(params.text, params.position, params.encoding)
    items, is_incomplete = await complete_prompt(
        prompt,
        connection.hub,
        session,
        folder=folder,
        indexes=connection.hub.audience.path_indexes,
        editor=connection.editor,
        limit=max(1, min(params.limit, _MAX_LIMIT)),
    )
    return m.CompleteResult(items, is_incomplete)


HANDLERS: Final[dict[str, Handler]] = {"sidecar/complete": complete}
