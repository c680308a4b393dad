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
_ASKED: Final = [
    {"question": "Which database?", "choices": ["Postgres", "SQLite"]},
    {"question": "Which tables?", "choices": ["users", "logs"], "multiple": True, "default": "logs"},
    {"question": "Which name?", "default": "main"},
]
ASKS: Final[list[list[dict[str, Any]]]] = [
    [{"toolCall": {"name": "ask", "input": {"questions": _ASKED[:1]}}}],
    [{"toolCall": {"name": "ask", "input": {"questions": _ASKED}}}],
    [{"text": "So be it."}],
]
WORDS: Final = "one\ntwo\nthree\nfour\nfive\n"
"""The text of ``words.txt``."""
SHOUT: Final = [{"old_text": text, "new_text": text.upper()} for text in ("one", "three", "five")]
NEW: Final = (
    "import os\nimport sys\n\nA = 1\nB = 2\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 2\n"
)
"""A new file of two blocks, of which the first has the imports, too."""
CALM: Final = [{"old_text": "zero, unsaved", "new_text": "nothing"}]
SHOUTS: Final[list[list[dict[str, Any]]]] = [
    [{"toolCall": {"name": "read", "input": {"path": "words.txt"}}}],
    [{"toolCall": {"name": "edit", "input": {"path": "words.txt", "edits": SHOUT}}}],
    [{"text": "I have shouted."}],
    [{"text": "It is a number."}],
    [{"toolCall": {"name": "edit", "input": {"path": "words.txt", "edits": CALM}}}],
    [{"text": "As you like."}],
]
MAKES: Final[list[list[dict[str, Any]]]] = [
    [{"toolCall": {"name": "write", "input": {"path": "new.py", "content": NEW}}}],
    [{"text": "It is new."}],
]
MODELS: Final = {
    "fake-1": {"scripted": STEPS, "contextWindow": 64_000},
    "asks-1": {"scripted": ASKS, "contextWindow": 64_000},
    "shouts-1": {"scripted": SHOUTS, "contextWindow": 64_000},
    "makes-1": {"scripted": MAKES, "contextWindow": 64_000},
}


def ask(kind: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"toolCall": {"name": "code", "input": {"kind": kind, **arguments}}}]


CODE: Final = {
    "a.py": "def one():\n    return 1\n\n\nsmile = '\U0001f600'; print(one())\n",
    "b.py": "from a import one\n\n\ndef two():\n    return one()\n",
}
"""Files of whose first an editor has a buffer, with ``# typed`` as a first line that was never saved."""

_SMILE: Final = "smile = '😀'; print"
_QUESTIONS: Final = (
    ("documentSymbols", {"path": "b.py"}, ["b.py:4: function two"]),
    ("definition", {"path": "a.py", "line": 6, "symbol": "one"}, ["a.py:2: def one():"]),
    (
        "references",
        {"path": "a.py", "symbol": "one"},
        [
            "a.py:2: def one():",
            f"a.py:6: {_SMILE}(one())",
            "b.py:1: from a import one",
            "b.py:5: return one()",
        ],
    ),
    ("workspaceSymbols", {"symbol": "tw"}, ["b.py:4: function two"]),
    ("hover", {"path": "a.py", "line": 6, "symbol": "one"}, ["`one` is a function"]),
    (
        "rename",
        {"path": "a.py", "symbol": "print", "new_name": "say"},
        ["code: the language server says: print is not yours to rename; use grep and read instead"],
    ),
    (
        "rename",
        {"path": "a.py", "line": 6, "symbol": "one", "new_name": "single"},
        [
            "changed 2 files:",
            "a.py:2: def single():",
            f"a.py:6: {_SMILE}(single())",
            "b.py:1: from a import single",
            "b.py:5: return single()",
        ],
    ),
    ("codeActions", {"path": "a.py", "line": 2}, ["Add a comment (quickfix)"]),
    (
        "codeActions",
        {"path": "a.py", "line": 2, "apply": "Add a comment"},
        ["changed 1 file:", "a.py:2: # seen"],
    ),
)
QUESTIONS: Final = tuple((ask(kind, **given), "\n".join(lines)) for kind, given, lines in _QUESTIONS)
"""Calls of the model, each with its result by ``language_server.py``."""

ASKING: Final = {"asking": {"scripted": [*(call for call, _ in QUESTIONS), [{"text": "I have seen it."}]]}}
RENAMED: Final = f"# typed\n# seen\ndef single():\n    return 1\n\n\n{_SMILE}(single())\n"
"""The buffer of the first file in the end."""

STYLES: Final = ":root { --main: red; }\na { color: var(--main); }\n"
"""A file in a language that every VS Code knows."""

STYLING: Final = (
    (ask("documentSymbols", path="a.css"), "a.css:1: class :root\na.css:2: class a"),
    (ask("definition", path="a.css", line=2, symbol="--main"), "a.css:1: :root { --main: red; }"),
    (
        ask("references", path="a.css", symbol="--main"),
        "a.css:1: :root { --main: red; }\na.css:2: a { color: var(--main); }",
    ),
    (
        ask("rename", path="a.css", symbol="--main", new_name="--accent"),
        "changed 1 file:\na.css:1: :root { --accent: red; }\na.css:2: a { color: var(--accent); }",
    ),
)
