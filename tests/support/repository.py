"""The checkout for the tests of its structure: the pages for newcomers, the modules and their imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE_FILES = tuple(
    ROOT / ".github" / f"{name}.md"
    for name in ("GUIDE", "KEYS", "SETTINGS", "SWITCHING", "TROUBLE", "SEVERAL-MACHINES")
)
FILES = (ROOT / "README.md", *GUIDE_FILES, ROOT / ".github" / "CONTRIBUTING.md")

README, *_PARTS, CONTRIBUTING = (path.read_text(encoding="utf-8") for path in FILES)
GUIDE = "\n".join(_PARTS)
PAGES = f"{README}\n{GUIDE}\n{CONTRIBUTING}"


def headings(text: str) -> set[str]:
    """Return the anchors of the headings of a page, its blocks of code left out."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", prose, re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


ONE_TEST = re.compile(
    r"""(?mx)
    ^(?P<indent>\ *)(?P<marks>(?:@.*\n(?:(?P=indent)[\ )].*\n)*(?P=indent))*)
    (?:async\ )?def\ (?P<name>test_\w+)
    (?P<does>.*\n(?:(?:(?P=indent)[\ )].*)?\n)*)
    """
)
"""A test in the text of a module, with its decorators: much faster than a tree of each module."""

PACKAGE = ROOT / "sidecar"


def modules() -> Iterator[tuple[str, Path]]:
    """Yield every module of the package by its name below ``sidecar``."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        yield name.removesuffix(".__init__"), path


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Return the imports of *path* when it runs; imports for the type checker alone do not count."""
    found: list[str] = []
    for node in _outside_type_checking(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found.extend(f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(found)


def _outside_type_checking(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.expr):  # holds no statement
            continue
        yield child
        yield from _outside_type_checking(child)
