"""Lines that are typed or piped in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from io import FileIO

import pytest

from sidecar.commands.lines import Lines


class Typist:
    """Whoever types into a pipe."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        read_fd, self.fd = os.pipe()
        self._file = FileIO(read_fd)
        self.lines = Lines(self._file, is_terminal=is_terminal)

    def type(self, data: bytes) -> None:
        os.write(self.fd, data)

    def leave(self) -> None:
        os.close(self.fd)

    async def rest(self) -> list[str]:
        """Return the lines that nobody has taken yet, once there will be no more."""
        found = []
        while (line := await self.lines.next()) is not None:
            found.append(line)
        self._file.close()
        return found


@pytest.fixture
async def typist() -> AsyncIterator[Typist]:
    typist = Typist()
    yield typist
    typist.leave()
    await typist.rest()


async def test_lines_come_as_they_are_typed(typist: Typist) -> None:
    typist.type("one\r\nzwö".encode() + b"\nth")
    assert [await typist.lines.next(), await typist.lines.next()] == ["one", "zwö"]
    typist.type(b"ree \n")
    assert await typist.lines.next() == "three "


async def test_giving_up_waiting_loses_no_line(typist: Typist) -> None:
    waiting = asyncio.ensure_future(typist.lines.next())
    await asyncio.sleep(0)
    waiting.cancel()
    typist.type(b"one\n")
    assert await typist.lines.next() == "one"


async def test_the_end_is_told_again_and_again() -> None:
    typist = Typist()
    typist.type(b"no newline at the end")
    typist.leave()
    assert await typist.rest() == ["no newline at the end"]
    assert [await typist.lines.next(), await typist.lines.next()] == [None, None]


async def test_a_closed_input_is_at_its_end() -> None:
    assert await Lines(None, is_terminal=False).next() is None


@pytest.mark.parametrize(("is_terminal", "next_line"), [(True, "yes"), (False, "typed too early")])
async def test_what_is_typed_too_early_answers_no_question(is_terminal: bool, next_line: str) -> None:
    typist = Typist(is_terminal=is_terminal)
    typist.type(b"first\ntyped too early\n")
    await typist.lines.next()
    typist.lines.forget()
    typist.type(b"yes\n")
    typist.leave()
    assert (await typist.rest())[0] == next_line
