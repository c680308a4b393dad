"""The LSP face: an editor's language server by pygls, over our own wire. Only here is pygls imported."""

from sidecar.server.connection import LspConnection, LspOptions
from sidecar.server.serve import serve_lsp

__all__ = ["LspConnection", "LspOptions", "serve_lsp"]
