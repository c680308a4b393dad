"""The daemon under the capabilities of real editors, driven as pytest-lsp drives any language server.

These clients know the Language Server Protocol and nothing of ours: what they see comes as commands,
progress and message requests.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES

pytestmark = pytest.mark.e2e

PROFILES = ("visual-studio-code", "neovim", "emacs")
HALF_AN_ANSWER = [[{"text": "half an answer"}, {"hang": True}]]


class Editor:
    """An editor's side of the protocol: its buffers, what was asked of it, and a user who says yes."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.registered: dict[str, str] = {}
        self.edits: list[types.ApplyWorkspaceEditParams] = []
        self.lens_refreshes = 0
        self.buffers: dict[str, tuple[int, str]] = {}
        self.client = LanguageClient(converter_factory=default_converter)
        self._woken = asyncio.Event()
        for method, feature in DEFAULT_CLIENT_FEATURES.items():
            self._on(method, partial(feature, self.client))
        self._on(types.WINDOW_SHOW_MESSAGE_REQUEST, self._answer)
        self._on(types.CLIENT_REGISTER_CAPABILITY, self._register)
        self._on(types.CLIENT_UNREGISTER_CAPABILITY, lambda params: None)
        self._on(types.WORKSPACE_APPLY_EDIT, self._apply)
        self._on(types.WORKSPACE_CODE_LENS_REFRESH, self._refresh)

    async def until(self, condition: Callable[[], object]) -> None:
        """Return once *condition* holds; it is looked at after every message of the daemon."""
        async with asyncio.timeout(30):
            while not condition():
                self._woken.clear()
                await self._woken.wait()

    def open(self, uri: str, text: str) -> None:
        """Open a buffer."""
        self.buffers[uri] = 1, text
        item = types.TextDocumentItem(uri, types.LanguageKind.Python, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def close(self, uri: str) -> None:
        """Close a buffer."""
        del self.buffers[uri]
        closed = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri=uri))
        self.client.text_document_did_close(closed)

    def change(self, uri: str, change: types.TextDocumentContentChangePartial, text: str) -> None:
        """Tell a change after which the buffer is *text*."""
        version = self.buffers[uri][0] + 1
        self.buffers[uri] = version, text
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=version)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

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
        self.registered |= {entry.method: entry.id for entry in params.registrations}

    def _refresh(self, _params: None) -> None:
        self.lens_refreshes += 1

    def _apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        """Apply an edit of whole lines, if it was made for the buffer as it is."""
        self.edits.append(params)
        assert params.edit.document_changes is not None
        (document,) = params.edit.document_changes
        assert isinstance(document, types.TextDocumentEdit)
        version, text = self.buffers[document.text_document.uri]
        if document.text_document.version != version:
            return types.ApplyWorkspaceEditResult(applied=False)
        (edit,) = document.edits
        assert isinstance(edit, types.TextEdit)
        lines = text.splitlines(keepends=True)
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
        change = types.TextDocumentContentChangePartial(range=edit.range, text=edit.new_text)
        self.change(document.text_document.uri, change, "".join(lines))
        return types.ApplyWorkspaceEditResult(applied=True)


def client_of_an_editor() -> LanguageClient:
    """Return the client of a new editor."""
    editor = Editor()
    editor.client.editor = editor  # type: ignore[attr-defined]
    return editor.client


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "parser.py").write_text("def parse_brackets(text):\n    return text.count('(')\n")
    return folder


@pytest_lsp.fixture(
    config=ClientServerConfig(
        server_command=[sys.executable, "-m", "sidecar"], client_factory=client_of_an_editor
    ),
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
        initialization_options={"sidecar": {"models": {"half-1": {"scripted": HALF_AN_ANSWER}}}},
    )
    lsp_client.answered = await lsp_client.initialize_session(params)  # type: ignore[attr-defined]
    yield
    await lsp_client.shutdown_session()


@pytest.fixture
def editor(client: LanguageClient) -> Editor:
    found: Editor = client.editor  # type: ignore[attr-defined]
    return found


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INDUSAGI_HOME", str(tmp_path_factory.mktemp("home")))
        yield


async def command(client: LanguageClient, name: str, **params: Any) -> Any:
    asked = types.ExecuteCommandParams(command=name, arguments=[params])
    return await client.workspace_execute_command_async(asked)


