"""The files of a client: the model reads its unsaved text, and writes go through it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fake_panel import FakePanel
from fake_workspace import FakeWorkspace
from memory_stream import MemoryClient
from sidecar.acp.handshake import profile_of
from sidecar.acp.lending import ClientFiles
from sidecar.protocol.errors import MethodNotFound, acp_code
from sidecar.protocol.framing import LineDecoder, frame_with_newline
from sidecar.protocol.jsonrpc import Id
from sidecar.service.contract import Answer
from sidecar.transport.peer import Dialect, Limits, Peer
from sidecar.workspace.contract import ClientFileSource

if TYPE_CHECKING:
    from tests.acp.conftest import Stage

BOTH = {"fs": {"readTextFile": True, "writeTextFile": True}}
READ = {"fs": {"readTextFile": True}}
DONE = [{"text": "done"}]


def call(name: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"toolCall": {"name": name, "input": arguments, "id": f"c-{name}"}}]


def put(path: Path, text: str) -> None:
    path.write_text(text)


def content(path: Path) -> str:
    return path.read_text()


class Editor:
    """The user's side of a panel: answers requests for files, and allows everything."""

    def __init__(self, panel: FakePanel, texts: dict[str, str]) -> None:
        self.panel = panel
        self.texts = texts
        self.asked: list[dict[str, Any]] = []
        self.written: list[dict[str, Any]] = []
        self._n_seen = 0

    async def serve(self, request_id: Any) -> dict[str, Any]:
        """Answer everything until the answer to *request_id* has come, and return that."""
        while not self.panel.answers(request_id):
            await self.panel.stream.wait_until(lambda: len(self.panel.messages) > self._n_seen)
            for message in self.panel.messages[self._n_seen :]:
                self._n_seen += 1
                if "method" in message and "id" in message:
                    self._answer(message)
        return self.panel.answers(request_id)[0]

    def _answer(self, request: dict[str, Any]) -> None:
        params = request["params"]
        match request["method"]:
            case "fs/read_text_file" if params["path"] in self.texts:
                self.asked.append(params)
                self.panel.reply(request["id"], {"content": self.texts[params["path"]]})
            case "fs/read_text_file":
                self.asked.append(params)
                error = {"code": -32002, "message": "no such file"}
                self.panel.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            case "fs/write_text_file":
                self.written.append(params)
                self.texts.pop(params["path"], None)
                put(Path(params["path"]), params["content"])
                self.panel.reply(request["id"], None)
            case _:
                outcome = {"outcome": "selected", "optionId": "allow_once"}
                self.panel.reply(request["id"], {"outcome": outcome})


async def worked(stage: Stage, capabilities: Any, texts: dict[str, str], *calls: Any) -> Editor:
    """Return the editor of a panel with *capabilities* after a turn that played *calls*."""
    panel = await stage.open(capabilities)
    sid = await stage.session(*calls, DONE)
    editor = Editor(panel, {str(stage.folder / name): text for name, text in texts.items()})
    stage.prompt("turn", sid)
    answer = await editor.serve("turn")
    assert answer["result"]["stopReason"] == "end_turn"
    return editor


def outputs(panel: FakePanel) -> list[Any]:
    """Return the outputs of the tools."""
    return [each["rawOutput"]["output"] for each in panel.updates("tool_call_update") if "rawOutput" in each]


async def test_unsaved_text_is_read_before_the_disk(stage: Stage) -> None:
    put(stage.folder / "a.py", "saved\n")
    editor = await worked(stage, READ, {"a.py": "unsaved\n"}, call("read", path="a.py"))
    assert outputs(editor.panel) == ["[unsaved buffer]\n     1\tunsaved"]
    sid = editor.asked[0]["sessionId"]
    assert editor.asked[0] == {"sessionId": sid, "path": str(stage.folder / "a.py")}


async def test_a_client_without_the_capability_is_never_asked(stage: Stage) -> None:
    put(stage.folder / "a.py", "saved\n")
    editor = await worked(stage, {}, {"a.py": "unsaved\n"}, call("read", path="a.py"))
    assert (outputs(editor.panel), editor.asked) == (["     1\tsaved"], [])


async def test_a_client_that_has_no_such_file_leaves_the_disk(stage: Stage) -> None:
    put(stage.folder / "a.py", "saved\n")
    editor = await worked(stage, READ, {}, call("read", path="a.py"))
    assert outputs(editor.panel) == ["     1\tsaved"]


