"""A way to a PostgreSQL server through a loopback proxy, which its tests make slow, silent or cut."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

_BLOCK = 65_536


@dataclass
class PostgresProxy:
    """Passes bytes on between clients and the server at *server_port*.

    Attributes:
        may_pass: called with each block and whether the server sent it; False cuts its connection instead.
        piece: the most bytes that are passed on at once.
        delay_s: how long each piece waits.
        port: where it listens.
    """

    server_port: int
    may_pass: Callable[[bytes, bool], bool] = lambda data, is_answer: True
    piece: int = _BLOCK
    delay_s: float = 0.0
    port: int = 0
    _gates: list[threading.Event] = field(default_factory=list)
    _sockets: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open_gate()
        self._start(self._accept)

    def conninfo(self, user: str, database: str) -> str:
        """Return the connection string of *user* for *database*, without requests for encryption."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    def fall_silent(self) -> None:
        """Pass nothing on any more, and close nothing; connections are still accepted."""
        self._gates[-1].clear()

    def flow(self) -> None:
        """Pass everything on again."""
        self._gates[-1].set()

    def strand(self) -> None:
        """Fall silent on the connections that there are, as a network that has forgotten them."""
        self.fall_silent()
        self._open_gate()

    def close(self) -> None:
        """Cut every connection, and accept none."""
        for gate in self._gates:
            gate.set()
        for each in (self._listener, *self._sockets):
            _shut(each)
        while self._threads:
            self._threads.pop().join()
        for each in (self._listener, *self._sockets):
            each.close()

    def _open_gate(self) -> None:
        gate = threading.Event()
        gate.set()
        self._gates.append(gate)

    def _start(self, work: Callable[..., None], *given: object) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server_port))
                self._sockets += (client, server)
                for source, target in ((client, server), (server, client)):
                    self._start(self._pump, source, target, source is server, self._gates[-1])

    def _pump(
        self, source: socket.socket, target: socket.socket, is_answer: bool, gate: threading.Event
    ) -> None:
        with suppress(OSError):
            while (data := source.recv(_BLOCK)) and self.may_pass(data, is_answer):
                for at in range(0, len(data), self.piece):
                    time.sleep(self.delay_s)
                    gate.wait()
                    target.sendall(data[at : at + self.piece])
        _shut(source)
        _shut(target)


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
