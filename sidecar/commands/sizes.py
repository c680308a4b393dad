"""What a compaction would do and what it did, for every command that shows one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar.commands.live import path_of
from sidecar.commands.terminal import Screen, bar
from sidecar.protocol.codec import to_wire
from sidecar.protocol.messages import Compaction, ContextUsage, Plan

__all__ = ["plan_lines", "show_change", "show_outcome", "show_parts", "show_sizes"]

_BAR_CELLS = 16
_PARTS: Final = {
    "system": "system prompt",
    "toolDefs": "tool schemas",
    "user": "your prompts",
    "assistant": "its answers",
    "thinking": "its thinking",
    "toolResults": "tool results",
    "images": "images",
    "summary": "digest",
    "files": "restored files",
}


def show_parts(screen: Screen, usage: ContextUsage) -> None:
    """Show what the window is filled with."""
    parts = {label: tokens for label, tokens in _parts(usage).items() if tokens}
    most = max([1, *parts.values()])
    rows = [(label, _bar(tokens, most), f"{tokens:,}") for label, tokens in parts.items()]
    screen.table(("", "", "tokens"), rows)


def show_sizes(screen: Screen, before: ContextUsage, after: ContextUsage) -> None:
    """Show what the window was filled with, and what it is filled with now."""
    show_change(screen, _parts(before), _parts(after))


def show_change(screen: Screen, was: Mapping[str, int], now: Mapping[str, int]) -> None:
    """Show the tokens of each part before and after, and of all together. Both have the same parts."""
    labels = [label for label in was if was[label] or now[label]]
    total = ("together", f"{sum(was.values()):,}", f"{sum(now.values()):,}")
    if not screen.is_terminal:
        rows = [(label, f"{was[label]:,}", f"{now[label]:,}") for label in labels]
        screen.table(("tokens", "before", "after"), [*rows, total])
        return
    most = max([1, *was.values(), *now.values()])
    drawn = [
        (label, _bar(was[label], most), f"{was[label]:,}", "→", f"{now[label]:,}", _bar(now[label], most))
        for label in labels
    ]
    drawn.append((total[0], "", total[1], "→", total[2], ""))
    screen.table(("tokens", "before", "", "", "", "after"), drawn, drop=(5, 1))


def plan_lines(plan: Plan, folder: Path) -> list[str]:
    """Return what *plan* would do, in words; no lines when it would do nothing."""
    if plan.dropped is None or plan.kept is None or plan.projected is None:
        return []
    lines = [
        f"folds {plan.dropped.count} turns of {plan.dropped.tokens:,} tokens into a digest",
        f"keeps the last {plan.kept.count} as they are",
    ]
    files = ", ".join(path_of(file.uri, folder) for file in plan.rehydrate)
    if files:
        lines.append(f"reads again, as they are now: {files}")
    return [*lines, f"leaves about {plan.projected.tokens:,} tokens; undo takes it back"]


def show_outcome(screen: Screen, done: Compaction, folder: Path) -> None:
    """Show how a compaction went."""
    if done.status != "completed":
        screen.note(f"nothing was changed: {done.reason or done.error or done.status}")
        return
    by = "by the model" if done.summary_source == "model" else "without a model"
    if done.dropped_count:
        screen.note(f"· what was older is now a digest, made {by}")
    for uri in done.rehydrated:
        screen.note(f"· read again, as it is now: {path_of(uri, folder)}")


def _parts(usage: ContextUsage) -> Mapping[str, int]:
    found: Mapping[str, int] = to_wire(usage.by) if usage.by is not None else {}
    return {label: found.get(name, 0) for name, label in _PARTS.items()}


def _bar(part: int, whole: int) -> str:
    return bar(part, whole, _BAR_CELLS)
