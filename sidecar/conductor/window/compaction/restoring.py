"""Restores files that the model has seen, as they are now: after a compaction, or when a user asks.

After a compaction the host puts the most used files between the summary and the tail, for every engine alike.
An engine that cannot tell them from words of the user gets the conversation without them the next time, so no
summary is ever made of a file; the files are chosen anew each time.

Files take at most a share of the room below the engine's limit, half of the room that is left there, and half
of the tokens that the compaction saves. For example, where 40,000 tokens become 10,000 under a limit of
50,000, they take up to 7,500. Sizes are in the engine's own tokens, but a single file is measured by
``window_budget``.

It reads through the given function and changes nothing; the session appends the entries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sidecar._internal.values import Value
from sidecar.conductor.contract import Gate, RestoredFile
from sidecar.conductor.engine import (
    CompactionPlan,
    CompactionResult,
    EngineInput,
    FreshFile,
    FreshFiles,
    PlannedCompaction,
)
from sidecar.conductor.session_ops import messages_to_turns
from sidecar.conductor.window.compaction.chronicling import Keeping
from sidecar.conductor.window.compaction.file_choice import FILE_SHARE, MAX_FILES, FilePiece, choose_lines
from sidecar.conductor.window.compaction.file_use import FileUse, rank_by_use
from sidecar.conductor.window.compaction.tail import kept_turns
from sidecar.conductor.window.weights import entry_tokens
from sidecar.conversation import Entry, FileRead, History, merge_ranges
from sidecar.llmgateway.contract import ToolResultBlock, Turn
from sidecar.text.clip import text_or_json
from sidecar.text.touches import Touch
from sidecar.window_budget.plan import FILES_SHARE
from sidecar.window_budget.rehydrate import file_message

DEFAULT_BUDGET_TOKENS: Final = 8000
MOST_LOOKED_AT: Final = 40
MOST_GONE: Final = 5
"""How many files are read as they are now, and how many of those that are gone are named."""

_GONE: Final[dict[str, str]] = {
    "notFound": "deleted",
    "binary": "no text any more",
    "tooLarge": "too large now",
}


class RestoredFiles(Value):
    """The pieces of files that come back, and the files that are *gone*, with the reason."""

    pieces: tuple[FilePiece, ...] = ()
    gone: tuple[tuple[str, str], ...] = ()


class Restoration(Value):
    """Restored files: *entries* as the model will see them; *missing* names files that cannot come back."""

    entries: tuple[Entry, ...]
    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """The tokens that the restored files take."""
        return sum(file.tokens for file in self.files)


async def restore(reads: Sequence[tuple[str, FileRead]], look: FreshFiles, budget_tokens: int) -> Restoration:
    """Return the files of *reads* as they are now, inside the budget.

    A file that was read in parts comes back in those parts. A file that does not fit comes back in part.

    Args:
        reads: the files, the most wanted first, each under the path that the model knows.
        look: reads files as they are now.
        budget_tokens: tokens that all of it may take.
    """
    uses = [
        FileUse(path, touches=[Touch(path=path, kind="read", ranges=read.ranges)], is_known=True)
        for path, read in reads
    ]
    fresh = await look([use.path for use in uses])
    most_each = budget_tokens // max(1, min(FILE_SHARE, len(uses)))
    found = restore_uses(uses, fresh, budget_tokens, max_files=len(uses), most_each=most_each)
    settled = {each.path for each in found.pieces} | {path for path, _ in found.gone}
    left_out = [use.path for use in uses if use.path not in settled and fresh[use.path].text]
    why = f"none of it fits into {budget_tokens} tokens"
    return Restoration(
        entries=tuple(restored_entry(each, fresh[each.path]) for each in found.pieces),
        files=tuple(restored_file(each, fresh[each.path]) for each in found.pieces),
        missing=(
            *(f"{path}: {reason}" for path, reason in found.gone),
            *(f"{path}: {why}" for path in left_out),
        ),
    )


def restore_uses(
    uses: Sequence[FileUse],
    fresh: Mapping[str, FreshFile],
    budget_tokens: int,
    *,
    max_files: int = MAX_FILES,
    most_each: int | None = None,
) -> RestoredFiles:
    """Return the files of *uses* that come back, the most used last, and the ones that are gone.

    Args:
        uses: the files, the most used first.
        fresh: the files as they are now, by the use's path.
        budget_tokens: the tokens that all of them may take.
        max_files: the number of files that may come back.
        most_each: the tokens that one file may take; None for its share of the budget.
    """
    texts = {path: file.text for path, file in fresh.items() if file.text is not None}
    chosen = choose_lines(uses, texts, budget_tokens, max_files=max_files, most_each=most_each)
    return RestoredFiles(tuple(reversed(chosen)), tuple(find_gone(uses, fresh)))


def find_gone(uses: Iterable[FileUse], fresh: Mapping[str, FreshFile]) -> Iterable[tuple[str, str]]:
    """Yield the files that were read, are out of view and cannot be read now, with the reason.

    A file that only a command line named may never have been one.
    """
    for use in uses:
        problem = fresh[use.path].problem if use.path in fresh else None
        if problem is not None and use.is_known and not use.shown:
            yield use.path, _GONE.get(problem, problem)


def restored_file(piece: FilePiece, fresh: FreshFile) -> RestoredFile:
    """Return the record of a restored file, which has the hash of the whole of it."""
    read = fresh.read
    hash_, source = ("", "disk") if read is None else (read.hash, read.source)
    return RestoredFile(fresh.uri, hash_, source, piece.tokens)


def restored_entry(piece: FilePiece, fresh: FreshFile) -> Entry:
    """Return the entry of a restored file, with the read of the lines that it shows."""
    (turn,) = messages_to_turns([file_message(piece.file, piece.text)])
    reads = () if fresh.read is None else (replace(fresh.read, ranges=merge_ranges(piece.file.ranges)),)
    return Entry(turn, "file", reads=reads)


def restored_behind(
    history: History, cut: int, found: RestoredFiles, fresh: Mapping[str, FreshFile]
) -> list[Entry]:
    """Return the entries of the files that come back behind a summary, each with the node that showed it.

    Args:
        history: the conversation before its compaction.
        cut: the index of the first entry that is kept.
        found: the files.
        fresh: the files as they are now, by path.
    """

    def find_node(path: str) -> str:
        newest_first = reversed(history.first(cut))
        shown = (entry for entry in newest_first if any(read.path == path for read in entry.reads))
        return next(shown, history[0]).node_id

    entries = [restored_entry(each, fresh[each.path]) for each in found.pieces]
    nodes = [find_node(each.reads[0].path) if each.reads else history[0].node_id for each in entries]
    return [replace(entry, origin=(node,)) for entry, node in zip(entries, nodes, strict=True)]


def without_restored(history: History) -> History:
    """Return *history* without the files that compactions brought back."""
    kept = [entry for entry in history if not history.is_restored(entry)]
    return history if len(kept) == len(history) else history.with_entries(kept)


def project_files(
    planned: PlannedCompaction, found: RestoredFiles, fresh: Mapping[str, FreshFile]
) -> tuple[CompactionPlan, Mapping[str, int]]:
    """Return the plan with the files *found*, and the estimated tokens of each as the model will see it.

    Its ``high_tokens`` hold for the tokens of the engine and for the estimated ones: an engine may count four
    times as many for an indented file. *fresh* has the files as they are now; it and the result are by the
    paths that the model knows. Blocks.
    """
    plan = planned.plan
    entries = {each.path: restored_entry(each, fresh[each.path]) for each in found.pieces}
    weights = {path: entry_tokens(entry) for path, entry in entries.items()}
    tokens = sum(weights.values())
    most_tokens = max(tokens, planned.engine.weigh([*entries.values()]))
    # Beside a summary that leaves no room for them none comes back.
    most = min(planned.gate.limit, plan.pre_tokens - 1)
    projected = replace(
        plan,
        projected_tokens=max(plan.projected_tokens, min(most, plan.projected_tokens + tokens)),
        high_tokens=max(plan.high_tokens, min(most, plan.high_tokens + most_tokens)),
    )
    return projected, weights


async def find_files(
    given: EngineInput, gate: Gate, plan: CompactionPlan, uses: Sequence[FileUse], look: FreshFiles
) -> tuple[RestoredFiles, Mapping[str, FreshFile]]:
    """Return the files that come back beside a summary, and all that were looked at as they are now.

    Args:
        given: the conversation.
        gate: the limit of the engine.
        plan: the plan of the engine.
        uses: the files that may come back, the most used first.
        look: reads files as they are now.
    """
    fresh = await look([use.path for use in uses])
    budget = files_budget(given, gate, plan.pre_tokens, plan.projected_tokens)
    found = await asyncio.to_thread(restore_uses, uses, fresh, budget, max_files=plan.n_dropped)
    return found, fresh


async def bring_files_back(
    planned: PlannedCompaction, result: CompactionResult, keeping: Keeping
) -> CompactionResult:
    """Return *result* with the most used files behind its summary, as they are now.

    The budget is that of the plan, so that the files of the preview come back.

    Args:
        planned: the compaction.
        result: its result so far; one without a summary is returned as it is.
        keeping: reads files as they are now.
    """
    engine, given, gate = planned.engine, planned.given, planned.gate
    entries = result.entries
    if not result.dropped_count or entries[0].kind != "summary":
        return result
    turns = [entry.turn for entry in entries]
    uses = await asyncio.to_thread(rank_files, given, result.cut, turns)
    found, fresh = await find_files(given, gate, planned.plan, uses, keeping.look)
    files = restored_behind(given.history, result.cut, found, fresh)
    weight = await asyncio.to_thread(engine.weigh, files) if files else 0
    if result.post_tokens + weight > min(gate.limit, result.pre_tokens - 1):
        return result  # the summary is so long that nothing fits beside it
    return replace(
        result,
        entries=(entries[0], *files, *entries[1:]),
        post_tokens=result.post_tokens + weight,
        restored=tuple(
            replace(restored_file(each, fresh[each.path]), tokens=entry_tokens(entry))
            for each, entry in zip(found.pieces, files, strict=True)
        ),
        missing=tuple(f"{path}: {why}" for path, why in found.gone[:MOST_GONE]),
    )


def files_budget(given: EngineInput, gate: Gate, before: int, after: int) -> int:
    """Return the tokens that files may take where a compaction makes *after* tokens of *before*.

    The other half of the rest is for files that the engine counts higher than ``window_budget`` does.
    """
    share = int((gate.limit - given.overhead_tokens) * FILES_SHARE)
    saved = before - after
    return max(0, min(DEFAULT_BUDGET_TOKENS, share, (gate.limit - after) // 2, saved // 2))


def rank_kept(given: EngineInput, plan: CompactionPlan) -> Sequence[FileUse]:
    """Return the files that may come back with *plan*, the most used first."""
    return rank_files(given, plan.cut, kept_turns(plan, given.history))


def rank_files(given: EngineInput, cut: int, kept: Iterable[Turn]) -> Sequence[FileUse]:
    """Return the files that may come back where *kept* stays in view, the most used first."""
    shown = {
        block.call_id: text_or_json(block.output)
        for turn in kept
        for block in turn.blocks
        if isinstance(block, ToolResultBlock)
    }
    uses = rank_by_use(given.history, given.tool_effects, shown=shown, first_kept=cut, key_of=given.same_file)
    return uses[:MOST_LOOKED_AT]
