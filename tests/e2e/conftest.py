"""An editor for tests of the daemon: the capabilities of a real one, driven as pytest-lsp drives any server.

It knows the Language Server Protocol and nothing of ours: what it sees comes as commands, progress, message
requests, hints, lenses and documents.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES

from postgres_fixtures import database, make_server, server
from scripted_sessions import open_session, project

__all__ = ["database", "make_server", "open_session", "project", "server"]

PROFILES = ("visual-studio-code", "neovim", "emacs")
HALF_AN_ANSWER = [[{"text": "half an answer"}, {"hang": True}]]


class Editor:
    """An editor's side of the protocol: its buffers, what was asked of it, and a user who says yes."""

    answered: types.InitializeResult
    workspace: types.WorkspaceClientCapabilities
    text_document: types.TextDocumentClientCapabilities

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.registered: set[str] = set()
        self.edits: list[types.ApplyWorkspaceEditParams] = []
        self.lens_refreshes = 0
        self.document_refreshes: list[str] = []
        self.buffers: dict[str, tuple[int, str]] = {}
        self.client = LanguageClient(converter_factory=default_converter)
        self._woken = asyncio.Event()
        for method, feature in DEFAULT_CLIENT_FEATURES.items():
            self._on(method, partial(feature, self.client))
        self._on(types.WINDOW_SHOW_MESSAGE_REQUEST, self._answer)
        self._on(types.CLIENT_REGISTER_CAPABILITY, self._register)
        self._on(types.CLIENT_UNREGISTER_CAPABILITY, lambda params: None)
        self._on(types.WORKSPACE_APPLY_EDIT, self._apply)
        self._on(types.WORKSPACE_CODE_LENS_REFRESH, self._refresh_lenses)
        self._on(types.WORKSPACE_TEXT_DOCUMENT_CONTENT_REFRESH, self._refresh_document)

    @property
    def progress(self) -> dict[types.ProgressToken, list[Any]]:
        """What was reported, by token."""
        reports: dict[types.ProgressToken, list[Any]] = self.client.progress_reports
        return reports

    @property
    def takes_versioned_edits(self) -> bool:
        """Whether an edit may carry the version of the buffer it is for."""
        edit = self.workspace.workspace_edit
        return bool(edit and edit.document_changes)

    @property
    def watches(self) -> bool:
        """Whether it was asked to watch files, and does."""
        return types.WORKSPACE_DID_CHANGE_WATCHED_FILES in self.registered

    async def until(self, condition: Callable[[], object]) -> None:
        """Return once *condition* holds; it is looked at after every message of the daemon."""
        async with asyncio.timeout(30):
            while not condition():
                self._woken.clear()
                await self._woken.wait()

    async def execute(self, command: str, **params: Any) -> Any:
        """Execute one of the daemon's commands."""
        asked = types.ExecuteCommandParams(command=command, arguments=[params])
        return await self.client.workspace_execute_command_async(asked)

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request of the daemon's own."""
        protocol: Any = self.client.protocol
        return await protocol.send_request_async(method, params)

    async def new_session(self, folder: Path, **wanted: Any) -> str:
        """Begin a conversation."""
        return str((await self.execute("sidecar.new", cwd=str(folder), **wanted))["sid"])

    async def ask(self, sid: str, text: str) -> Any:
        """Send a prompt and wait for the end of its turn."""
        return await self.execute("sidecar.prompt", sid=sid, input=[{"type": "text", "text": text}])

    def open(self, path: Path, text: str) -> None:
        """Open a buffer."""
        self.buffers[path.as_uri()] = 1, text
        item = types.TextDocumentItem(path.as_uri(), types.LanguageKind.Python, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def close(self, path: Path) -> None:
        """Close a buffer."""
        del self.buffers[path.as_uri()]
        closed = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri=path.as_uri()))
        self.client.text_document_did_close(closed)

    def type(self, path: Path, at: tuple[int, int], old: str, new: str) -> None:
        """Replace the word *old* of one line by *new*."""
        version, text = self.buffers[path.as_uri()]
        line, character = at
        lines = text.splitlines(keepends=True)
        lines[line] = lines[line][:character] + new + lines[line][character + len(old) :]
        where = types.Range(types.Position(line, character), types.Position(line, character + len(old)))
        self._change(path.as_uri(), version, where, new, "".join(lines))

    def hints(self, path: Path) -> list[str]:
        """Return the hints on a file."""
        return [hint.message for hint in self.client.diagnostics.get(path.as_uri(), [])]

    def has_hints(self, path: Path, expected: list[str]) -> bool:
        """Whether the hints on a file are these."""
        return self.hints(path) == expected

    async def lens_titles(self, path: Path) -> list[str]:
        """Return what the lenses above a file say."""
        asked = types.CodeLensParams(types.TextDocumentIdentifier(path.as_uri()))
        lenses = await self.client.text_document_code_lens_async(asked)
        return [lens.command.title for lens in lenses or () if lens.command]

    async def document(self, uri: str) -> str:
        """Return the text of a document of the daemon's."""
        asked = types.TextDocumentContentParams(uri)
        return (await self.client.workspace_text_document_content_async(asked)).text

    def _on(self, method: str, handle: Callable[[Any], Any]) -> None:
        def feature(params: Any) -> Any:
            result = handle(params)
            self._woken.set()
            return result

        self.client.feature(method)(feature)

    def _answer(self, params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
        self.asked.append(params.message)
        return params.actions[0] if params.actions else None

    def _register(self, params: types.RegistrationParams) -> None:
        self.registered |= {entry.method for entry in params.registrations}

    def _refresh_lenses(self, _params: None) -> None:
        self.lens_refreshes += 1

    def _refresh_document(self, params: types.TextDocumentContentRefreshParams) -> None:
        self.document_refreshes.append(params.uri)

    def _apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        """Apply an edit of whole lines, if it was made for the buffer as it is."""
        self.edits.append(params)
        assert params.edit.document_changes is not None
        (document,) = params.edit.document_changes
        assert isinstance(document, types.TextDocumentEdit)
        uri = document.text_document.uri
        version, text = self.buffers[uri]
        if document.text_document.version != version:
            return types.ApplyWorkspaceEditResult(applied=False)
        (edit,) = document.edits
        assert isinstance(edit, types.TextEdit)
        lines = text.splitlines(keepends=True)
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
        self._change(uri, version, edit.range, edit.new_text, "".join(lines))
        return types.ApplyWorkspaceEditResult(applied=True)

    def _change(self, uri: str, version: int, where: types.Range, text: str, whole: str) -> None:
        """Tell a change after which the buffer is *whole*."""
        self.buffers[uri] = version + 1, whole
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=version + 1)
        change = types.TextDocumentContentChangePartial(range=where, text=text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))