async def test_an_edit_goes_through_the_client(stage: Stage) -> None:
    put(stage.folder / "a.py", "saved\n")
    edit = call("edit", path="a.py", old_text="unsaved", new_text="edited")
    editor = await worked(stage, BOTH, {"a.py": "unsaved\n"}, call("read", path="a.py"), edit)
    assert [(each["path"], each["content"]) for each in editor.written] == [
        (str(stage.folder / "a.py"), "edited\n")
    ]
    diff = [each["content"] for each in editor.panel.updates("tool_call_update") if "rawOutput" in each][-1]
    assert (diff[0]["oldText"], diff[0]["newText"]) == ("unsaved\n", "edited\n")


async def test_a_new_file_goes_through_the_client(stage: Stage) -> None:
    editor = await worked(stage, BOTH, {}, call("write", path="new.py", content="x = 1\n"))
    assert [each["content"] for each in editor.written] == ["x = 1\n"]
    assert content(stage.folder / "new.py") == "x = 1\n"


async def test_unsaved_text_is_not_overwritten_behind_a_client_that_takes_no_writes(stage: Stage) -> None:
    put(stage.folder / "a.py", "saved\n")
    edit = call("edit", path="a.py", old_text="unsaved", new_text="edited")
    editor = await worked(stage, READ, {"a.py": "unsaved\n"}, call("read", path="a.py"), edit)
    assert "unsaved changes in the editor" in outputs(editor.panel)[-1]
    assert content(stage.folder / "a.py") == "saved\n"


async def test_a_closed_session_lends_no_files(stage: Stage) -> None:
    await stage.open(BOTH)
    sid = await stage.session()
    await stage.call("session/close", {"sessionId": sid})
    path = stage.folder / "a.py"
    put(path, "saved\n")
    assert (await stage.daemon.workspace.view(path)).text == "saved\n"


async def test_a_client_that_is_gone_lends_no_files(stage: Stage) -> None:
    panel = await stage.open(BOTH)
    await stage.session()
    panel.connection.announce_end("gone", 1.0)
    await panel.connection.aclose(1.0)
    path = stage.folder / "a.py"
    put(path, "saved\n")
    assert (await stage.daemon.workspace.view(path)).text == "saved\n"


class Nobody:
    """A face without methods."""

    def handle_request(self, method: str, params: Any, request_id: Id) -> Answer:
        raise MethodNotFound(method)

    def handle_notification(self, method: str, params: Any) -> None:
        """Nothing is known."""

    def on_answered(self, method: str, request_id: Id, error_kind: str | None) -> None:
        """Do nothing."""


def lent(read_s: float = 20.0) -> tuple[MemoryClient, ClientFileSource]:
    """Return a client that lends its files, and the workspace that has them."""
    client, workspace = MemoryClient(lines=True), FakeWorkspace()
    dialect = Dialect(LineDecoder, frame_with_newline, acp_code, lambda asked: ("$/cancel", {"id": asked}))
    peer = Peer(client.stream, dialect, Nobody(), Limits())
    peer.start()
    profile = profile_of({"protocolVersion": 1, "clientCapabilities": BOTH})
    ClientFiles(peer, profile, workspace, read_s=read_s).offer("s", ["/p"])
    ((_, source),) = workspace.client_files
    return client, source


async def test_a_client_that_does_not_answer_is_not_asked_again() -> None:
    client, source = lent(read_s=0.001)
    assert source.read is not None
    assert await source.read(Path("/p/a.py")) is None
    assert await source.read(Path("/p/b.py")) is None
    await client.call("$/cancel")
    assert [each["params"]["path"] for each in client.calls("fs/read_text_file")] == ["/p/a.py"]


@pytest.mark.parametrize("reply", [None, {}, {"content": 7}, "text"])
async def test_a_malformed_answer_leaves_the_disk(reply: Any) -> None:
    client, source = lent()
    assert source.read is not None
    reading = asyncio.ensure_future(source.read(Path("/p/a.py")))
    asked = await client.call("fs/read_text_file")
    client.reply(asked["id"], reply)
    assert await reading is None


async def test_a_refused_write_is_an_error() -> None:
    client, source = lent()
    assert source.write is not None
    writing = asyncio.ensure_future(source.write(Path("/p/a.py"), "x"))
    asked = await client.call("fs/write_text_file")
    assert asked["params"] == {"sessionId": "s", "path": "/p/a.py", "content": "x"}
    client.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32603, "message": "no"}})
    assert await writing is False
