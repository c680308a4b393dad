"""Effects by the kind of a tool and by the names that coding agents give their tools."""

from __future__ import annotations

from typing import get_args

import pytest

from sidecar.capabilities.effects import (
    ANYTHING,
    EDITS_FILE,
    PATCHES_FILES,
    READS_FILE,
    RUNS_COMMAND,
    SEARCHES,
    WRITES_FILE,
    ToolEffects,
    ToolKind,
    effects_of_kind,
    effects_of_name,
)


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
    ("effects", "arguments", "path"),
    [
        pytest.param(READS_FILE, {"file": "b", "path": "a"}, "a", id="the first name counts"),
        pytest.param(EDITS_FILE, {"path": " ", "filePath": "a"}, "a", id="blanks are no path"),
        pytest.param(WRITES_FILE, {"path": 7}, None, id="nor is a number"),
        pytest.param(RUNS_COMMAND, {"cmd": "ls", "path": "a"}, None, id="a command line is no path"),
        pytest.param(PATCHES_FILES, {"input": "*** Add File: a\n+x"}, "a", id="the path in a patch"),
        pytest.param(ANYTHING, ["path"], None, id="arguments that are no object"),
    ],
)
def test_the_path_of_a_call(effects: ToolEffects, arguments: object, path: str | None) -> None:
    assert effects.path_in(arguments) == path
