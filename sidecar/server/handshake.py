"""The handshake of an LSP client: the params of its ``initialize``, and the result.

An editor waits for this answer with its window open, and pygls takes longer to load than everything else that
a handshake needs. So the answer is made without it; a test compares it with the one that pygls would give.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct, ValidationError, convert, field
from msgspec.structs import fields

from sidecar._internal.errors import InvalidInput
from sidecar.protocol.handshake import ServerInfo
from sidecar.server.commands import COMMANDS

if TYPE_CHECKING:
    from sidecar.server.profile import Handshake
    from sidecar.workspace.contract import PositionEncoding

StructT = TypeVar("StructT", bound=Struct)

DOCUMENT_SCHEME: Final = "sidecar-session"
"""The scheme of the URIs of conversations that are opened as documents."""

_ENCODINGS: Final[tuple[PositionEncoding, ...]] = ("utf-8", "utf-16", "utf-32")
_INCREMENTAL: Final = 2
_FILE_OPERATIONS: Final = ("didCreate", "didRename", "didDelete")
_ALL_FILES: Final = {"filters": [{"pattern": {"glob": "**/*"}, "scheme": "file"}]}
_PROBLEM: Final = re.compile(r"(?:required field `(?P<missing>\w+)`)?(?: - at `\$(?P<place>.*)`)?$")
_INDEX: Final = re.compile(r"\[.*?\]")


class ClientName(Struct):
    """The name of a client."""

    name: str


class Folder(Struct):
    """A folder of the workspace."""

    uri: str
    name: str


class General(Struct, rename="camel"):
    """The units of positions that a client offers, the one that it prefers first."""

    position_encodings: list[Any] | None = None


class Window(Struct, rename="camel"):
    """The capabilities of ``window``."""

    work_done_progress: Any = None
    show_message: Any = None


class WorkspaceEdits(Struct, rename="camel"):
    """The capabilities of ``workspace.workspaceEdit``."""

    document_changes: Any = None


class WatchedFiles(Struct, rename="camel"):
    """The capabilities of ``workspace.didChangeWatchedFiles``."""

    dynamic_registration: Any = None
    relative_pattern_support: Any = None


class WorkspaceLenses(Struct, rename="camel"):
    """The capabilities of ``workspace.codeLens``."""

    refresh_support: Any = None


class WorkspaceCapabilities(Struct, rename="camel"):
    """The capabilities of ``workspace``."""

    apply_edit: Any = None
    workspace_edit: WorkspaceEdits = field(default_factory=WorkspaceEdits)
    did_change_watched_files: WatchedFiles = field(default_factory=WatchedFiles)
    code_lens: WorkspaceLenses = field(default_factory=WorkspaceLenses)
    file_operations: dict[str, Any] = field(default_factory=dict)
    text_document_content: Any = None


class Synchronization(Struct, rename="camel"):
    """The capabilities of ``textDocument.synchronization``."""

    will_save: Any = None
    will_save_wait_until: Any = None


class TextDocumentCapabilities(Struct, rename="camel"):
    """The capabilities of ``textDocument``."""

    synchronization: Synchronization = field(default_factory=Synchronization)
    publish_diagnostics: Any = None
    code_lens: Any = None


class Capabilities(Struct, rename="camel"):
    """The capabilities of a client, as far as they are used here."""

    general: General = field(default_factory=General)
    window: Window = field(default_factory=Window)
    workspace: WorkspaceCapabilities = field(default_factory=WorkspaceCapabilities)
    text_document: TextDocumentCapabilities = field(default_factory=TextDocumentCapabilities)
    experimental: Any = None


class InitializeParams(Struct, rename="camel"):
    """The params of ``initialize``, as far as they are used here."""

    capabilities: Capabilities
    process_id: int | None = None
    client_info: ClientName | None = None
    root_path: str | None = None
    root_uri: str | None = None
    workspace_folders: list[Folder] | None = None
    initialization_options: Any = None
    trace: Any = None

    @property
    def trace_level(self) -> str:
        """The wanted amount of ``$/logTrace``; a level that is not known is none."""
        return self.trace if self.trace in ("messages", "verbose") else "off"

    @property
    def encoding(self) -> PositionEncoding:
        """The unit of positions: utf-8 where the client can, else the first known one that it offers."""
        offered = self.capabilities.general.position_encodings or ()
        known = [name for choice in offered for name in _ENCODINGS if name == choice]
        return "utf-8" if "utf-8" in known else next(iter(known), "utf-16")

    @property
    def folder_uris(self) -> tuple[str, ...]:
        """The workspace's folders; where the client names none, its root."""
        if self.workspace_folders:
            return tuple(folder.uri for folder in self.workspace_folders)
        root = self.root_uri
        if root is None and self.root_path is not None:
            root = Path(self.root_path).absolute().as_uri()
        return (root,) if root else ()


