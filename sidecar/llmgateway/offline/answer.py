"""The answer after the lookups: the lines that were found, cited, and a statement about the model.

It quotes and counts; it draws no conclusions, because the model behind it cannot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sidecar.llmgateway.offline.intent import Intent
from sidecar.llmgateway.offline.lookups import Lookup, best_lines, is_definition

STATEMENT: Final = (
    "I am offline-1, the built-in model without network: I find and cite lines, I do not reason about them."
)
"""The end of every answer."""

_HELP: Final = (
    "Name a file and I read it; put a word in backticks and I search for it. I also do this:\n\n"
    "```\nrun `COMMAND`\nwrite PATH: TEXT\nedit PATH: replace `A` with `B`\n```\n\n"
    "For real answers, configure a model with a key."
)
_MAX_CITED: Final = 12
_MAX_LISTED: Final = 20
_MAX_OUTPUT_LINES: Final = 20
_MAX_LINE_CHARS: Final = 160

_MARKUP: Final = re.compile(r"[`*\\]|(?<!\w)_|_(?!\w)|\]\(|<[A-Za-z/!?]|~~|&#?\w+;")
"""What Markdown would not show as it is; an underscore inside a word it does."""


def announce(intent: Intent) -> str:
    """Return one line about the first calls, to go before them."""
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


def answer(intent: Intent, lookups: Sequence[Lookup], *, has_tools: bool) -> str:
    """Return the answer to *intent* after *lookups*, bounded, ending with :data:`STATEMENT`."""
    if intent.remember is not None:
        return f"Noted, and it stays in this conversation: {_clip(intent.remember)}\n\n{STATEMENT}"
    if intent.is_small_talk and not lookups:
        return f"{STATEMENT} {_HELP}"
    parts = [describe_effect(each) for each in lookups if each.tool in ("bash", "write", "edit", "todo")]
    parts.append(cite_lines(intent, lookups) or list_entries(lookups))
    for failed in (each for each in lookups if each.is_error):
        call = f"{failed.tool} {failed.path}" if failed.path else failed.tool
        reason = _clip(next(iter(failed.lines), "no reason was given"))
        parts.append(f"{call} failed: {reason}")
    shown = [part for part in parts if part]
    if shown:
        return "\n\n".join((*shown, STATEMENT))
    if not has_tools:
        nothing = "No tool that I could use for this was offered to me, so I looked nothing up."
    else:
        sought = ", ".join(f"`{term}`" for term in intent.terms or intent.words)
        about = f" for {sought}" if sought else ""
        nothing = f"I found nothing{about} in {len(lookups)} lookups. {_HELP}"
    return f"{nothing}\n\n{STATEMENT}"


def describe_effect(lookup: Lookup) -> str:
    """Return the result of a call that changes something; failed ones are reported elsewhere."""
    if lookup.is_error:
        return ""
    if lookup.tool != "bash":
        return _clip(next(iter(lookup.lines), f"{lookup.tool} {lookup.path or ''}: done"))
    lines = lookup.text.rstrip().split("\n")
    left_out = len(lines) - _MAX_OUTPUT_LINES
    shown = [f"... {left_out} lines before", *lines[-_MAX_OUTPUT_LINES:]] if left_out > 0 else lines
    command = lookup.input.get("command", "") if isinstance(lookup.input, dict) else ""
    body = "\n".join(_clip(line) for line in shown)
    return f"`{_clip(command)}` answered:\n\n```\n{body}\n```"


def cite_lines(intent: Intent, lookups: Sequence[Lookup]) -> str:
    """Return the best lines of *lookups* for *intent*, cited; empty without any."""
    sought = intent.terms or intent.words
    found = best_lines(lookups, sought, limit=_MAX_CITED)
    if not found and not intent.paths:
        sought = intent.looser_words
        found = best_lines(lookups, sought, limit=_MAX_CITED)
    elif not found:
        outline = [line for lookup in lookups for line in lookup.cited if line.text.strip()]
        marked = [line for line in outline if is_definition(line.text) or line.text.startswith("#")]
        found = (marked or outline)[:_MAX_CITED]
    if not found:
        return ""
    about = ", ".join(f"`{term}`" for term in sought) or "the files you named"
    cited = [f"- `{line.path}:{line.line}` {as_is(line.text.strip())}" for line in found]
    return "\n".join((f"Found for {about}:", "", *cited))


def list_entries(lookups: Sequence[Lookup]) -> str:
    """Return the entries of the folders that were listed; empty without any."""
    listing = [each for each in lookups if each.tool in ("ls", "find", "glob") and not each.is_error]
    entries = [line for lookup in listing for line in lookup.lines]
    if not entries:
        return ""
    shown = [f"- {as_is(entry)}" for entry in entries[:_MAX_LISTED]]
    if len(entries) > _MAX_LISTED:
        shown.append(f"- ... and {len(entries) - _MAX_LISTED} more")
    return "\n".join(("I found no matching line. Here is the listing:", "", *shown))


def as_is(text: str) -> str:
    """Return the beginning of *text*, as code where Markdown would change it."""
    shown = _clip(text)
    if _MARKUP.search(shown) is None:
        return shown
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    gap = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{gap}{shown}{gap}{fence}"


def _clip(text: str) -> str:
    one_line = " ".join(text.split("\n"))
    return one_line if len(one_line) <= _MAX_LINE_CHARS else f"{one_line[: _MAX_LINE_CHARS - 3]}..."
