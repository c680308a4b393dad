"""Views of the commands: the events of a turn, and the sizes of a context and of a compaction."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.commands.terminal import Screen, bar, short_path
from sidecar.conductor.contract import (
    PART_NAMES,
    Compaction,
    ContextUsage,
    Loss,
    Plan,
    describe_loss,
    draw_loss,
)
from sidecar.conductor.events import describe_retry
from sidecar.llmgateway.budget import describe_budget
from sidecar.protocol.codec import from_wire
from sidecar.workspace.paths import uri_to_path
from sidecar_client import ClientEvent, Session, SidecarClientError

_BAR_CELLS = 16

PLAN_MARKS: Final = {"completed": "✓", "in_progress": "»"}
"""The marks of the steps of a todo list; an open one has a dot."""


class StopTurn:
    """Stops the running turn of *session* when it is called."""

    def __init__(self, session: Session, screen: Screen) -> None:
        self._session = session
        self._screen = screen
        self._request: asyncio.Task[None] | None = None

    def __call__(self) -> None:
        """Request the stop; the turn then settles as any other."""
        self._screen.note("stopping; Ctrl-C again leaves at once")

        async def interrupt() -> None:
            try:
                await self._session.interrupt()
            except SidecarClientError as error:
                self._screen.problem(str(error))

        self._request = asyncio.ensure_future(interrupt())


def text_of(content: Sequence[Mapping[str, Any]]) -> str:
    """Return the words of an answer, which has parts of other kinds too."""
    return "".join(part["text"] for part in content if part["type"] == "text")


def display_path(uri: str, folder: Path | None = None) -> str:
    """Return the file *uri* as it would be typed in *folder*, by default the current one."""
    path = uri_to_path(uri)
    return uri if path is None else short_path(path, (folder or Path.cwd()).absolute())


def show_event(event: ClientEvent, screen: Screen, streamed: set[str]) -> None:
    """Show one event; *streamed* has the ids of messages that were shown as deltas."""
    data = event.data
    match event.kind:
        case "textDelta" if not screen.is_terminal:
            # What a pipe has taken cannot be withdrawn, so it gets whole messages alone.
            pass
        case "textDelta":
            streamed.add(data["messageId"])
            screen.stream(data["delta"])
        case "message":
            if data["messageId"] not in streamed:
                screen.stream(text_of(data["content"]))
            screen.end_line()
        case "plan":
            for each in data["entries"]:
                screen.note(f"  {PLAN_MARKS.get(each['status'], '·')} {each['content']}")
        case "toolStarted":
            screen.note(f"· {data['title']}")
            screen.wait(f"{data['title']}, Ctrl-C stops it")
        case "toolFinished":
            if data["isError"]:
                lines = str(data["content"]).strip().splitlines()
                screen.note(f"  failed: {lines[0] if lines else 'no output'}")
            screen.wait("thinking, Ctrl-C stops it")
        case "compaction" if data["status"] == "in_progress":
            screen.wait("condensing the older part of the conversation")
        case "compaction" if data["status"] == "completed":
            if data["compactionId"] not in streamed:
                streamed.add(data["compactionId"])
                sizes = f"{data['preTokens']:,} to {data['postTokens']:,} tokens"
                how = "automatically, " if data["trigger"] != "manual" else ""
                screen.note(f"· compacted {how}{sizes}; /undo restores it")
            if data["trigger"] != "manual":  # else the command shows the outcome
                loss = data.get("loss")
                show_loss(screen, None if loss is None else from_wire(Loss, loss, is_open=True))
        case "compactionNear":
            screen.note(f"· a compaction is near: {data['used']:,} of {data['limit']:,} tokens")
        case "budgetNear":
            screen.note(f"· a budget is nearly used up: {describe_budget(data)}", "yellow")
        case "compaction" if data["status"] == "failed":
            screen.note(f"· could not compact: {data.get('error') or data.get('reason')}", "yellow")
        case "fileStale":
            screen.note(f"· {display_path(data['uri'])} has changed since it was read")
        case "rulesChanged" if n_proposed := sum(bool(rule.get("proposed")) for rule in data["rules"]):
            are = "rule is" if n_proposed == 1 else "rules are"
            screen.note(f"· {n_proposed} {are} proposed; /rules lists, keeps or dismisses them")
        case "retry":
            again = describe_retry(data["delayMs"], data.get("withdrawn"))
            screen.note(f"· {again} ({data['attempt']} of {data['max']}): {data['error']}", "yellow")
        case "notice":
            text = ": ".join(filter(None, (data["title"], data["description"])))
            screen.note(f"· {text}", "red" if data["severity"] == "error" else "dim")
        case "gap":
            screen.note("· some events were missed")


def show_parts(screen: Screen, usage: ContextUsage) -> None:
    """Show the content of the window by kind."""
    parts = {label: tokens for label, tokens in _parts(usage).items() if tokens}
    most = max([1, *parts.values()])
    rows = [(label, bar(tokens, most, _BAR_CELLS), f"{tokens:,}") for label, tokens in parts.items()]
    screen.table(("", "", "tokens"), rows)


def show_sizes(screen: Screen, before: ContextUsage, after: ContextUsage) -> None:
    """Show the content of the window before and after, by kind."""
    show_change(screen, _parts(before), _parts(after))


def show_change(screen: Screen, was: Mapping[str, int], now: Mapping[str, int]) -> None:
    """Show the tokens of each part before and after, and their sums; both have the same parts."""
    labels = [label for label in was if was[label] or now[label]]
    total = ("total", f"{sum(was.values()):,}", f"{sum(now.values()):,}")
    if not screen.is_terminal:
        rows = [(label, f"{was[label]:,}", f"{now[label]:,}") for label in labels]
        screen.table(("tokens", "before", "after"), [*rows, total])
        return
    most = max([1, *was.values(), *now.values()])
    drawn = [
        (
            label,
            bar(was[label], most, _BAR_CELLS),
            f"{was[label]:,}",
            "→",
            f"{now[label]:,}",
            bar(now[label], most, _BAR_CELLS),
        )
        for label in labels
    ]
    drawn.append((total[0], "", total[1], "→", total[2], ""))
    screen.table(("tokens", "before", "", "", "", "after"), drawn, drop=(5, 1))


def plan_lines(plan: Plan, folder: Path) -> list[str]:
    """Return the effects of *plan* as lines of text; empty when it has none."""
    if plan.dropped is None or plan.kept is None or plan.projected is None:
        return []
    lines = [
        f"replaces {plan.dropped.count} messages of {plan.dropped.tokens:,} tokens with a summary",
        f"keeps the last {plan.kept.count} unchanged",
    ]
    files = ", ".join(display_path(file.uri, folder) for file in plan.rehydrate)
    if files:
        lines.append(f"reads these files again, with their current content: {files}")
    after = plan.projected
    if after.low == after.high:
        lines.append(f"leaves {after.tokens:,} tokens")
    else:
        lines.append(f"leaves about {after.tokens:,} tokens, {after.low:,} to {after.high:,}")
    if after.high >= (plan.pre_tokens or plan.gate.tokens):
        lines.append("changes nothing where the summary is so long that nothing would be saved")
    return lines


def show_plan(screen: Screen, plan: Plan, folder: Path) -> None:
    """Show the effects of *plan*, which has some: the parts of the window before and after, and in words."""
    assert plan.dropped is not None
    assert plan.kept is not None
    assert plan.projected is not None
    files = sum(file.tokens for file in plan.rehydrate)
    rest = max(0, (plan.pre_tokens or plan.gate.tokens) - plan.dropped.tokens - plan.kept.tokens)
    summary = max(0, plan.projected.tokens - plan.kept.tokens - files - rest)
    was = {"older messages": plan.dropped.tokens, "summary of them": 0, "restored files": 0}
    now = {"older messages": 0, "summary of them": summary, "restored files": files}
    same = {"newest messages": plan.kept.tokens, "prompt and tools": rest}
    show_change(screen, was | same, now | same)
    for line in plan_lines(plan, folder):
        screen.note(f"· {line}")
    show_loss(screen, plan.loss)


def show_outcome(screen: Screen, done: Compaction, folder: Path) -> None:
    """Show the outcome of a compaction."""
    if done.status != "completed":
        screen.note(f"nothing was changed: {done.reason or done.error or done.status}")
        return
    by = "by the model" if done.summary_source == "model" else "without a model"
    if done.dropped_count:
        screen.note(f"· the older part is now a summary, made {by}")
    show_loss(screen, done.loss)
    if files := ", ".join(display_path(uri, folder) for uri in done.rehydrated):
        screen.note(f"· read again, with the current content: {files}")


def show_loss(screen: Screen, loss: Loss | None) -> None:
    """Show the counts of a loss report, and a strip from whole to gone; nothing for None."""
    if loss is None:
        return
    screen.note(f"· {describe_loss(loss)}")
    if strip := draw_loss(loss):
        counts = {
            "whole": loss.kept,
            "thinned": loss.shortened,
            "one line": loss.line,
            "let go": loss.let_go,
        }
        ends = [name for name, count in counts.items() if count]
        screen.note(f"  {ends[0]} {strip} {ends[-1]}" if len(ends) > 1 else f"  {strip} {ends[0]}")


def _parts(usage: ContextUsage) -> Mapping[str, int]:
    by = usage.by
    return {label: 0 if by is None else getattr(by, name) for name, label in PART_NAMES.items()}
