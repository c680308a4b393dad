"""Text for a terminal: Markdown while it is written, and the difference of two texts as numbered lines.

A finished block of Markdown is rendered once, the last one again with each delta. Differences are bounded for
texts of any size.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.text import Text
from rich.theme import Theme

from sidecar.commands.terminal import Screen, short_path
from sidecar.text.highlight import MOST_CHARS, language_of
from sidecar.text.results import count_same
from sidecar.text.visible import make_visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_MOST_COLUMNS: Final = 110
"""Longer lines are hard to read."""

_MOST_CODE_LINES: Final = 40
"""A longer block of code is finished in parts, so that what is live stays smaller than the terminal."""

_END_BLANKS: Final = re.compile(r" +((?:\x1b\[[\d;]*m)*)\Z")
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_THEME: Final = Theme({"markdown.code": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold"})


class _LeftHeading(Heading):
    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        text: Text = self.text
        text.justify = "left"
        yield text


class _Markdown(Markdown):
    elements = {**Markdown.elements, "heading_open": _LeftHeading}  # noqa: RUF012  # as its base has it


class MarkdownStream:
    """An answer while it is written. ``tail`` is the source of the block that may still grow."""

    def __init__(self) -> None:
        self.tail = ""

    def feed(self, delta: str) -> list[str]:
        """Add *delta*, and return the sources of the blocks that are finished by it."""
        self.tail += delta
        if "\n" not in delta:
            return []
        lines = self.tail.splitlines(keepends=True)
        starts = [token.map[0] for token in parser().parse(self.tail) if token.map and token.level == 0]
        blocks = ["".join(lines[start:end]) for start, end in pairwise(starts)]
        self.tail = "".join(lines[starts[-1] :]) if starts else ""
        return [*blocks, *self.cut_code()]

    def finish(self) -> list[str]:
        """Return the source of the last block; the next answer may begin."""
        rest, self.tail = self.tail, ""
        return [rest] if rest.strip() else []

    def cut_code(self) -> list[str]:
        """Take whole lines from a long block of code that is still open, and return them as a block."""
        opening, *code = self.tail.splitlines(keepends=True) or [""]
        fence = opening[: len(opening) - len(opening.lstrip("`~"))]
        if len(fence) < 3 or len(code) <= _MOST_CODE_LINES:
            return []
        head, rest = code[:_MOST_CODE_LINES], code[_MOST_CODE_LINES:]
        self.tail = "".join([opening, *rest])
        return ["".join([opening, *head, fence])]


def render(source: str, console: Console) -> str:
    """Return *source*, which must have no control characters, as *console* shows it.

    Lines have no blanks at their ends, which would wrap in a terminal that becomes narrower, and the text
    begins and ends with a line that has a word.
    """
    width = min(console.width, _MOST_COLUMNS)
    with console.use_theme(_THEME), console.capture() as captured:
        console.print(
            _Markdown(source, code_theme="ansi_dark", hyperlinks=False), width=width, soft_wrap=False
        )
    lines = [_END_BLANKS.sub(r"\1", line) for line in captured.get().splitlines()]
    shown = [at for at, line in enumerate(lines) if _COLOUR.sub("", line)]
    return "\n".join(lines[shown[0] : shown[-1] + 1]) if shown else ""


@cache
def parser() -> MarkdownIt:
    """Return the parser; its rules are compiled once."""
    from markdown_it import MarkdownIt

    return MarkdownIt().enable("strikethrough").enable("table")


_CONTEXT: Final = 3
_MOST_COMPARED: Final = 2_000
"""Lines that are compared; of more the comparison would take seconds."""

_MOST_SHOWN: Final = 60
_MOST_ROWS: Final = 3
"""Rows of one line; a longer one is mostly made by a program."""

_MARGIN: Final = " " * 9
_STYLES: Final = {"+": "green", "-": "red", " ": "dim", "@": "cyan"}


def diff_lines(old: str, new: str) -> Iterator[tuple[str, int, str]]:
    """Yield each changed line with three around it: a sign (``+``, ``-``, space), its number, its text.

    ``@`` stands for lines left out. Of texts that are too long to compare, the whole changed part is removed
    and added.
    """
    before, after = _split_lines(old), _split_lines(new)
    start = count_same(before, after)
    end = count_same(before[start:][::-1], after[start:][::-1])
    first = max(0, start - _CONTEXT)
    last_old, last_new = len(before) - end + _CONTEXT, len(after) - end + _CONTEXT
    matcher = SequenceMatcher(None, before[first:last_old], after[first:last_new], autojunk=False)
    if len(before) + len(after) - 2 * (start + end) > _MOST_COMPARED:
        n_old, n_new, n_tail = len(before) - end, len(after) - end, min(end, _CONTEXT)
        groups = [
            [
                ("equal", 0, start - first, 0, start - first),
                ("replace", start - first, n_old - first, start - first, n_new - first),
                ("equal", n_old - first, n_old - first + n_tail, n_new - first, n_new - first + n_tail),
            ]
        ]
    else:
        groups = list(matcher.get_grouped_opcodes(_CONTEXT))
    for index, group in enumerate(groups):
        if index:
            yield "@", first + group[0][3] + 1, ""
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                for at in range(new_from, new_to):
                    yield " ", first + at + 1, after[first + at]
                continue
            for at in range(old_from, old_to):
                yield "-", first + at + 1, before[first + at]
            for at in range(new_from, new_to):
                yield "+", first + at + 1, after[first + at]


def show_diffs(diffs: Iterable[Mapping[str, Any]], screen: Screen, folder: Path) -> None:
    """Show the first lines of each change of a file, ``path``, ``oldText`` and ``newText``, in colour."""
    for diff in diffs:
        lines = _show_head(diff, screen, folder)
        for rows in lines[:_MOST_SHOWN]:
            for row in rows[:_MOST_ROWS]:
                screen.show_text(row)
            if len(rows) > _MOST_ROWS:
                screen.note(f"{_MARGIN}… {len(rows) - _MOST_ROWS:,} more rows of this line")
        if len(lines) > _MOST_SHOWN:
            screen.note(f"       and {len(lines) - _MOST_SHOWN:,} more lines")


def show_unified(diff: str, path: str, screen: Screen) -> None:
    """Show the first lines of a unified diff of the file *path*, and how many lines it adds and removes."""
    lines = [*dropwhile(lambda line: not line.startswith("@@"), diff.splitlines())]
    signs = Counter(line[:1] for line in lines)
    screen.note(f"  {make_visible(path)}  +{signs['+']} -{signs['-']}", "bold")
    for line in lines[:_MOST_SHOWN]:
        screen.cut_line(f"       {make_visible(line)}", _STYLES.get(line[:1], "dim"))
    if len(lines) > _MOST_SHOWN:
        screen.note(f"       and {len(lines) - _MOST_SHOWN:,} more lines")


def show_asked_diffs(diffs: Iterable[Mapping[str, Any]], screen: Screen, folder: Path) -> list[Text]:
    """Show the first lines of each change that a question is about, whole; return the others."""
    left: list[Text] = []
    for diff in diffs:
        lines = _show_head(diff, screen, folder)
        for rows in lines[:_MOST_SHOWN]:
            for row in rows:
                screen.show_text(row)
        if rest := lines[_MOST_SHOWN:]:
            screen.note(f"       and {len(rest):,} more lines")
            path = make_visible(short_path(Path(diff["path"]), folder))
            left += [Text(screen.printable(f"  {path}"), "bold"), *(row for rows in rest for row in rows)]
    return left


def show_part(diff: Mapping[str, Any], hunk: Mapping[str, int], screen: Screen) -> None:
    """Show the lines that one *hunk* of a change takes away and puts in their place."""
    sides = (("-", diff.get("oldText") or "", "old"), ("+", diff["newText"], "new"))
    for sign, text, side in sides:
        start, end = hunk[f"{side}Start"], hunk[f"{side}End"]
        for number, line in enumerate(text.split("\n")[start:end], start + 1):
            screen.cut_line(f"{number:>6} {sign} {make_visible(line)}", _STYLES[sign])


def _show_head(diff: Mapping[str, Any], screen: Screen, folder: Path) -> list[list[Text]]:
    """Show the path of a change, and return its lines, each in the rows that it takes."""
    old = diff.get("oldText")
    path = make_visible(short_path(Path(diff["path"]), folder))
    screen.note(f"  {path}{'' if old is not None else ' (new)'}", "bold")
    changed = [
        (sign, number, screen.printable(make_visible(text)))
        for sign, number, text in diff_lines(old or "", diff["newText"])
    ]
    now = [text for sign, _, text in changed if sign in "+ "]
    coloured = iter(highlight(now, diff["path"]) if screen.is_terminal else map(Text, now))
    lines = []
    for sign, number, text in changed:
        code = next(coloured) if sign in "+ " else Text(text, _STYLES[sign])
        if sign == " ":
            code.stylize("dim")
        head = Text(f"{number or '':>6} {'⋮' if sign == '@' else sign} ", _STYLES[sign])
        room = max(20, screen.console.width - len(head) - 1)
        rows = code.wrap(screen.console, room, overflow="fold") if screen.is_terminal else [code]
        lines.append([Text.assemble(_MARGIN if at else head, row) for at, row in enumerate(rows or [code])])
    return lines


def highlight(lines: Sequence[str], path: str) -> list[Text]:
    """Return *lines* of the file *path* in the colours of its language; without any where that is not known.

    >>> highlight(["x = 1"], "a.py")[0].plain
    'x = 1'
    """
    from rich.syntax import Syntax  # not above: it loads the languages

    code = "\n".join(lines)
    if len(code) > MOST_CHARS:
        return [*map(Text, lines)]
    found = Syntax("", language_of(path) or "default", theme="ansi_dark").highlight(code).split("\n")
    texts = [*found][: len(lines)]
    return texts if [text.plain for text in texts] == [*lines] else [*map(Text, lines)]


def _split_lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
