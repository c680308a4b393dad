"""From findings to an answer: the lines that were found, cited, and a plain word on who found them.

It quotes and counts; it draws no conclusions, because the model behind it cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sidecar.llmgateway.offline.intent import Intent
from sidecar.llmgateway.offline.results import Finding, best_hits, is_definition

__all__ = ["STATEMENT", "announce", "answer"]

STATEMENT: Final = (
    "I am offline-1, the built-in model without network: I find and cite lines, I do not reason about them."
)
"""What every answer ends with."""

_HELP: Final = (
    "Name a file and I read it; put a word in `backticks` and I search for it; say run `COMMAND`, "
    "write PATH: TEXT, or edit PATH: replace `A` with `B`. For real answers, configure a model with a key."
)
_MAX_HITS: Final = 12
_MAX_LISTED: Final = 20
_MAX_OUTPUT_LINES: Final = 20
_MAX_LINE_CHARS: Final = 160


def announce(intent: Intent) -> str:
    """Return one line on what is being looked up, to go before the first calls."""
    if intent.write is not None:
        return f"Writing {intent.write.path}."
    if intent.todo:
        return f"Noting {len(intent.todo)} things to do."
    if intent.edit is not None:
        return f"Looking at {intent.edit.path} before the edit."
    aims = [f"running `{command}`" for command in intent.commands]
    aims += [f"reading {ref.path}" for ref in intent.paths]
    aims += [f"searching for `{term}`" for term in intent.terms or intent.words]
    text = ", ".join(aims) or "looking around"
    return f"{text[0].upper()}{text[1:]}."


def answer(intent: Intent, findings: Sequence[Finding], *, has_tools: bool) -> str:
    """Return the answer to *intent* after *findings*, bounded, ending with :data:`STATEMENT`."""
    if intent.remember is not None:
        return f"Noted, and it stays in this conversation: {_clip(intent.remember)}\n\n{STATEMENT}"
    if intent.is_small_talk and not findings:
        return f"{STATEMENT} {_HELP}"
    parts = [part for part in _parts(intent, findings) if part]
    if not parts:
        parts = [_nothing(intent, findings, has_tools)]
    return "\n\n".join((*parts, STATEMENT))


def _parts(intent: Intent, findings: Sequence[Finding]) -> list[str]:
    parts = [_outcome(finding) for finding in findings if finding.tool in ("bash", "write", "edit", "todo")]
    parts.append(_cited(intent, findings))
    parts.append(_listed(findings) if not parts[-1] else "")
    parts.append("\n".join(_failure(finding) for finding in findings if finding.is_error))
    return parts


def _outcome(finding: Finding) -> str:
    if finding.is_error:
        return ""
    if finding.tool != "bash":
        return _clip(next(iter(finding.lines), f"{finding.tool} {finding.path or ''}: done"))
    lines = finding.text.rstrip().split("\n")
    left_out = len(lines) - _MAX_OUTPUT_LINES
    shown = [f"... {left_out} lines before", *lines[-_MAX_OUTPUT_LINES:]] if left_out > 0 else lines
    command = finding.input.get("command", "") if isinstance(finding.input, dict) else ""
    body = "\n".join(_clip(line) for line in shown)
    return f"`{_clip(command)}` answered:\n\n```\n{body}\n```"


def _cited(intent: Intent, findings: Sequence[Finding]) -> str:
    sought = intent.terms or intent.words
    hits = best_hits(findings, sought, limit=_MAX_HITS)
    if not hits and not intent.paths:
        sought = intent.looser_words
        hits = best_hits(findings, sought, limit=_MAX_HITS)
    elif not hits:
        outline = [hit for finding in findings for hit in finding.hits if hit.text.strip()]
        marked = [hit for hit in outline if is_definition(hit.text) or hit.text.startswith("#")]
        hits = (marked or outline)[:_MAX_HITS]
    if not hits:
        return ""
    about = ", ".join(f"`{term}`" for term in sought) or "the files you named"
    lines = [f"- `{hit.path}:{hit.line}` {_clip(hit.text.strip())}" for hit in hits]
    return "\n".join((f"Found for {about}:", "", *lines))


def _listed(findings: Sequence[Finding]) -> str:
    entries = [
        line
        for finding in findings
        if finding.tool in ("ls", "find", "glob") and not finding.is_error
        for line in finding.lines
    ]
    if not entries:
        return ""
    shown = [f"- {_clip(entry)}" for entry in entries[:_MAX_LISTED]]
    if len(entries) > _MAX_LISTED:
        shown.append(f"- ... and {len(entries) - _MAX_LISTED} more")
    return "\n".join(("I found no matching line. What there is:", "", *shown))


def _failure(finding: Finding) -> str:
    what = f"{finding.tool} {finding.path}" if finding.path else finding.tool
    return f"{what} failed: {_clip(next(iter(finding.lines), 'no reason was given'))}"


def _nothing(intent: Intent, findings: Sequence[Finding], has_tools: bool) -> str:
    if not has_tools:
        return "No tool that I could use for this was offered to me, so I looked nothing up."
    sought = ", ".join(f"`{term}`" for term in intent.terms or intent.words)
    about = f" for {sought}" if sought else ""
    return f"I found nothing{about} in {len(findings)} lookups. {_HELP}"


def _clip(text: str) -> str:
    one_line = " ".join(text.split("\n"))
    return one_line if len(one_line) <= _MAX_LINE_CHARS else f"{one_line[: _MAX_LINE_CHARS - 3]}..."
