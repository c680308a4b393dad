"""What the scripted model does in an editor, and the text that it leaves behind."""

from __future__ import annotations

from typing import Any, Final

READ: Final = {"toolCall": {"name": "read", "input": {"path": "a.py"}}}
CHANGES: Final = [
    {"old_text": "answer = 42", "new_text": "answer = 43"},
    {"old_text": "end = 1", "new_text": "end = 2\n3"},
]
ANSWER: Final = "It has **42** on its first line.\n\n" + "".join(f"- reason {at}\n" for at in range(40))
STEPS: Final[list[list[dict[str, Any]]]] = [
    [{"thinking": "First I read.\nThen I say."}, {"text": "I look at it."}, READ],
    [{"text": ANSWER, "deltas": 60}],
    [READ],
    [{"toolCall": {"name": "edit", "input": {"path": "a.py", "edits": CHANGES}}}],
    [{"text": "It is 43 now."}],
    [{"toolCall": {"name": "bash", "input": {"command": "touch made-by-the-model"}}}],
    [{"text": "I was quick."}],
    [{"text": "# Goal\nThe answer is to be 43."}],
]
MODELS: Final = {"fake-1": {"scripted": STEPS, "contextWindow": 64_000}}
