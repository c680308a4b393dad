"""A command in a terminal of a given size, with its screen as a person sees it. POSIX only."""

from __future__ import annotations

import contextlib
import os
import select
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyte

if sys.platform != "win32":
    import fcntl
    import pty
    import termios

SIDECAR = (sys.executable, "-m", "sidecar")
TIMEOUT_S = 60.0
_ROWS = 40


class Screened:
    """A process in a pseudo-terminal, of ``sidecar`` unless told otherwise, and whoever sits at it.

    Attributes:
        raw: every byte that it wrote.
        screen: its screen, with colours and what scrolled away.
    """

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str],
        *arguments: str,
        columns: int = 100,
        program: Sequence[str] = SIDECAR,
    ) -> None:
        self.raw = b""
        self._n_found = 0
        self.columns = columns
        self.screen = pyte.HistoryScreen(columns, _ROWS, history=5000)
        self._stream = pyte.ByteStream(self.screen)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            given = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
            os.execvpe(program[0], (*program, *arguments), {**given, **env})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))

    @property
    def lines(self) -> list[str]:
        """The lines that are shown, and those that scrolled away before them."""
        gone = ["".join(line[at].data for at in range(self.columns)) for line in self.screen.history.top]
        return [line.rstrip() for line in (*gone, *self.screen.display)]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def shown(self) -> str:
        """The screen as it is now."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait_for(self, found: str | Callable[[], bool]) -> None:
        """Return once the text is shown, or the condition holds, which need not show on the screen."""
        deadline = time.monotonic() + TIMEOUT_S
        while not (found in self.text if isinstance(found, str) else found()):
            assert time.monotonic() < deadline, f"no {found!r} in\n{self.text}"
            if isinstance(found, str):
                assert self.read_some(), f"it ended without {found!r}:\n{self.text}"
            else:
                self.read_some(0.05)

    def wait_for_next(self, text: str) -> None:
        """Return once a text is written behind the one that was waited for before; it has no colours."""
        wanted, deadline = text.encode(), time.monotonic() + TIMEOUT_S
        while (at := self.raw.find(wanted, self._n_found)) < 0:
            assert time.monotonic() < deadline, f"no {text!r} in\n{self.text}"
            assert self.read_some(), f"it ended without {text!r}:\n{self.text}"
        self._n_found = at + len(wanted)

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def end(self) -> int:
        """Return the exit code once it has ended."""
        while self.read_some():
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def read_some(self, timeout_s: float = TIMEOUT_S) -> bool:
        """Take in what comes within that time, and return whether anything did."""
        readable, _, _ = select.select([self.fd], [], [], timeout_s)
        data = b""
        with contextlib.suppress(OSError):  # how a terminal says that its program has ended
            data = os.read(self.fd, 65536) if readable else b""
        self.raw += data
        self._stream.feed(data)
        if b"\x1b[6n" in self.raw[-len(data) - 3 :]:  # which may come in two pieces
            os.write(self.fd, b"\x1b[%d;%dR" % (self.screen.cursor.y + 1, self.screen.cursor.x + 1))
        return bool(data)
