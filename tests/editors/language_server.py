"""A small language server: it knows the functions of open Python files, and counts in UTF-16.

It answers over standard input and output as real ones do; each answer says where the names stand in the text
of the buffers, which may never have been saved. Its code action has its edit only once it is resolved.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

TEXTS: dict[str, str] = {}
CAPABILITIES = {
    "textDocumentSync": 1,
    "definitionProvider": True,
    "referencesProvider": True,
    "documentSymbolProvider": True,
    "workspaceSymbolProvider": True,
    "hoverProvider": True,
    "renameProvider": True,
    "codeActionProvider": {"resolveProvider": True},
}


def span(line: int, text: str, first: int, last: int) -> dict[str, Any]:
    """Return the range of characters *first* to *last* of *text*, which is line *line*."""

    def at(index: int) -> dict[str, int]:
        return {"line": line, "character": len(text[:index].encode("utf-16-le")) // 2}

    return {"start": at(first), "end": at(last)}


def places(pattern: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield URI, range and text of each match of *pattern* in the open files."""
    for uri, text in TEXTS.items():
        for number, line in enumerate(text.split("\n")):
            for found in re.finditer(pattern, line):
                yield uri, span(number, line, *found.span()), found[0]


def word_at(params: dict[str, Any]) -> str:
    """Return the word at the position of *params*."""
    at = params["position"]
    line = TEXTS[params["textDocument"]["uri"]].split("\n")[at["line"]]
    start = len(line.encode("utf-16-le")[: 2 * at["character"]].decode("utf-16-le"))
    found = re.compile(r"\w+").match(line, start)
    return found[0] if found else ""


def locations(pattern: str) -> list[dict[str, Any]]:
    return [{"uri": uri, "range": where} for uri, where, _ in places(pattern)]


def answer(method: str, params: dict[str, Any]) -> Any:
    """Return the result of a request. Raises LookupError with what the user is to know."""
    match method:
        case "initialize":
            return {"capabilities": CAPABILITIES}
        case "textDocument/definition":
            return locations(rf"(?<=def ){word_at(params)}\b")
        case "textDocument/references":
            return locations(rf"\b{word_at(params)}\b")
        case "textDocument/hover":
            return {"contents": {"kind": "markdown", "value": f"`{word_at(params)}` is a function"}}
        case "textDocument/documentSymbol" | "workspace/symbol":
            own = params.get("textDocument", {}).get("uri")
            return [
                {"name": name, "kind": 12, "location": {"uri": uri, "range": where}}
                for uri, where, name in places(r"(?<=def )\w+")
                if own in (None, uri) and params.get("query", "") in name
            ]
        case "textDocument/rename":
            if word_at(params) == "print":
                raise LookupError("print is not yours to rename")
            edits: dict[str, list[dict[str, Any]]] = {}
            for uri, where, _ in places(rf"\b{word_at(params)}\b"):
                edits.setdefault(uri, []).append({"range": where, "newText": params["newName"]})
            return {"changes": edits}
        case "textDocument/codeAction":
            place = {"uri": params["textDocument"]["uri"], "line": params["range"]["start"]["line"]}
            return [{"title": "Add a comment", "kind": "quickfix", "data": place}]
        case "codeAction/resolve":
            uri, line = params["data"]["uri"], params["data"]["line"]
            edit = {"range": span(line, "", 0, 0), "newText": "# seen\n"}
            return {**params, "edit": {"changes": {uri: [edit]}}}
    return None


def main() -> None:
    """Serve until standard input ends, or ``exit`` comes."""
    while head := sys.stdin.buffer.readline():
        length = int(head.split(b":")[1])
        while sys.stdin.buffer.readline().strip():
            pass
        message = json.loads(sys.stdin.buffer.read(length))
        method, params = message.get("method"), message.get("params") or {}
        if method == "exit":
            return
        if method == "textDocument/didOpen":
            TEXTS[params["textDocument"]["uri"]] = params["textDocument"]["text"]
        elif method == "textDocument/didChange":
            TEXTS[params["textDocument"]["uri"]] = params["contentChanges"][-1]["text"]
        if method is None or "id" not in message:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = answer(method, params)
        except LookupError as error:
            reply["error"] = {"code": -32803, "message": str(error)}
        body = json.dumps(reply).encode()
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
