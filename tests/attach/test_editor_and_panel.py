"""An editor and its agent panel share one live session, each over its own protocol and through its own shim.

The editor knows the Language Server Protocol, the panel the Agent Client Protocol, and neither knows of the
other: the buffers and the watching are the editor's, the talking is the panel's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar._internal.file_lock import FileLock
from sidecar.attach.paths import DaemonPaths

pytestmark = pytest.mark.e2e

SHIM: Final = (sys.executable, "-P", "-m", "sidecar", "serve", "--shared", "--idle-exit", "0.01")
PATIENCE_S: Final = 30.0
TYPED: Final = "def main():\n    return 'typed'\n"
WHICH: Final = {"question": "Which database?", "choices": ["Postgres", "SQLite"]}
SCRIPT: Final = [
    [
        {"toolCall": {"name": "read", "input": {"path": "main.py"}, "id": "r1"}},
        {"toolCall": {"name": "read", "input": {"path": "other.py"}, "id": "r2"}},
    ],
    [{"text": "I have read both. " + "And so on. " * 400}],
    [{"toolCall": {"name": "edit", "input": {"path": "main.py", "old_text": "typed", "new_text": "agreed"}}}],
    [{"text": "Done."}],
    [{"toolCall": {"name": "bash", "input": {"command": "env echo ran"}, "id": "b1"}}],
    [{"text": "It ran."}],
    [{"toolCall": {"name": "ask", "input": {"questions": [WHICH]}, "id": "a1"}}],
    [{"toolCall": {"name": "ask", "input": {"questions": [{"question": "Which name?"}]}, "id": "a2"}}],
    [{"text": "It is chosen."}],
    [{"text": "main.py is being worked on."}],
]
ALLOWED: Final = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
EDITOR: Final = {
    "workspace": {
        "applyEdit": True,
        "workspaceEdit": {"documentChanges": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": True},
    },
    "textDocument": {"publishDiagnostics": {}},
    "window": {"showMessage": {}},
}

Message = dict[str, Any]


class Talker:
    """One process at the other end of a pipe, and everything it has said."""

    def __init__(self, home: Path, *, lines: bool) -> None:
        self._lines = lines
        env = {**os.environ, "INDUSAGI_HOME": str(home)}
        self.process = subprocess.Popen(SHIM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self.heard: list[Message] = []
        self._news = threading.Condition()
        self._n_requests = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._say({"method": method, "params": params})

    def begin(self, method: str, params: Any) -> int:
        """Send a request and return its id."""
        self._n_requests += 1
        self._say({"id": self._n_requests, "method": method, "params": params})
        return self._n_requests

    def result(self, request_id: int) -> Any:
        """Return the result of a request once it has come."""
        return self.wait(lambda m: "method" not in m and m.get("id") == request_id)["result"]

    def request(self, method: str, params: Any) -> Any:
        """Send a request and return its result."""
        return self.result(self.begin(method, params))

    def answer(self, question: Message, result: Any) -> None:
        """Answer a request of the daemon."""
        self._say({"id": question["id"], "result": result})

    def call(self, method: str, n: int = 1) -> Message:
        """Return the *n*-th request or notification *method* once it has come."""
        self.wait(lambda _: len(self._calls(method)) >= n)
        return self._calls(method)[n - 1]

    def wait(self, wanted: Callable[[Message], bool]) -> Message:
        """Return the first message that is *wanted* once it has come."""
        found: list[Message] = []

        def look() -> bool:
            found[:] = [message for message in self.heard if wanted(message)][:1]
            return bool(found)

        with self._news:
            assert self._news.wait_for(look, PATIENCE_S), self.heard[-3:]
        return found[0]

    def leave(self) -> int:
        """Close the connection and return the exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        return code

    def _calls(self, method: str) -> list[Message]:
        return [message for message in self.heard if message.get("method") == method]

    def _say(self, message: Message) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        header = b"" if self._lines else b"Content-Length: %d\r\n\r\n" % len(body)
        self.process.stdin.write(header + body + (b"\n" if self._lines else b""))
        self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if not self._lines:
                self.process.stdout.readline()
                line = self.process.stdout.read(int(line.split(b":")[1]))
            with self._news:
                self.heard.append(json.loads(line))
                self._news.notify_all()


