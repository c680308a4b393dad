"""Questions of the model to the editor's language servers: who is asked, over which text, and until when."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from faces import FACES, EditorSession, FaceClient
from sidecar.conductor.workbench import session_editor
from sidecar.llmgateway.scripted import Call, Say

KINDS = ["definition", "references", "rename"]
TEXT = "def one():\n    return 1\n\n\nsmile = '\U0001f600'; one()\n"


class Bench(EditorSession):
    """A session whose model plays a script and may edit, and the *editor* that is asked."""

    def __init__(self, face: str, desk: Any, editor: FaceClient | None = None) -> None:
        super().__init__(face, desk)
        self.editor = editor or self.client
        self.path = self.write("a.py", TEXT)

    async def begin(self, **features: Any) -> Bench:
        return await self.open(may_edit=True, **features)

    async def asked(self, n: int = 1) -> dict[str, Any]:
        """Return the *n*-th question to the editor."""
        method = "_sidecar/editor/query" if self.editor.face == "acp" else "sidecar/editor/query"
        return await self.editor.client.call(method, n)

    async def ask(self, answer: Any) -> Any:
        """Let the model ask, the editor give *answer*, and return the params of the question."""
        turn = asyncio.ensure_future(self.prompt("where is it?"))
        question = await self.asked()
        self.editor.client.reply(question["id"], answer)
        await turn
        return question["params"]

    def place(self, line: int, path: Path | None = None) -> dict[str, Any]:
        at = {"line": line, "character": 0}
        return {"uri": (path or self.path).as_uri(), "range": {"start": at, "end": at}}

    def is_offered(self) -> bool:
        return "code" in self.tools()


LOOK = [Call("code", {"kind": "definition", "path": "a.py", "line": 5, "symbol": "one"})]


@pytest.mark.parametrize("face", FACES)
async def test_the_editor_of_the_client_answers_and_the_model_sees_lines(face: str, make_desk: Any) -> None:
    bench = await Bench(face, make_desk([LOOK, [Say("done")]])).begin(editor={"query": KINDS})
    params = await bench.ask({"answer": [bench.place(0)]})
    # The face stands in one character that UTF-16 counts twice.
    assert params == {
        "kind": "definition",
        "uri": bench.path.as_uri(),
        "position": {"line": 4, "character": 14},
    }
    assert bench.is_offered()
    assert bench.results() == ["a.py:1: def one():"]


@pytest.mark.parametrize(("encoding", "character"), [("utf-8", 16), ("utf-16", 14), ("utf-32", 13)])
async def test_a_place_is_counted_in_the_unit_of_the_client(
    encoding: str, character: int, make_desk: Any
) -> None:
    bench = Bench("lsp", make_desk([LOOK, [Say("done")]]))
    await bench.begin(encoding=encoding, editor={"query": KINDS})
    assert (await bench.ask({"answer": None}))["position"] == {"line": 4, "character": character}
    assert bench.results() == ["the editor knows no definition there; grep finds text"]


@pytest.mark.parametrize("declared", [{}, {"editor": {}}, {"editor": {"query": "all of them"}}])
async def test_without_an_editor_that_answers_the_tool_is_not_there(
    declared: dict[str, Any], make_desk: Any
) -> None:
    bench = await Bench("lsp", make_desk([LOOK, [Say("done")]])).begin(permission={}, **declared)
    await bench.prompt("where is it?")
    assert bench.is_offered() == (declared == {"editor": {"query": "all of them"}})
    assert "grep" in bench.results()[0] or "there is no tool 'code'" in bench.results()[0]


async def join_editor(desk: Any, shown: Path) -> FaceClient:
    """Join an editor that has *shown* open, and has no session of its own."""
    editor = FaceClient("lsp", desk.daemon)
    declared = {"experimental": {"sidecar": {"protocol": [1], "editor": {"query": KINDS}}}}
    await editor.request("initialize", {"processId": None, "rootUri": None, "capabilities": declared})
    editor.client.notify("initialized", {})
    editor.notify("sidecar/editor/context", {"tabs": [{"uri": shown.as_uri()}]})
    await editor.call("sidecar/status", {})
    return editor


@pytest.mark.parametrize("face", FACES)
async def test_an_editor_beside_the_panel_is_asked_over_its_unsaved_text(face: str, make_desk: Any) -> None:
    looking = [Call("code", {"kind": "references", "path": "a.py", "symbol": "typed"})]
    desk = make_desk([looking, [Say("done")]])
    bench = Bench(face, desk, editor=await join_editor(desk, desk.folder / "a.py"))
    await bench.begin(events={})
    opened = {"uri": bench.path.as_uri(), "languageId": "python", "version": 1, "text": "\n\n  typed()\n"}
    bench.editor.client.notify("textDocument/didOpen", {"textDocument": opened})
    params = await bench.ask({"answer": [bench.place(2)]})
    assert params["position"] == {"line": 2, "character": 2}
    assert bench.results() == ["a.py:3: typed()"]


async def test_an_editor_of_another_folder_is_not_asked(make_desk: Any, tmp_path: Path) -> None:
    desk = make_desk([LOOK, [Say("done")]])
    bench = Bench("acp", desk, editor=await join_editor(desk, tmp_path / "elsewhere.py"))
    await bench.begin()
    await bench.prompt("where is it?")
    assert not bench.is_offered()


@pytest.mark.parametrize("face", FACES)
async def test_an_editor_that_goes_while_it_is_asked_is_waited_for_no_longer(
    face: str, make_desk: Any
) -> None:
    desk = make_desk([LOOK, [Say("done")], [Say("again")]])
    bench = Bench(face, desk, editor=await join_editor(desk, desk.folder / "a.py"))
    await bench.begin()
    turn = asyncio.ensure_future(bench.prompt("where is it?"))
    await bench.asked()
    bench.editor.client.stream.vanish()
    await turn
    (result,) = bench.results()
    assert result.startswith("code: the client is gone")
    assert result.endswith("use grep and read instead")
    await bench.editor.connection.aclose(1.0)
    await bench.prompt("and now?")
    assert not bench.is_offered()


async def test_an_editor_that_does_not_answer_is_left_and_told_so(
    make_desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_editor, "QUERY_S", 0.05)
    bench = await Bench("lsp", make_desk([LOOK, [Say("done")]])).begin(editor={"query": KINDS})
    await bench.prompt("where is it?")
    (result,) = bench.results()
    assert result == (
        "code: the editor has not answered in 0.05 seconds; its language server may be starting; "
        "use grep and read instead"
    )
    question = await bench.asked()
    assert bench.client.client.calls("$/cancelRequest")[0]["params"] == {"id": question["id"]}


async def test_an_interrupt_ends_the_wait_at_once(make_desk: Any) -> None:
    bench = await Bench("lsp", make_desk([LOOK, [Say("done")]])).begin(editor={"query": KINDS})
    turn = asyncio.ensure_future(bench.prompt("where is it?"))
    await bench.asked()
    await bench.client.call("sidecar/turn/interrupt", {"sid": bench.sid})
    assert (await turn)["stopReason"] == "cancelled"


async def test_a_kind_that_the_editor_does_not_declare_is_not_asked(make_desk: Any) -> None:
    hovering = [Call("code", {"kind": "hover", "path": "a.py", "symbol": "one"})]
    bench = await Bench("lsp", make_desk([hovering, [Say("done")]])).begin(editor={"query": KINDS})
    await bench.prompt("what is it?")
    assert bench.results() == ["code: the user's editor answers no such question; use grep and read instead"]


@pytest.mark.parametrize("answer", ["a text", {"answer": [], "positionEncoding": "utf-7"}, {"problem": 3}])
async def test_a_result_of_another_shape_is_no_answer(answer: Any, make_desk: Any) -> None:
    bench = await Bench("lsp", make_desk([LOOK, [Say("done")]])).begin(editor={"query": KINDS})
    await bench.ask(answer)
    assert bench.results()[0].endswith("use grep and read instead")


RENAME = [Call("code", {"kind": "rename", "path": "a.py", "symbol": "one", "new_name": "two"})]


def renaming(bench: Bench) -> dict[str, Any]:
    """Return the edit of a language server that counts in UTF-8."""

    def edit(line: int, first: int) -> dict[str, Any]:
        places = {
            side: {"line": line, "character": at} for side, at in (("start", first), ("end", first + 3))
        }
        return {"range": places, "newText": "two"}

    changes = {bench.path.as_uri(): [edit(0, 4), edit(4, 16)]}
    return {"answer": {"changes": changes}, "positionEncoding": "utf-8"}


@pytest.mark.parametrize("face", FACES)
async def test_a_rename_is_made_as_every_edit_is(face: str, make_desk: Any) -> None:
    desk = make_desk([[Call("read", {"path": "a.py"})], RENAME, [Say("done")]])
    bench = await Bench(face, desk).begin(editor={"query": KINDS})
    params = await bench.ask(renaming(bench))
    assert params["text"] == "two"
    assert bench.path.read_text() == TEXT.replace("one", "two")
    assert bench.results()[1] == "changed 1 file:\na.py:1: def two():\na.py:5: smile = '\U0001f600'; two()"
    (kept,) = (await bench.client.call("sidecar/checkpoint/list", {"sid": bench.sid}))["checkpoints"]
    assert [each["uri"] for each in kept["files"]] == [bench.path.as_uri()]
    files = (await bench.client.call("sidecar/context/files", {"sid": bench.sid}))["files"]
    assert [each["stale"] for each in files] == [False]


@pytest.mark.parametrize("face", FACES)
async def test_a_rename_asks_the_user_and_changes_nothing_in_plan_mode(face: str, make_desk: Any) -> None:
    bench = await Bench(face, make_desk([RENAME, [Say("done")]])).begin(editor={"query": KINDS})
    await bench.set_option("permissions", "plan")
    await bench.prompt("rename it")
    assert bench.results() == ["code is off: the mode is plan; describe the change instead"]
    assert bench.path.read_text() == TEXT
