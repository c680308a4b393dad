"""Scenes of editors and panels: buffers, edits in them, stale files and views; lent files and terminals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.same.client import DONE, HALF, Client, Scenery, call, say, text
from tests.same.player import Message

__all__ = ["answer_for_the_code", "be_a_panel", "be_a_plain_editor", "report_editor", "type_in_buffers"]

_CODE: Final = "VALUE = 1\n\n\ndef one() -> int:\n    return VALUE\n"
_WATCHES: Final = {"didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": True}}
_CHANGED: Final = 2


class Buffers:
    """The open buffers of an editor; it applies the edits that the daemon asks for."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._texts: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        for method in ("sidecar/edit/apply", "workspace/applyEdit"):
            client.player.questions[method] = self._apply

    def open(self, name: str, content: str) -> None:
        """Open a buffer of a file of the project."""
        uri = self.uri(name)
        self._texts[uri], self._versions[uri] = content, 1
        item = {"uri": uri, "languageId": "python", "version": 1, "text": content}
        self._client.player.notify("textDocument/didOpen", {"textDocument": item})

    def type(self, name: str, line: int, words: str) -> None:
        """Put *words* at the beginning of a line."""
        uri, place = self.uri(name), {"line": line, "character": 0}
        lines = self._texts[uri].splitlines(keepends=True)
        lines[line] = words + lines[line]
        change = {"range": {"start": place, "end": place}, "text": words}
        self._client.player.notify("textDocument/didChange", self._change(uri, "".join(lines), change))

    def save(self, name: str) -> None:
        """Write a buffer to the disk."""
        self._client.place.write(name, self._texts[self.uri(name)])
        self._client.player.notify("textDocument/didSave", {"textDocument": {"uri": self.uri(name)}})

    def close(self, name: str) -> None:
        """Close a buffer."""
        del self._texts[self.uri(name)]
        self._client.player.notify("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}})

    def see_change(self, *names: str) -> None:
        """Report that files have changed on disk."""
        changes = [{"uri": self.uri(name), "type": _CHANGED} for name in names]
        self._client.player.notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def uri(self, name: str) -> str:
        """Return the URI of a file of the project."""
        return (self._client.place.project / name).as_uri()

    def _change(self, uri: str, content: str, change: Mapping[str, Any]) -> dict[str, Any]:
        self._texts[uri] = content
        self._versions[uri] += 1
        document = {"uri": uri, "version": self._versions[uri]}
        return {"textDocument": document, "contentChanges": [dict(change)]}

    def _apply(self, question: Message) -> None:
        (change,) = question["params"]["edit"]["documentChanges"]
        uri = change["textDocument"]["uri"]
        content = self._texts[uri]
        starts = [0]
        for line in content.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        for edit in sorted(change["edits"], key=lambda each: str(each["range"]), reverse=True):
            start, end = (
                starts[edit["range"][side]["line"]] + edit["range"][side]["character"]
                for side in ("start", "end")
            )
            content = content[:start] + edit["newText"] + content[end:]
        params = self._change(uri, content, {"text": content})
        self._client.player.send({"method": "textDocument/didChange", "params": params})
        self._client.player.send({"id": question["id"], "result": {"applied": True}})


def accept(client: Client, *methods: str) -> None:
    """Answer requests *methods* of the daemon with nothing."""
    for method in methods:
        client.player.questions[method] = lambda asked: client.player.send(
            {"id": asked["id"], "result": None}
        )


async def type_in_buffers(scenery: Scenery) -> None:
    """Unsaved text is what the model reads and edits; changed files are stale, and a renamed one is known."""
    place = scenery.place
    for name in ("a.py", "b.py", "c.py"):
        place.write(name, _CODE)
    script = [
        [call("read", path="a.py")],
        [call("read", path="b.py")],
        say("I have read both."),
        [call("edit", path="a.py", old_text="return VALUE", new_text="return VALUE + 1")],
        [call("read", path="a.py")],
        [call("edit", path="a.py", old_text="return VALUE", new_text="return VALUE + 1")],
        say("It is changed in the buffer."),
        [call("edit", path="b.py", old_text="VALUE = 1", new_text="VALUE = 5")],
        say("b.py is stale."),
        [call("write", path="c.py", content="other\n")],
        *[DONE] * 6,
    ]
    capabilities = {
        "workspace": _WATCHES,
        "textDocument": {"publishDiagnostics": {}, "codeLens": {}},
    }
    client = await scenery.start({"buffers": script}, capabilities=capabilities, edits={})
    accept(client, "client/registerCapability")
    buffers = Buffers(client)
    buffers.open("a.py", _CODE)
    buffers.type("a.py", 0, "# typed\n")
    sid = await client.new("buffers")
    await client.prompt(sid, "read both")
    buffers.type("a.py", 1, "# more\n")
    await client.catch_up()
    await client.prompt(sid, "change a.py")
    await client.call("context/files", sid=sid)
    await change_on_disk(client, buffers, sid, "VALUE = 2\n", "fileStale")
    await client.prompt(sid, "change b.py")
    buffers.save("a.py")
    await client.catch_up()
    buffers.open("c.py", "unsaved\n")
    await client.prompt(sid, "write c.py")
    watch = await client.call("fs/watch", sid=sid, globs=["*.py"])
    panel = await scenery.join("acp", events={})
    await panel.call("attach", sid=sid, mode="observe")
    await change_on_disk(client, buffers, sid, _CODE, "fileFresh")
    await panel.player.event("fileFresh")
    await scenery.stage.end(panel.player)
    await client.player.until(lambda: client.player.received("sidecar/fs/changed"))
    await client.call("fs/unwatch", watchId=watch["result"]["watchId"])
    for name in ("a.py", "b.py"):
        await client.player.ask("textDocument/codeLens", {"textDocument": {"uri": buffers.uri(name)}})
    buffers.close("c.py")
    await change_on_disk(client, buffers, sid, None, "fileStale")
    await client.prompt(sid, "go on")
    await client.call("context/files", sid=sid)
    await client.call("checkpoint/diff", sid=sid)
    await client.call("session/read", sid=sid)
    buffers.close("a.py")
    (place.project / "a.py").rename(place.project / "renamed.py")
    names = {"oldUri": buffers.uri("a.py"), "newUri": buffers.uri("renamed.py")}
    client.player.notify("workspace/didRenameFiles", {"files": [names]})
    await client.catch_up()
    await client.call("context/files", sid=sid)
    await client.call("checkpoint/list", sid=sid)


async def change_on_disk(client: Client, buffers: Buffers, sid: str, content: str | None, event: str) -> None:
    """Change b.py as another program does, None to remove it; returns once the session has the *event*."""
    n_before = len(client.steps(sid))
    if content is None:
        (client.place.project / "b.py").unlink()
    else:
        client.place.write("b.py", content)
    buffers.see_change("b.py")
    await client.until_step(sid, event, after=n_before)
    await client.catch_up()


async def be_a_plain_editor(scenery: Scenery) -> None:
    """An editor that knows the Language Server Protocol alone: commands, progress, messages, documents."""
    place = scenery.place
    place.write("a.py", _CODE)
    prose = "A long answer about the parser and its tests. " * 30
    script = [
        [call("read", path="a.py")],
        say("I have read it."),
        [call("edit", path="a.py", old_text="VALUE = 1", new_text="VALUE = 3")],
        say("Changed."),
        [call("bash", command="touch b.txt")],
        say("Done."),
        *[say(f"{number}: {prose}") for number in range(8)],
    ]
    capabilities = {
        "window": {"workDoneProgress": True, "showMessage": {}},
        "workspace": {
            "applyEdit": True,
            "workspaceEdit": {"documentChanges": True},
            "textDocumentContent": {},
            **_WATCHES,
        },
        "textDocument": {"publishDiagnostics": {}, "codeLens": {}},
    }
    client = await scenery.start({"plain": script}, capabilities=capabilities, knows_us=False)
    accept(client, "client/registerCapability", "window/workDoneProgress/create")
    client.player.questions["window/showMessageRequest"] = lambda asked: client.player.send(
        {"id": asked["id"], "result": asked["params"]["actions"][0]}
    )
    buffers = Buffers(client)
    buffers.open("a.py", _CODE)
    sid = await execute(client, "new", cwd=str(place.project), model="plain")
    client.sids.append(sid["result"]["sid"])
    named = {"sid": client.sids[0]}
    for words in ("read a.py", "change it", "touch b.txt", "tell me", "tell me more", "and more"):
        await execute(client, "prompt", **named, input=text(words))
    buffers.type("a.py", 0, "# typed\n")
    await client.catch_up()
    await execute(client, "context", **named)
    await execute(client, "compactPreview", **named, mode="force")
    n_before = len(client.player.messages)
    receipt = await execute(client, "compact", **named)
    await client.player.until(
        lambda: any("end" in str(message) for _, message in client.player.messages[n_before:])
    )
    await client.quiet()
    await execute(client, "expand", **named)
    await execute(client, "uncompact", **named)
    await execute(client, "sessions")
    await execute(client, "nothing")
    await client.player.ask("textDocument/codeLens", {"textDocument": {"uri": buffers.uri("a.py")}})
    await client.player.ask("textDocument/hover", {"textDocument": {"uri": buffers.uri("a.py")}})
    compaction = receipt["result"]["compactionId"]
    for document in ("transcript.md", *(f"compaction/{compaction}/{at}.md" for at in ("before", "facts"))):
        uri = f"sidecar-session:/{client.sids[0]}/{document}"
        await client.player.ask("workspace/textDocumentContent", {"uri": uri})


async def execute(client: Client, command: str, **params: Any) -> Message:
    """Execute one of our commands and return its answer."""
    wanted = {"command": f"sidecar.{command}", "arguments": [params] if params else []}
    answer = await client.player.ask("workspace/executeCommand", wanted)
    await client.quiet()
    return answer


async def be_a_panel(scenery: Scenery) -> None:
    """A panel that lends its files and its terminals, and takes notices and compactions."""
    place = scenery.place
    place.write("a.py", _CODE)
    prose = "A long answer about the parser and its tests. " * 30
    script = [
        [call("read", path="a.py")],
        [call("edit", path="a.py", old_text="VALUE = 1", new_text="VALUE = 3")],
        [call("bash", command="make check")],
        say("Done."),
        *[say(f"{number}: {prose}") for number in range(8)],
    ]
    capabilities = {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "session": {"notices": {}, "compaction": {}},
    }
    client = await scenery.start({"panel": script, "slow": [HALF]}, capabilities=capabilities)
    texts = {str(place.project / "a.py"): "# unsaved\n" + _CODE}

    def reply(result: Any) -> Any:
        return lambda asked: client.player.send({"id": asked["id"], "result": result})

    def read(asked: Message) -> None:
        found = texts.get(asked["params"]["path"])
        answer = (
            {"result": {"content": found}} if found else {"error": {"code": -32002, "message": "no file"}}
        )
        client.player.send({"id": asked["id"], **answer})

    def write(asked: Message) -> None:
        texts[asked["params"]["path"]] = asked["params"]["content"]
        client.player.send({"id": asked["id"], "result": None})

    exited = {"exitStatus": {"exitCode": 2, "signal": None}}
    client.player.questions |= {
        "fs/read_text_file": read,
        "fs/write_text_file": write,
        "terminal/create": reply({"terminalId": "t1"}),
        "terminal/wait_for_exit": reply(exited["exitStatus"]),
        "terminal/output": reply({"output": "1 test fails\n", "truncated": False, **exited}),
        "terminal/release": reply(None),
    }
    sid = await client.new("panel")
    await client.prompt(sid, "change a.py and check it")
    for number in range(3):
        await client.prompt(sid, f"tell me more, {number}")
    await client.compact(sid)
    await client.prompt(sid, "/undo")
    await client.prompt(sid, "/remember be brief")
    slow = await client.new("slow")
    running = client.send_prompt(slow, "hang")
    await client.until_step(slow, "textDelta")
    client.player.notify("session/cancel", {"sessionId": slow})
    await running
    await client.quiet()


async def report_editor(scenery: Scenery) -> None:
    """The active file, the selection and the problems of an editor, in notes and in mentions of prompts."""
    place = scenery.place
    place.write("a.py", _CODE)
    place.write("src/b.py", _CODE)
    script = [DONE, DONE, [call("diagnostics")], DONE, DONE, DONE]
    client = await scenery.start({"editor": script})
    sid = await client.new("editor")
    uri = (place.project / "a.py").as_uri()
    start, end = {"line": 3, "character": 0}, {"line": 4, "character": 16}
    active = {
        "uri": uri,
        "languageId": "python",
        "selections": [{"start": start, "end": end}],
        "selectedText": "def one() -> int:\n    return VALUE",
    }
    client.notify("editor/context", active=active, tabs=[{"uri": uri, "isDirty": True}])
    await client.catch_up()
    await client.prompt(sid, "what is @selection, and @src/b.py:1-2, and @nothing.py?")
    problem = {"range": {"start": start, "end": end}, "message": "not used", "severity": 2, "source": "ruff"}
    client.notify("editor/context", diagnostics=[{"uri": uri, "diagnostics": [problem]}])
    await client.catch_up()
    await client.prompt(sid, "see @diagnostics and @diff")
    await client.prompt(sid, "which problems are there?")
    client.notify("editor/context", active={"uri": (place.project / "src/b.py").as_uri()})
    await client.catch_up()
    await client.prompt(sid, "and now?")
    await client.call("complete", text="@", position=1, sid=sid)
    await client.call("session/read", sid=sid)


_QUERIES: Final = (
    {"kind": "definition", "path": "a.py", "symbol": "one"},
    {"kind": "references", "path": "a.py", "line": 5, "symbol": "VALUE"},
    {"kind": "documentSymbols", "path": "a.py"},
    {"kind": "workspaceSymbols", "symbol": "one"},
    {"kind": "hover", "path": "a.py", "symbol": "VALUE"},
    {"kind": "rename", "path": "a.py", "symbol": "one", "new_name": "two"},
    {"kind": "codeActions", "path": "a.py", "line": 1},
)


async def answer_for_the_code(scenery: Scenery) -> None:
    """An editor whose language servers answer questions of each kind, and those of a panel beside it."""
    place = scenery.place
    place.write("a.py", _CODE)
    script = [*([call("code", **query)] for query in _QUERIES), say("I have seen it.")]
    kinds = [str(query["kind"]) for query in _QUERIES]
    beside = [[call("code", kind="definition", path="a.py", symbol="two")], say("It is there.")]
    client = await scenery.start({"asking": script, "beside": beside}, editor={"query": kinds})
    uri = (place.project / "a.py").as_uri()

    def at(line: int, first: int, last: int) -> dict[str, Any]:
        return {
            "start": {"line": line, "character": first},
            "end": {"line": line, "character": last},
        }

    function = {"name": "one", "kind": 12, "range": at(3, 0, 17), "selectionRange": at(3, 4, 7)}
    answers: Mapping[str, Mapping[str, Any]] = {
        "definition": {"answer": {"uri": uri, "range": at(3, 4, 7)}, "positionEncoding": "utf-16"},
        "references": {
            "answer": [
                {"uri": uri, "range": at(0, 0, 5)},
                {"uri": "file:///elsewhere/b.py", "range": at(4, 0, 5)},
            ]
        },
        "documentSymbols": {"answer": [function], "positionEncoding": "utf-32"},
        "workspaceSymbols": {
            "answer": [{"name": "one", "kind": 12, "location": {"uri": uri, "range": at(3, 4, 7)}}]
        },
        "hover": {"problem": "the index is not ready"},
        "rename": {
            "answer": {
                "documentChanges": [
                    {"textDocument": {"uri": uri}, "edits": [{"range": at(3, 4, 7), "newText": "two"}]}
                ]
            },
            "positionEncoding": "utf-8",
        },
        "codeActions": {"answer": [{"title": "Organize imports", "command": "organize"}]},
    }
    client.player.questions[client.own("sidecar/editor/query")] = lambda asked: client.player.send(
        {"id": asked["id"], "result": answers[asked["params"]["kind"]]}
    )
    sid = await client.new("asking")
    await client.prompt(sid, "what is in a.py?")
    await client.call("checkpoint/diff", sid=sid)
    await client.call("session/read", sid=sid)
    client.notify("editor/context", tabs=[{"uri": uri}])
    await client.catch_up()
    panel = await scenery.join("acp")
    await panel.prompt(await panel.new("beside"), "where is it?")
    await scenery.stage.end(panel.player)
