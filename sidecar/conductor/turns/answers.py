"""Answers of slash commands in words: compactions, rules, and files named as in the folder of the session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sidecar.conductor.contract import Compaction, Plan
from sidecar.conductor.loss_values import Loss, count_kind, describe_loss
from sidecar.conductor.rule_shapes import RuleSource, SessionRule
from sidecar.conductor.workbench.files import shown_uri

_SOURCES: Final[dict[RuleSource, str]] = {
    "prompt": "from a prompt",
    "user": "set by hand",
    "summary": "quoted by a summary",
    "imported": "from an imported prompt",
}


def describe_result(done: Compaction) -> str:
    """Return the answer of ``/compact``."""
    match done.status:
        case "completed":
            tokens = f"{done.pre_tokens:,} to {done.post_tokens or 0:,} tokens"
            if done.summary_source is None:
                return f"Shortened the texts that were too large: {tokens}. /uncompact takes it back."
            is_noted = done.summary_source == "model"
            made = "a summary by a model" if is_noted else "a chronicle without a model"
            folded = f"Compacted {done.dropped_count} turns into {made}"
            return f"{folded}: {tokens}. /uncompact takes it back."
        case "noop":
            return f"Nothing to do: {done.reason}."
        case "cancelled":
            return "Cancelled; the conversation is unchanged."
    return f"The compaction failed and the conversation is unchanged: {done.error}."


def describe_let_go(loss: Loss) -> str:
    """Return the counts of *loss*, and the kinds of the facts let go.

    >>> from sidecar.conductor.loss_values import KindLoss
    >>> print(describe_let_go(Loss(9, 0, 2, kinds=(KindLoss("command", 9, 0, 2),))))
    Facts of the folded part: 9 kept word for word, 0 shortened, 2 let go.
    Let go: 2 commands.
    """
    kinds = ", ".join(count_kind(each.kind, each.let_go) for each in loss.kinds if each.let_go)
    counts = describe_loss(loss.kept, loss.shortened, loss.let_go, loss.mended, loss.line or 0)
    return f"{counts}\nLet go: {kinds}." if kinds else counts


def describe_edited(uris: Sequence[str], folder: Path) -> str:
    """Return the sentence about files that turns edited which a change took back or went past.

    >>> describe_edited(["file:///p/a.py"], Path("/p"))
    '\\nThe files that these turns edited stay as they are:\\n- a.py'
    """
    names = (f"- {shown_uri(uri, folder)}" for uri in uris)
    return "\n".join(("\nThe files that these turns edited stay as they are:", *names)) if uris else ""


def describe_rules(rules: Sequence[SessionRule]) -> str:
    """Return the answer of ``/rules``."""
    holding = [describe_rule(rule) for rule in rules if rule.holds]
    ended = [describe_rule(rule) for rule in rules if not rule.holds]
    if not holding and not ended:
        return "There are no rules. /remember sets one, and so does a prompt such as: never push to main."
    lines = ["These rules hold:" if holding else "No rule holds.", *(f"- {rule}" for rule in holding)]
    lines += ["\nThese were taken back:"] * bool(ended) + [f"- {rule}" for rule in ended]
    return "\n".join(lines)


def describe_rule(rule: SessionRule) -> str:
    """Return *rule* with its id and origin, and the words against it.

    >>> describe_rule(SessionRule(id="r1", text="Never push.", source="user", at=0))
    'r1 Never push. (set by hand)'
    """
    shown = f"{rule.id} {rule.text} ({_SOURCES[rule.source]})"
    if rule.revoked_by is not None:
        by = rule.revoked_by.text
        return f"{shown}, taken back by /forget" if by is None else f"{shown}, taken back by: {by}"
    if rule.conflicts:
        return f"{shown}, perhaps at odds with: {'; '.join(rule.conflicts)}. /forget {rule.id} takes it back"
    return shown


def describe_plan(plan: Plan, folder: Path) -> str:
    """Return the answer of ``/preview``; files are named as in *folder*."""
    if plan.noop is not None or plan.dropped is None or plan.kept is None or plan.projected is None:
        reason = plan.noop.reason if plan.noop else "there is nothing to compact"
        return f"{plan.engine} would do nothing: {reason}."
    dropped, kept, after = plan.dropped, plan.kept, plan.projected
    lines = [
        f"{plan.engine} would replace {dropped.count} turns ({dropped.tokens:,} tokens) with a summary.",
        f"{kept.count} turns ({kept.tokens:,} tokens) would stay unchanged.",
        f"About {after.tokens:,} tokens would remain, {after.pct:g} % of the window.",
    ]
    if after.low < after.high:
        lines.append(f"The summary decides: at least {after.low:,}, at most {after.high:,} tokens.")
    if after.high >= plan.gate.tokens:
        lines.append("With a long summary nothing would be saved, and then nothing changes.")
    if (loss := plan.loss) is not None:
        lines.append(
            f"Without a model: {describe_loss(loss.kept, loss.shortened, loss.let_go, line=loss.line or 0)}"
        )
    lines += [
        f"- {shown_uri(file.uri, folder)} would be restored{', as it is now' if file.stale else ''}: "
        f"{file.tokens:,} tokens"
        for file in plan.rehydrate
    ]
    return "\n".join(lines)
