"""The pictures of README and guide, made anew: ``make pictures``. POSIX only.

Each is the screen of a real run: the daemon, the files and the keys are real, and a provider on the loopback
plays the model. The screen of a terminal becomes an SVG without fonts or links, so that it needs no network;
a recorded session is an SVG that shows one screen after the other. A face without its editor or browser keeps
its picture: ``make editors`` installs them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from provider_fakes.scenes import Called, Ended, Scene, Spent, Thought
from sidecar._internal.file_lock import FileLock
from sidecar.attach.paths import DaemonPaths
from terminals import SIDECAR, Screened
from threaded_provider import provider_env, provider_in_thread, says

PICTURES: Final = Path(__file__).parents[2] / ".github/pictures"
ROOT: Final = Path(__file__).parents[2]
PANEL: Final = ROOT / "editors/vscode/media/page.png"
VIEW: Final = PANEL.with_name("view.png")
_COLUMNS: Final = 92
_CELL_PX: Final = 8.4
_LINE_PX: Final = 18
_WIDE: Final = 110
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


def rows_of(screen: Screened) -> list[Text]:
    """Return the rows that *screen* shows."""
    return [
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


def draw(screen: Screened, title: str) -> str:
    """Return what *screen* shows as an SVG."""
    rows = rows_of(screen)
    shown = [at for at, row in enumerate(rows) if row.plain.strip()]
    rows = rows[shown[0] : shown[-1] + 1]
    console = Console(record=True, width=screen.columns, file=StringIO(), color_system="truecolor")
    for row in rows:
        console.print(row, soft_wrap=True)
    svg = console.export_svg(title=title, unique_id="sidecar")
    svg = re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", svg, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


class Recording:
    """The screens of a session as one SVG that repeats; a row that stays is drawn once."""

    def __init__(self, screen: Screened) -> None:
        self._screen = screen
        self._frames: list[tuple[float, list[Text]]] = []

    def take(self, seconds: float) -> None:
        """Take the screen of now, to be shown for *seconds*."""
        self._frames.append((seconds, rows_of(self._screen)))

    def draw(self, title: str) -> str:
        """Return the SVG. Without motion it shows the last screen."""
        total = sum(seconds for seconds, _ in self._frames)
        starts = [sum(seconds for seconds, _ in self._frames[:at]) / total for at in range(len(self._frames))]
        seen: dict[tuple[int, str], list[int]] = {}
        for frame, (_, rows) in enumerate(self._frames):
            for y, row in enumerate(rows):
                if line := drawn_row(row, 62 + y * _LINE_PX):
                    seen.setdefault((y, line), []).append(frame)
        patterns = {tuple(frames) for frames in seen.values()}
        names = {frames: f"v{at}" for at, frames in enumerate(sorted(patterns))}
        rules, last = list[str](), len(self._frames) - 1
        for frames, name in names.items():
            stops = "".join(
                f"{starts[at]:.1%}{{visibility:{'visible' if at in frames else 'hidden'}}}"
                for at in range(len(self._frames))
                if at == 0 or (at in frames) != (at - 1 in frames)
            )
            still = "" if last in frames else "visibility:hidden;"
            rules.append(
                f".{name}{{{still}animation:{name} {total:g}s step-end infinite}}@keyframes {name}{{{stops}}}"
            )
        groups = [
            f'<g class="{name}">\n'
            + "\n".join(line for (_, line), at in seen.items() if tuple(at) == frames)
            + "\n</g>"
            for frames, name in names.items()
        ]
        height = 80 + max(y for y, _ in seen) * _LINE_PX
        width = self._screen.columns * _CELL_PX + 32
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">',
            f"<title>{title}</title>",
            "<style>text{font:14px Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;fill:#c5c8c6}",
            *rules,
            "@media (prefers-reduced-motion:reduce){g{animation:none!important}}</style>",
            f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#292929"/>',
            f'<text x="{width / 2:.0f}" y="26" text-anchor="middle">{title}</text>',
        )
        return "\n".join((*head, *groups, "</svg>")) + "\n"


def drawn_row(row: Text, y: int) -> str:
    """Return *row* as SVG at the height *y*, nothing for an empty one."""
    parts, column = list[str](), 0
    for text, style, _ in row.render(Console(width=500)):
        colour = style.color if isinstance(style, Style) else None
        look = (
            f' fill="{colour.get_truecolor(SVG_EXPORT_THEME).hex}"'
            if colour and not colour.is_default
            else ""
        )
        look += ' font-weight="bold"' if isinstance(style, Style) and style.bold else ""
        if text.strip():
            begun = column + len(text) - len(text.lstrip())
            word = text.strip()
            place = f'x="{16 + begun * _CELL_PX:.1f}" textLength="{len(word) * _CELL_PX:.1f}"'
            parts.append(f"<tspan {place}{look}>{escape(word)}</tspan>")
        column += len(text)
    return f'<text y="{y}">{"".join(parts)}</text>' if parts else ""


def style_of(cell: Char) -> str:
    """Return the style of a cell of pyte as rich has it."""
    words = [name for name in ("bold", "italics", "underscore", "reverse") if getattr(cell, name)]
    style = " ".join(words).replace("italics", "italic").replace("underscore", "underline")
    colour, ground = (
        f"#{each}" if re.fullmatch("[0-9a-f]{6}", each) else _COLOURS.get(each, each)
        for each in (cell.fg.replace("bright", "bright_"), cell.bg.replace("bright", "bright_"))
    )
    return f"{style} {colour}{'' if ground == 'default' else f' on {ground}'}".strip()


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a user whose home has *folder*."""
    home = str(folder.parent)
    return {"HOME": home, "INDUSAGI_HOME": f"{home}/home", "TERM": "xterm-256color"}