def read_initialize(params: Any) -> InitializeParams:
    """Return *params* typed; capabilities that are unused here may be malformed. Raises InvalidInput."""
    if isinstance(params, Mapping) and isinstance(params.get("capabilities"), Mapping | list):
        # An empty object is an empty array for some clients: their language has one word for the two.
        declared = params["capabilities"] or {}
        if isinstance(declared, Mapping):
            params = {**params, "capabilities": _keep_used(declared, Capabilities)}
    return read_params("initialize", params, InitializeParams, strict=False)


def read_params(method: str, params: Any, kind: type[StructT], *, strict: bool = True) -> StructT:
    """Return the *params* of *method* as a *kind*. Raises InvalidInput, which names the wrong place.

    Args:
        method: the name of the message.
        params: decoded JSON.
        kind: the type of the params.
        strict: whether a number is refused where it comes as a text.
    """
    try:
        return convert(params, kind, strict=strict)
    except UnicodeEncodeError:
        why = "a name has half a character"
        raise InvalidInput(f"the params of {method!r} are not valid at params: {why}") from None
    except ValidationError as error:
        problem = _PROBLEM.search(str(error))
        assert problem is not None
        names = [_INDEX.sub("", problem["place"] or ""), *filter(None, [problem["missing"]])]
        raise InvalidInput(f"the params of {method!r} are not valid at params{'.'.join(names)}") from None


def answer_initialize(
    asked: InitializeParams, handshake: Handshake, info: ServerInfo, advertised: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result of ``initialize``.

    Args:
        asked: the params of the client.
        handshake: its profile and the unit of positions.
        info: the name and version of the server.
        advertised: the value of ``experimental.sidecar``.
    """
    synchronization = asked.capabilities.text_document.synchronization
    sync: dict[str, Any] = {"openClose": True, "change": _INCREMENTAL}
    if synchronization.will_save is not None:
        sync["willSave"] = False
    if synchronization.will_save_wait_until is not None:
        sync["willSaveWaitUntil"] = False
    sync["save"] = {"includeText": False}
    wanted = asked.capabilities.workspace.file_operations
    workspace: dict[str, Any] = {
        "workspaceFolders": {"supported": True, "changeNotifications": True},
        "fileOperations": {name: _ALL_FILES for name in _FILE_OPERATIONS if wanted.get(name)},
    }
    if handshake.profile.shows_documents:
        workspace["textDocumentContent"] = {"schemes": [DOCUMENT_SCHEME]}
    capabilities: dict[str, Any] = {"positionEncoding": handshake.encoding, "textDocumentSync": sync}
    if handshake.profile.shows_lenses:
        capabilities["codeLensProvider"] = {"resolveProvider": False}
    capabilities["executeCommandProvider"] = {"commands": list(COMMANDS)}
    capabilities["workspace"] = workspace
    capabilities["experimental"] = {"sidecar": advertised}
    return {"capabilities": capabilities, "serverInfo": {"name": info.name, "version": info.version}}


def _keep_used(declared: Mapping[str, Any], kind: type[Struct]) -> dict[str, Any]:
    """Return the fields of *kind* in *declared*, without malformed groups of capabilities."""
    used: dict[str, Any] = {}
    for known in fields(kind):
        value = declared.get(known.encode_name)
        if not (isinstance(known.type, type) and issubclass(known.type, Struct)):
            if value is not None:
                used[known.encode_name] = value
        elif isinstance(value, Mapping):
            used[known.encode_name] = _keep_used(value, known.type)
    return used
