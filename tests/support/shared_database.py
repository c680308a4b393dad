"""Stores and daemons that share one database, each daemon as if it were on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sidecar.conversation import Entry
from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.runtime.store import SessionJournal, SessionPlace
from sidecar_client import SidecarClient


def prompt(text: str) -> Entry:
    """Return a prompt of *text*."""
    return Entry(UserTurn((TextBlock(text),)), "user")


async def begin(place: SessionPlace, *texts: str, sid: str = "s") -> SessionJournal:
    """Take the right to write *sid*, and return its journal with *texts* stored behind what it had."""
    await place.hold(sid)
    journal = place.journal(sid)
    await journal.load()
    for text in texts:
        await journal.append([prompt(text)])
    return journal


async def shown(place: SessionPlace, sid: str = "s") -> list[str]:
    """Return the texts of *sid* as they are stored, from the first to the newest."""
    stored = await place.open(sid)
    assert stored.integrity.ok
    graph = stored.graph
    turns = graph.path_to(graph.leaf) if graph.leaf is not None else ()
    return [block.text for turn in turns for block in turn.blocks if isinstance(block, TextBlock)]


_MACHINE = """
import os, time
real, real_ns, readlink = time.time, time.time_ns, os.readlink
time.time = lambda: real() + {clock_s}
time.time_ns = lambda: real_ns() + {clock_s} * 10**9
os.readlink = lambda path, **at: "{machine}" if path == "/proc/self/ns/pid" else readlink(path, **at)
"""
"""Makes a process believe that it runs on another machine, in the way that leases tell machines apart."""

ANSWERS = [[{"text": f"answer {n}"}] for n in range(9)]


def spawn(
    tmp_path: Path,
    name: str,
    address: str,
    script: Any = ANSWERS,
    permission: Any = None,
    *,
    settings: str = "",
    machine: str = "",
    clock_s: int = 0,
) -> SidecarClient:
    """Return the client of a daemon with a state directory of its own, as on another machine.

    Args:
        tmp_path: the workspace of the client.
        name: the name of the state directory in it.
        address: the database.
        script: the answers of its model.
        permission: answers its questions.
        settings: more lines of its settings.
        machine: the name of its machine, by default *name*.
        clock_s: how far the clock of its machine is ahead.
    """
    home = tmp_path / name
    setup: Any = {} if permission is None else {"permission": permission}
    home.mkdir()
    (home / "config.toml").write_text(f'store = "{address}"\n{settings}')
    (home / "sitecustomize.py").write_text(_MACHINE.format(machine=machine or name, clock_s=clock_s))
    given = {"INDUSAGI_HOME": str(home), "PYTHONPATH": str(home)}
    options = {"models": {"fake-1": {"scripted": script}}}
    return SidecarClient.spawn(cwd=tmp_path, env=given, options=options, **setup)


async def texts(client: SidecarClient, sid: str) -> list[str]:
    """Return the texts of a session, as *client* reads them."""
    page = await client.session_read(sid, view="full")
    return [block["text"] for node in page.nodes for block in node.blocks if "text" in block]