@contextmanager
def project_to_show() -> Iterator[Path]:
    """Give a folder with a program in it, whose path is short."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as created:
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


def recorded_session(folder: Path) -> str:
    """Return a session from its first screen to a compaction, as one moving picture."""
    with provider_in_thread(CHAT) as provider:
        env = {**provider_env(provider), **environment(folder)}
        chat = Screened(folder, env, "chat", columns=_COLUMNS)
        recording = Recording(chat)
        chat.wait_for("of 200k")
        recording.take(2)
        chat.type("why does a port of 70000 fail so late?")
        chat.wait_for("so late?")
        recording.take(1.5)
        chat.type("\r")
        chat.wait_for(lambda: "• parser.py:3" in chat.text and "Esc stops it" not in chat.text)
        recording.take(4)
        chat.type("refuse it where it is read\r")
        chat.wait_for("[y]es")
        recording.take(5)
        chat.type("y")
        chat.wait_for("Ports are checked now.")
        chat.wait_for(lambda: "Esc stops it" not in chat.shown)
        recording.take(3)
        chat.type("/diff\r")
        chat.wait_for(lambda: chat.shown.count("is not a port") > 1)
        recording.take(4)
        chat.type("\x04")
        chat.end()
    return recording.draw("sidecar chat")


def neovim_picture(folder: Path) -> str | None:
    """Return a change that Neovim asks about."""
    if (program := find_editor("SIDECAR_NVIM", "nvim")) is None:
        return None
    (settings := folder.parent / "init.lua").write_text(
        f"vim.opt.runtimepath:append({json.dumps(str(ROOT / 'editors/neovim'))})\n"
        "vim.opt.swapfile, vim.opt.shortmess = false, 'IF'\n"
        "vim.opt.background, vim.opt.termguicolors = 'dark', true\n"
        f"require('sidecar').setup({{ cmd = vim.json.decode('{json.dumps(SIDECAR)}') }})\n"
    )
    with provider_in_thread(CHAT) as provider:
        env = {**provider_env(provider), **environment(folder)}
        command = (program, "--clean", "-u", str(settings))
        vim = Screened(folder, env, "parser.py", columns=_WIDE, program=command)
        vim.wait_for("parse_port")
        vim.type("\x1b\x1b:Sidecar\r")
        vim.wait_for("Enter sends")
        vim.type("why does a port of 70000 fail so late?\r")
        vim.wait_for("is the place to refuse it")
        vim.type("refuse it where it is read\r")
        vim.wait_for(":Sidecar answer")
        vim.type("\x1b\x1b:Sidecar answer\r")
        vim.wait_for("is not a port")
        svg = draw(vim, "Neovim")
        vim.type("\x1b\x1b:qall!\r")
        vim.end()
    return svg


def emacs_picture(folder: Path) -> str | None:
    """Return a change that Emacs asks about."""
    if (program := find_editor("SIDECAR_EMACS", "emacs")) is None:
        return None
    command = json.dumps(SIDECAR).replace("[", "(").replace("]", ")").replace(",", "")
    (settings := folder.parent / "init.el").write_text(
        f"(add-to-list 'load-path {json.dumps(str(ROOT / 'editors/emacs'))})\n"
        "(setq inhibit-startup-screen t auto-save-default nil create-lockfiles nil)\n"
        "(setq frame-background-mode 'dark)\n(frame-set-background-mode (selected-frame))\n"
        f"(menu-bar-mode -1)\n(require 'sidecar)\n(setq sidecar-command '{command})\n"
    )
    with provider_in_thread(CHAT) as provider:
        env = {**provider_env(provider), **environment(folder)}
        run = (program, "-nw", "-Q", "-l", str(settings))
        emacs = Screened(folder, env, "parser.py", columns=_WIDE, program=run)
        emacs.wait_for("parse_port")
        emacs.type("\x1bxsidecar\r")
        emacs.wait_for("of 200k")
        emacs.type("why does a port of 70000 fail so late?\r")
        emacs.wait_for("is the place to refuse it")
        emacs.type("refuse it where it is read\r")
        emacs.wait_for("C-c C-a")
        emacs.type("\x03\x01")
        emacs.wait_for("is not a port")
        svg = draw(emacs, "Emacs")
        emacs.type("\x18\x03yes\r")
        os.kill(emacs.pid, signal.SIGTERM)
        emacs.end()
    return svg


def find_editor(variable: str, name: str) -> str | None:
    """Return the editor that a variable names, that was installed for the tests, or that is in the path."""
    installed = ROOT / ".editors" / "bin" / name
    return os.environ.get(variable) or (str(installed) if installed.exists() else shutil.which(name))


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


def write_panel() -> bool:
    """Write the picture of the panel in a browser; return whether there is one."""
    browser = os.environ.get("SIDECAR_CHROMIUM") or shutil.which("chromium")
    library = ROOT / "editors/vscode/node_modules/playwright-core"
    if browser is None or shutil.which("node") is None or not library.is_dir():
        return False
    with project_to_show() as folder, provider_in_thread(CHAT) as provider:
        env = {**os.environ, **provider_env(provider), **environment(folder), "SIDECAR_CHROMIUM": browser}
        command = [*SIDECAR, "panel", "--no-open", "--cwd", str(folder)]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as panel:
            assert panel.stdout is not None
            url = panel.stdout.readline().strip()
            script = str(Path(__file__).with_name("picture_panel.mjs"))
            subprocess.run(["node", script, url, str(PANEL)], env=env, check=True)
            panel.terminate()
        lock = FileLock(DaemonPaths(Path(env["INDUSAGI_HOME"])).lock)
        if not lock.try_take() and (pid := lock.read_holder()) is not None:
            os.kill(pid, signal.SIGTERM)
            lock.take()
        lock.release()
    return True


def write_vs_code() -> bool:
    """Write the picture of the panel in VS Code, a moment of its tested day; return whether there is one."""
    with tempfile.TemporaryDirectory() as screens:
        day = "tests/editors/test_vscode.py::test_a_day_in_vs_code"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", day]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "SIDECAR_SCREENS": screens}, check=False)
        found = Path(screens, "vscode", "3-question.png")
        if found.exists():
            shutil.copy(found, VIEW)
        return found.exists()


def write_pictures() -> None:
    """Write all pictures, and say which faces are not here."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    makers: Sequence[tuple[str, Callable[[Path], str | None]]] = (
        ("chat", chat_picture),
        ("compact", compaction_picture),
        ("session", recorded_session),
        ("neovim", neovim_picture),
        ("emacs", emacs_picture),
    )
    for name, make in makers:
        with project_to_show() as folder:
            if (picture := make(folder)) is None:
                print(f"no {name} here; its picture stays as it is")
            else:
                (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")
    if not write_panel():
        print("no browser here; the picture of the panel stays as it is")
    if not write_vs_code():
        print("no VS Code here; its picture stays as it is")


if __name__ == "__main__":
    write_pictures()