def client_of_an_editor() -> LanguageClient:
    """Return the client of a new editor."""
    editor = Editor()
    editor.client.editor = editor  # type: ignore[attr-defined]  # ours, on theirs
    return editor.client


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder the editor has open."""
    folder = tmp_path_factory.mktemp("workplace")
    (folder / "parser.py").write_text("def parse_brackets(text):\n    return text.count('(')\n")
    return folder


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what the daemon stores out of the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INDUSAGI_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest_lsp.fixture(
    config=ClientServerConfig(
        server_command=[sys.executable, "-m", "sidecar"], client_factory=client_of_an_editor
    ),
    params=PROFILES,
    scope="module",
)  # type: ignore[untyped-decorator]  # pytest-lsp does not type its decorator
async def client(
    lsp_client: LanguageClient, request: pytest.FixtureRequest, workplace: Path, state: None
) -> AsyncIterator[None]:
    """A client with the capabilities of each editor in turn, and its daemon."""
    editor: Editor = lsp_client.editor  # type: ignore[attr-defined]  # ours, on theirs
    capabilities = client_capabilities(request.param)
    assert capabilities.workspace
    assert capabilities.text_document
    editor.workspace, editor.text_document = capabilities.workspace, capabilities.text_document
    if request.param == "visual-studio-code":
        # Later than the version the profile was taken from.
        editor.workspace.text_document_content = types.TextDocumentContentClientCapabilities()
    uri = workplace.as_uri()
    params = types.InitializeParams(
        capabilities=capabilities,
        root_uri=uri,
        workspace_folders=[types.WorkspaceFolder(uri, workplace.name)],
        initialization_options={"sidecar": {"models": {"half-1": {"scripted": HALF_AN_ANSWER}}}},
    )
    editor.answered = await lsp_client.initialize_session(params)
    yield
    await lsp_client.shutdown_session()


@pytest.fixture
def editor(client: LanguageClient) -> Editor:
    """Return the editor that *client* belongs to."""
    found: Editor = client.editor  # type: ignore[attr-defined]  # ours, on theirs
    return found
