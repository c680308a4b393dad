"""Files that change on the disk behind a workspace's back, and the problems that follow."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.workspace.contract import FileAccessError


def put(path: Path, text: str | bytes) -> None:
    """Write the file *path*, as anybody could."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


@contextmanager
def refused(problem: str) -> Iterator[pytest.ExceptionInfo[FileAccessError]]:
    """Expect that the block raises FileAccessError with this *problem*."""
    with pytest.raises(FileAccessError) as caught:
        yield caught
    assert caught.value.problem == problem


async def check_problem(action: Awaitable[object], problem: str) -> FileAccessError:
    """Await *action*, which must be refused, and return the error."""
    with refused(problem) as caught:
        await action
    return caught.value


def content(path: Path) -> str:
    """Return the text of *path*."""
    return path.read_text()