async def new_session(client: LanguageClient, folder: Path, **wanted: Any) -> str:
    return str((await command(client, "sidecar.new", cwd=str(folder), **wanted))["sid"])


async def ask(client: LanguageClient, sid: str, text: str) -> Any:
    return await command(client, "sidecar.prompt", sid=sid, input=prompt(text))


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
    ran = await ask(client, sid, "where is `parse_brackets` defined?")
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
async def test_cancel_on_the_progress_of_a_turn_interrupts_it(
    client: LanguageClient, editor: Editor, project: Path
) -> None:
    """The command brings no token, so the daemon asks the editor for one."""
    sid = await new_session(client, project, model="half-1")
    before = set(client.progress_reports)
    asking = asyncio.ensure_future(ask(client, sid, "go on"))
    await editor.until(lambda: any(client.progress_reports[token] for token in tokens(client) - before))
    (token,) = tokens(client) - before
    begun: Any = client.progress_reports[token][0]
    assert (begun.kind, begun.cancellable) == ("begin", True)
    client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token=token))
    assert (await asking)["stopReason"] == "cancelled"
    await editor.until(lambda: ended(client, token))
    ran = await ask(client, await new_session(client, project), "what is in parser.py?")
    assert ran["stopReason"] == "end_turn", "and nothing else"


def tokens(client: LanguageClient) -> set[types.ProgressToken]:
    return set(client.progress_reports)


def ended(client: LanguageClient, token: types.ProgressToken) -> bool:
    last: Any = client.progress_reports[token][-1]
    return bool(last == types.WorkDoneProgressEnd(message="cancelled"))


@pytest.mark.asyncio(loop_scope="module")
async def test_unsaved_text_is_what_the_model_reads(
    client: LanguageClient, editor: Editor, project: Path
) -> None:
    uri = (project / "parser.py").as_uri()
    editor.open(uri, "def only_in_the_editor(text):\n    return 0\n")
    at = types.Range(types.Position(1, 11), types.Position(1, 12))
    edit = types.TextDocumentContentChangePartial(range=at, text="41 + 1")
    editor.change(uri, edit, "def only_in_the_editor(text):\n    return 41 + 1\n")
    ran = await ask(client, await new_session(client, project), "what is in parser.py?")
    editor.close(uri)
    assert "only_in_the_editor" in ran["text"]
    assert "parse_brackets" not in ran["text"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_command_asks_with_buttons_and_runs_when_allowed(
    client: LanguageClient, editor: Editor, project: Path
) -> None:
    sid = await new_session(client, project)
    editor.asked.clear()
    ran = await ask(client, sid, "run `echo allowed-it`")
    assert ran["stopReason"] == "end_turn"
    assert len(editor.asked) == 1
    assert "allowed-it" in ran["text"]


@pytest.mark.asyncio(loop_scope="module")
async def test_an_edit_of_an_open_buffer_lands_in_the_editor_where_it_takes_versioned_edits(
    client: LanguageClient, editor: Editor, project: Path
) -> None:
    path = project / "note.txt"
    path.write_text("on disk\n")
    editor.open(path.as_uri(), "typed\n")
    sid = await new_session(client, project)
    await ask(client, sid, "what is in note.txt?")
    ran = await ask(client, sid, "write note.txt: from the model")
    version, text = editor.buffers[path.as_uri()]
    n_edits = len(editor.edits)
    editor.edits.clear()
    editor.close(path.as_uri())
    assert path.read_text() == "on disk\n", "an unsaved buffer is never written beneath"
    if takes_versioned_edits(client):
        assert (n_edits, version, text) == (1, 2, "from the model")
    else:
        assert (n_edits, version, text) == (0, 1, "typed\n")
        assert "unsaved changes" in ran["text"]


def takes_versioned_edits(client: LanguageClient) -> bool:
    workspace = client.capabilities.workspace if client.capabilities else None
    edit = workspace.workspace_edit if workspace else None
    return bool(edit and edit.document_changes)


STALE = ["changed since the model read it"]


def hints(client: LanguageClient, path: Path) -> list[str]:
    return [hint.message for hint in client.diagnostics.get(path.as_uri(), [])]


def has_hints(client: LanguageClient, path: Path, expected: list[str]) -> bool:
    return hints(client, path) == expected


def watches(editor: Editor) -> bool:
    return types.WORKSPACE_DID_CHANGE_WATCHED_FILES in editor.registered


@pytest.mark.asyncio(loop_scope="module")
async def test_a_file_that_changed_is_marked_until_it_is_read_again(
    client: LanguageClient, editor: Editor, project: Path
) -> None:
    """Where the editor watches it says so itself; the others have our own watcher."""
    path = project / "watched.py"
    path.write_text("one = 1\n")
    sid = await new_session(client, project)
    await ask(client, sid, "what is in watched.py?")
    path.write_text("two = 2\n")
    if watches(editor):
        changed = types.FileEvent(path.as_uri(), types.FileChangeType.Changed)
        client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([changed]))
    await editor.until(lambda: hints(client, path) == STALE)
    hint = client.diagnostics[path.as_uri()][0]
    assert (hint.severity, hint.source) == (types.DiagnosticSeverity.Hint, "sidecar")
    await ask(client, sid, "what is in watched.py?")
    await editor.until(lambda: hints(client, path) == [])


