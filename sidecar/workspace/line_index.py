"""A text as editors edit it: lines, positions in the negotiated encoding, changes.

Lines end at LF, CR LF or CR and nowhere else: U+2028, U+0085, form feeds and the like are plain characters,
whatever ``str.splitlines`` thinks. The text is kept as a list of lines, so that a keystroke costs the line it
is on and not the length of the file; the whole is joined when somebody asks for it.

Never holds half a surrogate pair: a lone half becomes U+FFFD, which is as wide in every encoding.
"""

from __future__ import annotations

import io

from sidecar.workspace.contract import PositionEncoding, TextChange, TextRange

__all__ = ["LineText", "index_in_line", "split_lines", "well_formed"]


def split_lines(text: str) -> list[str]:
    """Return the lines of *text* with their ends; nothing after a last end is no line.

    >>> split_lines("a\\r\\nb\\rc\\u2028d\\n")
    ['a\\r\\n', 'b\\r', 'c\\u2028d\\n']
    """
    # The text layer's own splitter knows exactly these three ends, and runs in C.
    return io.StringIO(text, newline="").readlines()


def well_formed(text: str) -> str:
    """Return *text* with every lone surrogate replaced by U+FFFD, halves that belong together joined."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def index_in_line(line: str, character: int, encoding: PositionEncoding) -> int:
    """Return the index in *line* of the position *character*, counted in units of *encoding*.

    A position past the end of the line is its end, before the line end; one inside a character is its start.

    >>> index_in_line("a\\U0001f600b\\n", 3, "utf-16"), index_in_line("a\\U0001f600b\\n", 2, "utf-16")
    (2, 1)
    """
    body = line.rstrip("\r\n")
    if character <= 0:
        return 0
    if encoding == "utf-32" or body.isascii():
        return min(character, len(body))
    return _index_in_utf8(body, character) if encoding == "utf-8" else _index_in_utf16(body, character)


class LineText:
    """A text that is edited in place.

    >>> text = LineText("one\\ntwo\\n")
    >>> text.apply(TextChange("2", TextRange(1, 0, 1, 3)), "utf-16")
    >>> text.text
    'one\\n2\\n'
    """

    __slots__ = ("_lines", "_text")

    def __init__(self, text: str) -> None:
        self._text: str | None = well_formed(text)
        self._lines: list[str] | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        if self._text is None:
            self._text = "".join(self._lines or ())
        return self._text

    def apply(self, change: TextChange, encoding: PositionEncoding) -> None:
        """Apply one change of the editor's; positions out of range are moved to the nearest that exists."""
        new_text = well_formed(change.text)
        if change.range is None:
            self._text, self._lines = new_text, None
        else:
            self._splice(change.range, new_text, encoding)

    def _splice(self, at: TextRange, new_text: str, encoding: PositionEncoding) -> None:
        if self._lines is None:
            self._lines = _document_lines(self.text)
        lines = self._lines
        start = _locate(lines, at.start_line, at.start_character, encoding)
        end = _locate(lines, at.end_line, at.end_character, encoding)
        (first, start_index), (last, end_index) = min(start, end), max(start, end)
        chunk = lines[first][:start_index] + new_text + lines[last][end_index:]
        if first > 0 and chunk.startswith("\n") and lines[first - 1].endswith("\r"):
            # What follows a CR now begins with LF: the two are one line end.
            first -= 1
            chunk = lines[first] + chunk
        is_last = last == len(lines) - 1
        lines[first : last + 1] = _document_lines(chunk) if is_last else split_lines(chunk)
        self._text = None


def _document_lines(text: str) -> list[str]:
    """Split *text* the way editors count: what follows the last line end is a line too, if an empty one."""
    lines = split_lines(text)
    if not text or text.endswith(("\n", "\r")):
        lines.append("")
    return lines


def _locate(lines: list[str], line: int, character: int, encoding: PositionEncoding) -> tuple[int, int]:
    if line < 0:
        return 0, 0
    if line >= len(lines):
        return len(lines) - 1, len(lines[-1])
    return line, index_in_line(lines[line], character, encoding)


def _index_in_utf8(body: str, character: int) -> int:
    raw = body.encode()
    cut = min(character, len(raw))
    while cut < len(raw) and raw[cut] & 0xC0 == 0x80:
        cut -= 1
    return len(raw[:cut].decode())


def _index_in_utf16(body: str, character: int) -> int:
    raw = body.encode("utf-16-le")
    cut = min(2 * character, len(raw))
    if cut < len(raw) and 0xDC <= raw[cut + 1] <= 0xDF:
        cut -= 2
    return len(raw[:cut].decode("utf-16-le"))
