"""The daemon under the capabilities of real editors, driven as pytest-lsp drives any language server.

These clients know the Language Server Protocol and nothing of ours: what they see comes as commands,
progress and message requests.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities, make_test_lsp_client

pytestmark = pytest.mark.e2e

PROFILES = ("visual-studio-code", "neovim", "emacs")


def editor() -> LanguageClient:
    """Return a client whose user presses the first button of every question."""
    client = make_test_lsp_client()
    client.asked = []  # type: ignore[attr-defined]

    feature: Any = client.feature

    @feature(types.WINDOW_SHOW_MESSAGE_REQUEST)  # type: ignore[untyped-decorator]  # pygls has no types here
    def answer(params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
        client.asked.append(params.message)  # type: ignore[attr-defined]
        return params.actions[0] if params.actions else None

    @feature(types.CLIENT_REGISTER_CAPABILITY)  # type: ignore[untyped-decorator]
    def register(params: types.RegistrationParams) -> None:
        return None

    @feature(types.CLIENT_UNREGISTER_CAPABILITY)  # type: ignore[untyped-decorator]
    def unregister(params: types.UnregistrationParams) -> None:
        return None

    return client


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "parser.py").write_text("def parse_brackets(text):\n    return text.count('(')\n")
    return folder


@pytest_lsp.fixture(
    config=ClientServerConfig(server_command=[sys.executable, "-P", "-m", "sidecar"], client_factory=editor),
    params=PROFILES,
    scope="module",
)  # type: ignore[untyped-decorator]
async def client(
    lsp_client: LanguageClient, request: pytest.FixtureRequest, project: Path
) -> AsyncIterator[None]:
    uri = project.as_uri()
    params = types.InitializeParams(
        capabilities=client_capabilities(request.param),
        root_uri=uri,
        workspace_folders=[types.WorkspaceFolder(uri, project.name)],
    )
    lsp_client.answered = await lsp_client.initialize_session(params)  # type: ignore[attr-defined]
    yield
    await lsp_client.shutdown_session()


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INDUSAGI_HOME", str(tmp_path_factory.mktemp("home")))
        yield


async def command(client: LanguageClient, name: str, **params: Any) -> Any:
    asked = types.ExecuteCommandParams(command=name, arguments=[params])
    return await client.workspace_execute_command_async(asked)


async def new_session(client: LanguageClient, project: Path) -> str:
    return str((await command(client, "sidecar.new", cwd=str(project)))["sid"])


def prompt(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_handshake_says_what_the_daemon_can_do(client: LanguageClient) -> None:
    capabilities = client.answered.capabilities  # type: ignore[attr-defined]
    assert capabilities.experimental["sidecar"]["protocol"] == 1
    assert "sidecar.prompt" in capabilities.execute_command_provider.commands
    general = client.capabilities.general if client.capabilities else None
    encodings = (general.position_encodings or []) if general else []
    wanted = "utf-8" if types.PositionEncodingKind.Utf8 in encodings else "utf-16"
    assert capabilities.position_encoding == wanted


@pytest.mark.asyncio(loop_scope="module")
async def test_a_prompt_is_a_command_that_settles(client: LanguageClient, project: Path) -> None:
    sid = await new_session(client, project)
    ran = await command(client, "sidecar.prompt", sid=sid, input=prompt("where is `parse_brackets` defined?"))
    assert ran["stopReason"] == "end_turn"
    assert "parser.py:1" in ran["text"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_turn_shows_as_progress_to_its_end(client: LanguageClient, project: Path) -> None:
    sid = await new_session(client, project)
    asked = types.ExecuteCommandParams(
        command="sidecar.prompt",
        arguments=[{"sid": sid, "input": prompt("what is in parser.py?")}],
        work_done_token="turn-1",
    )
    client.progress_reports["turn-1"] = []
    await client.workspace_execute_command_async(asked)
    reports: list[Any] = list(client.progress_reports["turn-1"])
    assert reports[0].kind == "begin"
    assert reports[-1] == types.WorkDoneProgressEnd(message="end_turn")


@pytest.mark.asyncio(loop_scope="module")
async def test_unsaved_text_is_what_the_model_reads(client: LanguageClient, project: Path) -> None:
    uri = (project / "parser.py").as_uri()
    text = "def only_in_the_editor(text):\n    return 0\n"
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, types.LanguageKind.Python, 1, text))
    )
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(uri=uri, version=2),
            [
                types.TextDocumentContentChangePartial(
                    range=types.Range(types.Position(1, 11), types.Position(1, 12)), text="41 + 1"
                )
            ],
        )
    )
    sid = await new_session(client, project)
    ran = await command(client, "sidecar.prompt", sid=sid, input=prompt("what is in parser.py?"))
    client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri=uri)))
    assert "only_in_the_editor" in ran["text"]
    assert "parse_brackets" not in ran["text"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_command_asks_with_buttons_and_runs_when_allowed(
    client: LanguageClient, project: Path
) -> None:
    sid = await new_session(client, project)
    client.asked.clear()  # type: ignore[attr-defined]
    ran = await command(client, "sidecar.prompt", sid=sid, input=prompt("run `echo allowed-it`"))
    assert ran["stopReason"] == "end_turn"
    assert len(client.asked) == 1  # type: ignore[attr-defined]
    assert "allowed-it" in ran["text"]


@pytest.mark.asyncio(loop_scope="module")
async def test_compaction_is_reachable_by_commands(client: LanguageClient, project: Path) -> None:
    sid = await new_session(client, project)
    for _ in range(3):
        await command(client, "sidecar.prompt", sid=sid, input=prompt("what is in parser.py?"))
    plan = await command(client, "sidecar.compactPreview", sid=sid, mode="force")
    assert plan["dropped"]["count"] > 0
    started = await command(client, "sidecar.compact", sid=sid)
    assert started["disposition"] == "started"
    undone = await command(client, "sidecar.uncompact", sid=sid)
    assert undone["restoredTokens"] >= 0
    usage = await command(client, "sidecar.context", sid=sid)
    assert 0 < usage["used"] < usage["window"]


@pytest.mark.asyncio(loop_scope="module")
async def test_plain_clients_get_no_events_of_ours(client: LanguageClient, project: Path) -> None:
    sid = await new_session(client, project)
    await command(client, "sidecar.prompt", sid=sid, input=prompt("what is in parser.py?"))
    status = await command(client, "sidecar.status")
    assert status["sessions"]["loaded"] >= 1
    assert client.messages == []
