"""``sidecar/checkpoint/*``: list the kept files, compare them with the present ones, take files back."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from sidecar.protocol import messages as m

if TYPE_CHECKING:
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection


def list_checkpoints(connection: Connection, params: m.SidParams) -> m.CheckpointListResult:
    """List the checkpoints."""
    return m.CheckpointListResult(connection.hub.session(params.sid).workbench.checkpoints.all)


async def diff(connection: Connection, params: m.CheckpointDiffParams) -> m.CheckpointDiffResult:
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


def restore(
    connection: Connection, params: m.CheckpointRestoreParams
) -> Awaitable[m.CheckpointRestoreResult]:
    """Take files back."""
    session = connection.hub.session(params.sid)
    restoring = session.restore_files(params.checkpoint_id, params.uris)

    async def answer() -> m.CheckpointRestoreResult:
        return m.CheckpointRestoreResult(await restoring, session.record.log.seq)

    return answer()


HANDLERS: Final[dict[str, Handler]] = {
    "sidecar/checkpoint/list": list_checkpoints,
    "sidecar/checkpoint/diff": diff,
    "sidecar/checkpoint/restore": restore,
}
