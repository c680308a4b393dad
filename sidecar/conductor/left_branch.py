"""The digest of a branch that a rewind or a fork left, by which the model knows the work that was done there.

Without it a model that is asked again goes the same way again. The digest waits in the session's values and
enters with the next prompt, so that a rewind moves the head to just the node that was asked for, and a second
one takes the first back without a trace. It is a local digest of a few hundred tokens: no model is asked.

Entries that the conversation still holds are not in it. A summary and the entries behind it are the same
here, so that a move across a compaction leaves nothing.
"""

from __future__ import annotations

from typing import Final

from sidecar.conductor.bridge import entries_to_messages
from sidecar.conductor.ports import GraphPort
from sidecar.conversation import Entry, History, count_shared
from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.window_budget import BRANCH_HEADER, local_fallback_digest

_DIGEST_TOKENS: Final = 400
_CLOSING: Final = (
    "The user went back to before all of this. It is not part of the conversation, and files may have been "
    "changed since; do not go on with it unless you are asked to."
)


def digest_left(graph: GraphPort, left: str | None, head: str | None) -> str:
    """Return the digest of the path to the node *left* as far as the path to *head* does not hold it.

    It is empty where no prompt was left. Raises ValueError for a node that *graph* does not know.
    """
    paths = (() if node is None else graph.node_path(node) for node in (left, head))
    left_path, kept_path = (
        History([graph.entries[each.id] for each in path], graph.entries) for path in paths
    )
    n_shared = count_shared(left_path, kept_path)
    if n_shared == len(left_path):
        return ""
    kept = {entry.node_id for entry in kept_path.originals()}
    found = left_path.with_entries(left_path[n_shared:]).originals()
    entries = [entry for entry in found if entry.node_id not in kept]
    if all(entry.kind != "user" for entry in entries):
        return ""
    return f"{local_fallback_digest(entries_to_messages(entries), None, _DIGEST_TOKENS)}\n\n{_CLOSING}"


def branch_entry(digest: str) -> Entry:
    """Return *digest* as an entry of the conversation that goes on."""
    return Entry(UserTurn((TextBlock(f"{BRANCH_HEADER}\n\n{digest}"),)), "branch")
