"""Records of an imported session: its sizes, and the compactions that the other agent made. Pure values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sidecar.conductor.content import prompt_text, prompt_title
from sidecar.conductor.contract import Compaction
from sidecar.conductor.record.records import SessionInfo, to_record
from sidecar.conductor.window.meter import entry_tokens

if TYPE_CHECKING:  # a daemon begins without the readers
    from sidecar.importing.contract import ImportedCompaction, ImportedSession


def describe_import(
    info: SessionInfo, imported: ImportedSession, new_id: Callable[[], str]
) -> tuple[SessionInfo, list[dict[str, Any]]]:
    """Return *info* with the sizes, time and title of *imported*, and a record for each of its compactions.

    Costs the length of the session. *new_id* makes the ids of the compactions.
    """
    tokens = {entry.node_id: entry_tokens(entry) for entry in imported.entries}
    parents = {entry.node_id: entry.parent for entry in imported.entries}
    path: list[str] = []
    node = imported.leaf
    while node is not None:
        path.append(node)
        node = parents[node]
    prompts = (entry.turn.blocks for entry in imported.entries if entry.kind == "user")
    first = next((blocks for blocks in prompts if prompt_text(blocks).strip()), ())
    info = replace(
        info,
        title=info.title or imported.title or (prompt_title(first) if first else ""),
        created_at=imported.created_at,
        imported_at=info.updated_at,
        messages=len(path),
        tokens=sum(tokens[node] for node in path),
    )
    compactions = (describe_compaction(new_id(), info.engine, each, tokens) for each in imported.compactions)
    return info, [to_record("compaction", each) for each in compactions]


def describe_compaction(
    compaction_id: str, engine: str, done: ImportedCompaction, tokens: Mapping[str, int]
) -> Compaction:
    """Return the record of a compaction that another agent made; it can be undone like any other.

    Args:
        compaction_id: its new id.
        engine: the engine of the session, which weighs the conversation at an undo.
        done: the compaction.
        tokens: the tokens of each node.
    """
    n_before, n_after = len(done.before), len(done.after)
    cut = n_before if done.kept_from is None else done.before.index(done.kept_from)
    return Compaction(
        compaction_id=compaction_id,
        engine=engine,
        trigger="auto",
        status="completed",
        pre_tokens=sum(tokens[node] for node in done.before),
        pre_count=n_before,
        post_tokens=sum(tokens[node] for node in done.after),
        post_count=n_after,
        dropped_count=n_before - (n_after - 1),
        cut=cut,
        kept_from=done.kept_from,
        microcompacted=0,
        before_head=done.before[-1],
        after_head=done.after[-1],
        undoable=True,
        summary_source="model",
        summary=done.summary,
        info={"isImported": True},
    )
