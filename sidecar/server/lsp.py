"""The language server of one client, by pygls: types, folders, the trace level.

No bytes pass through pygls here: :class:`sidecar.transport.peer.Peer` replaces its reader, its writer and its
tables of requests. A message is structured once, at its top, and nowhere inside.

It is loaded only after ``initialize`` is answered.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Generator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from sidecar._internal.async_cancel import apply_to_outcome
from sidecar._internal.errors import InvalidInput
from sidecar.protocol.codec import limit_wrong_items
from sidecar.protocol.errors import MethodNotFound
from sidecar.protocol.handshake import ServerInfo
from sidecar.server.handshake import COMMANDS, ClientProfile, InitializeParams

if TYPE_CHECKING:
    from sidecar.server.documents import OpenDocuments
    from sidecar.server.sink import LspClient

_NOT_OURS: Final = (
    types.WORKSPACE_EXECUTE_COMMAND,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL,
    types.SHUTDOWN,
    types.EXIT,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
)
"""The messages that pygls would handle, and that the connection handles instead, or nobody does."""

_FILES: Final = types.FileOperationRegistrationOptions(
    filters=[types.FileOperationFilter(types.FileOperationPattern(glob="**/*"), scheme="file")]
)


class LspServer(LanguageServer):
    """The language server of one client; *known* are the methods that it handles."""

    def __init__(
        self,
        info: ServerInfo,
        open_client: Callable[[], LspClient],
        on_folders: Callable[[tuple[str, ...]], None],
    ) -> None:
        """Register the messages that are handled here.

        Args:
            info: the name and version of the server.
            open_client: returns the client, and makes it the first time. Raises SidecarError.
            on_folders: called with the folders of the workspace when they have changed.
        """
        # pygls would log every message at INFO, prompts and files included.
        logging.getLogger("pygls").setLevel(logging.WARNING)
        super().__init__(info.name, info.version, converter_factory=_converter)
        self.open_client = open_client
        self.known: set[str] = set()
        builtin = self.protocol.fm.builtin_features
        for method in _NOT_OURS:
            builtin.pop(method, None)
        self.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)(
            lambda _params: on_folders(tuple(self.protocol.workspace.folders))
        )
        for name in COMMANDS:
            self.command(name)(lambda: None)
        # Handled before pygls sees it, as all messages about buffers, and registered to be announced.
        self.feature(types.TEXT_DOCUMENT_DID_SAVE, types.SaveOptions(include_text=False))(lambda _: None)

        # Lambdas, because pygls marks what it registers, and a bound method cannot be marked.
        def documents() -> OpenDocuments:
            return self.open_client().documents

        watch = self.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
        watch(lambda params: documents().report_changed(change.uri for change in params.changes))
        create = self.feature(types.WORKSPACE_DID_CREATE_FILES, _FILES)
        create(lambda params: documents().report_changed(file.uri for file in params.files))
        delete = self.feature(types.WORKSPACE_DID_DELETE_FILES, _FILES)
        delete(lambda params: documents().report_changed(file.uri for file in params.files))
        rename = self.feature(types.WORKSPACE_DID_RENAME_FILES, _FILES)
        rename(
            lambda params: documents().report_renamed((file.old_uri, file.new_uri) for file in params.files)
        )

    @property
    def is_traced(self) -> bool:
        """Whether the client wants ``$/logTrace``."""
        return self.protocol.trace is not types.TraceValue.Off

    def offer(self, profile: ClientProfile) -> None:
        """Register the messages that only a client of *profile* sends; called before :meth:`begin`."""

        async def content(params: types.TextDocumentContentParams) -> types.TextDocumentContentResult:
            text = await self.open_client().conversations.text_of(params.uri)
            return types.TextDocumentContentResult(text)

        if profile.shows_lenses:
            lenses = self.feature(types.TEXT_DOCUMENT_CODE_LENS)
            lenses(lambda params: self.open_client().lenses.lenses_of(params.text_document.uri))
        if profile.shows_documents:
            self.feature(types.WORKSPACE_TEXT_DOCUMENT_CONTENT)(content)

    def begin(self, asked: InitializeParams) -> None:
        """Take over the folders and the unit of positions; the client has its answer already."""
        encoding = types.PositionEncodingKind(asked.encoding)
        general = types.GeneralClientCapabilities(position_encodings=[encoding])
        params = types.InitializeParams(
            capabilities=types.ClientCapabilities(general=general),
            root_path=asked.root_path,
            root_uri=asked.root_uri,
            workspace_folders=[
                types.WorkspaceFolder(folder.uri, folder.name) for folder in asked.workspace_folders or ()
            ],
        )
        run_steps(self.protocol.lsp_initialize(params))
        features = self.protocol.fm
        # A handshake comes another way; as a notification it would begin everything anew.
        self.known = {*features.builtin_features, *features.features} - {types.INITIALIZE}
        self.protocol.trace = types.TraceValue(asked.trace_level)

    def call(self, method: str, params: Any) -> Any:
        """Handle one message and return its result, JSON-ready, or an awaitable of that.

        Raises MethodNotFound, InvalidInput.
        """
        if method not in self.known:
            raise MethodNotFound(method)
        kind: Any = types.METHOD_TO_TYPES[method][2]
        try:
            typed = None if kind is None else _converter().structure(params, kind)
        except Exception as error:
            from sidecar.protocol.codec import to_camel  # not above: it loads every message

            # The converter notes the names on the path to each invalid place; the first place is reported.
            path, cause = ["params"], error
            while isinstance(cause, ExceptionGroup):
                cause = cause.exceptions[0]
                notes = getattr(cause, "__notes__", ())
                path += (to_camel(note.name) for note in notes if hasattr(note, "name"))
            raise InvalidInput(f"the params of {method!r} are not valid at {'.'.join(path)}") from None
        features = self.protocol.fm
        outcome = (features.builtin_features.get(method) or features.features[method])(typed)
        if inspect.isgenerator(outcome):
            outcome = run_steps(outcome)
        return apply_to_outcome(outcome, _converter().unstructure)


@cache
def _converter() -> Any:
    """Return the converter of pygls; making one takes longer than the rest of a handshake."""
    converter: Any = default_converter()  # type: ignore[no-untyped-call]  # pygls leaves it untyped
    limit_wrong_items(converter)
    return converter


def run_steps(steps: Generator[Any, Any, Any]) -> Any:
    """Run a handler of pygls to its end; it yields further handlers to run, and takes their results."""
    try:
        handler, args, _ = next(steps)
        while True:
            handler, args, _ = steps.send(handler(*args))
    except StopIteration as end:
        return end.value