class Pair:
    """The editor, its panel, and the session that both are in."""

    def __init__(self, home: Path, project: Path) -> None:
        self.project = project
        self.main, self.other = (project / "main.py").as_uri(), (project / "other.py").as_uri()
        self.version = 1
        self.editor = Talker(home, lines=False)
        self.editor.request("initialize", {"rootUri": project.as_uri(), "capabilities": EDITOR})
        self.editor.notify("initialized", {})
        self.editor.answer(self.editor.call("client/registerCapability"), None)
        document = {"uri": self.main, "languageId": "python", "version": 1, "text": TYPED}
        self.editor.notify("textDocument/didOpen", {"textDocument": document})
        self.panel = Talker(home, lines=True)
        models = {"scripted-1": {"scripted": SCRIPT, "contextWindow": 50_000}}
        hello = {"protocolVersion": 1, "_meta": {"sidecar": {"models": models}}}
        self.panel.request("initialize", hello)
        wanted = {"sidecar": {"model": "scripted-1", "policy": {"keepRecent": 40}}}
        new = {"cwd": str(project), "mcpServers": [], "_meta": wanted}
        self.sid = self.panel.request("session/new", new)["sessionId"]
        self.command("sidecar.attach", sid=self.sid)

    def command(self, name: str, **params: Any) -> Any:
        """Execute a command in the editor."""
        return self.editor.request("workspace/executeCommand", {"command": name, "arguments": [params]})

    def prompt(self, words: str) -> int:
        """Send a prompt from the panel, and return its id."""
        block = {"type": "text", "text": words}
        return self.panel.begin("session/prompt", {"sessionId": self.sid, "prompt": [block]})

    def type(self, text: str) -> None:
        """Replace the text of main.py in the editor, without saving."""
        self.version += 1
        document = {"uri": self.main, "version": self.version}
        change = {"textDocument": document, "contentChanges": [{"text": text}]}
        self.editor.notify("textDocument/didChange", change)

    def update(self, kind: str, wanted: Callable[[Message], bool] = lambda _: True) -> Message:
        """Return the first update of *kind* in the panel that is *wanted*."""

        def is_it(message: Message) -> bool:
            update = message.get("params", {}).get("update", {})
            return update.get("sessionUpdate") == kind and wanted(update)

        found: Message = self.panel.wait(is_it)["params"]["update"]
        return found

    def hints(self, uri: str, messages: list[str]) -> None:
        """Return once the editor's hints on a file have come to be *messages*."""

        def is_it(message: Message) -> bool:
            said = message.get("params") or {}
            is_hint = message.get("method") == "textDocument/publishDiagnostics" and said["uri"] == uri
            return is_hint and [hint["message"] for hint in said["diagnostics"]] == messages

        self.editor.wait(is_it)
        self.editor.heard = [message for message in self.editor.heard if not is_it(message)]


@pytest.fixture
def pair(home: Path, tmp_path: Path) -> Iterator[Pair]:
    project = tmp_path / "project"
    project.mkdir()
    (project / "main.py").write_text("def main():\n    return 'on disk'\n")
    (project / "other.py").write_text("x = 1\n")
    made = Pair(home, project)
    yield made
    for talker in (made.panel, made.editor):
        if talker.process.poll() is None:
            talker.leave()
    # The daemon stays a little longer than its clients, and writes into its folder until it ends.
    lock = FileLock(DaemonPaths(home).lock)
    lock.take()
    lock.release()


def test_an_editor_and_its_panel_share_one_live_session(pair: Pair) -> None:
    assert pair.command("sidecar.status")["watch"]["backend"] == "client"
    what_is_typed_is_read(pair)
    an_answer_in_the_panel_lets_the_edit_land_in_the_editor(pair)
    an_answer_in_the_editor_takes_the_question_from_the_panel(pair)
    a_question_is_asked_in_both_and_stands_as_text_where_neither_can_show_it(pair)
    both_are_notified_of_stale_files(pair)
    a_compaction_restores_what_is_typed_and_watched(pair)
    the_panel_leaves_and_the_editor_stays(pair)


def what_is_typed_is_read(pair: Pair) -> None:
    reading = pair.prompt("read both files")
    read = pair.update("tool_call_update", lambda update: update["toolCallId"] == "r1")
    assert read["rawOutput"] == {
        "output": "[unsaved buffer]\n     1\tdef main():\n     2\t    return 'typed'"
    }
    assert pair.panel.result(reading)["stopReason"] == "end_turn"


