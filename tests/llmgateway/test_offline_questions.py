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
        ("How do I start it?", how("run")),
        ("run the tests", how("test")),
        ("run tests", how("test")),
        ("run the linter", how("lint")),
        ("what does Hub do?", where("hub")),
        ("build it", how("build")),
        ("build a parser for dates", None),
        ("How do I start the api?", NewcomerQuestion(kind="how", work="run", words=("api",))),
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


def ask(
    prompt: str,
    files: dict[str, str] = FILES,
    log: str = "0123abc 2026-01-02 lid: open it wider",
) -> str:
    """Return the answer to *prompt* about a project of *files*, with tools that look into it."""
    import re

    def look(name: str, given: Any) -> str:
        match name:
            case "ls":
                return "\n".join(
                    [*(f"{each} (9 bytes)" for each in files if "/" not in each), "src/", "tests/"]
                )
            case "read":
                return "\n".join(
                    f"{n:6}\t{line}" for n, line in enumerate(files[given["path"]].split("\n"), 1)
                )
            case "find":
                form = given["name"].strip("*").replace("*", ".*")
                return "\n".join(each for each in files if re.search(form, each)) or "no files"
            case "grep":
                return "\n".join(
                    f"{path}:{n}: {line}"
                    for path, text in files.items()
                    for n, line in enumerate(text.split("\n"), 1)
                    if re.search(given["pattern"], line)
                )
        return log

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
        ("How can I build it?", ["pyproject.toml:1", "Makefile:1"]),
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


PAGES = {
    "README.rst": (
        """====
Box
====

.. image:: https://x/y.svg
   :alt: a badge

Box keeps things.

Installation
============

Use pip::

    pip install box

Hacking
-------

Tests: ``tox``.
""",
        {"What is this project?": [2, 8], "How do I install it?": [10, 15], "run the tests": [20]},
    ),
    "README.adoc": (
        """= Box
:toc:

Box keeps things.

== Setup

[source,sh]
----
make box
----
""",
        {"What is this project?": [1, 4], "How do I install it?": [6, 10]},
    ),
    "README.txt": (
        """BOX - a box
-----------

1. Installation

  ./configure

2. The end
""",
        {"What is this project?": [1], "How do I install it?": [4, 6]},
    ),
    "README": ("Box keeps things. Nothing more.\n", {"What is this project?": [1], "build it": []}),
    "README.md": (
        """<h1 align="center">
  <img src="x.png">
  Box
</h1>

[![badge](https://x)](y)

一个盒子

## Los geht's

Zuerst `npm install`, dann:

    npm test
""",
        {"What is this project?": [3, 8], "install it": [12], "run the tests": [14]},
    ),
}


@pytest.mark.parametrize(
    ("name", "prompt", "lines"),
    [(name, prompt, lines) for name, (_, asked) in PAGES.items() for prompt, lines in asked.items()],
)
def test_pages_of_every_form_are_read(name: str, prompt: str, lines: list[int]) -> None:
    text = ask(prompt, {name: PAGES[name][0]})
    assert [line.split("`")[1] for line in text.split("\n") if line.startswith("- `")] == [
        f"{name}:{each}" for each in lines
    ]
    assert lines or "Nothing says how to `build`: I looked in `README`." in text


@pytest.mark.parametrize(
    ("prompt", "place"),
    [
        ("where is str_append?", "str.c:2"),
        ("where is MAX_LEN defined?", "str.h:1"),
        ("where is str_t?", "str.h:3"),
        ("where is Ray::at?", "ray.cpp:1"),
        ("where is Entry?", "Ledger.java:3"),
        ("where is nextDelay?", "retry.ts:2"),
        ("how do I start the api?", "packages/api/README.md:1"),
    ],
)
def test_definitions_without_a_keyword_and_packages_are_places(prompt: str, place: str) -> None:
    files = {
        "main.c": "int main(void) { struct str s; return str_append(&s); }\n",
        "str.c": "\nint str_append(struct str *s)\n{\n",
        "str.h": "#define MAX_LEN 4\nint str_append(struct str *s);\ntypedef struct str str_t;\n",
        "ray.cpp": "Vec3 Ray::at(double t) const { return t; }\n",
        "Ledger.java": "public void postEntry(Entry entry) {\n\nrecord Entry(long cents) {}\n",
        "retry.ts": "export class Retry {\n  nextDelay(attempt: number) {\n    this.nextDelay(1)\n",
        "README.md": "# All\n\nEverything.\n",
        "packages/api/README.md": "Start it with `pnpm start`.\n",
    }
    assert f"- `{place}`" in ask(prompt, files).split("\n")[2]


def test_the_newest_commits_are_listed() -> None:
    assert "- 0123abc 2026-01-02 lid: open it wider" in ask("what changed lately?")


def test_a_file_named_so_is_a_place() -> None:
    assert "- `tests/test_lid.py:1`" in ask("where is test_lid?")
