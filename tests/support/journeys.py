"""Three journeys through a daemon in memory, with the functions of the package that each calls, in order.

A prompt that reads a file, a compaction, and a change of the file that the model has read. The README
describes these journeys; its tests and a benchmark play them.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import sidecar
from faces import FaceClient
from sidecar.boot import build

Call: TypeAlias = tuple[str, str]
"""A module, as a path below the package, and a qualified function of it."""

PACKAGE = f"{Path(*sidecar.__path__).resolve()}/"
LINES = "".join(f"line {n} of a file that the model reads whole\n" for n in range(200))
SCRIPT = [
    [{"toolCall": {"name": "read", "input": {"path": "a.txt"}}}],
    [{"text": "It has 200 lines."}],
    *([{"text": f"Answer {n}. " + "words " * 400}] for n in range(8)),
]


@contextmanager
def traced() -> Iterator[list[Call]]:
    """Yield a list that gets each call into the package, in order, from this thread and from new ones.

    The loop gets new threads, since those that wait for work are not traced. Nothing is collected meanwhile:
    what the collector calls is on nobody's way.
    """
    calls: list[Call] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            calls.append((code.co_filename.removeprefix(PACKAGE), code.co_qualname))

    gc.disable()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()


async def play(folder: Path) -> dict[str, list[Call]]:
    """Return the calls of each journey, under ``prompt``, ``compaction`` and ``change``."""
    project = folder / "project"
    project.mkdir()
    file = project / "a.txt"
    file.write_text(LINES)
    daemon = build(folder / "home")
    daemon.warm_up().join()
    daemon.models.add_scripted({"script": {"scripted": SCRIPT, "contextWindow": 60_000}})
    editor = FaceClient("lsp", daemon)
    is_watched = asyncio.Event()
    daemon.workspace.on_change(lambda path: is_watched.set())
    sid = await editor.open(project, "script")
    await is_watched.wait()
    with traced() as prompt:
        await editor.prompt(sid, "Read a.txt")
    for n in range(8):
        await editor.prompt(sid, f"question {n} " + "words " * 400)
    with traced() as compaction:
        await editor.call("sidecar/compact/start", {"sid": sid, "mode": "force"})
        await until_event(editor, "compaction", status="completed")
    with traced() as change:
        document = {"uri": file.as_uri(), "languageId": "text", "version": 1, "text": "other words\n"}
        editor.client.notify("textDocument/didOpen", {"textDocument": document})
        await until_event(editor, "fileStale")
    await daemon.service.aclose()
    return {"prompt": prompt, "compaction": compaction, "change": change}


async def until_event(editor: FaceClient, kind: str, **data: Any) -> None:
    """Return once an event of *kind* with these *data* has come."""

    def has_come() -> bool:
        found = [each["params"] for each in editor.client.calls("sidecar/event")]
        return any(each["kind"] == kind and data.items() <= each["data"].items() for each in found)

    await editor.client.stream.wait_until(has_come)
