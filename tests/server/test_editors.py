"""A client that is not ours, with the real capabilities of a real editor, against a daemon in a process."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pygls.exceptions import JsonRpcMethodNotFound
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

pytestmark = pytest.mark.e2e

PROGRAM = str(Path(__file__).parents[1] / "support" / "fake_daemon.py")
NOTE = "file:///p/note.txt"


@pytest_lsp.fixture(  # type: ignore[untyped-decorator]  # pytest-lsp does not type its decorator
    scope="module",
    config=ClientServerConfig(server_command=[sys.executable, PROGRAM]),
)
async def client(lsp_client: LanguageClient) -> AsyncIterator[None]:
    params = types.InitializeParams(capabilities=client_capabilities("visual-studio-code"))
    await lsp_client.initialize_session(params)
    yield
    await lsp_client.shutdown_session()


@pytest.mark.asyncio(loop_scope="module")
async def test_documents_are_synced_and_commands_answered(client: LanguageClient) -> None:
    document = types.TextDocumentItem(NOTE, "plaintext", 1, "a\nb\n")
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))
    at = types.Range(types.Position(0, 0), types.Position(0, 1))
    change = types.TextDocumentContentChangePartial(text="x", range=at)
    version = types.VersionedTextDocumentIdentifier(version=2, uri=NOTE)
    client.text_document_did_change(types.DidChangeTextDocumentParams(version, [change]))
    result = await client.workspace_execute_command_async(types.ExecuteCommandParams("sidecar.status"))
    assert isinstance(result, dict)
    assert result["clients"] == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_an_unknown_request_is_refused(client: LanguageClient) -> None:
    where = types.HoverParams(types.TextDocumentIdentifier(NOTE), types.Position(0, 0))
    with pytest.raises(JsonRpcMethodNotFound):
        await client.text_document_hover_async(where)
