"""The generator of ``.github/SETTINGS.md``: all settings, with their defaults and texts.

Both are in ``sidecar.llmgateway.config``, where a text stands below each field. Run as a program (``make
reference``) it writes the page.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from sidecar.llmgateway.config import OF_TRUSTED, OF_USER, SettingsFile

PAGE = Path(__file__).parents[2] / ".github" / "SETTINGS.md"
HEAD = """\
# Settings

All settings of `config.toml` in the state directory (`~/.pindusagi`, or `INDUSAGI_HOME`), written by
`make reference` from the code that reads them. Each may be left out. [Models](GUIDE.md#models) in the guide
has an example, and `sidecar doctor` shows the mistakes of a file with their lines.

The last column says whether `.sidecar.toml` of a folder may have the setting, too: *yes*, or *trusted*: once
`trusted` names the folder.
"""
_WORDS = {str: "text", int: "number", float: "number", bool: "true or false"}


def settings_page() -> str:
    """Return the page."""
    tables: list[tuple[str, type]] = [("", SettingsFile)]
    sections = [HEAD]
    for at, (name, kind) in enumerate(tables, 1):
        rows = list(rows_of(kind, has_folder=not name))
        tables[at:at] = [(f"{name}.{field}".removeprefix("."), part) for field, part in parts_of(kind)]
        title = f"## {f'`{name}`' if name else 'At the top'}"
        head = ["setting", "default", "values", "meaning", *([] if name else ["in a folder"])]
        lines = [" | ".join(each) for each in (head, ["---"] * len(head), *rows)]
        sections.append(f"{title}\n\n" + "\n".join(f"| {line} |" for line in lines) + "\n")
    return "\n".join(sections)


def parts_of(kind: type) -> Iterator[tuple[str, type]]:
    """Yield the settings of *kind* that are tables, each as its title has it, with the shape of the table."""
    for name, hint in get_type_hints(kind).items():
        if (part := struct_in(hint)) is not None:
            is_named = get_origin(hint) is dict
            yield f"{name}.NAME" if is_named else name, part


def rows_of(kind: type, *, has_folder: bool) -> Iterator[list[str]]:
    """Yield a row for each setting of *kind*."""
    texts, hints = texts_of(kind), get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        default = each.default if each.default_factory is NODEFAULT else None
        row = [f"`{each.name}`", default_of(default), values_of(hints[each.name]), texts[each.name]]
        yield [*row, *([folder_of(each.name)] if has_folder else [])]


def texts_of(kind: type) -> dict[str, str]:
    """Return the text below each field of *kind* and of the classes that it is made of."""
    found: dict[str, str] = {}
    for base in kind.__mro__:
        if base.__module__ != kind.__module__:
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for line, below in zip(tree.body, tree.body[1:], strict=False):
            match line, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found


def struct_in(hint: Any) -> type | None:
    """Return the shape of a table within the type *hint*, None where it has none."""
    if isinstance(hint, type) and issubclass(hint, Struct):
        return hint
    return next(filter(None, map(struct_in, get_args(hint))), None)


def values_of(hint: Any) -> str:
    """Return the type *hint* in words.

    >>> values_of(Annotated[int, ...] | None), values_of(dict[str, str])
    ('number', 'table of texts')
    """
    origin, args = get_origin(hint), [each for each in get_args(hint) if each is not type(None)]
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in args)
    if origin is Annotated:
        (meta,) = args[1:]
        bounds = [(meta, "ge", "at least"), (meta, "gt", "above"), (meta, "le", "at most")]
        limits = [
            f"{word} {getattr(at, of):g}" for at, of, word in bounds if getattr(at, of, None) is not None
        ]
        return ", ".join([values_of(args[0]), *limits])
    if origin in (list, tuple):
        return "tables" if struct_in(hint) else f"list of {values_of(args[0])}s"
    if origin is dict:
        return "tables with names" if struct_in(hint) else f"table of {values_of(args[1])}s"
    if len(args) > 0:
        return values_of(args[0])
    return "table" if struct_in(hint) else _WORDS[hint]


def default_of(value: object) -> str:
    """Return the default *value* as TOML has it; nothing where there is none.

    >>> default_of(True), default_of(None), default_of("auto")
    ('`true`', '', '`"auto"`')
    """
    if value is NODEFAULT or value is None or value in ((), [], {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value:g}`"


def folder_of(name: str) -> str:
    """Return whether the file of a folder may have the setting *name*."""
    if name == "trusted" or any(name == written.strip("[]") for written in OF_USER.values()):
        return "no"
    return "trusted" if name in {written.strip("[]") for written in OF_TRUSTED.values()} else "yes"


def write() -> None:
    """Write the page."""
    PAGE.write_text(settings_page(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write()
