"""The Language Server Protocol's meaning, by pygls: types, capabilities, folders, the trace level.

No bytes pass through pygls here: its reader, its writer and its tables of requests are replaced by
:class:`sidecar.transport.peer.Peer`. A message is structured once, at its top, and nowhere inside.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter, lsp_method

from sidecar._internal.errors import InvalidInput
from sidecar.protocol.errors import MethodNotFound
from sidecar.protocol.handshake import ServerInfo
from sidecar.server.commands import COMMANDS
from sidecar.server.profile import ClientProfile

if TYPE_CHECKING:  # it answers initialize before anything of a session is loaded
    from sidecar.server.client import LspClient
    from sidecar.workspace.contract import PositionEncoding

__all__ = ["DOCUMENT_SCHEME", "LspServer"]

DOCUMENT_SCHEME: Final = "sidecar-session"
"""Of the URIs under which conversations are opened as documents."""

_NOT_OURS: Final = (
    types.WORKSPACE_EXECUTE_COMMAND,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL,
    types.SHUTDOWN,
    types.EXIT,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
)
"""What pygls would handle by itself and the connection handles in its place, or nobody does."""

_FILES: Final = types.FileOperationRegistrationOptions(
    filters=[types.FileOperationFilter(types.FileOperationPattern(glob="**/*"), scheme="file")]
)
_Picks: TypeAlias = "Mapping[str, _Picks | None]"
_USED_CAPABILITIES: Final[_Picks] = {
    "general": {"positionEncodings": None},
    "window": {"workDoneProgress": None, "showMessage": {}},
    "workspace": {
        "applyEdit": None,
        "workspaceEdit": {"documentChanges": None},
        "didChangeWatchedFiles": None,
        "fileOperations": None,
        "codeLens": {"refreshSupport": None},
        "textDocumentContent": {},
    },
    "textDocument": {"publishDiagnostics": {}, "codeLens": {}},
    "experimental": None,
}
"""What is looked at; None takes all there is below a name."""

_UNKNOWN: Final = (None, None, None, None)
_ENCODINGS: Final[tuple[PositionEncoding, ...]] = ("utf-8", "utf-16", "utf-32")


class _Protocol(LanguageServerProtocol):
    """pygls' protocol without its wire."""

    _server: LspServer

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """Choose utf-8 positions where the client can, and say what only this server says."""
        general = params.capabilities.general
        if general and general.position_encodings and "utf-8" in general.position_encodings:
            general.position_encodings = (types.PositionEncodingKind.Utf8,)
        self.trace = params.trace or types.TraceValue.Off
        result = yield from super().lsp_initialize(params)
        result.capabilities.experimental = {"sidecar": self._server.advertised}
        if types.WORKSPACE_TEXT_DOCUMENT_CONTENT in self.fm.features and result.capabilities.workspace:
            content = types.TextDocumentContentOptions(schemes=[DOCUMENT_SCHEME])
            result.capabilities.workspace.text_document_content = content
        return result

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        """Leave the text to the workspace: pygls' own splits lines where editors do not."""
        self._server.client.documents.opened(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        """Leave the edit to the workspace."""
        self._server.client.documents.changed(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        """Leave the end of the buffer to the workspace."""
        self._server.client.documents.closed(params)

    def typed(self, method: str, params: Any) -> Any:
        """Return *params* in the type of *method*. Raises whatever the converter raises."""
        kind: Any = types.METHOD_TO_TYPES[method][2]
        return None if kind is None else self._converter.structure(params, kind)

    def handle(self, method: str, typed_params: Any) -> Any:
        """Run the handler of *method* and return its result, JSON-ready, or an awaitable of that."""
        handler = self.fm.builtin_features.get(method) or self.fm.features[method]
        outcome = handler(typed_params)
        if inspect.isgenerator(outcome):
            outcome = _returned(outcome)
        if inspect.isawaitable(outcome):
            return self._unstructure_later(outcome)
        return self._converter.unstructure(outcome)

    async def _unstructure_later(self, outcome: Awaitable[Any]) -> Any:
        return self._converter.unstructure(await outcome)


class LspServer(LanguageServer):
    """One client's language server.

    *open_client* returns what there is of the client, and makes it when it is first needed; *on_folders*
    hears of every change of the workspace's folders.
    """

    protocol: _Protocol

    def __init__(
        self,
        info: ServerInfo,
        advertised: dict[str, Any],
        open_client: Callable[[], LspClient],
        on_folders: Callable[[], None],
    ) -> None:
        # Every message it sends or gets would be in a log at INFO, prompts and files included (row 17).
        logging.getLogger("pygls").setLevel(logging.WARNING)
        super().__init__(info.name, info.version, protocol_cls=_Protocol, converter_factory=_converter)
        self.advertised = advertised
        self._open_client = open_client
        self._on_folders = on_folders
        self._register()

    @property
    def client(self) -> LspClient:
        """What there is of the client. Raises SidecarError when there is nothing to answer it with."""
        return self._open_client()

    @property
    def encoding(self) -> PositionEncoding:
        """The negotiated unit of positions; known once initialized."""
        chosen = self.protocol.server_capabilities.position_encoding
        return next(name for name in _ENCODINGS if name == chosen)

    @property
    def is_traced(self) -> bool:
        """Whether the client wants ``$/logTrace``."""
        return self.protocol.trace is not types.TraceValue.Off

    @property
    def folder_uris(self) -> tuple[str, ...]:
        """The workspace's folders; where the client names none, its root."""
        workspace = self.protocol.workspace
        return tuple(workspace.folders) or ((workspace.root_uri,) if workspace.root_uri else ())

    def offer(self, profile: ClientProfile) -> None:
        """Offer what a client of *profile* can show in ``initialize``, which has not been called yet."""

        async def content(params: types.TextDocumentContentParams) -> types.TextDocumentContentResult:
            return types.TextDocumentContentResult(await self.client.text_of(params.uri))

        if profile.shows_lenses:
            lenses = self.feature(types.TEXT_DOCUMENT_CODE_LENS)
            lenses(lambda params: self.client.lenses_of(params.text_document.uri))
        if profile.shows_documents:
            self.feature(types.WORKSPACE_TEXT_DOCUMENT_CONTENT)(content)

    def call(self, method: str, params: Any) -> Any:
        """Handle one message and return its result, JSON-ready, or an awaitable of that.

        Raises MethodNotFound, InvalidInput.
        """
        features = self.protocol.fm
        # A handshake comes by its own way; as a notification it would begin everything anew.
        is_known = method in features.builtin_features or method in features.features
        if not is_known or method == types.INITIALIZE:
            raise MethodNotFound(method)
        return self.protocol.handle(method, self._typed(method, params))

    def notify(self, method: str, params: Any) -> None:
        """Handle one notification. Raises MethodNotFound, also for a request that wants no answer."""
        if types.METHOD_TO_TYPES.get(method, _UNKNOWN)[1] is not None:
            raise MethodNotFound(method)
        self.call(method, params)

    def read_initialize(self, params: Any) -> types.InitializeParams:
        """Return *params* typed; capabilities that are no use here may be odd. Raises InvalidInput."""
        try:
            typed = self.protocol.typed(types.INITIALIZE, params)
        except Exception:
            typed = self._typed(types.INITIALIZE, _only_what_is_used(params))
        assert isinstance(typed, types.InitializeParams)
        return typed

    def initialize(self, params: types.InitializeParams) -> Any:
        """Return the result of ``initialize``, JSON-ready."""
        return self.protocol.handle(types.INITIALIZE, params)

    def _typed(self, method: str, params: Any) -> Any:
        try:
            return self.protocol.typed(method, params)
        except Exception as error:
            place = ".".join(("params", *_places(error)))
            raise InvalidInput(f"{method!r} got params that do not fit, at {place}") from None

    def _register(self) -> None:
        features = self.protocol.fm
        for method in _NOT_OURS:
            features.builtin_features.pop(method, None)
        # pygls marks what it registers, and a bound method cannot be marked.
        self.feature(types.TEXT_DOCUMENT_DID_SAVE, types.SaveOptions(include_text=False))(
            lambda params: self.client.documents.saved(params)
        )
        watched = self.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
        watched(lambda params: self.client.documents.watched(params))
        created = self.feature(types.WORKSPACE_DID_CREATE_FILES, _FILES)
        created(lambda params: self.client.documents.created(params))
        renamed = self.feature(types.WORKSPACE_DID_RENAME_FILES, _FILES)
        renamed(lambda params: self.client.documents.renamed(params))
        deleted = self.feature(types.WORKSPACE_DID_DELETE_FILES, _FILES)
        deleted(lambda params: self.client.documents.deleted(params))
        self.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)(lambda _params: self._on_folders())
        for name in COMMANDS:
            self.command(name)(lambda: None)


# Making one takes longer than the whole handshake; it holds no state of a client.
_converter: Final = cache(default_converter)


def _returned(steps: Generator[Any, Any, Any]) -> Any:
    """Run one of pygls' handlers to its end; what it yields are further handlers to run."""
    try:
        handler, args, _ = next(steps)
        while True:
            handler, args, _ = steps.send(handler(*args))
    except StopIteration as end:
        return end.value


def _places(error: BaseException) -> Iterator[str]:
    """Yield the names on the way to the first place that does not fit, as the converter noted them."""
    from sidecar.protocol.codec import to_camel  # not above: it loads every message

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        yield from (to_camel(note.name) for note in getattr(error, "__notes__", ()) if hasattr(note, "name"))


def _only_what_is_used(params: Any) -> Any:
    """Return the params of ``initialize`` without what nobody here looks at."""
    if not isinstance(params, Mapping) or not isinstance(params.get("capabilities"), Mapping):
        return params
    kept = {name: value for name, value in params.items() if name != "trace"}
    return {**kept, "capabilities": _picked(params["capabilities"], _USED_CAPABILITIES)}


def _picked(said: Mapping[str, Any], picks: _Picks) -> dict[str, Any]:
    return {
        name: value if below is None else _picked(value, below)
        for name, below in picks.items()
        if (value := said.get(name)) is not None and (below is None or isinstance(value, Mapping))
    }
