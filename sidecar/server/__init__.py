"""The LSP front end: an editor's language server by pygls, over our own wire. Only here is pygls imported."""

from sidecar.server.connection import LspConnection, LspOptions, serve_lsp

__all__ = ["LspConnection", "LspOptions", "serve_lsp"]
