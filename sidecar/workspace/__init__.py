"""The files as they are now: unsaved buffers first, the disk second, and what the model has read of them."""

from sidecar.workspace.ignore import walk
from sidecar.workspace.roots import ResolvedPath, is_inside, resolve_path
from sidecar.workspace.uris import path_to_uri, uri_to_path
from sidecar.workspace.workspace import Workspace

__all__ = [
    "ResolvedPath",
    "Workspace",
    "is_inside",
    "path_to_uri",
    "resolve_path",
    "uri_to_path",
    "walk",
]
