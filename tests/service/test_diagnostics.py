"""The problems of the editor: a tool while a client provides them, and new errors behind an edit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from faces import FACES, EditorSession
from sidecar.conductor.workbench import session_editor
from sidecar.llmgateway.scripted import Call, Say


def problem(line: int, message: str, severity: int = 1) -> dict[str, Any]:
    place = {"line": line, "character": 0}
    found = {"range": {"start": place, "end": place}, "message": message, "severity": severity}
    return {**found, "source": "mypy", "code": "attr-defined"}


class Bench(EditorSession):
    """A session in which edits need no consent, and whose model plays a script."""

    async def begin(self, **features: Any) -> Bench:
        return await self.open(may_edit=True, **features)

    def report_problems(self, name: str, *problems: dict[str, Any]) -> None:
        self.report(diagnostics=[{"uri": self.uri(name), "diagnostics": list(problems)}])

    async def report_after_change(self, name: str, *problems: dict[str, Any]) -> None:
        """Report the problems of *name* once a tool has changed a file, as a language server would."""
        finished = asyncio.Event()

        def look(log: Any) -> None:
            if any(event.data.kind == "toolFinished" for event in log.after(0)):
                finished.set()

        dispose = self.session.record.log.follow(look)
        await finished.wait()
        dispose()
        self.report_problems(name, *problems)


WRITE = [Call("write", {"path": "a.py", "content": "x = y\n"})]


@pytest.mark.parametrize("face", FACES)
async def test_the_tool_is_on_offer_while_a_client_provides_diagnostics(face: str, make_desk: Any) -> None:
    listing = [Call("diagnostics", {})]
    bench = await Bench(face, make_desk([[Say("one")], listing, [Say("two")], [Say("three")]])).begin()
    await bench.prompt("one")
    assert "diagnostics" not in bench.tools()
    other = bench.desk.client()
    other.connection.report_editor({"diagnostics": []}, "utf-16")
    bench.report_problems("a.py", problem(4, "warned", 2), problem(2, "broken"), problem(0, "a hint", 4))
    await bench.prompt("two")
    assert "diagnostics" in bench.tools()
    assert bench.results() == [
        "a.py:3: error: broken (mypy attr-defined)\na.py:5: warning: warned (mypy attr-defined)"
    ]
    (connection,) = [each for each in bench.desk.daemon.service.connections if each is not other.connection]
    other.connection.close()
    connection.hub.audience.editors.forget(connection.client_id)
    await bench.prompt("three")
    assert "diagnostics" not in bench.tools()


@pytest.mark.parametrize("face", FACES)
async def test_new_errors_come_back_with_the_result_of_the_edit(face: str, make_desk: Any) -> None:
    bench = await Bench(face, make_desk([WRITE, [Say("done")]])).begin()
    bench.report_problems("a.py", problem(7, "old error"))
    telling = asyncio.ensure_future(
        bench.report_after_change("a.py", problem(8, "old error"), problem(0, "y is not defined"))
    )
    await bench.prompt("write it")
    await telling
    (result,) = bench.results()
    assert result.endswith(
        "[the editor shows new errors after this change]\na.py:1: error: y is not defined (mypy attr-defined)"
    )


async def test_an_edit_without_new_errors_adds_nothing(face: str, make_desk: Any) -> None:
    bench = await Bench(face, make_desk([WRITE, [Say("done")]])).begin()
    bench.report_problems("a.py", problem(7, "old error"))
    telling = asyncio.ensure_future(bench.report_after_change("a.py", problem(1, "slow", 2)))
    await bench.prompt("write it")
    await telling
    assert "new errors" not in bench.results()[0]


async def test_nothing_waits_where_no_client_provides_diagnostics(
    face: str, make_desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_editor, "WAIT_S", 3_600.0)
    bench = await Bench(face, make_desk([WRITE, [Say("done")]])).begin()
    bench.report(tabs=[{"uri": bench.uri("a.py")}])
    async with asyncio.timeout(60):
        await bench.prompt("write it")


async def test_a_client_that_never_answers_is_not_waited_for_for_ever(
    face: str, make_desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = [[Call("write", {"path": f"f{n}.py", "content": "x\n"})] for n in range(4)]
    bench = await Bench(face, make_desk([*writes, [Say("done")]])).begin()
    bench.report(diagnostics=[])
    monkeypatch.setattr(session_editor, "WAIT_S", 0.01)
    bench.session.record.log.follow(
        lambda log: (
            monkeypatch.setattr(session_editor, "WAIT_S", 3_600.0)
            if sum(event.data.kind == "toolStarted" for event in log.after(0)) == 4
            else None
        )
    )
    await bench.prompt("write them")
    assert len(bench.results()) == 4


@pytest.mark.parametrize("answers", [True, False])
async def test_a_clean_edit_waits_as_long_as_the_client_is_known_to_answer(
    face: str, make_desk: Any, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_editor, "WAIT_S", 0.2)
    n_edits = 4
    writes = [[Call("write", {"path": f"f{n}.py", "content": f"{n}\n"})] for n in range(n_edits)]
    bench = await Bench(face, make_desk([*writes, [Say("done")]])).begin()
    bench.report_problems("f0.py")

    def answer(log: Any) -> None:
        if answers and log.newest.data.kind == "toolStarted":
            bench.report_problems(Path(log.newest.data.locations[0].path).name)

    bench.session.record.log.follow(answer)
    await bench.prompt("write them")
    assert len(bench.results()) == n_edits
    assert bench.session.workbench._editor.wait_s <= 0.05


@pytest.mark.parametrize("face", FACES)
async def test_a_push_of_the_language_server_protocol_counts_as_a_report(face: str, make_desk: Any) -> None:
    bench = await Bench(face, make_desk([[Say("done")]])).begin()
    bench.client.client.notify(
        "textDocument/publishDiagnostics", {"uri": bench.uri("a.py"), "diagnostics": [problem(0, "pushed")]}
    )
    await bench.client.call("sidecar/status", {})
    (connection,) = bench.desk.daemon.service.connections
    assert connection.editor.has_diagnostics == (face == "lsp")


async def test_a_client_that_answers_for_diagnostics_is_asked_after_an_edit(
    make_desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_editor, "WAIT_S", 60.0)
    desk = make_desk([WRITE, [Call("diagnostics", {"path": "a.py"})], [Say("done")]])
    bench = await Bench("lsp", desk).begin(diagnostics={})
    await bench.client.call("workspace/diagnostic/refresh", None)
    asked: list[str] = []

    async def answer(items: list[dict[str, Any]]) -> None:
        client, n_before = bench.client.client, len(asked)
        wanted = [m for m in client.messages if m.get("method") == "textDocument/diagnostic"]
        while len(wanted) == n_before:
            await client.stream.wait_until(lambda: "textDocument/diagnostic" in str(client.messages))
            wanted = [m for m in client.messages if m.get("method") == "textDocument/diagnostic"]
        asked.append(wanted[n_before]["params"]["textDocument"]["uri"])
        client.reply(wanted[n_before]["id"], {"kind": "full", "items": items})

    answering = asyncio.ensure_future(answer([problem(0, "y is not defined")]))
    await bench.prompt("write it")
    await answering
    assert asked == [bench.uri("a.py")]
    edit, listed = bench.results()
    assert edit.endswith("a.py:1: error: y is not defined (mypy attr-defined)")
    assert listed == "a.py:1: error: y is not defined (mypy attr-defined)"
