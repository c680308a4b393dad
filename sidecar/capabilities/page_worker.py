"""The conversion of HTML for the fetch tool, as a program of its own: a page that never ends can be killed.

It is started by path, so it imports nothing of this project. It reads HTML from standard input and writes
Markdown, or plain text where the libraries for that are not installed.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from html.parser import HTMLParser

_MOST_MEMORY = 2_000_000_000
_MOST_S = 130
_UNSHOWN = ("script", "style", "noscript", "template", "svg", "head")


def convert(text: str) -> str:
    """Return the HTML page *text* as Markdown, or as plain text without the extra."""
    try:
        return html_to_markdown(text)
    except (ImportError, RecursionError):
        return html_to_text(text)


def html_to_markdown(text: str) -> str:
    """Return the HTML page *text* as Markdown. Raises ImportError without the extra, or RecursionError."""
    from bs4 import BeautifulSoup  # an extra, and slow to import
    from markdownify import MarkdownConverter

    page = BeautifulSoup(text, "html.parser")
    title = page.title.get_text(strip=True) if page.title is not None else ""
    for unshown in page(_UNSHOWN):
        unshown.decompose()
    body = MarkdownConverter(heading_style="atx", bullets="-").convert_soup(page)
    found = re.sub(r"[ \t]+\n", "\n", body)
    return f"# {title}\n\n" * bool(title) + re.sub(r"\n{3,}", "\n\n", found).strip() + "\n"


def html_to_text(text: str) -> str:
    """Return the HTML page *text* without its tags.

    >>> html_to_text("<p>Hello <b>you</b></p><script>no()</script><li>one")
    'Hello you\\none\\n'
    """
    reader = _TextOfPage()
    reader.feed(text)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.parts).split("\n"))
    return "\n".join(line for line in lines if line) + "\n"


class _TextOfPage(HTMLParser):
    """Collects the text of a page, each block on lines of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._n_unshown = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._n_unshown += tag in _UNSHOWN
        self.parts.append("" if tag in ("a", "b", "i", "em", "strong", "code", "span") else "\n")

    def handle_endtag(self, tag: str) -> None:
        self._n_unshown = max(0, self._n_unshown - (tag in _UNSHOWN))
        self.parts.append("\n" if tag in ("p", "div", "li", "tr", "title") else "")

    def handle_data(self, data: str) -> None:
        if not self._n_unshown:
            self.parts.append(data)


def main() -> None:
    """Convert the page on standard input."""
    bound_process()
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    sys.stdout.buffer.write(convert(text).encode("utf-8", "replace"))


def bound_process() -> None:
    """Bound the memory and the time of this process, where the system can: its daemon may be gone."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_S, _MOST_S))
        with suppress(ValueError):  # macOS takes no limit below the address space that a process begins with
            resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))


if __name__ == "__main__":
    main()
