"""The handshake of an LSP client: the capabilities that its ``initialize`` declares, and the result.

An editor waits for this answer with its window open, and pygls takes longer to load than everything else that
a handshake needs. So the answer is made without it; a test compares it with the one that pygls would give.

The commands of ``workspace/executeCommand`` are for clients that cannot send the methods that they stand for.
A command takes one object, the params of its method; the tokens of the request become params, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct, ValidationError, convert

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.protocol.handshake import ClientFeatures, ServerInfo, parse_client_features
from sidecar.protocol.jsonrpc import member

if TYPE_CHECKING:
    from sidecar.workspace.contract import PositionEncoding


class ClientProfile(Value, kw_only=True):
    """The capabilities of one client.

    *features* is None when it knows the Language Server Protocol alone; *encoding* is the unit of positions.
    *options* are ``initializationOptions.sidecar``, for the daemon.
    """

    name: str
    encoding: PositionEncoding
    options: Mapping[str, Any]
    features: ClientFeatures | None
    shows_progress: bool
    shows_messages: bool
    applies_edits: bool
    registers_watchers: bool
    watches_relative: bool
    shows_diagnostics: bool = False
    shows_lenses: bool = False
    refreshes_lenses: bool = False
    shows_documents: bool = False

    @property
    def is_editor(self) -> bool:
        """Whether it may send more of the Language Server Protocol than buffers."""
        shows = self.shows_diagnostics or self.shows_lenses or self.shows_documents
        return self.features is None or shows or self.registers_watchers or self.applies_edits

    @property
    def may_be_asked(self) -> bool:
        """Whether to try ``window/showMessageRequest``.

        Every editor has it, though not all declare it. A client of ours has it only when it declares it.
        """
        return self.features is None or self.shows_messages

    @property
    def may_be_given_progress(self) -> bool:
        """Whether to show work that the client gave no token for; a client of ours sees it by the events."""
        return self.features is None and self.shows_progress


def profile_of(params: InitializeParams) -> ClientProfile:
    """Return the capabilities that *params* declare. Raises InvalidInput for options that are no object."""
    options = member(params.initialization_options, "sidecar")
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInput("initializationOptions.sidecar must be an object")

    def capability(*names: str) -> Any:
        return member(params.capabilities, *names)

    def is_object(*names: str) -> bool:
        return isinstance(capability(*names), Mapping)  # an empty one, too

    takes_versions = capability("workspace", "workspaceEdit", "documentChanges")
    return ClientProfile(
        name=params.client_info.name if params.client_info else "",
        encoding=params.encoding,
        options=options or {},
        features=parse_client_features(capability("experimental", "sidecar")),
        shows_progress=bool(capability("window", "workDoneProgress")),
        shows_messages=is_object("window", "showMessage"),
        applies_edits=bool(capability("workspace", "applyEdit") and takes_versions),
        registers_watchers=bool(capability("workspace", "didChangeWatchedFiles", "dynamicRegistration")),
        watches_relative=bool(capability("workspace", "didChangeWatchedFiles", "relativePatternSupport")),
        shows_diagnostics=is_object("textDocument", "publishDiagnostics"),
        shows_lenses=is_object("textDocument", "codeLens"),
        refreshes_lenses=bool(capability("workspace", "codeLens", "refreshSupport")),
        shows_documents=is_object("workspace", "textDocumentContent"),
    )


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


class InitializeParams(Struct, rename="camel"):
    """The params of ``initialize``, as far as they are used here."""

    capabilities: dict[str, Any]
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
        offered = member(self.capabilities, "general", "positionEncodings") or ()
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
    """Return *params* typed. Raises InvalidInput.

    A malformed capability counts as not declared, but for the units of positions.
    """
    if member(params, "capabilities") == []:
        # An empty object is an empty array for some clients: their language has one word for the two.
        params = {**params, "capabilities": {}}
    place = ("capabilities", "general", "positionEncodings")
    if not isinstance(member(params, *place), list | None):
        raise InvalidInput(f"the params of 'initialize' are not valid at params.{'.'.join(place)}")
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
    asked: InitializeParams, profile: ClientProfile, info: ServerInfo, advertised: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result of ``initialize``.

    Args:
        asked: the params of the client.
        profile: its capabilities.
        info: the name and version of the server.
        advertised: the value of ``experimental.sidecar``.
    """
    sync: dict[str, Any] = {"openClose": True, "change": _INCREMENTAL}
    for name in ("willSave", "willSaveWaitUntil"):
        if member(asked.capabilities, "textDocument", "synchronization", name) is not None:
            sync[name] = False
    sync["save"] = {"includeText": False}
    operations = (
        name for name in _FILE_OPERATIONS if member(asked.capabilities, "workspace", "fileOperations", name)
    )
    workspace: dict[str, Any] = {
        "workspaceFolders": {"supported": True, "changeNotifications": True},
        "fileOperations": dict.fromkeys(operations, _ALL_FILES),
    }
    if profile.shows_documents:
        workspace["textDocumentContent"] = {"schemes": [DOCUMENT_SCHEME]}
    capabilities: dict[str, Any] = {"positionEncoding": profile.encoding, "textDocumentSync": sync}
    if profile.shows_lenses:
        capabilities["codeLensProvider"] = {"resolveProvider": False}
    capabilities["executeCommandProvider"] = {"commands": list(COMMANDS)}
    capabilities["workspace"] = workspace
    capabilities["experimental"] = {"sidecar": advertised}
    return {"capabilities": capabilities, "serverInfo": {"name": info.name, "version": info.version}}


_TOKENS: Final = ("workDoneToken", "partialResultToken")

COMMANDS: Final = {
    "sidecar.prompt": "sidecar/turn/run",
    "sidecar.steer": "sidecar/turn/steer",
    "sidecar.interrupt": "sidecar/turn/interrupt",
    "sidecar.compact": "sidecar/compact/start",
    "sidecar.compactPreview": "sidecar/compact/preview",
    "sidecar.uncompact": "sidecar/compact/undo",
    "sidecar.expand": "sidecar/context/expand",
    "sidecar.context": "sidecar/context/usage",
    "sidecar.drop": "sidecar/context/drop",
    "sidecar.pin": "sidecar/context/pin",
    "sidecar.sessions": "sidecar/session/list",
    "sidecar.attach": "sidecar/attach",
    "sidecar.new": "sidecar/session/new",
    "sidecar.newSession": "sidecar/session/new",
    "sidecar.fork": "sidecar/session/fork",
    "sidecar.status": "sidecar/status",
}
"""The commands on offer, each with its method."""


def resolve_command(params: Any) -> tuple[str, dict[str, Any]]:
    """Return the method that *params* of executeCommand request, and its params. Raises InvalidInput.

    >>> resolve_command({"command": "sidecar.context", "arguments": [{"sid": "s"}], "workDoneToken": 1})
    ('sidecar/context/usage', {'workDoneToken': 1, 'sid': 's'})
    """
    if not isinstance(params, Mapping):
        raise InvalidInput("executeCommand needs an object with a command")
    command, arguments = params.get("command"), params.get("arguments") or []
    method = COMMANDS.get(command) if isinstance(command, str) else None
    if method is None:
        raise InvalidInput(f"no command {command!r:.100}", hint=f"the commands are {', '.join(COMMANDS)}")
    given = arguments[0] if isinstance(arguments, list) and arguments else {}
    if not isinstance(arguments, list) or len(arguments) > 1 or not isinstance(given, Mapping):
        raise InvalidInput(f"{command} takes one object, the params of {method}")
    tokens = {name: params[name] for name in _TOKENS if params.get(name) is not None}
    return method, {**tokens, **given}
