"""The surroundings of an agent: kept files, the editor, permissions and extensions.

``sidecar/checkpoint/*`` lists the kept files, compares them with the present ones and takes files back;
``sidecar/editor/context`` and ``sidecar/complete`` are about the editor of a client and prompts that are
typed in it, ``sidecar/highlight`` about code that it shows; ``sidecar/permission/rules`` and
``sidecar/extension/list`` list the rules for the agent's actions and its commands, skills, hooks and tool
servers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.clients import EditorReport, cut_report
from sidecar.conductor.events import Notice
from sidecar.conductor.workbench.files import existing_folder
from sidecar.protocol import messages as m
from sidecar.protocol.codec import from_wire
from sidecar.service.handlers.session import answer_after

if TYPE_CHECKING:
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection
    from sidecar.workspace.contract import PositionEncoding


def list_checkpoints(connection: Connection, params: m.SidParams) -> m.CheckpointListResult:
    """List the checkpoints."""
    return m.CheckpointListResult(connection.hub.session(params.sid).workbench.checkpoints.all)


async def diff_checkpoint(connection: Connection, params: m.CheckpointDiffParams) -> m.CheckpointDiffResult:
    """Compare files with their kept contents."""
    session = connection.hub.session(params.sid)
    if params.to_node is not None:
        wanted = session.turns.changes.changes_since(params.to_node)
    elif params.compaction_id is not None:
        wanted = session.turns.changes.changes_since_compaction(params.compaction_id)
    else:
        wanted = session.workbench.checkpoints.since(params.checkpoint_id, params.uris)
    return m.CheckpointDiffResult(
        await session.workbench.checkpoints.diff(wanted), session.workbench.checkpoints.uncovered
    )


def restore_checkpoint(
    connection: Connection, params: m.CheckpointRestoreParams
) -> Awaitable[m.CheckpointRestoreResult]:
    """Take files back."""
    session = connection.hub.session(params.sid)
    return answer_after(
        session.restore_files(params.checkpoint_id, params.uris),
        lambda files: m.CheckpointRestoreResult(files, session.record.log.seq),
    )


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


async def highlight(_: Connection, params: m.HighlightParams) -> m.HighlightResult:
    """Return the coloured parts of source code."""
    return await asyncio.to_thread(find_runs, params)


def find_runs(params: m.HighlightParams) -> m.HighlightResult:
    """Return the parts of the text; the languages are loaded when the first text is asked about."""
    from sidecar.text.highlight import highlight, language_of

    language = params.language or language_of(params.path)
    runs = highlight(params.text, language, time.monotonic)
    return m.HighlightResult(tuple(m.HighlightRun(*run) for run in runs))


async def permission_rules(
    connection: Connection, params: m.PermissionRulesParams
) -> m.PermissionRulesResult:
    """List the rules, after a change or with the answer to an action."""
    session = connection.hub.session(params.sid)
    own, verdict = session.workbench.permission_rules, None
    if params.test is not None and params.set is not None:
        raise InvalidInput("give test or set, not both", hint="send two requests")
    if params.set is not None:
        connection.check_control(params.sid)
        change = params.set
        done = await own.change(change.effect, change.rule, remove=change.remove)
        session.record.notices.add(Notice("info", "Permissions", done))
        session.record.notices.emit_pending()
    if params.test is not None:
        verdict = await own.test(params.test.tool, params.test.input)
    return m.PermissionRulesResult(own.mode, await own.list(), session.record.log.seq, verdict)


async def list_extensions(connection: Connection, params: m.SidParams) -> m.ExtensionListResult:
    """List the extensions as they are now."""
    extensions = connection.hub.session(params.sid).workbench.extensions
    await extensions.refresh()
    found = extensions.list()
    return m.ExtensionListResult(found.commands, found.skills, found.hooks, found.servers, found.problems)


HANDLERS: Final[dict[str, Handler]] = {
    "sidecar/checkpoint/list": list_checkpoints,
    "sidecar/checkpoint/diff": diff_checkpoint,
    "sidecar/checkpoint/restore": restore_checkpoint,
    "sidecar/complete": complete,
    "sidecar/highlight": highlight,
    "sidecar/permission/rules": permission_rules,
    "sidecar/extension/list": list_extensions,
}
