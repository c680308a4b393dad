"""Outlines of source files: the lines of their definitions, with the names.

With the extra ``[outline]`` the file is parsed by tree-sitter, one grammar a language, each loaded when it is
first needed. Without it, and for any other language, the indentation tells: a line that other lines hang
under, at the first two depths, begins a definition, unless it begins with a word of control flow. In Markdown
the headings do.

For example ``class A:`` with ``    def f(self):`` under it are two definitions. Pure but for loading the
grammars; linear in the lines, of which at most :data:`MAX_LINES` are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import islice, pairwise
from typing import Any, Final

MAX_LINES: Final = 20_000
MAX_DEFINITIONS: Final = 2_000
MAX_PARSED_CHARS: Final = 60_000
MAX_LEVELS: Final = 8
"""A parser takes up to 4 ms for 1,000 characters that are no text of its language."""

NAME_CHARS: Final = 60

_GRAMMARS: Final[Mapping[str, tuple[str, str]]] = {
    suffix: (module, function)
    for suffixes, module, function in (
        ("py pyi", "tree_sitter_python", "language"),
        ("js jsx mjs cjs", "tree_sitter_javascript", "language"),
        ("ts mts cts", "tree_sitter_typescript", "language_typescript"),
        ("tsx", "tree_sitter_typescript", "language_tsx"),
        ("go", "tree_sitter_go", "language"),
        ("rs", "tree_sitter_rust", "language"),
        ("java", "tree_sitter_java", "language"),
        ("c h", "tree_sitter_c", "language"),
        ("cc cpp cxx hpp hh", "tree_sitter_cpp", "language"),
    )
    for suffix in suffixes.split()
}
_CONTROL: Final = re.compile(
    r"(?:if|elif|else|for|foreach|while|until|switch|match|case|when|try|catch|except|finally|with|return|do|"
    r"begin|end|then|in|import|from|use|using|package|let|var|throw|raise|yield|await|loop|select|defer|go)\b"
)
_DEFINITIONS: Final = ("definition", "declaration", "item", "declarator", "spec")
_BODIES: Final = ("block", "body", "list", "statement", "namespace", "specifier", "linkage")
"""The ends of the names of nodes that are definitions, and of nodes that definitions stand in."""

_HEADING: Final = re.compile(r"#{1,4} (.+)")


def outline_of(path: str, lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return the definitions of a file, each with its line, in their order.

    Args:
        path: its name, which tells the language.
        lines: its text.

    >>> outline_of("a.xyz", ["unit A {", "  task run() {", "    x", "  }", "}"])
    [(1, 'unit A'), (2, 'task run()')]
    """
    suffix = path.rpartition(".")[2].casefold()
    lines = lines[:MAX_LINES]
    if suffix in ("md", "markdown"):
        headings = ((number, _HEADING.match(line)) for number, line in enumerate(lines, 1))
        named = ((number, match[1][:NAME_CHARS]) for number, match in headings if match)
        return list(islice(named, MAX_DEFINITIONS))
    source = "\n".join(lines)
    is_parsed = suffix in _GRAMMARS and len(source) <= MAX_PARSED_CHARS
    parser = parser_of(*_GRAMMARS[suffix]) if is_parsed else None
    found = definitions_by_indentation(lines)
    if parser is not None:
        found = named_nodes(parser.parse(source.encode("utf-8", "replace")).root_node, lines)
    return list(dict(islice(found, MAX_DEFINITIONS)).items())


@cache
def parser_of(module: str, function: str) -> Any:
    """Return the parser of a grammar, None where the extra is not installed."""
    try:
        tree_sitter = import_module("tree_sitter")
        return tree_sitter.Parser(tree_sitter.Language(getattr(import_module(module), function)()))
    except (ImportError, AttributeError, ValueError):
        return None


def named_nodes(
    node: Any, lines: Sequence[str], depth: int = 2, levels: int = MAX_LEVELS
) -> Iterator[tuple[int, str]]:
    """Yield the definitions below *node*, with their lines.

    Args:
        node: a node of the parser.
        lines: the text.
        depth: how deep definitions may stand inside each other.
        levels: how deep the nodes are looked through.
    """
    for child in node.named_children if depth and levels else ():
        is_definition = child.type.endswith(_DEFINITIONS)
        is_named = is_definition and child.child_by_field_name("name") is not None
        line = child.start_point[0]
        if is_named or child.type in ("function_definition", "impl_item"):
            yield line + 1, shorten(lines[line])
        if is_definition or child.type.endswith(_BODIES):
            yield from named_nodes(child, lines, depth - is_named, levels - 1)


def definitions_by_indentation(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines at the first two depths that others hang under."""
    filled = [
        (number, len(line) - len(line.lstrip()), line) for number, line in enumerate(lines, 1) if line.strip()
    ]
    depths = sorted({depth for _, depth, _ in filled})[:2]
    for (number, depth, line), (_, next_depth, _) in pairwise(filled):
        text = line.strip()
        if depth in depths and next_depth > depth and text[0].isidentifier() and not _CONTROL.match(text):
            yield number, shorten(text)


def shorten(line: str) -> str:
    """Return a line of a definition without the mark that opens its body."""
    return line.strip().rstrip("{:( ")[:NAME_CHARS]
