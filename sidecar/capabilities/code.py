"""The code tool: questions to the language servers of the user's editor, over its buffers, saved or not.

It is on offer while an editor answers such questions. The model names a place as people do, by file, line and
symbol; the editor counts in units of its own, and answers in shapes of the Language Server Protocol. Here the
one becomes the other: the symbol is looked for in the file as it is now, nearest to the line that was named,
and each place of the answer becomes ``path:line: text``. An answer is not trusted: parts of no known shape
are left out, all of it has a bound, and a file outside of the session's folders is named and not opened.

A rename, or a code action that is named, is an edit of files. It is made as every edit is: with the
permission of the user, after the files were kept, in open buffers first, all of it or nothing. A command of
the editor is never run.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any, Final

import msgspec

from sidecar._internal.async_cancel import unless_cancelled
from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar._internal.surrogates import encodable
from sidecar._internal.values import Value
from sidecar.capabilities.contract import (
    EditorAnswer,
    EditorQuery,
    Location,
    ToolContext,
    ToolReply,
)
from sidecar.capabilities.file_changes import (
    FileChange,
    Target,
    apply_changes,
    diffs_as_written,
    record_edited,
)
from sidecar.capabilities.output import cut_line, lines_that_fit
from sidecar.capabilities.paths import display_path, resolve, resolve_readable, view_file
from sidecar.capabilities.text_edit import EditedText, Replaced
from sidecar.capabilities.typed_tool import TypedTool, error_reply
from sidecar.text.calls import CHANGES_CODE
from sidecar.workspace.contract import FileAccessError, PositionEncoding, QueryKind, TextChange, TextRange
from sidecar.workspace.line_index import LineText, split_lines
from sidecar.workspace.paths import ResolvedPath, uri_to_path

_MOST_ITEMS: Final = 2_000
"""Items of one answer that are looked at."""

_MOST_FILES: Final = 200
"""Files of one answer that are opened."""

_MOST_EDITS: Final = 5_000
_FILE_BYTES: Final = 2_000_000
_LINE_CHARS: Final = 200
_HOVER_CHARS: Final = 4_000
_NOTES_CHARS: Final = 300
_SYMBOLS: Final = (
    *("", "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor"),
    *("enum", "interface", "function", "variable", "constant", "string", "number", "boolean", "array"),
    *("object", "key", "null", "enum member", "struct", "event", "operator", "type parameter"),
)
"""The kinds of symbols by their number in the Language Server Protocol."""

_WORDS: Final[Mapping[QueryKind, str]] = {
    "definition": "definition",
    "references": "references",
    "documentSymbols": "symbols",
    "workspaceSymbols": "symbols",
    "hover": "description",
    "rename": "rename",
    "codeActions": "code actions",
}


class CodeArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the code tool."""

    kind: QueryKind
    path: Annotated[str, msgspec.Meta(description="The file; not needed for workspaceSymbols.")] = ""
    line: Annotated[
        int, msgspec.Meta(ge=0, description="The line of the symbol, from 1; the nearest one counts.")
    ] = 0
    symbol: Annotated[
        str, msgspec.Meta(description="The name as it stands there; for workspaceSymbols a part of it.")
    ] = ""
    new_name: Annotated[str, msgspec.Meta(description="For rename: the new name.")] = ""
    apply: Annotated[str, msgspec.Meta(description="For codeActions: the title of the one to apply.")] = ""
    max_results: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100


