"""The pictures of the README, made anew: ``make pictures``. POSIX only.

Each is the screen of a real run in a terminal: the daemon, the files and the keys are real, and a provider on
the loopback plays the model. The screen becomes an SVG without fonts or links, so that it needs no network.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Final

from pyte.screens import Char
from rich.console import Console
from rich.text import Text

from provider_fakes.scenes import Called, Ended, Scene, Spent, Thought
from terminals import Screened
from threaded_provider import provider_env, provider_in_thread, says

PICTURES: Final = Path(__file__).parents[2] / ".github/pictures"
_COLUMNS: Final = 92
_COLOURS: Final = {"brown": "yellow", "default": "default"}

PARSER: Final = '''\
def parse_port(text: str) -> int:
    """Return the port in *text*."""
    port = int(text)
    return port
'''
FIXED: Final = """\
    if not 1 <= port <= 65535:
        raise ValueError(f"{port} is not a port")
"""
TODO: Final = (
    {"content": "find where ports are read", "status": "completed"},
    {"content": "refuse ports that cannot be", "status": "in_progress"},
    {"content": "run the tests", "status": "pending"},
)
ANSWER: Final = """\
`parse_port` takes **any number**. A port above 65535 only fails in `bind`, with a message that does not
name it:

- `listen.py:12` passes it on unchecked
- `parser.py:3` is the place to refuse it
"""


def called(name: str, **arguments: object) -> Scene:
    """Return a call of the tool *name*."""
    return (Called(f"call-{name}", name, (json.dumps(arguments),)), Spent(2_400, 60), Ended("tool_calls"))


CHAT: Final[Sequence[Scene]] = (
    called("read", path="parser.py"),
    (Thought(("The number is never compared with a range.\nSo the error comes late.",)), *says(ANSWER)),
    called("todo", entries=TODO),
    called(
        "edit",
        path="parser.py",
        edits=[{"oldText": "    return port\n", "newText": f"{FIXED}    return port\n"}],
    ),
    says("Ports are checked now."),
)


def draw(screen: Screened, title: str) -> str:
    """Return what *screen* shows as an SVG."""
    rows = [
        Text.assemble(
            *(
                ("".join(cell.data for cell in cells), style)
                for style, cells in groupby(
                    (screen.screen.buffer[row][column] for column in range(screen.columns)), style_of
                )
            )
        )
        for row in range(screen.screen.lines)
    ]
    shown = [at for at, row in enumerate(rows) if row.plain.strip()]
    rows = rows[shown[0] : shown[-1] + 1]
    console = Console(record=True, width=screen.columns, file=StringIO(), color_system="truecolor")
    for row in rows:
        console.print(row, soft_wrap=True)
    svg = console.export_svg(title=title, unique_id="sidecar")
    svg = re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", svg, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def style_of(cell: Char) -> str:
    """Return the style of a cell of pyte as rich has it."""
    words = [name for name in ("bold", "italics", "underscore", "reverse") if getattr(cell, name)]
    style = " ".join(words).replace("italics", "italic").replace("underscore", "underline")
    colour = cell.fg.replace("bright", "bright_")
    colour = f"#{colour}" if re.fullmatch("[0-9a-f]{6}", colour) else _COLOURS.get(colour, colour)
    return f"{style} {colour}".strip()


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a user whose home has *folder*."""
    home = str(folder.parent)
    return {"HOME": home, "INDUSAGI_HOME": f"{home}/home", "TERM": "xterm-256color"}


@contextmanager
def project_to_show() -> Iterator[Path]:
    """Give a folder with a program in it, whose path is short."""
    with tempfile.TemporaryDirectory() as created:
        folder = Path(created) / "gateway"
        folder.mkdir()
        (folder / "parser.py").write_text(PARSER)
        for name in ("listen", "routes", "limits", "health"):
            lines = (f"{name}_{at} = read({at})  # how {name} works, part {at}" for at in range(220))
            (folder / f"{name}.py").write_text("\n".join(lines))
        yield folder


def chat_picture(folder: Path) -> str:
    """Return a conversation that asks before it changes a file."""
    with provider_in_thread(CHAT) as provider:
        env = {**provider_env(provider), **environment(folder)}
        chat = Screened(folder, env, "chat", columns=_COLUMNS)
        chat.wait_for("of 200k")
        chat.type("why does a port of 70000 fail so late?\r")
        chat.wait_for(lambda: "• parser.py:3" in chat.text and "Esc stops it" not in chat.text)
        chat.type("refuse it where it is read\r")
        chat.wait_for("[y]es")
        svg = draw(chat, "sidecar chat")
        chat.type("n")
        chat.wait_for("Ports are checked now.")
        chat.type("\x04")
        chat.end()
    return svg


def compaction_picture(folder: Path) -> str:
    """Return a compaction that is looked at, and done."""
    env = environment(folder)
    chat = Screened(folder, env, "chat", "--model", "offline-1", columns=_COLUMNS)
    chat.wait_for("of 32k")
    for name in ("listen", "routes", "limits"):
        chat.type(f"never push to main. what is in {name}.py?\r")
        chat.wait_for(f"• {name}.py:12")
    chat.wait_for(lambda: "Esc stops it" not in chat.text)
    chat.screen.erase_in_display(2)
    chat.type("/compact\r")
    chat.wait_for("[y]es   [n]o")
    chat.type("y")
    chat.wait_for("read again, with the current content")
    chat.wait_for("kept word for word")
    svg = draw(chat, "sidecar chat: /compact")
    chat.type("\x04")
    chat.end()
    return svg


def write_pictures() -> None:
    """Write all pictures."""
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    makers: Sequence[tuple[str, Callable[[Path], str]]] = (
        ("chat", chat_picture),
        ("compact", compaction_picture),
    )
    for name, make in makers:
        with project_to_show() as folder:
            (PICTURES / f"{name}.svg").write_text(make(folder), encoding="utf-8")


if __name__ == "__main__":
    write_pictures()
