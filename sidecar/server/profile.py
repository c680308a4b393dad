"""Read the capabilities of an LSP client from its ``initialize``, once for its whole connection. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.protocol.handshake import ClientFeatures, parse_client_features
from sidecar.server.handshake import InitializeParams

if TYPE_CHECKING:
    from sidecar.workspace.contract import PositionEncoding


class ClientProfile(Value, kw_only=True):
    """The capabilities of one client; *features* is None when it knows the Language Server Protocol alone."""

    name: str
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


class Handshake(Value):
    """The result of a handshake; *encoding* is the unit of positions, *options* are for the daemon."""

    profile: ClientProfile
    encoding: PositionEncoding
    options: Mapping[str, Any]


def profile_of(params: InitializeParams) -> ClientProfile:
    """Return the capabilities that *params* declare."""
    window, workspace = params.capabilities.window, params.capabilities.workspace
    document, experimental = params.capabilities.text_document, params.capabilities.experimental
    watched = workspace.did_change_watched_files
    return ClientProfile(
        name=params.client_info.name if params.client_info else "",
        features=parse_client_features(
            experimental.get("sidecar") if isinstance(experimental, Mapping) else None
        ),
        shows_progress=bool(window.work_done_progress),
        shows_messages=_is_object(window.show_message),
        applies_edits=bool(workspace.apply_edit and workspace.workspace_edit.document_changes),
        registers_watchers=bool(watched.dynamic_registration),
        watches_relative=bool(watched.relative_pattern_support),
        shows_diagnostics=_is_object(document.publish_diagnostics),
        shows_lenses=_is_object(document.code_lens),
        refreshes_lenses=bool(workspace.code_lens.refresh_support),
        shows_documents=_is_object(workspace.text_document_content),
    )


def sidecar_options(params: InitializeParams) -> Mapping[str, Any]:
    """Return ``initializationOptions.sidecar``, empty when absent. Raises InvalidInput for no object."""
    given = params.initialization_options
    options = given.get("sidecar") if isinstance(given, Mapping) else None
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInput("initializationOptions.sidecar must be an object")
    return options or {}


def _is_object(value: Any) -> bool:
    """Whether a capability is declared by an object, which may be empty."""
    return isinstance(value, Mapping)
