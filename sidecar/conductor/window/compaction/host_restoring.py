"""Restores files after the compactions of engines that restore none: the most used files, as they are now.

Such an engine writes a summary and keeps a tail. The host puts the files between the two, chosen by their use
as for any engine, and takes them out again before that engine compacts the next time. So no summary is ever
made of a file, which the engine would take for words of the user, and the files are chosen anew each time.

Files take at most a share of the room below the engine's limit, half of the room that is left there, and half
of the tokens that the compaction saves. For example, where 40,000 tokens become 10,000 under a limit of
50,000, they take up to 7,500. Sizes are in the engine's own tokens, but a single file is measured by
``window_budget``.

An engine that only changes the view keeps the stored conversation as it is. There the files are stored beside
the record of the compaction, and stand behind the notes in each of its views, the same text each time, for as
long as they fit below the engine's limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

from sidecar.conductor.contract import Gate, RehydrateCandidate
from sidecar.conductor.record.compactions import ViewFile
from sidecar.conductor.window.compaction.file_use import FileUse, RecentCalls, rank_by_use
from sidecar.conductor.window.compaction.restoring import (
    DEFAULT_BUDGET_TOKENS,
    MOST_GONE,
    MOST_LOOKED_AT,
    restore_uses,
    restored_behind,
    restored_file,
)
from sidecar.conductor.window.engines.contract import (
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineInput,
    FreshFile,
    FreshFiles,
    SessionEngine,
    View,
)
from sidecar.conductor.window.meter import entry_tokens
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import TextBlock, ToolResultBlock
from sidecar.window_budget.plan import FILES_SHARE
from sidecar.window_budget.text import compact_json

_AT_MOST_TIMES: Final = 2
"""A file takes at most so many times the tokens of ``window_budget`` in those of another engine."""


def is_done_by_host(engine: SessionEngine) -> bool:
    """Whether the host restores files after the compactions of *engine*."""
    return engine.compacts and not engine.marks.files


@runtime_checkable
class SlowPlanner(Protocol):
    """An engine that looks at every message for a plan."""

    def apart(self) -> SessionEngine:
        """Return a copy at the same place, which plans in a thread."""
        ...


def without_restored(history: History) -> History:
    """Return *history* without the files that compactions brought back."""
    kept = [entry for entry in history if not history.is_restored(entry)]
    return history if len(kept) == len(history) else history.with_entries(kept)


def list_files(given: EngineInput, plan: CompactionPlan) -> CompactionPlan:
    """Return *plan* with the files that could come back, the most used first."""
    uses = _rank(given, plan.cut, given.history[plan.cut :])
    return replace(plan, rehydrate=tuple(RehydrateCandidate(use.path, 0, stale=False) for use in uses))


def plan_files(
    given: EngineInput, gate: Gate, plan: CompactionPlan, fresh: Mapping[str, FreshFile]
) -> CompactionPlan:
    """Return *plan* with the files that come back and their tokens.

    Args:
        given: the conversation.
        gate: the limit of the engine.
        plan: the plan of the engine.
        fresh: the files as they are now, by path.
    """
    uses = _rank(given, plan.cut, given.history[plan.cut :])
    budget = _budget(given, gate, plan.pre_tokens, plan.projected_tokens)
    found = restore_uses(uses, fresh, budget, max_files=len(plan.dropped)).ranges
    files = tuple(RehydrateCandidate(each.file.path, each.tokens, stale=False) for each in found)
    tokens = sum(file.tokens for file in files)
    # Beside a summary that leaves no room for them none comes back.
    most = min(gate.limit, plan.pre_tokens - 1)
    return replace(
        plan,
        rehydrate=files,
        projected_tokens=max(plan.projected_tokens, min(most, plan.projected_tokens + tokens)),
        high_tokens=max(plan.high_tokens, min(most, plan.high_tokens + _AT_MOST_TIMES * tokens)),
    )


async def add_files(
    engine: SessionEngine,
    given: EngineInput,
    request: CompactionRequest,
    result: CompactionResult,
    look: FreshFiles,
) -> CompactionResult:
    """Return *result* with the most used files behind its summary, as they are now.

    Args:
        engine: the engine that made the result.
        given: the conversation that it was made of.
        request: the request of the compaction.
        result: its result; one without a summary is returned as it is.
        look: reads files as they are now.
    """
    entries = result.view.entries
    if not is_done_by_host(engine) or not result.dropped_count or entries[0].kind != "summary":
        return result
    gate = engine.gate(given, request)
    if isinstance(engine, SlowPlanner):
        plan = await asyncio.to_thread(engine.apart().plan, given, request)
    else:
        plan = engine.plan(given, request)
    # The budget of the preview, so that the same files come back; a prepared result may have another cut.
    is_planned = isinstance(plan, CompactionPlan) and plan.cut == result.cut
    after = plan.projected_tokens if isinstance(plan, CompactionPlan) and is_planned else result.post_tokens
    budget = _budget(given, gate, result.pre_tokens, after)
    # In a view, old results that stay are cut anew for each request, so a line of them counts as seen.
    kept = entries if engine.commits_view else given.history[result.cut :]
    uses = await asyncio.to_thread(_rank, given, result.cut, kept)
    fresh = await look([use.path for use in uses])
    found = await asyncio.to_thread(restore_uses, uses, fresh, budget, max_files=result.dropped_count)
    files = restored_behind(given.history, result.cut, found, fresh)
    view = replace(result.view, entries=(entries[0], *files, *entries[1:]))

    def weigh(shown: Sequence[Entry]) -> int:
        if not engine.commits_view:
            return sum(map(entry_tokens, shown))
        history = given.history.with_entries(shown)
        return engine.gate(replace(given, history=history, context_tokens=0), request).tokens

    post_tokens = result.post_tokens + (weigh(view.entries) - weigh(entries) if files else 0)
    if post_tokens > min(gate.limit, result.pre_tokens - 1):
        return result  # the summary is so long that nothing fits beside it
    return replace(
        result,
        view=view,
        post_tokens=post_tokens,
        restored=tuple(restored_file(each, fresh[each.file.path]) for each in found.ranges),
        missing=tuple(f"{file.path}: {why}" for file, why in found.gone[:MOST_GONE]),
    )


def list_view_files(view: View) -> tuple[ViewFile, ...]:
    """Return the files that :func:`add_files` has put into *view*."""
    shown = [entry for entry in view.entries if entry.kind == "file" and not entry.node_id and entry.reads]
    return tuple(
        ViewFile(block.text, entry.reads[0], entry.origin[0])
        for entry in shown
        for block in entry.turn.blocks
        if isinstance(block, TextBlock)
    )


def show_files(view: View, files: Sequence[Entry], gate: Gate) -> View:
    """Return *view* with *files* behind its notes, or as it is where they do not fit below the limit."""
    has_notes = bool(view.entries) and view.entries[0].kind == "summary"
    if not files or not has_notes or gate.tokens + sum(map(entry_tokens, files)) > gate.limit:
        return view
    return replace(view, entries=(view.entries[0], *files, *view.entries[1:]))


def _budget(given: EngineInput, gate: Gate, before: int, after: int) -> int:
    """Return the tokens that files may take where a compaction makes *after* tokens of *before*.

    The other half of the rest is for files that the engine counts higher than ``window_budget`` does.
    """
    share = int((gate.limit - given.overhead_tokens) * FILES_SHARE)
    saved = before - after - given.added_tokens
    return max(0, min(DEFAULT_BUDGET_TOKENS, share, (gate.limit - after) // 2, saved // 2))


def _rank(given: EngineInput, cut: int, kept: Iterable[Entry]) -> Sequence[FileUse]:
    """Return the files that may come back where *kept* stays in view, the most used first."""
    shown = {
        block.call_id: block.output if isinstance(block.output, str) else compact_json(block.output)
        for entry in kept
        for block in entry.turn.blocks
        if isinstance(block, ToolResultBlock)
    }
    calls = RecentCalls().follow(given.history, given.tool_effects)
    return rank_by_use(calls, shown, cut, given.same_file)[:MOST_LOOKED_AT]
