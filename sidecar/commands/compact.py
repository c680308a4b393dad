"""``sidecar compact FILE``: the compaction of a session, for a conversation in a file.

A daemon with a state directory of its own takes the conversation in, and compacts it as every session: with
the same engines, preview and loss report. The file stays as it is. The compacted turns go to standard output,
and the report to standard error.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from sidecar._internal.env import expand_home, indusagi_home
from sidecar.commands.terminal import Screen
from sidecar.commands.views import show_outcome, show_plan, show_sizes
from sidecar.commands.with_daemon import format_error, print_json, run_to_end
from sidecar.llmgateway.config import CONFIG_FILE
from sidecar.llmgateway.credentials import AUTH_FILE
from sidecar.runtime.store import SessionStore, turn_to_record
from sidecar_client import Session, SidecarClient, SidecarRequestError

T = TypeVar("T")

_MODEL: Final = "file"
_WINDOW: Final = 32_000


def run(options: argparse.Namespace) -> int:
    """Compact the file and return the exit code: 0 when that was done, 3 when nothing was to do."""
    notes, file = Screen(sys.stderr), expand_home(options.file).resolve()
    try:
        file.open("rb").close()
    except OSError as error:
        notes.problem(f"sidecar compact: cannot read {options.file}: {error.strerror}")
        return 2
    own = indusagi_home()
    # Keys are copied for a model alone, and only to beside the file that has them.
    settings = [own / name for name in (CONFIG_FILE, *([AUTH_FILE] if options.model else []))]
    beside = own if options.model and own.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="sidecar-compact-", dir=beside) as folder:
        home = Path(folder)
        for found in filter(Path.is_file, settings):
            shutil.copy(found, home)
        return run_to_end(lambda: _compact(file, home, options, notes))


async def _compact(file: Path, home: Path, options: argparse.Namespace, notes: Screen) -> int:
    own_window = None if options.model and options.window is None else options.window or _WINDOW
    models: dict[str, Any] = (
        {} if own_window is None else {_MODEL: {"scripted": [], "contextWindow": own_window}}
    )
    model = options.model if own_window is None else _MODEL
    client = SidecarClient.spawn(env={"INDUSAGI_HOME": str(home)}, options={"models": models})
    async with client:
        notes.wait(f"reading {file.name}")
        try:
            session = await open_conversation(client, file, home, model)
        except SidecarRequestError as error:
            notes.problem(f"sidecar compact: {options.file} is not a conversation: {format_error(error)}")
            return 2
        before, plan = await session.usage(), await session.preview(options.engine)
        if plan.noop is not None:
            notes.note(f"nothing done, {plan.gate.tokens:,} tokens: {plan.noop.reason}")
            return 3
        if options.preview:
            show_plan(notes, plan, Path.cwd())
            notes.note("nothing was written; without --preview the compacted turns go to standard output")
            return 0
        notes.wait("condensing the older part of the conversation")
        done = await session.compact(options.engine)
        if done.status == "completed":
            show_sizes(notes, before, await session.usage())
        show_outcome(notes, done, Path.cwd())
        if done.status != "completed":
            return 3
    for turn in await SessionStore(home / "sessions").journal(session.sid).load():
        print_json(turn_to_record(turn))
    return 0


async def open_conversation(client: SidecarClient, file: Path, home: Path, model: str | None) -> Session:
    """Return the conversation in *file* as a session: a stored one, or one of another agent or API.

    It goes on in the folder that it names, or in the current one where that is gone.

    Raises:
        SidecarRequestError: the file holds neither.
    """

    async def in_its_folder(call: Callable[..., Awaitable[T]], *args: str, **named: Any) -> T:
        try:
            return await call(*args, **named)
        except SidecarRequestError:  # its folder may be gone, and the next error tells any other cause
            return await call(*args, **named, cwd=str(Path.cwd()))

    sid = file.stem
    if file.suffix == ".jsonl" and await SessionStore(file.parent).journal(sid).load():
        (home / "sessions").mkdir(exist_ok=True)
        shutil.copy(file, home / "sessions")
        loaded = await in_its_folder(client.session_load, sid)
        if model is not None:
            await client.session_set_config_option(sid, "model", model)
        return Session(client, sid, loaded.seq)
    imported = await in_its_folder(client.session_import, path=str(file), model=model)
    return await client.load_session(str(imported.sid))