async def ask_code(arguments: CodeArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Ask the editor, and answer with the places that it names or with the edit that was made."""
    if context.ask_editor is None:
        return error_reply("code: no editor is there that could be asked", "use grep and read instead")
    query = await make_query(arguments, context)
    answer = await unless_cancelled(context.ask_editor(query), cancel)
    if answer is None:
        return error_reply("code: cancelled")
    if answer.problem:
        problem = cut_line(" ".join(answer.problem.split()), _NOTES_CHARS)
        return error_reply(f"code: the language server says: {problem}", "use grep and read instead")
    if not answer.value:
        return ToolReply(f"the editor knows no {_WORDS[query.kind]} there; grep finds text")
    match query.kind:
        case "hover":
            text = "\n".join(texts_of_hover(answer.value)).strip()
            return ToolReply(cut_line(text, _HOVER_CHARS) or "the editor knows no description there")
        case "rename":
            verb = f"Rename {arguments.symbol} to {arguments.new_name} in"
            return await make_edit(answer.value, answer.encoding, context, verb)
        case "codeActions":
            return await use_actions(arguments, answer, context)
    found = [*islice(places_in(answer.value, query.path.as_uri()), _MOST_ITEMS)]
    if not found:
        return error_reply("code: the answer of the editor has no known shape", "use grep and read instead")
    is_text_shown = query.kind in ("definition", "references")
    places = list(dict.fromkeys(found))[: arguments.max_results]
    lines = await describe_places(places, context, is_text_shown=is_text_shown)
    shown = lines_that_fit(lines, context.max_output_chars - _NOTES_CHARS)
    n_more = len(dict.fromkeys(found)) - len(shown)
    more = [f"[cut: {n_more}{' or more' * (len(found) == _MOST_ITEMS)} further ones]"] if n_more else []
    return ToolReply("\n".join((*shown, *more)))


# From the words of the model to a question.


async def make_query(arguments: CodeArguments, context: ToolContext) -> EditorQuery:
    """Return the question. Raises InvalidInput or FileAccessError for a place that is not there."""
    kind, symbol = arguments.kind, arguments.symbol.strip()
    if kind == "workspaceSymbols":
        if not symbol:
            raise InvalidInput("workspaceSymbols needs a symbol", hint="give a part of its name")
        path = context.cwd
        if arguments.path:
            path = await resolve_readable(context, arguments.path, "code")
        return EditorQuery(kind=kind, path=path, text=symbol)
    if not arguments.path:
        hint = "give the file in which it stands; workspaceSymbols or grep finds one"
        raise InvalidInput(f"{kind} needs a path", hint=hint)
    path = await resolve_readable(context, arguments.path, "code")
    if kind == "documentSymbols":
        return EditorQuery(kind=kind, path=path)
    if kind == "rename" and not (symbol and arguments.new_name.strip()):
        raise InvalidInput("rename needs a symbol and a new_name")
    if not symbol and not arguments.line:
        raise InvalidInput(f"{kind} needs a symbol or a line", hint="give both where the name is common")
    view = await view_file(context, path)
    line, before = await asyncio.to_thread(find_symbol, view.text, symbol, arguments.line)
    text = arguments.new_name.strip() if kind == "rename" else None
    return EditorQuery(kind=kind, path=path, line=line - 1, before=before, text=text)


def find_symbol(text: str, symbol: str, line: int) -> tuple[int, str]:
    """Return the line of *symbol* that is nearest to *line*, and the text in front of it there.

    Of a name with dots the last part is meant. Without a symbol it is the first word of the line.

    Args:
        text: the file.
        symbol: the name, empty for none.
        line: a line from 1, or 0 for the first one that has the symbol.

    Raises:
        InvalidInput: there is no such line, or nowhere such a name.

    >>> find_symbol("import os\\nprint(os.path, os)\\n", "os.path", 2)
    (2, 'print(os.')
    """
    lines = split_lines(text)
    if line > max(1, len(lines)):
        raise InvalidInput(f"line {line} is not there: the file has {len(lines)}")
    if not symbol:
        body = lines[line - 1] if lines else ""
        return line, body[: len(body) - len(body.lstrip())].rstrip("\r\n")
    wanted, last = re.compile(rf"(?<!\w){re.escape(symbol)}(?!\w)"), re.split(r"\.|::|->|#", symbol)[-1]
    places = [(number, found) for number, body in enumerate(lines, 1) if (found := wanted.search(body))]
    if not places and last != symbol:
        return find_symbol(text, last, line)
    if not places:
        raise InvalidInput(f"{symbol!r} is not in the file", hint="grep finds where it is")
    number, found = min(places, key=lambda place: abs(place[0] - line))
    return number, lines[number - 1][: found.end() - len(last)]


# From an answer to lines.


class CodePlace(Value):
    """A place of an answer: a line from 1 in the file of a URI, and the words of the editor about it."""

    uri: str
    line: int
    label: str = ""


def places_in(value: Any, own_uri: str) -> Iterator[CodePlace]:
    """Yield the places of locations and symbols, in order; items of another shape are left out.

    Args:
        value: the answer, JSON.
        own_uri: the file of symbols that do not name theirs.
    """
    waiting: list[tuple[Any, int]] = [
        (each, 0) for each in reversed(value if isinstance(value, list) else [value])
    ]
    while waiting:
        item, depth = waiting.pop()
        if not isinstance(item, Mapping):
            continue
        is_apart = isinstance(item.get("location"), Mapping)
        where = item["location"] if is_apart else item
        uri = next(
            (where[name] for name in ("targetUri", "uri") if isinstance(where.get(name), str)), own_uri
        )
        names = ("targetSelectionRange", "targetRange", "selectionRange", "range")
        line = next((line for name in names if (line := first_line_of(where.get(name))) is not None), None)
        if line is None and is_apart:
            line = 1  # a symbol of which only the file is known
        if line is not None and (uri is not own_uri or "name" in item):
            yield CodePlace(uri, line, describe_symbol(item, depth))
        children = item.get("children")
        if isinstance(children, list):
            waiting += [(each, depth + 1) for each in reversed(children[:_MOST_ITEMS])]


def first_line_of(value: Any) -> int | None:
    """Return the first line of a range, from 1; None for another shape."""
    start = value.get("start") if isinstance(value, Mapping) else None
    line = start.get("line") if isinstance(start, Mapping) else None
    return line + 1 if type(line) is int and 0 <= line < 1 << 31 else None


def describe_symbol(item: Mapping[str, Any], depth: int) -> str:
    """Return the kind and the name of a symbol, indented by its *depth*; empty for a plain location.

    >>> describe_symbol({"name": "run", "kind": 6, "containerName": "App"}, 1)
    '  method run (App)'
    """
    name, kind, holder = item.get("name"), item.get("kind"), item.get("containerName")
    if not isinstance(name, str):
        return ""
    word = _SYMBOLS[kind] if type(kind) is int and 0 < kind < len(_SYMBOLS) else "symbol"
    around = f" ({holder})" if isinstance(holder, str) and holder else ""
    return cut_line("  " * min(depth, 20) + " ".join(f"{word} {name}{around}".split()), _LINE_CHARS)


async def describe_places(
    places: Sequence[CodePlace], context: ToolContext, *, is_text_shown: bool
) -> list[str]:
    """Return a line for each place, with its text where that is wanted and the file is the session's."""
    names: dict[str, str] = {}
    texts: dict[str, LineText] = {}
    for uri in dict.fromkeys(place.uri for place in places):
        names[uri] = cut_line(encodable(uri), _LINE_CHARS)
        with suppress(FileAccessError):  # it names no file, or one that cannot be shown
            resolved = await resolve_uri(context, uri)
            names[uri] = display_path(resolved.path, context.cwd)
            if is_text_shown and resolved.inside and len(texts) < _MOST_FILES:
                view = await context.workspace.view_project_file(
                    resolved.path, context.roots, limit_bytes=_FILE_BYTES
                )
                texts[uri] = LineText(view.text)

    def line_of(place: CodePlace) -> str:
        lines = texts[place.uri].lines(place.line - 1, 1) if place.uri in texts else []
        words = place.label or "".join(cut_line(line.strip(), _LINE_CHARS) for line in lines)
        return f"{names[place.uri]}:{place.line}{': ' * bool(words)}{words}"

    return [line_of(place) for place in places]


async def resolve_uri(context: ToolContext, uri: str) -> ResolvedPath:
    """Return the path of a URI; looks at links alone. Raises FileAccessError when it names no file."""
    path = uri_to_path(uri)
    if path is None:
        raise FileAccessError(
            "notFound", f"{cut_line(encodable(uri), _LINE_CHARS)} names no file of this machine"
        )
    return await resolve(context, str(path))


def texts_of_hover(value: Any) -> Iterator[str]:
    """Yield the texts of a Hover: Markdown, or code in an older shape."""
    contents = value.get("contents") if isinstance(value, Mapping) else None
    for each in islice(contents if isinstance(contents, list) else [contents], _MOST_ITEMS):
        text = each.get("value") if isinstance(each, Mapping) else each
        if isinstance(text, str):
            yield text


# Edits that the editor proposes.


class EditPosition(msgspec.Struct, frozen=True, order=True):
    """A place in a text; both count from 0."""

    line: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
    character: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class EditRange(msgspec.Struct, frozen=True):
    """A part of a text."""

    start: EditPosition
    end: EditPosition


class TextEdit(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a text, and the text that it becomes."""

    range: EditRange
    new_text: str


class EditedDocument(msgspec.Struct, frozen=True):
    """A document to edit."""

    uri: str


class DocumentEdit(msgspec.Struct, frozen=True, rename="camel"):
    """The edits of one document."""

    text_document: EditedDocument
    edits: list[TextEdit]


class WorkspaceEdit(msgspec.Struct, frozen=True, rename="camel"):
    """The edits of several documents, in one of two shapes."""

    changes: dict[str, list[TextEdit]] | None = None
    document_changes: list[DocumentEdit] | None = None


def edits_by_uri(edit: Any) -> dict[str, list[TextEdit]]:
    """Return the edits of a WorkspaceEdit. Raises InvalidInput for one that cannot be made here."""
    listed = edit.get("documentChanges") if isinstance(edit, Mapping) else None
    if isinstance(listed, list) and any(isinstance(each, Mapping) and "kind" in each for each in listed):
        hint = "make, move or remove them yourself, and the change in the text as well"
        raise InvalidInput("the edit also makes, renames or deletes files; nothing was changed", hint=hint)
    try:
        typed = msgspec.convert(edit, WorkspaceEdit)
    except (msgspec.ValidationError, UnicodeEncodeError):
        message = "the edit of the editor has no known shape; nothing was changed"
        raise InvalidInput(message, hint="edit the files yourself") from None
    edits: dict[str, list[TextEdit]] = {}
    for uri, some in (
        (typed.changes or {}).items()
        if typed.document_changes is None
        else ((each.text_document.uri, each.edits) for each in typed.document_changes)
    ):
        edits.setdefault(uri, []).extend(some)
    if len(edits) > _MOST_FILES or sum(map(len, edits.values())) > _MOST_EDITS:
        message = f"the edit is of {len(edits)} files, in more places than can be shown; nothing was changed"
        raise InvalidInput(message, hint="ask the user to make it in the editor")
    return edits


def apply_text_edits(text: str, edits: Sequence[TextEdit], encoding: PositionEncoding) -> EditedText:
    """Return *text* after *edits*, all of which count in *text* as it is.

    Raises InvalidInput for edits that overlap, or that are beyond the end of the text.
    """
    in_order = sorted(edits, key=lambda each: each.range.start)
    edited = LineText(text)
    is_over = any(each.range.end.line > edited.n_lines for each in in_order)
    ends = [EditPosition(0, 0), *(each.range.end for each in in_order)]
    if is_over or any(each.range.start < end for each, end in zip(in_order, ends, strict=False)):
        message = "the edit of the editor is for another text; nothing was changed"
        raise InvalidInput(message, hint="ask again")
    for each in reversed(in_order):
        start, end = each.range.start, each.range.end
        place = TextRange(start.line, start.character, end.line, end.character)
        edited.apply(TextChange(each.new_text, place), encoding)
    replaced = tuple(
        Replaced(
            each.range.start.line + 1,
            each.range.end.line - each.range.start.line + 1,
            each.new_text.count("\n") + 1,
        )
        for each in in_order
    )
    return EditedText(edited.text, replaced)


async def make_edit(edit: Any, encoding: PositionEncoding, context: ToolContext, verb: str) -> ToolReply:
    """Make the edit of an editor as any tool makes one, and answer with the changed lines.

    Raises InvalidInput or FileAccessError when it cannot be made as a whole; then nothing was changed.
    """
    planned: list[tuple[FileChange, EditedText]] = []
    for uri, edits in sorted((await asyncio.to_thread(edits_by_uri, edit)).items()):
        resolved = await resolve_uri(context, uri)
        if not resolved.inside:
            message = f"the edit also changes {resolved.path}, outside of the session's folders"
            raise InvalidInput(f"{message}; nothing was changed", hint="ask the user how to go on")
        view = await view_file(context, resolved.path)
        edited = await asyncio.to_thread(apply_text_edits, view.text, edits, encoding)
        if any(change.target.path == view.path for change, _ in planned):
            raise InvalidInput(f"the edit names {view.path} twice; nothing was changed")
        if edited.text != view.text:
            planned.append((FileChange(Target(resolved, view), edited.text), edited))
    if not planned:
        return ToolReply("the editor has nothing to change there")
    changes = [change for change, _ in planned]
    done = await apply_changes(context, "code", changes, verb=verb)
    places: list[CodePlace] = []
    notes: list[str] = []
    for (change, edited), applied in zip(planned, done, strict=True):
        before = change.target.view
        record = context.reads.get(change.target.path)
        if before is not None and record is not None and record.hash == before.hash:
            record_edited(context, applied, record, edited)
        notes += [f"{display_path(change.target.path, context.cwd)}: {applied.note}"] if applied.note else []
        if not applied.is_chosen:  # else the note tells what was written in place of the edit
            places += (CodePlace(change.target.path.as_uri(), line) for line, _ in edited.places)
    changed = list(dict.fromkeys(places))
    lines = await describe_places(changed, context, is_text_shown=True)
    shown = lines_that_fit(lines, context.max_output_chars - _NOTES_CHARS)
    cut = [f"[cut: {len(lines) - len(shown)} more lines]"] if len(shown) < len(lines) else []
    return ToolReply(
        "\n".join((f"changed {len(planned)} file{'s' * (len(planned) > 1)}:", *shown, *cut, *notes)),
        locations=tuple(
            Location(change.target.path, edited.replaced[0].first_line) for change, edited in planned
        ),
        diffs=diffs_as_written(changes, done),
    )


async def use_actions(arguments: CodeArguments, answer: EditorAnswer, context: ToolContext) -> ToolReply:
    """List the code actions, or make the edit of the one that is to be applied."""
    listed = answer.value[:_MOST_ITEMS] if isinstance(answer.value, list) else []
    actions = [each for each in listed if isinstance(each, Mapping) and isinstance(each.get("title"), str)]
    wanted = " ".join(arguments.apply.split())
    if not wanted:
        lines = lines_that_fit(
            map(describe_action, actions[: arguments.max_results]), context.max_output_chars
        )
        return ToolReply("\n".join(lines) or "the editor knows no code action there")
    chosen = [each for each in actions if " ".join(each["title"].split()) == wanted]
    if not chosen:
        raise InvalidInput(f"there is no code action {wanted!r} there", hint="leave out apply to see them")
    edit = next((each["edit"] for each in chosen if each.get("edit")), None)
    if edit is None:
        message = f"{wanted!r} is a command of the editor, which is not run from here"
        raise InvalidInput(message, hint="make the change yourself, or ask the user")
    return await make_edit(edit, answer.encoding, context, f"Apply {wanted!r} to")


def describe_action(action: Mapping[str, Any]) -> str:
    """Return a line about a code action.

    >>> describe_action({"title": "Add import", "kind": "quickfix", "edit": {"changes": {}}})
    'Add import (quickfix)'
    """
    kind = action.get("kind")
    notes = [kind] if isinstance(kind, str) and kind else []
    if not action.get("edit"):
        notes.append("only the user can run it, in the editor")
    title, about = " ".join(action["title"].split()), f" ({', '.join(notes)})" if notes else ""
    return cut_line(title + about, _LINE_CHARS)


CODE = TypedTool(
    name="code",
    description=(
        "Ask the language servers of the user's editor, which know the code and not only its text: the "
        "definition, the references or the description (hover) of a symbol, the symbols of a file or of the "
        "workspace, and the code actions at a line. rename changes a symbol in all files, and codeActions "
        "with apply makes one of them; both may ask the user. Name the place by path, line and symbol. "
        "Prefer it to grep for names in code; where it does not answer, use grep."
    ),
    kind="search",
    effects=CHANGES_CODE,
    arguments=CodeArguments,
    describe=lambda arguments: (
        f"{_WORDS[arguments.kind].capitalize()} of {arguments.symbol or arguments.path}"
    ),
    perform=ask_code,
)