@pytest.mark.asyncio(loop_scope="module")
async def test_typing_marks_a_file_undoing_unmarks_it_and_so_does_the_end_of_the_session(
    client: LanguageClient, editor: Editor, project: Path
) -> None:
    path = project / "typed.py"
    path.write_text("one = 1\n")
    editor.open(path.as_uri(), "one = 1\n")
    sid = await new_session(client, project)
    await ask(client, sid, "what is in typed.py?")
    for new, expected in (("2", STALE), ("1", []), ("3", STALE)):
        at = types.Range(types.Position(0, 6), types.Position(0, 7))
        edit = types.TextDocumentContentChangePartial(range=at, text=new)
        editor.change(path.as_uri(), edit, f"one = {new}\n")
        await editor.until(partial(has_hints, client, path, expected))
    protocol: Any = client.protocol
    await protocol.send_request_async("sidecar/session/close", {"sid": sid})
    await editor.until(lambda: hints(client, path) == [])
    editor.close(path.as_uri())


@pytest.mark.asyncio(loop_scope="module")
async def test_a_session_outside_the_editor_s_folders_is_watched_all_the_same(
    client: LanguageClient, editor: Editor, project: Path, tmp_path: Path
) -> None:
    path = tmp_path / "elsewhere.py"
    path.write_text("one = 1\n")
    await new_session(client, project)
    sid = await new_session(client, tmp_path)
    await ask(client, sid, "what is in elsewhere.py?")
    path.write_text("two = 2\n")
    await editor.until(lambda: hints(client, path) == STALE)
    watch = (await command(client, "sidecar.status"))["watch"]
    assert watch["backend"] == ("client+watchfiles" if watches(editor) else "watchfiles")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_lens_says_what_the_model_has_of_a_file(
    client: LanguageClient, editor: Editor, project: Path
) -> None:
    offered = client.answered.capabilities.code_lens_provider  # type: ignore[attr-defined]
    document = client.capabilities.text_document if client.capabilities else None
    workspace = client.capabilities.workspace if client.capabilities else None
    assert (offered is not None) == bool(document and document.code_lens)
    if offered is None:
        return
    path = project / "lens.py"
    path.write_text("one = 1\n" * 50)
    sid = await new_session(client, project)
    await ask(client, sid, "what is in lens.py?")
    assert (await lens_titles(client, path))[0].startswith("in context, ")
    n_refreshes = editor.lens_refreshes
    await ask(client, sid, "what is in parser.py?")
    assert "read 1 turn ago" in (await lens_titles(client, path))[0]
    if workspace and workspace.code_lens and workspace.code_lens.refresh_support:
        await editor.until(lambda: editor.lens_refreshes > n_refreshes)
    else:
        assert editor.lens_refreshes == 0


async def lens_titles(client: LanguageClient, path: Path) -> list[str]:
    asked = types.CodeLensParams(types.TextDocumentIdentifier(path.as_uri()))
    lenses = await client.text_document_code_lens_async(asked)
    return [lens.command.title for lens in lenses or () if lens.command]


@pytest.mark.asyncio(loop_scope="module")
async def test_compaction_is_reachable_by_commands(client: LanguageClient, project: Path) -> None:
    sid = await new_session(client, project)
    for _ in range(3):
        await ask(client, sid, "what is in parser.py?")
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
    await ask(client, sid, "what is in parser.py?")
    status = await command(client, "sidecar.status")
    assert status["sessions"]["loaded"] >= 1
    assert client.messages == []
