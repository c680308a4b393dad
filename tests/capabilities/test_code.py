"""The code tool: places found as they are named, answers of any shape in bounds, and edits as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.code import CODE, find_symbol
from sidecar.capabilities.contract import EditorAnswer, EditorQuery
from sidecar.capabilities.read import READ
from sidecar.workspace.contract import PositionEncoding

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk

TEXT = "import os\n\n\nclass App:\n    def run(self):\n        self.run()\n"


def span(line: int, first: int = 0, last: int = 0, last_line: int | None = None) -> dict[str, Any]:
    end = {"line": line if last_line is None else last_line, "character": last}
    return {"start": {"line": line, "character": first}, "end": end}


def let_answer(
    desk: Desk, value: Any, encoding: PositionEncoding = "utf-16", problem: str = ""
) -> list[EditorQuery]:
    """Let the editor answer each question with *value*, and return the list of the questions to come."""
    asked: list[EditorQuery] = []

    async def ask(query: EditorQuery) -> EditorAnswer:
        asked.append(query)
        return EditorAnswer(value, encoding, problem)

    desk.ask_editor = ask
    return asked


@pytest.mark.parametrize(
    ("symbol", "line", "place"),
    [
        pytest.param("run", 5, (5, "    def "), id="the named line"),
        pytest.param("run", 6, (6, "        self."), id="the named line and not the first one"),
        pytest.param("App", 6, (4, "class "), id="the nearest line"),
        pytest.param("run", 0, (5, "    def "), id="the first line where none is named"),
        pytest.param("self.run", 1, (6, "        self."), id="the last part of a name with dots"),
        pytest.param("App.run", 1, (5, "    def "), id="the last part of a name that stands nowhere whole"),
        pytest.param("", 5, (5, "    "), id="the first word of a line"),
        pytest.param("Ap", 1, None, id="never a part of a word"),
        pytest.param("run", 99, None, id="no line behind the end"),
    ],
)
def test_find_symbol(symbol: str, line: int, place: tuple[int, str] | None) -> None:
    if place is not None:
        assert find_symbol(TEXT, symbol, line) == place
        return
    with pytest.raises(InvalidInput):
        find_symbol(TEXT, symbol, line)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"kind": "definition", "symbol": "run"}, "definition needs a path; give the file"),
        ({"kind": "hover", "path": "a.py"}, "hover needs a symbol or a line"),
        ({"kind": "rename", "path": "a.py", "symbol": "run"}, "rename needs a symbol and a new_name"),
        ({"kind": "workspaceSymbols"}, "workspaceSymbols needs a symbol"),
        ({"kind": "definition", "path": "b.py", "symbol": "run"}, "did you mean a.py?"),
        ({"kind": "definition", "path": "a.py", "symbol": "walk"}, "'walk' is not in the file; grep finds"),
    ],
)
async def test_a_place_that_is_not_there_is_not_asked_about(
    desk: Desk, arguments: dict[str, Any], says: str
) -> None:
    asked = let_answer(desk, [])
    desk.put("a.py", TEXT)
    assert says in await desk.failure(CODE, **arguments)
    assert asked == []


def uri(path: Path) -> str:
    return path.as_uri()


async def test_locations_of_each_shape_become_lines(desk: Desk) -> None:
    own, other = desk.put("a.py", TEXT), desk.put("b.py", "x = 1\n" * 3)
    desk.open("b.py", "unsaved\n")
    link = {"targetUri": uri(own), "targetRange": span(3, last_line=5), "targetSelectionRange": span(4)}
    location = {"uri": uri(other), "range": span(0)}
    let_answer(desk, [link, location, location])
    looked = {"path": "a.py", "symbol": "run"}
    assert await desk.output(CODE, kind="references", **looked) == ("a.py:5: def run(self):\nb.py:1: unsaved")
    let_answer(desk, location)
    assert await desk.output(CODE, kind="definition", **looked) == "b.py:1: unsaved"


async def test_symbols_of_each_shape_become_lines(desk: Desk) -> None:
    own = desk.put("a.py", TEXT)
    run = {"name": "run", "kind": 6, "range": span(4), "selectionRange": span(4, 8)}
    let_answer(desk, [{"name": "App", "kind": 5, "range": span(3), "children": [run]}])
    assert (
        await desk.output(CODE, kind="documentSymbols", path="a.py")
        == "a.py:4: class App\na.py:5:   method run"
    )
    found = {"name": "run", "kind": 6, "containerName": "App"}
    here, unknown = {"uri": uri(own), "range": span(4)}, {"uri": uri(own)}
    asked = let_answer(desk, [{**found, "location": here}, {**found, "kind": 99, "location": unknown}])
    assert await desk.output(CODE, kind="workspaceSymbols", symbol="run") == (
        "a.py:5: method run (App)\na.py:1: symbol run (App)"
    )
    assert asked == [EditorQuery(kind="workspaceSymbols", path=desk.root, text="run")]


@pytest.mark.parametrize(
    "contents",
    [
        {"kind": "markdown", "value": "**run**\n\nRuns."},
        "**run**\n\nRuns.",
        [{"language": "python", "value": "**run**"}, "", "Runs."],
    ],
)
async def test_a_description_of_each_shape_becomes_text(desk: Desk, contents: Any) -> None:
    desk.put("a.py", TEXT)
    let_answer(desk, {"contents": contents})
    assert await desk.output(CODE, kind="hover", path="a.py", symbol="run") == "**run**\n\nRuns."


async def test_a_file_of_another_folder_is_named_and_not_opened(desk: Desk) -> None:
    secret = desk.root.parent / "secret.py"
    secret.write_text("SECRET\n")
    desk.put("a.py", TEXT)
    (desk.root / "link.py").symlink_to(secret)
    places = [uri(secret), uri(desk.root / "link.py"), "jdt://contents/rt.jar/String.class", "file:///a%00b"]
    let_answer(desk, [{"uri": each, "range": span(0)} for each in places])
    assert (await desk.output(CODE, kind="definition", path="a.py", symbol="run")).splitlines() == [
        f"{secret}:1",
        f"{secret}:1",
        "jdt://contents/rt.jar/String.class:1",
        "file:///a%00b:1",
    ]


HOSTILE = [
    "a text",
    7,
    True,
    [None, 3, "x", [], [[]]],
    {"uri": 5, "range": span(0)},
    [{"uri": "file:///a", "range": {"start": {"line": -1, "character": 0}}}],
    [{"uri": "file:///a", "range": {"start": {"line": 1.5}}}],
    [{"uri": "file:///a", "range": {"start": {"line": 1 << 70}}}],
    [{"name": 3, "location": "here"}],
    {"contents": {"value": 3}},
    {"changes": {"a": "b"}},
]


@pytest.mark.parametrize(
    "kind", ["definition", "documentSymbols", "workspaceSymbols", "hover", "rename", "codeActions"]
)
async def test_an_answer_of_no_known_shape_changes_nothing_and_breaks_nothing(desk: Desk, kind: str) -> None:
    desk.put("a.py", TEXT)
    for value in HOSTILE:
        let_answer(desk, value)
        reply = await desk.run(CODE, kind=kind, path="a.py", symbol="run", new_name="go", apply="Go")
        output = str(reply.output)
        assert any(words in output for words in ("know", "no code action", "nothing to change")), value
    assert desk.text("a.py") == TEXT
    assert desk.asked == []


def nested(depth: int) -> dict[str, Any]:
    symbol: dict[str, Any] = {"name": "leaf", "kind": 5, "range": span(0)}
    for _ in range(depth):
        symbol = {"name": "n" * 5_000, "kind": 5, "range": span(0), "children": [symbol]}
    return symbol


async def test_a_huge_answer_is_cut(desk: Desk) -> None:
    desk.put("a.py", "run " * 5_000)
    where = {"uri": uri(desk.root / "a.py")}
    let_answer(desk, [{**where, "range": span(line)} for line in range(50_000)])
    found = await desk.output(CODE, kind="references", path="a.py", symbol="run", max_results=3)
    assert [line[:40] for line in found.splitlines()] == [
        "a.py:1: run run run run run run run run ",
        "a.py:2",
        "a.py:3",
        "[cut: 1997 or more further ones]",
    ]
    for value in ([nested(2_000)], [{**where, "name": "x" * 10_000_000, "kind": 5, "range": span(0)}]):
        let_answer(desk, value)
        assert len(await desk.output(CODE, kind="documentSymbols", path="a.py")) < 30_000
    let_answer(desk, {"contents": "x" * 1_000_000})
    assert len(await desk.output(CODE, kind="hover", path="a.py", symbol="run")) < 5_000
    let_answer(desk, [{"title": "x" * 10_000}] * 10_000)
    assert len(await desk.output(CODE, kind="codeActions", path="a.py", line=1)) < 30_000


async def test_the_words_of_a_language_server_that_cannot_answer_are_told(desk: Desk) -> None:
    desk.put("a.py", TEXT)
    let_answer(desk, None, problem="You cannot rename\nthis element " + "x" * 5_000)
    said = await desk.failure(CODE, kind="rename", path="a.py", symbol="os", new_name="sys")
    assert said.startswith("code: the language server says: You cannot rename this element xxx")
    assert len(said) < 500


def edit_of(*edits: tuple[dict[str, Any], str]) -> list[dict[str, Any]]:
    return [{"range": where, "newText": text} for where, text in edits]


RENAMED = edit_of((span(4, 8, 11), "go"), (span(5, 13, 16), "go"))


@pytest.mark.parametrize("shape", ["changes", "documentChanges"])
async def test_a_rename_changes_all_files_with_one_question(desk: Desk, shape: str) -> None:
    first, second = desk.put("a.py", TEXT), desk.put("b.py", "from a import run\r\n# \U0001f600 run\r\n")
    more = edit_of((span(0, 14, 17), "go"), (span(1, 5, 8), "go"))
    edits = {uri(first): RENAMED, uri(second): more}
    listed = [{"textDocument": {"uri": name, "version": 3}, "edits": some} for name, some in edits.items()]
    let_answer(desk, {"changes": edits} if shape == "changes" else {"documentChanges": listed})
    await desk.output(READ, path="a.py")
    renaming = {"kind": "rename", "path": "a.py", "symbol": "run", "new_name": "go"}
    reply = await desk.run(CODE, renaming)
    assert str(reply.output).splitlines() == [
        "changed 2 files:",
        "a.py:5: def go(self):",
        "a.py:6: self.go()",
        "b.py:1: from a import go",
        "b.py:2: # \U0001f600 go",
    ]
    assert desk.text("a.py") == TEXT.replace("run", "go")
    assert desk.text("b.py") == "from a import go\r\n# \U0001f600 go\r\n"
    (question,) = desk.asked
    assert question.title == "Rename run to go in a.py, b.py"
    assert [diff.path for diff in question.diffs] == [first, second] == [diff.path for diff in reply.diffs]
    read = desk.reads.get(first)
    assert read is not None
    assert read.hash == (await desk.workspace.view(first)).hash, (
        "the model knows the file as it knew it before"
    )
    assert desk.reads.get(second) is None


async def test_a_rename_of_which_the_user_kept_a_part_is_shown_as_it_was_written(desk: Desk) -> None:
    first, second = desk.put("a.py", TEXT), desk.put("b.py", "from a import run\n")
    let_answer(desk, {"changes": {uri(first): RENAMED, uri(second): edit_of((span(0, 14, 17), "go"))}})
    desk.hunks = {(1, 0): None}
    reply = await desk.run(CODE, {"kind": "rename", "path": "a.py", "symbol": "run", "new_name": "go"})
    assert desk.text("b.py") == "from a import run\n"
    assert [diff.new_text for diff in reply.diffs] == [desk.text("a.py"), desk.text("b.py")]
    assert "a.py:5: def go(self):" in str(reply.output)
    assert "b.py:1:" not in str(reply.output)
    assert "refused 1 in b.py" in str(reply.output)


async def test_a_refused_rename_changes_nothing(desk: Desk) -> None:
    path = desk.put("a.py", TEXT)
    desk.answer = False
    let_answer(desk, {"changes": {uri(path): RENAMED}})
    said = await desk.failure(CODE, kind="rename", path="a.py", symbol="run", new_name="go")
    assert said.startswith("code: not allowed by the user: Rename run to go in a.py")
    assert desk.text("a.py") == TEXT


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"changes": {"a.py": edit_of((span(0, 0, 4), "x"), (span(0, 2, 6), "y"))}}, "another text"),
        ({"changes": {"a.py": edit_of((span(90), "x"))}}, "another text"),
        ({"changes": {"a.py": edit_of((span(0), "x")), "./a.py": edit_of((span(0), "y"))}}, "twice"),
        (
            {"changes": {"a.py": edit_of((span(0), "x")), "/etc/hosts": edit_of((span(0), "y"))}},
            "outside of the",
        ),
        ({"documentChanges": [{"kind": "delete", "uri": "a.py"}]}, "also makes, renames or deletes files"),
        ({"changes": {f"{n}.py": edit_of((span(0), "x")) for n in range(300)}}, "of 300 files"),
        ({"changes": {"a.py": [{"range": span(0), "snippet": {"value": "$1"}}]}}, "no known shape"),
    ],
)
async def test_an_edit_that_cannot_be_made_as_a_whole_is_not_begun(
    desk: Desk, edit: dict[str, Any], says: str
) -> None:
    path = desk.put("a.py", TEXT)
    spelled = {"a.py": uri(path), "./a.py": uri(path).replace("a.py", "%61.py")}
    if "changes" in edit:
        edit = {
            "changes": {spelled.get(name, f"file://{name}"): some for name, some in edit["changes"].items()}
        }
    let_answer(desk, edit)
    assert says in await desk.failure(CODE, kind="rename", path="a.py", symbol="run", new_name="go")
    assert desk.text("a.py") == TEXT
    assert desk.asked == []


async def test_a_code_action_is_listed_and_made_by_its_title(desk: Desk) -> None:
    path = desk.put("a.py", TEXT)
    edit = {"changes": {uri(path): edit_of((span(0), "import re\n"), (span(0), "import sys\n"))}}
    let_answer(
        desk,
        [
            {"title": "Import both", "kind": "quickfix", "edit": edit},
            {"title": "Sort imports", "command": "sort"},
            {"title": 5},
        ],
    )
    here = {"kind": "codeActions", "path": "a.py", "line": 1}
    assert await desk.output(CODE, **here) == (
        "Import both (quickfix)\nSort imports (only the user can run it, in the editor)"
    )
    assert desk.text("a.py") == TEXT
    assert "there is no code action 'Import'" in await desk.failure(CODE, **here, apply="Import")
    assert "is a command of the editor" in await desk.failure(CODE, **here, apply="Sort imports")
    assert (
        await desk.output(CODE, **here, apply="Import both")
        == "changed 1 file:\na.py:1: import re\na.py:2: import sys"
    )
    assert desk.text("a.py") == f"import re\nimport sys\n{TEXT}"


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ({"kind": "definition", "path": "a.py", "new_name": ""}, False),
        ({"kind": "codeActions", "path": "a.py", "line": 3}, False),
        ({"kind": "codeActions", "path": "a.py", "apply": "Import both"}, True),
        ({"kind": "rename", "path": "a.py", "new_name": "go"}, True),
    ],
)
def test_only_a_call_that_may_change_files_counts_as_one(arguments: dict[str, Any], changes: bool) -> None:
    effects = CODE.effects.of(arguments)
    assert (effects.may_change, effects.names_file) == (changes, changes)
