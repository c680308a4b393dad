"""``sidecar sessions --watch``: a board of the sessions of all running daemons, the waiting ones first.

Each daemon is asked once for its newest sessions and reports their changes. A session that one daemon has
open is in the lists of the others, too, as they know it from the disk; the line of the one that knows its
state counts, and of two such lines the one with the younger state. Daemons that start later are found
within a second.

In a terminal the board is drawn in place, and a session is opened with a key. In a pipe each change is a
line.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl

from sidecar._internal.env import expand_home, indusagi_home
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.commands.terminal import Screen, column_widths, is_typed_in, lay_out, short_path
from sidecar.commands.with_daemon import print_json, run_to_end
from sidecar.protocol.codec import to_wire
from sidecar_client import DAEMON, SidecarClient, SidecarClientError

_LOOK_S: Final = 1.0
_LISTED: Final = 50
"""The sessions that are shown of each daemon."""

_ORDER: Final = ("waiting", "failed", "working", "idle", None)
_STYLES: Final[Mapping[str | None, str]] = {"waiting": "bold ansiyellow", "failed": "ansired", "working": ""}
_WORDS: Final[Mapping[str | None, str]] = {"waiting": "waits for you", None: "open elsewhere"}
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))

Line: TypeAlias = Mapping[str, Any]
"""One line of the list of sessions, as it is on the wire."""


class Board:
    """The sessions as the daemons of *home* reported them last; *on_change* is called after each change."""

    def __init__(self, home: Path, on_change: Callable[[], object]) -> None:
        self.n_daemons = 0
        self._home = home
        self._on_change = on_change
        self._by_daemon: dict[Path | None, dict[str, Line]] = {}
        self._tasks: dict[Path | None, asyncio.Task[None]] = {}

    def lines(self) -> list[Line]:
        """Return the line of each session: the one that waits for the longest first, the others by age."""
        best: dict[str, Line] = {}
        for line in (each for known in self._by_daemon.values() for each in known.values()):
            other = best.get(line["sid"])
            if other is None or _freshness(line) > _freshness(other):
                best[line["sid"]] = line

        def place(line: Line) -> tuple[int, int]:
            since = line.get("since") or line["updatedAt"]
            state = line.get("state")
            return _ORDER.index(state), since if state == "waiting" else -since

        return sorted(best.values(), key=place)

    async def follow(self) -> None:
        """Follow every daemon until this is cancelled."""
        try:
            while True:
                for path in find_daemons(self._home):
                    if path not in self._tasks:
                        task = self._tasks[path] = asyncio.ensure_future(self.follow_daemon(path))
                        task.add_done_callback(partial(self.forget, path))
                await asyncio.sleep(_LOOK_S)
        finally:
            tasks = tuple(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def forget(self, path: Path | None, _ended: asyncio.Task[None]) -> None:
        """Let a daemon be followed again, if it is there."""
        self._tasks.pop(path)

    async def follow_daemon(self, path: Path | None) -> None:
        """Follow one daemon to its end; None is the shared one of a system without unix sockets."""
        shared = (*DAEMON[:-1], "--shared")
        client = SidecarClient.spawn(shared) if path is None else SidecarClient.connect(path)
        try:
            async with client:
                notifications = client.notifications()
                self.n_daemons += 1
                try:
                    await self._list(path, client)
                    async for notification in notifications:
                        if notification.method == "sidecar/sessions/changed":
                            if not any(notification.params.values()):
                                await self._list(path, client)
                            else:
                                self.take_in(path, notification.params)
                finally:
                    self.n_daemons -= 1
        except (SidecarClientError, OSError):
            return  # it has ended, or left its socket behind
        finally:
            self._by_daemon.pop(path, None)
            self._on_change()

    async def _list(self, path: Path | None, client: SidecarClient) -> None:
        found = (await client.session_list(limit=_LISTED)).sessions
        self._by_daemon[path] = {each.sid: to_wire(each) for each in found}
        self._on_change()

    def take_in(self, path: Path | None, changes: Mapping[str, Any]) -> None:
        """Take in the lines that a daemon reports as changed or removed."""
        known = self._by_daemon[path]
        known.update((line["sid"], line) for line in changes["sessions"])
        for sid in changes["removed"]:
            known.pop(sid, None)
        self._on_change()


def _freshness(line: Line) -> tuple[bool, int]:
    return line.get("state") is not None, line.get("since") or 0


def find_daemons(home: Path) -> Iterator[Path | None]:
    """Yield the sockets of the daemons of *home*. Raises AttachError where others could have put them."""
    paths = DaemonPaths(home)
    if sys.platform == "win32":
        if paths.tcp.exists():
            yield None
    elif paths.socket.parent.exists():
        if paths.has_socket():
            yield paths.socket
        yield from paths.socket.parent.glob(f"{paths.socket.stem}-*.sock")


def run(options: argparse.Namespace) -> int:
    """Show the board until the user leaves; return the exit code."""
    is_terminal = not options.json and is_typed_in() and sys.stdout.isatty()
    folder = None if options.cwd is None else str(expand_home(options.cwd).resolve())
    return run_to_end(lambda: watch(folder, is_json=options.json, is_terminal=is_terminal))


async def watch(folder: str | None, *, is_json: bool, is_terminal: bool) -> int:
    """Show the sessions of *folder*, or all for None, until the user leaves."""
    changed = asyncio.Event()
    board = Board(indusagi_home(), changed.set)

    def list_lines() -> list[Line]:
        return [line for line in board.lines() if folder in (None, line["cwd"])]

    following = asyncio.ensure_future(board.follow())
    showing = asyncio.ensure_future(
        show_in_place(list_lines, board, changed)
        if is_terminal
        else print_changes(list_lines, changed, is_json=is_json)
    )
    try:
        await asyncio.wait((following, showing), return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            await following
        return 0
    except AttachError as error:
        Screen(sys.stderr).problem(f"sidecar sessions: {error}")
        return 1
    finally:
        for task in (showing, following):
            task.cancel()
        await asyncio.gather(showing, following, return_exceptions=True)


async def print_changes(
    list_lines: Callable[[], list[Line]], changed: asyncio.Event, *, is_json: bool
) -> None:
    """Print each session, and again when its state, its question or its title changes."""
    known: dict[str, Line] = {}
    screen = Screen()
    while True:
        await changed.wait()
        changed.clear()
        for line in list_lines():
            told = {name: line.get(name) for name in ("state", "waitingFor", "text", "title", "since")}
            if known.get(line["sid"]) == told:
                continue
            known[line["sid"]] = told
            if is_json:
                print_json(line)
                continue
            cells = (line["sid"], told["state"], told["waitingFor"], line["title"], line["cwd"], told["text"])
            screen.table([""] * len(cells), [[" ".join(str(cell or "").split()) for cell in cells]])


async def show_in_place(list_lines: Callable[[], list[Line]], board: Board, changed: asyncio.Event) -> None:
    """Draw the board in the terminal; open sessions with a key until the user leaves."""
    chosen: list[str | None] = [None]

    def rows() -> StyleAndTextTuples:
        size = app.output.get_size()
        return describe_board(
            list_lines(), board.n_daemons, chosen[0], columns=size.columns, rows=size.rows - 2
        )

    app: Application[Line | None] = Application(
        layout=Layout(Window(FormattedTextControl(rows, focusable=True, show_cursor=False))),
        key_bindings=bind_keys(list_lines, chosen),
        erase_when_done=True,
        refresh_interval=_LOOK_S,  # for the ages
    )

    async def redraw() -> None:
        while True:
            await changed.wait()
            changed.clear()
            app.invalidate()

    while True:
        redrawing = asyncio.ensure_future(redraw())
        try:
            line = await app.run_async(handle_sigint=False)
        finally:
            redrawing.cancel()
        if line is None:
            return
        await (await asyncio.create_subprocess_exec(*command_to_open(line))).wait()


def command_to_open(line: Line) -> Sequence[str]:
    """Return the command that opens the session of *line* in this terminal."""
    folder = line["cwd"] if Path(line["cwd"]).is_dir() else "."
    return (*DAEMON[:-2], "chat", "--resume", line["sid"], "--cwd", folder)


def bind_keys(list_lines: Callable[[], Sequence[Line]], chosen: list[str | None]) -> KeyBindings:
    """Return the keys of the board; *chosen* has the session that a key opens, None for the first one."""
    keys = KeyBindings()

    def at() -> int:
        return next((at for at, line in enumerate(list_lines()) if line["sid"] == chosen[0]), 0)

    @keys.add("up")
    @keys.add("down")
    def move(event: KeyPressEvent) -> None:
        if lines := list_lines():
            step = -1 if event.key_sequence[0].key == "up" else 1
            chosen[0] = lines[max(0, min(len(lines) - 1, at() + step))]["sid"]

    @keys.add("enter")
    def open_session(event: KeyPressEvent) -> None:
        if lines := list_lines():
            event.app.exit(result=lines[at()])

    @keys.add("q")
    @keys.add("c-c")
    @keys.add("c-d")
    def leave(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    return keys


def describe_board(
    lines: Sequence[Line], n_daemons: int, chosen: str | None, *, columns: int, rows: int
) -> StyleAndTextTuples:
    """Return the board in at most *columns* and *rows*; the session *chosen*, or the first, is marked."""
    n_waiting = sum(line.get("state") == "waiting" for line in lines)
    head = f"{n_waiting} of {len(lines)} sessions wait for you; Enter opens one, q leaves"
    if not n_daemons:
        head = "no daemon is running; an editor, or sidecar chat, starts one. q leaves"
    at = next((at for at, line in enumerate(lines) if line["sid"] == chosen), 0)
    first = max(0, min(at - rows // 2, len(lines) - rows))
    now_ms, here = time.time_ns() // 1_000_000, Path.cwd()
    cells = [
        (
            _WORDS.get(state := line.get("state"), state or ""),
            describe_age(now_ms - (line.get("since") or line["updatedAt"])),
            line["title"] or "(untitled)",
            line.get("text") or "",
            short_path(Path(line["cwd"]), here),
        )
        for line in lines[first : first + rows]
    ]
    screen = Screen()
    shown: StyleAndTextTuples = [("bold", screen.printable(head)[:columns])]
    widths = (
        column_widths([*zip(*cells, strict=True)], columns - 1, cut=(4, 3, 2), drop=(4,)) if cells else []
    )
    for number, (row, line) in enumerate(zip(cells, lines[first:], strict=False), first):
        text = lay_out([" ".join(screen.printable(cell).split()) for cell in row], widths, [False] * len(row))
        style = _STYLES.get(line.get("state"), "ansibrightblack")
        shown.append((f"{style} reverse" if number == at else style, f"\n{text}"))
    return shown


def describe_age(ms: int) -> str:
    """Return a time in its largest unit.

    >>> [describe_age(ms) for ms in (0, 59_000, 61_000, 7_300_000, 200_000_000)]
    ['0 s', '59 s', '1 min', '2 h', '2 d']
    """
    seconds = max(0, ms // 1000)
    size, unit = next((each for each in _UNITS if seconds >= each[0]), (1, "s"))
    return f"{seconds // size} {unit}"
