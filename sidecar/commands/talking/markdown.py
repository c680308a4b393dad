"""Markdown while it is written: a finished block is rendered once, the last one again with each delta."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.text import Text
from rich.theme import Theme

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
