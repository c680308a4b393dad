"""The questions of newcomers: how they are read, and which lines with their places answer them."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    StreamOptions,
    ToolDescriptor,
    ToolResultBlock,
    ToolTurn,
    Turn,
)
from sidecar.llmgateway.offline.model import react
from sidecar.llmgateway.offline.questions import NewcomerQuestion, read_question
from turns import user

ABOUT, CHANGES = NewcomerQuestion(kind="about"), NewcomerQuestion(kind="changes")


def how(work: str) -> NewcomerQuestion:
    return NewcomerQuestion(kind="how", work=work)


def where(*words: str) -> NewcomerQuestion:
    return NewcomerQuestion(kind="where", words=words)


def uses(*words: str) -> NewcomerQuestion:
    return NewcomerQuestion(kind="uses", words=words)


@pytest.mark.parametrize(
    ("prompt", "question"),
    [
        ("What is this project?", ABOUT),
        ("what does this project do", ABOUT),
        ("Give me an overview of the repository.", ABOUT),
        ("what is this?", ABOUT),
        ("How do I install it?", how("install")),
        ("how can I set this up?", how("install")),
        ("How do I run the tests?", how("test")),
        ("what is the command to build it", how("build")),
        ("How do I start the server?", how("run")),
        ("how do I add a new tool?", NewcomerQuestion(kind="how", words=("tool",))),
        ("Where is the retry policy?", where("retry", "policy")),
        ("where is RetryPolicy defined?", where("retry", "policy")),
        ("which file handles permissions?", where("permission")),
        ("How does compaction work?", where("compaction")),
        ("what uses parse_args?", uses("parse", "args")),
        ("who calls CancelToken", uses("cancel", "token")),
        ("where is least_tokens used?", uses("least", "tokens")),
        ("What changed lately?", CHANGES),
        ("what are the recent changes", CHANGES),
        ("what's new?", CHANGES),
        ("fix the bug in the parser", None),
        ("the parser is slow", None),
        ("", None),
    ],
)
def test_a_question_is_read_by_its_form(prompt: str, question: NewcomerQuestion | None) -> None:
    assert read_question(prompt) == question


FILES = {
    "README.md": """[![badge](https://x)](y)
# Box

A box for things.

## Install

```
pip install box
```

## Development

Read the code.
""",
    "Makefile": "all: build\n\n.PHONY: test\ntest: all  # the suite\n\tpytest\n",
    "pyproject.toml": '[project]\nname = "box"\ndescription = "A box"\n',
    "CHANGELOG.md": "# Changes\n\n## 1.1\n\n- Lids\n",
    "src/lid.py": "class LidHinge:\n    pass\n\n\ndef open_lid(): return LidHinge()\n",
    "src/box.py": "from lid import LidHinge, open_lid\n",
    "tests/test_lid.py": "from lid import LidHinge\n",
}
OFFERED = {
    "read": ("path", "offset", "limit"),
    "grep": ("pattern", "path"),
    "ls": ("path",),
    "find": ("name",),
    "bash": ("command",),
}


def ask(prompt: str) -> str:
    """Return the answer to *prompt* about the project above, with tools that look into it."""
    import re

    def look(name: str, given: Any) -> str:
        match name:
            case "ls":
                return "\n".join(
                    [*(f"{each} (9 bytes)" for each in FILES if "/" not in each), "src/", "tests/"]
                )
            case "read":
                return "\n".join(
                    f"{n:6}\t{line}" for n, line in enumerate(FILES[given["path"]].split("\n"), 1)
                )
            case "find":
                form = given["name"].strip("*").replace("*", ".*")
                return "\n".join(each for each in FILES if re.search(form, each)) or "no files"
            case "grep":
                return "\n".join(
                    f"{path}:{n}: {line}"
                    for path, text in FILES.items()
                    for n, line in enumerate(text.split("\n"), 1)
                    if re.search(given["pattern"], line)
                )
        return "0123abc 2026-01-02 lid: open it wider"

    offered = tuple(
        ToolDescriptor(name, "", {"type": "object", "properties": {each: {} for each in names}})
        for name, names in OFFERED.items()
    )
    turns: list[Turn] = [user(prompt)]
    for _ in range(4):
        done = react(Conversation(tuple(turns), tools=offered), StreamOptions())
        if not done.calls:
            return done.text
        results = (ToolResultBlock(call.id, look(call.name, call.input)) for call in done.calls)
        turns += [AssistantTurn(done.blocks), ToolTurn(tuple(results))]
    raise AssertionError("it looks for ever")


@pytest.mark.parametrize(
    ("prompt", "places"),
    [
        ("What is this project?", ["README.md:2", "README.md:4", "pyproject.toml:2", "pyproject.toml:3"]),
        ("How do I install it?", ["README.md:6", "README.md:9"]),
        ("How do I run the tests?", ["Makefile:4"]),
        ("How can I build it?", ["pyproject.toml:1"]),
        ("How do I contribute?", ["README.md:12"]),
        ("where is the lid hinge?", ["src/lid.py:1", "src/lid.py:5"]),
        ("what uses LidHinge?", ["src/lid.py:5", "src/box.py:1", "tests/test_lid.py:1"]),
        ("What changed lately?", ["CHANGELOG.md:1", "CHANGELOG.md:3", "CHANGELOG.md:5"]),
    ],
)
def test_an_answer_cites_its_places(prompt: str, places: list[str]) -> None:
    text = ask(prompt)
    found = [line.split("`")[1] for line in text.split("\n") if line.startswith("- `")]
    assert found[: len(places)] == places
    assert text.endswith("I find and cite lines, I do not reason about them.")


def test_the_newest_commits_are_listed() -> None:
    assert "- 0123abc 2026-01-02 lid: open it wider" in ask("what changed lately?")


def test_a_file_named_so_is_a_place() -> None:
    assert "- `tests/test_lid.py:1`" in ask("where is test_lid?")
