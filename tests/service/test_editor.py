"""What the editor knows, over the bytes of both faces: reports are kept and bounded, and prompts complete."""

from __future__ import annotations

import tracemalloc
from time import process_time
from typing import Any

import pytest

from faces import FACES, EditorSession
from sidecar.conductor.clients import MAX_DIAGNOSTICS, MAX_IN_FILE, MAX_TABS, EditorState
from sidecar.llmgateway.scripted import Say


def at(line: int, character: int = 0, to: int | None = None) -> dict[str, Any]:
    start = {"line": line, "character": character}
    return {"start": start, "end": start if to is None else {"line": line, "character": to}}


def problem(line: int, message: str, severity: int = 1) -> dict[str, Any]:
    return {"range": at(line), "message": message, "severity": severity}


class Editor(EditorSession):
    """A client with an editor, and one session."""

    @property
    def state(self) -> EditorState:
        (connection,) = self.desk.daemon.service.connections
        state: EditorState = connection.editor
        return state

    async def complete(self, text: str, **more: Any) -> list[tuple[str, str]]:
        given = {"sid": self.sid, "text": text, "position": len(text), **more}
        found = await self.client.call("sidecar/complete", given)
        return [(item["kind"], item["insertText"]) for item in found["items"]]


@pytest.fixture
async def editor(face: str, make_desk: Any) -> Editor:
    return await Editor(face, make_desk([[Say("done")]], repeat=True)).open()


@pytest.mark.parametrize("face", FACES)
async def test_a_report_changes_only_the_members_that_it_has(editor: Editor) -> None:
    editor.report(
        active={"uri": editor.uri("a.py"), "selections": [at(2)]}, tabs=[{"uri": editor.uri("a.py")}]
    )
    editor.report(diagnostics=[{"uri": editor.uri("a.py"), "diagnostics": [problem(1, "broken")]}])
    state = editor.state
    assert state.active is not None
    assert state.active.uri == editor.uri("a.py")
    assert [tab.uri for tab in state.tabs] == [editor.uri("a.py")]
    assert state.diagnostics[editor.uri("a.py")].diagnostics[0].message == "broken"
    editor.report(active=None)
    assert (editor.state.active, len(editor.state.tabs)) == (None, 1)


async def test_diagnostics_replace_those_of_their_file_or_of_all(editor: Editor) -> None:
    one, two = editor.uri("a.py"), editor.uri("b.py")
    editor.report(diagnostics=[{"uri": uri, "diagnostics": [problem(1, "x")]} for uri in (one, two)])
    editor.report(diagnostics=[{"uri": one, "diagnostics": []}])
    assert set(editor.state.diagnostics) == {two}
    editor.report(diagnostics=[{"uri": one, "diagnostics": [problem(1, "x")]}], replacesDiagnostics=True)
    assert set(editor.state.diagnostics) == {one}


async def test_a_malformed_report_is_ignored_and_the_next_one_counts(editor: Editor) -> None:
    editor.report(active={"uri": 5})
    editor.report(tabs="all")
    editor.report(tabs=[{"uri": editor.uri("a.py")}])
    assert (editor.state.active, len(editor.state.tabs)) == (None, 1)


async def test_a_report_is_bounded_and_says_how_much_was_left_out(editor: Editor) -> None:
    many = [problem(line, "m" * 600, severity=2) for line in range(300)]
    editor.report(
        tabs=[{"uri": editor.uri(f"{n}.py")} for n in range(1_000)],
        diagnostics=[{"uri": editor.uri(f"{n}.py"), "diagnostics": many} for n in range(100)],
    )
    state = editor.state
    assert (len(state.tabs), state.n_tabs_cut) == (MAX_TABS, 1_000 - MAX_TABS)
    counts = [len(found.diagnostics) for found in state.diagnostics.values()]
    assert max(counts) <= MAX_IN_FILE
    assert sum(counts) <= MAX_DIAGNOSTICS
    assert all(len(each.message) == 500 for found in state.diagnostics.values() for each in found.diagnostics)
    assert state.n_cut


