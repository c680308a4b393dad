"""The branches of a conversation: the target of a rewind, the partners of a drop, the nodes of a fork. Pure.

Nothing here moves a head; nodes are never removed, only left.

By the digest of a branch that a rewind or a fork left, the model knows the work that was done there. Without
it a model that is asked again goes the same way again. The digest waits in the session's values and enters
with the next prompt, so that a rewind moves the head to just the node that was asked for, and a second one
takes the first back without a trace. It is a chronicle of a few hundred tokens: no model is asked.
Entries that the conversation still holds are not in it. A summary and the entries behind it are the same
here, so that a move across a compaction leaves nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Final

from sidecar._internal.errors import InvalidInput
from sidecar.chronicle import HEADER, Chronicle
from sidecar.conductor.engine import EngineMarks
from sidecar.conductor.errors import NodeNotFound
from sidecar.conductor.token_estimate import estimate_text_tokens
from sidecar.conversation import Entry, EntryKind, History, count_shared, kind_by_role
from sidecar.llmgateway.contract import (
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    UserTurn,
)
from sidecar.runtime.store import SessionGraph
from sidecar.window_budget import BRANCH_HEADER

_DIGEST_TOKENS: Final = 400
_PLACE: Final = re.compile(r"^#\d+(?:-\d+)?~? ", re.MULTILINE)
_PLACE_IN_INDEX: Final = re.compile(r" #\d+$", re.MULTILINE)
_CLOSING: Final = (
    "The user went back to before all of this. It is not part of the conversation, and files may have been "
    "changed since; do not go on with it unless you are asked to."
)


def kind_recogniser(find_marks: Callable[[], Iterable[EngineMarks]]) -> Callable[[Turn], EntryKind]:
    """Return the function that finds the kind of a turn that an earlier version stored without one.

    It goes by the role of the turn, and under the user's role by its first words. A summary that has a prompt
    behind it in the same turn counts as a prompt, so that the prompt is never lost.

    The marks are found for the first such turn, because that loads every engine.

    >>> recognise = kind_recogniser(lambda: [EngineMarks(summaries=("[so far]",))])
    >>> recognise(UserTurn((TextBlock("[so far] hi"),))), recognise(UserTurn((TextBlock("hi"),)))
    ('summary', 'user')
    """
    marks = cache(lambda: tuple(find_marks()))

    def recognise(turn: Turn) -> EntryKind:
        summaries = tuple(mark for each in marks() for mark in each.summaries)
        files = tuple(mark for each in marks() for mark in each.files)
        match turn:
            case UserTurn(blocks=(TextBlock(text=text),)) if text.startswith(summaries):
                return "summary"
            case UserTurn(blocks=(TextBlock(text=text), *_)) if text.startswith(files):
                return "file"
        return kind_by_role(turn)

    return recognise


def before_prompts(history: History, n_prompts: int) -> str | None:
    """Return the node before the last *n_prompts* prompts, None where that is before everything.

    Raises InvalidInput when the conversation has fewer prompts.
    """
    prompts = [index for index, entry in enumerate(history) if entry.kind == "user"]
    if not 1 <= n_prompts <= len(prompts):
        found = f"there are {len(prompts)} prompts in the conversation, and {n_prompts} were to be taken back"
        raise InvalidInput(found, hint="older ones are on the branches that sidecar/session/tree shows")
    index = begin_of_prompt(history, prompts[-n_prompts])
    return history[index - 1].node_id if index else None


def begin_of_prompt(history: Sequence[Entry], index: int) -> int:
    """Return the index of the first entry that came with the prompt at *index*: a branch, notes, mentions.

    The files that a prompt mentions stand behind a note; others came on their own.
    """
    first = index
    while first and history[first - 1].kind in ("branch", "note", "file"):
        first -= 1
    while first < index and history[first].kind == "file":
        first += 1
    return first


def without_notes(history: History) -> History:
    """Return *history* without notes of the host. The notes of its newest prompt stay."""
    if "note" not in map(attrgetter("kind"), history):
        return history
    prompt = next((at for at in range(len(history) - 1, -1, -1) if history[at].kind == "user"), len(history))
    newest = begin_of_prompt(history, prompt)
    return history.with_entries(
        [entry for at, entry in enumerate(history) if entry.kind != "note" or at >= newest]
    )


def entries_for_fork(leaf: str | None, graph: SessionGraph, sid: str) -> tuple[Sequence[Entry], int]:
    """Return the entries that a fork at *leaf* needs, each after its parent, and the length of its path.

    Those are the path to *leaf*, and the paths to the nodes that its summaries stand for. Raises
    NodeNotFound.
    """
    needed, followed = set[str](), set[str]()
    try:
        path = graph.kept_path(leaf)
        wanted = [entry.node_id for entry in path]
        while wanted:
            node_id = wanted.pop()
            if node_id in graph.entries and node_id not in followed:
                followed.add(node_id)
                missing = () if node_id in needed else graph.kept_path(node_id)
                needed.update(entry.node_id for entry in missing)
                wanted += [*(entry.node_id for entry in missing), *graph.entries[node_id].origin]
    except ValueError:
        raise NodeNotFound(sid, leaf or "") from None
    return [entry for entry in graph.entries.values() if entry.node_id in needed], len(path)


def digest_left(graph: SessionGraph, left: str | None, head: str | None) -> str:
    """Return the digest of the path to the node *left* as far as the path to *head* does not hold it.

    It is empty where no prompt was left. Raises ValueError for a node that *graph* does not know.
    """
    left_path, kept_path = (History(graph.kept_path(node), graph.entries) for node in (left, head))
    n_shared = count_shared(left_path, kept_path)
    if n_shared == len(left_path):
        return ""
    kept = {entry.node_id for entry in kept_path.originals()}
    found = left_path.with_entries(left_path[n_shared:]).originals()
    entries = [entry for entry in found if entry.node_id not in kept]
    if all(entry.kind != "user" for entry in entries):
        return ""
    chronicle = Chronicle()
    for entry in entries:
        chronicle.add(entry)
    text = chronicle.write(_DIGEST_TOKENS, meter=estimate_text_tokens).text
    # The places are those of the branch, where nothing can be recalled from.
    index, _, lines = text.partition(HEADER)
    shown = _PLACE_IN_INDEX.sub("", index) + _PLACE.sub("", lines)
    return f"{shown.rstrip()}\n\n{_CLOSING}"


def branch_entry(digest: str) -> Entry:
    """Return *digest* as an entry of the conversation that goes on."""
    return Entry(UserTurn((TextBlock(f"{BRANCH_HEADER}\n\n{digest}"),)), "branch")


def with_partners(turns: Sequence[Turn], chosen: Iterable[int]) -> Collection[int]:
    """Return *chosen* with the turns that hold the other half of a tool call or result in it.

    >>> from sidecar.llmgateway.contract import AssistantTurn, ToolTurn
    >>> call, result = ToolCallBlock("1", "ls", {}), ToolResultBlock("1", "")
    >>> sorted(with_partners([UserTurn(()), AssistantTurn((call,)), ToolTurn((result,))], [2]))
    [1, 2]
    """
    partners = find_partners(turns)
    found = set(chosen)
    frontier = list(found)
    while frontier:
        new = partners[frontier.pop()] - found
        found |= new
        frontier.extend(new)
    return found


def find_partners(turns: Sequence[Turn]) -> defaultdict[int, set[int]]:
    """Return the partners of each turn: a result and the newest call of its id."""
    partners: defaultdict[int, set[int]] = defaultdict(set)
    callers: dict[str, int] = {}
    for index, turn in enumerate(turns):
        for block in turn.blocks:
            if isinstance(block, ToolCallBlock):
                callers[block.id] = index
            elif isinstance(block, ToolResultBlock) and block.call_id in callers:
                partners[index].add(callers[block.call_id])
                partners[callers[block.call_id]].add(index)
    return partners
