"""The effects of tool calls by declaration, name and shape, and the files that they touch."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.text.calls import (
    ANYTHING,
    EDITS_FILE,
    PATCHES_FILES,
    READS_FILE,
    RUNS_COMMAND,
    SEARCHES,
    WRITES_FILE,
    EffectKind,
    ToolEffects,
    ToolKind,
    command_lines_in,
    effects_of_call,
    effects_of_kind,
    effects_of_name,
    touches_of_call,
)
from sidecar.text.results import numbered_lines
from touched_files import spell_touches

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


@pytest.mark.parametrize("kind", get_args(ToolKind))
def test_every_kind_has_effects_and_only_harmless_kinds_change_nothing(kind: ToolKind) -> None:
    harmless = ("read", "search", "think", "fetch")
    assert effects_of_kind(kind).may_change is (kind not in harmless)


@pytest.mark.parametrize(
    ("name", "effects"),
    [
        pytest.param("Read", READS_FILE, id="case does not count"),
        pytest.param("functions.exec_command", RUNS_COMMAND, id="nor does a namespace"),
        pytest.param("mcp__files__write_file", WRITES_FILE, id="nor does a server"),
        pytest.param("apply_patch", PATCHES_FILES, id="a patch"),
        pytest.param("rg", SEARCHES, id="a search"),
        pytest.param("frobnicate", None, id="an unknown name"),
    ],
)
def test_effects_by_name(name: str, effects: ToolEffects | None) -> None:
    assert effects_of_name(name) == effects


@pytest.mark.parametrize(
    ("effects", "arguments", "paths"),
    [
        pytest.param(READS_FILE, {"file": "b", "path": "a"}, ("a",), id="the first name counts"),
        pytest.param(EDITS_FILE, {"path": " ", "filePath": "a"}, ("a",), id="blanks are no path"),
        pytest.param(WRITES_FILE, {"path": 7}, (), id="nor is a number"),
        pytest.param(RUNS_COMMAND, {"cmd": "ls", "path": "a"}, (), id="a command line is no path"),
        pytest.param(PATCHES_FILES, {"input": "*** Add File: a\n+x"}, ("a",), id="the path in a patch"),
        pytest.param(ANYTHING, ["path"], (), id="arguments that are no object"),
    ],
)
def test_the_paths_of_a_call(effects: ToolEffects, arguments: object, paths: tuple[str, ...]) -> None:
    assert effects.paths_in(arguments) == paths


def check(name: str, arguments: Any, *expected: str, result: str = "", is_error: bool = False) -> None:
    assert spell_touches(touches_of_call(name, arguments, result, is_error=is_error)) == list(expected)


FOREIGN_CALLS = {
    "Claude Code reads": ("Read", {"file_path": "a.py"}, "read a.py"),
    "opencode": ("read", {"filePath": "a.py", "offset": 5, "limit": 9}, "read a.py 5+9"),
    "Copilot views": ("view", {"path": "a", "view_range": [3, 9]}, "read a 3+7"),
    "Cline reads several files": (
        "read_files",
        {"files": [{"path": "a.py", "start_line": 4, "end_line": 6}]},
        "read a.py 4+3",
    ),
    "an editor views": ("str_replace_editor", {"command": "view", "path": "a.c"}, "read a.c"),
    "and edits": (
        "str_replace_editor",
        {"command": "str_replace", "path": "a.c", "old_str": "x", "new_str": "y"},
        "edit a.c",
    ),
    "a server writes": ("mcp__fs__put", {"path": "a", "content": "x"}, "write a"),
    "and edits ": ("anything", {"path": "a", "edits": [{"newText": "y"}]}, "edit a"),
    "Windsurf views": ("view_file", {"AbsolutePath": "a.py", "StartLine": 3}, "read a.py 3+"),
    "Cursor reads": ("read_file", {"target_file": "a.py"}, "read a.py"),
    "Cursor replaces": (
        "search_replace",
        {"file_path": "a.py", "old_string": "a", "new_string": "b"},
        "edit a.py",
    ),
    "Windsurf writes": ("write_to_file", {"TargetFile": "a.py", "CodeContent": "x"}, "write a.py"),
    "Cursor deletes": ("delete_file", {"target_file": "a.py"}, "remove a.py"),
    "a server moves": ("mcp__fs__move_file", {"source": "a.py", "destination": "b.py"}, "move a.py to b.py"),
    "Goose writes": (
        "developer__text_editor",
        {"command": "write", "path": "a.py", "file_text": "b"},
        "write a.py",
    ),
    "Claude Code edits a notebook": (
        "NotebookEdit",
        {"notebook_path": "a.ipynb", "new_source": "x"},
        "edit a.ipynb",
    ),
    "a path alone is only named": ("peek", {"path": "a.py"}, "search a.py"),
    "Codex runs": ("exec_command", {"cmd": "cat a", "workdir": "/w"}, "read /w/a"),
    "words of a command": ("shell", {"command": ["bash", "-lc", "cat a"]}, "read a"),
    "several command lines": ("run_commands", {"commands": ["cat a"]}, "read a"),
    "a script that runs a command": (
        "exec",
        {"input": 'await tools.exec_command({cmd:"sed -n \'1,5p\' a.rs", workdir:"/w"})'},
        "read /w/a.rs 1+5",
    ),
    "a script that applies a patch": (
        "exec",
        {"input": 'await tools.apply_patch("*** Begin Patch\\n*** Update File: a.py\\n@@\\n+x")'},
        "edit a.py",
    ),
    "a patch in a text": ("write", {"path": "a.py", "content": PATCH}, "write a.py"),
}


@pytest.mark.parametrize(("name", "arguments", "expected"), FOREIGN_CALLS.values(), ids=FOREIGN_CALLS)
def test_a_call_of_a_foreign_tool(name: str, arguments: Any, expected: str) -> None:
    """The declared effect counts where there is one, else the shape of the arguments."""
    check(name, arguments, expected)


@pytest.mark.parametrize("arguments", [{"input": PATCH}, {"patchText": PATCH}, PATCH])
def test_a_patch_names_its_files(arguments: Any) -> None:
    check(
        "apply_patch",
        arguments,
        "edit src/a.py",
        "write b.py",
        "remove c.py",
        "move d.py to e.py",
        "edit e.py",
    )
    assert touches_of_call("any", arguments)[0].text == "def f():\n    new"


def test_a_search_touches_the_files_that_it_found() -> None:
    hits = "src/a.py:3:x\nsrc/a.py:4:y\nb.py:9:z\nno hit"
    expected = ("search src/a.py 3+2", "search b.py 9+1")
    check("grep", {"pattern": "x"}, *expected, result=hits)
    check("bash", {"cmd": "rg -n x"}, *expected, result=hits)
    check("look_up", {"query": "x"}, *expected, result=hits)


def test_the_result_of_a_read_tells_its_lines() -> None:
    """They may be fewer than were asked for."""
    check("read", {"path": "a"}, "read a 7+2", result="     7\tx\n     8\ty")
    output = "Exit code: 0\nOutput:\n     7\tx\n     8\ty"
    check("shell", {"cmd": "nl a"}, "read a 7+2", result=output)


@pytest.mark.parametrize(
    "arguments", [None, 5, {}, {"path": 7}, {"path": ""}, {"x": ["a"]}, "text", {"commands": 5}]
)
def test_a_call_without_files_touches_none(arguments: Any) -> None:
    check("any", arguments)


def test_a_text_without_numbers_has_no_numbered_lines() -> None:
    assert numbered_lines("one: 1\n2: two\nthree\nfour\nfive\nsix\nseven") == {}


EFFECTS = {
    "a command": ("run_terminal_cmd", {"command": "make", "is_background": False}, "runs"),
    "in any style": ("run_command", {"CommandLine": "make", "Cwd": "/repo"}, "runs"),
    "a verb that runs": ("execute_sql", {"query": "select 1"}, "runs"),
    "a verb that searches": ("codebase_search", {"query": "lease"}, "searches"),
    "of a server": ("mcp__hub__search_code", {"q": "lease"}, "searches"),
    "a verb that reads": ("view_file", {"AbsolutePath": "a"}, "reads"),
    "nothing that is known": ("book_flight", {"to": "SEA"}, "anything"),
    "work for another agent": ("task", {"prompt": "read a.py", "file": "a.py"}, "anything"),
    "a name that is known": ("todo", {"todos": []}, "none"),
    "a name decides over arguments": ("edit", {"command": "view", "path": "a"}, "edits"),
    "also where they are no object": ("write", ["a"], "writes"),
}


@pytest.mark.parametrize(("name", "arguments", "kind"), EFFECTS.values(), ids=EFFECTS)
def test_the_effect_of_a_call(name: str, arguments: Any, kind: EffectKind) -> None:
    assert effects_of_call(name, arguments).kind == kind


def test_a_declared_effect_comes_first_and_an_unknown_one_last() -> None:
    assert effects_of_call("read", {"path": "a"}, SEARCHES) == SEARCHES
    assert effects_of_call("mcp__fs__read_file", {"path": "a"}, ANYTHING) == READS_FILE


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        pytest.param({"command": "make"}, [("make", "")], id="a line"),
        pytest.param({"cmd": ["make", "all"], "workdir": "/w"}, [("make all", "/w")], id="words"),
        pytest.param({"command": ["bash", "-lc", "make; ls"]}, [("make; ls", "")], id="words of a shell"),
        pytest.param({"commands": ["make", "ls"]}, [("make", ""), ("ls", "")], id="several lines"),
        pytest.param({"code": 'await run({cmd: "ls", workdir: "/w"})'}, [("ls", "/w")], id="a script"),
        pytest.param({"input": "ls"}, [("ls", "")], id="a text of another name"),
        pytest.param({"command": 7}, [], id="no text"),
        pytest.param(None, [], id="nothing"),
    ],
)
def test_command_lines_of_a_call(arguments: Any, lines: list[tuple[str, str]]) -> None:
    assert command_lines_in(RUNS_COMMAND, arguments) == lines


@pytest.mark.parametrize(
    ("name", "arguments", "result", "expected"),
    [
        pytest.param("edit", {"path": "a"}, "no such text", [], id="an edit that failed"),
        pytest.param("apply_patch", {"input": PATCH}, "does not apply", [], id="a patch that failed"),
        pytest.param("bash", {"command": "rm a"}, "not found", [], id="the command that failed"),
        pytest.param("bash", {"command": "rm a && make"}, "no rule", ["remove a"], id="the one before"),
        pytest.param("bash", {"command": "make && rm a"}, "no rule", [], id="and none behind it"),
        pytest.param("bash", {"command": "make; cat a; ls"}, "no rule", ["read a"], id="but behind ;"),
        pytest.param("bash", {"command": "make > a"}, "no rule", ["write a"], id="what the shell did"),
    ],
)
def test_of_a_call_that_failed_counts_what_came_before(
    name: str, arguments: Any, result: str, expected: list[str]
) -> None:
    check(name, arguments, *expected, result=result, is_error=True)
    if name == "bash":
        check(name, arguments, *expected, result=f"{result}\n[exit 2]")


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
    name=st.sampled_from(
        ["read", "edit", "write", "bash", "grep", "apply_patch", "todo", "move_file", "delete_file", "x"]
    ),
    is_error=st.booleans(),
)
def test_no_arguments_fail(arguments: Any, result: str, name: str, is_error: bool) -> None:
    """A model writes what it likes, and a server may take anything."""
    for touch in touches_of_call(name, arguments, result, is_error=is_error):
        assert touch.path