def an_answer_in_the_panel_lets_the_edit_land_in_the_editor(pair: Pair) -> None:
    editor, panel = pair.editor, pair.panel
    editing = pair.prompt("edit it")
    asked = editor.call("window/showMessageRequest")
    panel.answer(panel.call("session/request_permission"), ALLOWED)
    assert editor.call("$/cancelRequest")["params"] == {"id": asked["id"]}
    landed = editor.call("workspace/applyEdit")
    document = landed["params"]["edit"]["documentChanges"][0]["textDocument"]
    assert document == {"uri": pair.main, "version": 1}
    pair.type(TYPED.replace("typed", "agreed"))
    editor.answer(landed, {"applied": True})
    assert panel.result(editing)["stopReason"] == "end_turn"
    assert "on disk" in (pair.project / "main.py").read_text()


def an_answer_in_the_editor_takes_the_question_from_the_panel(pair: Pair) -> None:
    editor, panel = pair.editor, pair.panel
    running = pair.prompt("run it")
    question = panel.call("session/request_permission", 2)
    waiting = {"state": "waiting", "waitingFor": "permission", "text": "Run env echo ran"}
    pair.update("session_info_update", lambda update: waiting.items() <= update["_meta"]["sidecar"].items())
    (line,) = pair.command("sidecar.sessions")["sessions"]
    assert waiting.items() <= line.items()
    editor.answer(editor.call("window/showMessageRequest", 2), {"title": "Allow"})
    assert panel.call("$/cancel_request")["params"] == {"requestId": question["id"]}
    ran = pair.update(
        "tool_call_update", lambda update: update.get("rawOutput") == {"output": "ran\n[exit 0]"}
    )
    assert (ran["toolCallId"], ran["status"]) == ("b1", "completed")
    assert panel.result(running)["stopReason"] == "end_turn"


def a_question_is_asked_in_both_and_stands_as_text_where_neither_can_show_it(pair: Pair) -> None:
    """Neither of them knows forms: one choice is a question with options, or buttons."""
    editor, panel = pair.editor, pair.panel
    running = pair.prompt("ask me")
    buttons = editor.call("window/showMessageRequest", 3)["params"]["actions"]
    assert buttons == [{"title": "Postgres"}, {"title": "SQLite"}]
    question = panel.call("session/request_permission", 3)
    assert [each["name"] for each in question["params"]["options"]] == ["Postgres", "SQLite", "No answer"]
    editor.answer(editor.call("window/showMessageRequest", 3), {"title": "SQLite"})
    assert panel.call("$/cancel_request", 2)["params"] == {"requestId": question["id"]}
    pair.update("agent_message_chunk", lambda update: update["content"]["text"] == "Which name?")
    assert panel.result(running)["stopReason"] == "end_turn"
    for call_id, told in (("a1", "Which database? SQLite"), ("a2", "No client here can show a form.")):

        def has_ended(update: Message, of: str = call_id) -> bool:
            return update["toolCallId"] == of and "rawOutput" in update

        assert told in pair.update("tool_call_update", has_ended)["rawOutput"]["output"]


def both_are_notified_of_stale_files(pair: Pair) -> None:
    pair.type("def main():\n    return 'typed again'\n")
    pair.hints(pair.main, ["changed since the model read it"])
    (pair.project / "other.py").write_text("x = 2\n")
    pair.editor.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": pair.other, "type": 2}]})
    pair.hints(pair.other, ["changed since the model read it"])
    told = pair.update("session_info_update", lambda update: "fileStale" in update["_meta"]["sidecar"])
    stale = told["_meta"]["sidecar"]["fileStale"]
    assert (stale["uri"], stale["source"]) == (pair.main, "buffer")


def a_compaction_restores_what_is_typed_and_watched(pair: Pair) -> None:
    assert pair.panel.result(pair.prompt("/compact"))["stopReason"] == "end_turn"
    restored = pair.update("tool_call", lambda update: update["toolCallId"].startswith("restored-"))
    files = restored["_meta"]["sidecar"]["rehydrated"]["files"]
    assert {file["uri"]: file["source"] for file in files} == {pair.main: "buffer", pair.other: "disk"}
    nodes = json.dumps(pair.panel.request("_sidecar/session/read", {"sid": pair.sid})["nodes"])
    assert "typed again" in nodes
    assert "x = 2" in nodes
    pair.hints(pair.main, [])
    pair.hints(pair.other, [])


def the_panel_leaves_and_the_editor_stays(pair: Pair) -> None:
    assert pair.panel.leave() == 0
    (client,) = pair.command("sidecar.status")["clients"]
    assert client["face"] == "lsp"
    pair.editor.request("shutdown", None)
    pair.editor.notify("exit", None)
    assert pair.editor.leave() == 0
