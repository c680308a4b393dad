"""Outlines of files, by the indentation and by tree-sitter."""

from __future__ import annotations

import time
from importlib.util import find_spec

import pytest

from sidecar.conductor.window.compaction.outlines import (
    MAX_DEFINITIONS,
    definitions_by_indentation,
    outline_of,
)

PYTHON = (
    "import os\n\nclass A:\n    x = 1\n\n    def f(self):\n        if x:\n            y()\n\n"
    "def g():\n    pass"
)
RUST = (
    "use std::fs;\n\nimpl A {\n    fn f(&self) {\n        if x {\n            y();\n        }\n    }\n}\n"
    "fn g() {\n    1\n}"
)
needs_grammars = pytest.mark.skipif(
    find_spec("tree_sitter") is None, reason="the extra [outline] is not installed"
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(PYTHON, [(3, "class A"), (6, "def f(self)"), (10, "def g()")], id="python"),
        pytest.param(RUST, [(3, "impl A"), (4, "fn f(&self)"), (10, "fn g()")], id="rust"),
        pytest.param("a\nb\nc", [], id="prose"),
        pytest.param("", [], id="nothing"),
        pytest.param("für x:\n    y", [(1, "für x")], id="letters of any language"),
    ],
)
def test_the_indentation_tells_the_definitions_of_any_language(
    source: str, expected: list[tuple[int, str]]
) -> None:
    assert list(definitions_by_indentation(source.split("\n"))) == expected


def test_the_headings_of_a_text_are_its_outline() -> None:
    assert outline_of("README.md", ["# One", "text", "## Two"]) == [(1, "One"), (3, "Two")]


@needs_grammars
@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        pytest.param("a.py", PYTHON, [(3, "class A"), (6, "def f(self)"), (10, "def g()")], id="python"),
        pytest.param("a.rs", RUST, [(3, "impl A"), (4, "fn f(&self)"), (10, "fn g()")], id="rust"),
        pytest.param(
            "a.ts",
            "export class A {\n  f() { }\n}\nexport function g() { }\ninterface I { x: number }",
            [
                (1, "export class A"),
                (2, "f() { }"),
                (4, "export function g() { }"),
                (5, "interface I { x: number }"),
            ],
            id="typescript",
        ),
        pytest.param(
            "a.go",
            "package a\n\ntype A struct { x int }\n\nfunc (a A) f() { }\nfunc g() { }",
            [(3, "type A struct { x int }"), (5, "func (a A) f() { }"), (6, "func g() { }")],
            id="go",
        ),
        pytest.param("a.c", "int x;\nint f(void)\n{\n  return 1;\n}", [(2, "int f(void)")], id="c"),
        pytest.param(
            "a.java", "class A {\n  void f() { }\n}", [(1, "class A"), (2, "void f() { }")], id="java"
        ),
    ],
)
def test_a_grammar_tells_the_definitions(name: str, source: str, expected: list[tuple[int, str]]) -> None:
    assert outline_of(name, source.split("\n")) == expected


@needs_grammars
@pytest.mark.parametrize("name", ["a.py", "a.ts", "a.rs", "a.c", "a.cpp", "a.go", "a.java", "a.js"])
@pytest.mark.parametrize("source", ["[" * 5_000, "{" * 5_000, "class A:\n " * 2_000, "\x00\ud800", ""])
def test_a_broken_file_has_an_outline(name: str, source: str) -> None:
    assert len(outline_of(name, source.split("\n"))) <= MAX_DEFINITIONS


def test_a_hostile_file_costs_its_length() -> None:
    started = time.process_time()
    assert len(outline_of("a.xyz", ["a {", " b {", "  c"] * 30_000)) == MAX_DEFINITIONS
    assert outline_of("a.xyz", [" " * n + "if x:" for n in range(3_000)]) == []
    assert time.process_time() - started < 2
