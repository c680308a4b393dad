"""The system prompt of a session: who the model is here, where it works, and the project's own rules.

Rules stand here and not in the conversation, so that no compaction can lose them. Pure.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

__all__ = ["RULE_FILES", "RULE_FILE_LIMIT_BYTES", "system_prompt"]

RULE_FILES: Final = ("AGENTS.md", "CLAUDE.md")
"""Files in the session's folder whose text is the project's rules; the first that exists counts."""

RULE_FILE_LIMIT_BYTES: Final = 1_000_000
"""A larger rule file is not read."""

_RULES_CHARS: Final = 24_000

_BRIEF: Final = """\
You are a coding agent beside an editor. You work below the folder {cwd} with the tools you are given.

- Look before you answer: read the files and search; cite places as path:line.
- A read shows a file as it is now, unsaved changes included. When a file changed since you read \
it, read it again before you edit it.
- Edit in small steps. Changing files and running commands asks the user first; a refusal is an answer.
- An old part of the conversation may be condensed into a digest. What it says still holds; read files \
again rather than guess what they held."""


def system_prompt(cwd: PurePath, rules: str) -> str:
    """Return the system prompt for a session in *cwd*; *rules* is the text of its rule file, or empty.

    >>> system_prompt(PurePath("/project"), "").splitlines()[0][-20:]
    'tools you are given.'
    """
    brief = _BRIEF.format(cwd=cwd)
    if not rules.strip():
        return brief
    shown = rules if len(rules) <= _RULES_CHARS else rules[:_RULES_CHARS] + _cut_note(len(rules))
    return f"{brief}\n\nThe project's rules:\n\n{shown.strip()}"


def _cut_note(n_chars: int) -> str:
    return f"\n[... {n_chars - _RULES_CHARS} characters cut; read the rule file for the rest ...]"