@pytest.mark.slow
async def test_ten_thousand_reports_cost_a_bounded_time_and_memory(editor: Editor) -> None:
    (connection,) = editor.desk.daemon.service.connections
    body = [problem(line, f"message {line}") for line in range(5)]

    async def flood(n_reports: int) -> float:
        began = process_time()
        for n in range(n_reports):
            uri = editor.uri(f"{n % 700}.py")
            active = {"uri": uri, "selections": [at(n)]}
            editor.report(active=active, diagnostics=[{"uri": uri, "diagnostics": body}])
        await editor.client.call("sidecar/status", {})
        return process_time() - began

    taken_in: list[object] = []
    await flood(1)  # a client has an editor from its first report on
    connection.hub.audience.editors.reported[connection.client_id].on_diagnostics(taken_in.append)
    assert await flood(10_000) < 20
    assert len(connection.editor.diagnostics) <= MAX_DIAGNOSTICS // len(body)
    assert len(taken_in) < 1_000
    tracemalloc.start()
    try:
        await flood(1_000)
        assert tracemalloc.get_traced_memory()[0] < 5_000_000  # the flood before has filled what is kept
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("face", FACES)
async def test_commands_and_their_arguments_complete(editor: Editor) -> None:
    assert await editor.complete("/comp") == [("command", "/compact ")]
    assert ("argument", "agentcore") in await editor.complete("/engine agent")
    assert ("argument", "scripted-1") in await editor.complete("/model scripted")
    assert ("argument", "plan") in await editor.complete("/permissions ")
    assert await editor.complete("Say /comp") == []


async def test_paths_complete_from_any_letters_and_leave_out_ignored_files(editor: Editor) -> None:
    for name in ("src/parser.py", "src/sparse.c", "plan/areas.md", "node_modules/parser.js", "a b.txt"):
        editor.write(name)
    found = await editor.complete("look at @pars")
    assert found == [("file", "@src/parser.py "), ("file", "@src/sparse.c "), ("file", "@plan/areas.md ")]
    assert await editor.complete("@a b", position=2) == [
        ("file", '@"a b.txt" '),
        ("file", "@plan/areas.md "),
        ("folder", "@plan/"),
        ("file", "@src/sparse.c "),
        ("file", "@src/parser.py "),
    ]
    assert ("file", '@"a b.txt" ') in await editor.complete('see @"a b')
    assert ("folder", "@src/") in await editor.complete("@sr")
    assert await editor.complete("ada@pars") == []


async def test_open_files_come_first_and_special_mentions_as_the_editor_has_them(editor: Editor) -> None:
    for name in ("one.py", "three.py"):
        editor.write(name)
    assert ("mention", "@selection ") not in await editor.complete("@")
    editor.report(
        active={"uri": editor.uri("three.py"), "selections": [at(0, 0, 4)]},
        tabs=[{"uri": editor.uri("three.py")}],
        diagnostics=[],
    )
    found = await editor.complete("@")
    assert found[:4] == [
        ("mention", "@selection "),
        ("mention", "@diagnostics "),
        ("mention", "@diff "),
        ("file", "@three.py "),
    ]


async def test_the_range_counts_in_the_unit_that_was_asked_for(editor: Editor) -> None:
    editor.write("x.py")
    for encoding, start in (("utf-16", 3), ("utf-8", 5), ("utf-32", 2)):
        text = "😀 @x.p"
        units = {"utf-16": 7, "utf-8": 9, "utf-32": 6}[encoding]
        given = {"sid": editor.sid, "text": text, "position": units, "encoding": encoding}
        (item,) = (await editor.client.call("sidecar/complete", given))["items"]
        assert (item["start"], item["end"], item["insertText"]) == (start, units, "@x.py ")
