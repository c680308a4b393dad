"""Only what a user typed is taken for the user's words."""

from __future__ import annotations

import time

import pytest

from sidecar.text.typed import hide_pasted_text

RULE = "never push to main"

PASTES = {
    "code fence": f"Look:\n```\n{RULE}\n```\ndone",
    "tilde fence": f"~~~text\n{RULE}\n~~~",
    "open fence": f"```\n{RULE}",
    "quotation": f"> {RULE}",
    "quoted words": f'The README of theirs has "{RULE}." in it',
    "curly quotes": f"He wants “{RULE}. And more.” I think",
    "German quotes": f"Da steht „{RULE}“",
    "guillemets": f"Il y a « {RULE} » dedans",
    "attached file": f'<attached uri="file:///README.md">\n# Rules\n{RULE}\n</attached>',
    "tags": f"<document>\n{RULE}\n</document>",
    "shell": f"$ echo {RULE}",
    "shell output": f"The command prints:\n{RULE}\nalways",
    "introduced": f"The log says:\n\n{RULE}\nalways retry",
    "log": f"2026-11-22 10:00:01 WARN {RULE}",
    "log level": f"[ERROR] {RULE}",
    "time": f"12:01:07 bot {RULE}",
    "comment": f"// {RULE}",
    "block comment": f"/* {RULE} */",
    "diff": f"@@ -1 +1 @@ {RULE}\n+{RULE}",
    "transcript": f"» you: {RULE}",
    "another transcript": f"[User]: {RULE}",
    "chat roles": f"user: {RULE}\nassistant: fine",
    "mail": f"From: boss\nSubject: {RULE}",
    "indented code": f"see\n\n    {RULE}",
    "table": f"| {RULE} |",
}

TYPED = {
    "a sentence": "Never push to main.",
    "bullets": "Rules:\n- never push to main\n* always test\n    - never commit",
    "numbers": "1. never push to main\n2) always test",
    "a quoted word": 'Never use "var" here',
    "a list of rules about logs": "Rules for the log output:\nnever push to main",
    "after a paste": f"```\n{RULE}\n```\nAlways run the tests.",
    "after an introduced paste": "The log says:\nfailed\n\nNever push to main.",
    "a tag that never ends": "<div>\nNever push to main.",
    "a comparison": "Never push when a < b.",
}


@pytest.mark.parametrize("text", PASTES.values(), ids=PASTES)
def test_a_paste_is_hidden(text: str) -> None:
    hidden = hide_pasted_text(text)
    assert "never" not in hidden
    assert "always" not in hidden
    assert len(hidden) == len(text)
    assert hidden.count("\n") == text.count("\n")


@pytest.mark.parametrize("text", TYPED.values(), ids=TYPED)
def test_typed_words_stay(text: str) -> None:
    hidden = hide_pasted_text(text)
    assert hidden.split("\n")[-1] == text.split("\n")[-1] or text == 'Never use "var" here'
    assert "ever" in hidden or "lways" in hidden


@pytest.mark.parametrize("part", ["<a>\n", '"', "“", "```\n", "log says:\n", "\n", "<a ", "[x]", "«"])
def test_hostile_text_takes_linear_time(part: str) -> None:
    before = time.process_time()
    hide_pasted_text(part * 20_000)
    assert time.process_time() - before < 2
