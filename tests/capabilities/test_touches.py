"""The files that tool calls touch, of tools with any name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.capabilities.effects import ToolEffects, effects_of_name
from sidecar.capabilities.touches import numbered_lines, touches_of_call

PATCH = """*** Begin Patch
*** Update File: src/a.py
@@ def f():
 def f():
-    old
+    new
*** Add File: b.py
+first
*** Delete File: c.py
*** Update File: d.py
*** Move to: e.py
@@
+x
*** End Patch"""


def check(
    arguments: Any, *expected: tuple[Any, ...], result: str = "", effects: ToolEffects | None = None
) -> None:
    """Each touch as kind, path and ranges."""
    found = [(each.kind, each.path, each.ranges) for each in touches_of_call(arguments, result, effects)]
    assert found == list(expected)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        pytest.param("Read", {"file_path": "a.py"}, ("read", "a.py", ()), id="Claude Code reads"),
        pytest.param(
            "read", {"filePath": "a.py", "offset": 5, "limit": 9}, ("read", "a.py", ((5, 9),)), id="opencode"
        ),
        pytest.param(
            "view", {"path": "a", "view_range": [3, 9]}, ("read", "a", ((3, 7),)), id="Copilot views"
        ),
        pytest.param(
            "read_files",
            {"files": [{"path": "a.py", "start_line": 4, "end_line": 6}]},
            ("read", "a.py", ((4, 3),)),
            id="Cline reads several files",
        ),
        pytest.param(
            "str_replace_editor",
            {"command": "view", "path": "a.c"},
            ("read", "a.c", ()),
            id="an editor views",
        ),
        pytest.param(
            "str_replace_editor",
            {"command": "str_replace", "path": "a.c", "old_str": "x", "new_str": "y"},
            ("edit", "a.c", ()),
            id="and edits",
        ),
        pytest.param("mcp__fs__put", {"path": "a", "content": "x"}, ("write", "a", ()), id="a server writes"),
        pytest.param(
            "anything", {"path": "a", "edits": [{"newText": "y"}]}, ("edit", "a", ()), id="and edits "
        ),
        pytest.param(
            "exec_command", {"cmd": "cat a", "workdir": "/w"}, ("read", "/w/a", ()), id="Codex runs"
        ),
        pytest.param(
            "shell", {"command": ["bash", "-lc", "cat a"]}, ("read", "a", ()), id="words of a command"
        ),
        pytest.param("run_commands", {"commands": ["cat a"]}, ("read", "a", ()), id="several command lines"),
        pytest.param(
            "exec",
            {"input": 'await tools.exec_command({cmd:"sed -n \'1,5p\' a.rs", workdir:"/w"})'},
            ("read", "/w/a.rs", ((1, 5),)),
            id="a script that runs a command",
        ),
    ],
)
def test_a_call_of_a_foreign_tool(name: str, arguments: Any, expected: tuple[Any, ...]) -> None:
    """The declared effect counts where there is one, else the shape of the arguments."""
    check(arguments, expected, effects=effects_of_name(name))


@pytest.mark.parametrize("arguments", [{"input": PATCH}, {"patchText": PATCH}, PATCH])
def test_a_patch_names_its_files(arguments: Any) -> None:
    check(
        arguments,
        ("edit", "src/a.py", ()),
        ("write", "b.py", ()),
        ("remove", "c.py", ()),
        ("move", "d.py", ()),
        ("edit", "e.py", ()),
        effects=effects_of_name("apply_patch"),
    )
    assert touches_of_call(arguments, "", None)[0].text == "def f():\n    new"


def test_a_search_touches_the_files_that_it_found() -> None:
    hits = "src/a.py:3:x\nsrc/a.py:4:y\nb.py:9:z\nno hit"
    expected = (("search", "src/a.py", ((3, 2),)), ("search", "b.py", ((9, 1),)))
    check({"pattern": "x"}, *expected, result=hits, effects=effects_of_name("grep"))
    check({"cmd": "rg -n x"}, *expected, result=hits, effects=effects_of_name("bash"))
    check({"query": "x"}, *expected, result=hits)


def test_the_result_of_a_read_tells_its_lines() -> None:
    """They may be fewer than were asked for."""
    check(
        {"path": "a"},
        ("read", "a", ((7, 2),)),
        result="     7\tx\n     8\ty",
        effects=effects_of_name("read"),
    )
    output = "Exit code: 0\nOutput:\n     7\tx\n     8\ty"
    check({"cmd": "nl a"}, ("read", "a", ((7, 2),)), result=output, effects=effects_of_name("shell"))


@pytest.mark.parametrize(
    "arguments", [None, 5, {}, {"path": 7}, {"path": ""}, {"x": ["a"]}, "text", {"commands": 5}]
)
def test_a_call_without_files_touches_none(arguments: Any) -> None:
    check(arguments)


def test_a_text_without_numbers_has_no_numbered_lines() -> None:
    assert numbered_lines("one: 1\n2: two\nthree\nfour\nfive\nsix\nseven") == {}


NAMES = st.sampled_from(
    [
        "path",
        "paths",
        "files",
        "command",
        "commands",
        "cmd",
        "offset",
        "limit",
        "view_range",
        "edits",
        "content",
    ]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["cat a", "view", PATCH, 'cmd:"x"']),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES | st.text(max_size=3), each, max_size=5),
    max_leaves=8,
)


@given(
    arguments=JSON,
    result=st.text(),
    name=st.sampled_from(["read", "edit", "write", "bash", "grep", "apply_patch", "todo", "x"]),
)
def test_no_arguments_fail(arguments: Any, result: str, name: str) -> None:
    """A model writes what it likes, and a server may take anything."""
    for touch in touches_of_call(arguments, result, effects_of_name(name)):
        assert touch.path
