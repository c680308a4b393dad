"""``sidecar chat``: a conversation in the terminal, with a gauge of how full the window is."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from sidecar.commands.daemon import run_with_daemon
from sidecar.commands.live import TurnFailed, show_turn
from sidecar.commands.terminal import Screen, gauge
from sidecar.protocol.codec import to_wire
from sidecar.protocol.shapes import PermissionAnswer, PermissionRequest
from sidecar_client import Session, SidecarClient, SidecarRequestError

__all__ = ["run"]

_HELP = """\
/compact [what to keep]   condense the older part of the conversation
/preview                  what that would do
/undo                     take the newest compaction back
/context                  how full the window is, and with what
/files                    the files the model has read
/rewind [n]               go back to before the last prompts
/fork                     a session that goes on from here
/model, /engine [name]    which one it is, or choose another
/status                   how the session stands
/quit                     leave; the session stays stored"""


def run(options: argparse.Namespace) -> int:
    """Talk until /quit or the end of input."""
    screen, folder = Screen(), Path(options.cwd).absolute()

    async def main(client: SidecarClient) -> int:
        session = await _open(client, options)
        screen.note(f"session {session.sid} in {folder}; /help says what else there is")
        while (line := await _read_line("» ")) is not None:
            if line.strip() in ("/quit", "/exit"):
                break
            if line.strip():
                await _answer(session, line.strip(), screen)
        screen.note(f"stored as {session.sid}; sidecar chat --resume {session.sid} goes on")
        return 0

    return run_with_daemon(main, options.cwd, permission=lambda request: _ask(request, screen))


async def _open(client: SidecarClient, options: argparse.Namespace) -> Session:
    if options.resume:
        return await client.load_session(options.resume)
    return await client.start_session(options.cwd, model=options.model, engine=options.engine)


async def _answer(session: Session, line: str, screen: Screen) -> None:
    name, _, rest = line.partition(" ")
    command = _COMMANDS.get(name)
    try:
        if command is not None:
            await command(session, rest.strip(), screen)
        elif _is_slip(name):
            screen.note(f"there is no {name}\n{_HELP}")
        else:
            settled = await show_turn(session.stream(line), screen)
            screen.note(gauge(settled.data["usage"]))
    except (TurnFailed, SidecarRequestError) as error:
        screen.problem(str(error))


def _is_slip(word: str) -> bool:
    """Whether *word* was meant for a command that there is not; a path was not."""
    return word.startswith("/") and "/" not in word[1:] and word not in _DAEMON_COMMANDS


async def _help(_session: Session, _rest: str, screen: Screen) -> None:
    screen.note(_HELP)


async def _compact(session: Session, rest: str, screen: Screen) -> None:
    done = await session.compact(instructions=rest or None)
    if done.status == "completed":
        by = "by the model" if done.summary_source == "model" else f"without a model: {done.reason}"
        screen.note(f"{done.pre_tokens:,} to {done.post_tokens or 0:,} tokens, digest {by}")
    else:
        screen.note(f"{done.status}: {done.reason or done.error}")


async def _preview(session: Session, _rest: str, screen: Screen) -> None:
    plan = await session.preview()
    if plan.dropped is None or plan.kept is None or plan.projected is None:
        screen.note(plan.noop.reason if plan.noop else "nothing to do")
        return
    screen.note(
        f"would fold {plan.dropped.count} turns of {plan.dropped.tokens:,} tokens, keep {plan.kept.count}, "
        f"and restore {len(plan.rehydrate)} files: about {plan.projected.tokens:,} tokens"
    )


async def _undo(session: Session, _rest: str, screen: Screen) -> None:
    undone = await session.undo()
    screen.note(f"{undone.restored_tokens:,} tokens are back")


async def _context(session: Session, _rest: str, screen: Screen) -> None:
    usage = await session.usage()
    screen.note(gauge(to_wire(usage)))
    if usage.by is not None:
        parts = {name: tokens for name, tokens in to_wire(usage.by).items() if tokens}
        screen.table(("part", "tokens"), [(name, f"{tokens:,}") for name, tokens in parts.items()])


async def _files(session: Session, _rest: str, screen: Screen) -> None:
    files = await session.files()
    rows = [(file.uri, "stale" if file.stale else "fresh", f"{file.tokens:,}") for file in files]
    screen.table(("file", "", "tokens"), rows)


_COMMANDS: dict[str, Callable[[Session, str, Screen], Awaitable[None]]] = {
    "/help": _help,
    "/compact": _compact,
    "/preview": _preview,
    "/undo": _undo,
    "/context": _context,
    "/files": _files,
}


_DAEMON_COMMANDS = frozenset({"/rewind", "/fork", "/model", "/engine", "/status", "/uncompact"})
"""Commands that sessions carry out themselves: sent as prompts, answered as such."""


async def _ask(request: PermissionRequest, screen: Screen) -> PermissionAnswer:
    screen.end_line()
    screen.note(f"{request.title}\n  {request.subject.detail}")
    answer = await _read_line("allow? [y]es, [a]lways, [N]o: ")
    option = {"y": "allow_once", "a": "allow_always"}.get((answer or "n").strip().lower()[:1], "reject_once")
    return PermissionAnswer("selected", option)


async def _read_line(prompt: str) -> str | None:
    """Return the next line of input, None at its end."""
    if sys.stdin.isatty():
        sys.stdout.write(prompt)
        sys.stdout.flush()
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.rstrip("\n") if line else None
