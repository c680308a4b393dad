"""A move of a session between two state directories, by two threads and two pipes that can be cut."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO

from sidecar._internal.errors import SidecarError
from sidecar.commands.move_sessions import Stream, give, take


class Cut:
    """A stream that changes or loses all bytes from one on."""

    def __init__(self, target: BinaryIO, at: int | None, change: Callable[[bytes], bytes] = bytes) -> None:
        self._target = target
        self._change = change
        self.left = at
        self.n_bytes = 0

    def write(self, data: bytes) -> None:
        data = self._change(data)
        self.n_bytes += len(data)
        if self.left is not None and len(data) > self.left:
            self._target.write(data[: self.left])
            self._target.close()
            raise BrokenPipeError
        self.left = self.left if self.left is None else self.left - len(data)
        self._target.write(data)

    def flush(self) -> None:
        self._target.flush()

    def close(self) -> None:
        with suppress(OSError):
            self._target.close()


class Move:
    """A move from one home to another: what each side returned or raised, and the bytes that were given."""

    def __init__(
        self,
        source: Path,
        target: Path,
        *,
        cut: int | None = None,
        replies: int | None = None,
        change: Callable[[bytes], bytes] = bytes,
    ) -> None:
        (to_taker, from_giver), (to_giver, from_taker) = os.pipe(), os.pipe()
        forward = Cut(os.fdopen(from_giver, "wb"), cut, change)
        back = Cut(os.fdopen(from_taker, "wb"), replies)

        def run(side: Callable[[Stream], Any], source: int, target: Any, name: str) -> Any:
            with closing(target), os.fdopen(source, "rb") as reader:
                try:
                    return side(Stream(reader, target, name))
                except SidecarError as error:
                    return f"{error.message}; {error.hint}"

        def run_taker() -> None:
            self.taken: Any = run(lambda stream: take(target, stream), to_taker, back, "here")

        thread = threading.Thread(target=run_taker)
        thread.start()
        self.given = run(lambda stream: give(source, None, stream), to_giver, forward, "box")
        thread.join(30)
        self.n_bytes, self.n_replied = forward.n_bytes, back.n_bytes
