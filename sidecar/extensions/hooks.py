"""Hooks: commands of the user that run at events of a session, and may refuse them.

A hook gets one JSON object on its standard input and decides by its exit code: 0 goes on, and its standard
output is a note for the model; 2 refuses, and its standard error is the reason, for the model as well. Any
other end, a hook that takes too long included, is a mistake of the hook: a notice says so, and the work goes
on. Several hooks of one event run in the order of the settings, until one refuses.

The hooks of ``question`` run while the session waits for its user and end with the question; a refusal is a
no in place of the user. The hooks of ``settled`` run after the turn; nothing can refuse it any more.

A hook runs in the session's folder, in a process group below a supervisor, without the secrets of the
environment, and is ended with everything it started when its time is over, its call is cancelled or the
daemon is gone. Its output is bounded.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from sidecar._internal.async_cancel import cancel_future
from sidecar._internal.cancel import CancelToken
from sidecar._internal.env import copy_environment
from sidecar._internal.values import Value
from sidecar.capabilities.bash import child_environment, shell_argv
from sidecar.capabilities.contract import HookVerdict, ToolReply
from sidecar.capabilities.processes import KILL, supervise
from sidecar.extensions.contract import Hook
from sidecar.llmgateway.config import HookEvent

NOTE_CHARS: Final = 4_000
"""The characters of a note, or of a reason, that are used."""

_REFUSED: Final = 2
_READ_BYTES: Final = 65_536
_END_S: Final = 1.0


class HookEnd(Value):
    """The end of one hook; *exit_code* is None where it was ended."""

    exit_code: int | None
    output: str
    errors: str


class Hooks:
    """The hooks of one session.

    Args:
        hooks: the hooks, in their order.
        sid: the session.
        cwd: the folder they run in.
        child_started: called with the id and name of each process; returns a function for its end.
        warn: shows the user a warning, by its title and its text.
    """

    def __init__(
        self,
        hooks: Sequence[Hook],
        sid: str,
        cwd: Path,
        child_started: Callable[[int, str], Callable[[], None]],
        warn: Callable[[str, str], None],
    ) -> None:
        self._hooks = tuple(hooks)
        self._sid = sid
        self._cwd = cwd
        self._child_started = child_started
        self._warn = warn

    async def run(
        self, event: HookEvent, details: Mapping[str, Any], cancel: CancelToken, *, tool: str = ""
    ) -> HookVerdict:
        """Run the hooks of *event* and return their answer. Never raises but for cancellation.

        Args:
            event: the event.
            details: JSON values about it, beside the event, the session and its folder.
            cancel: ends the hook that runs; then the work goes on, to its own end.
            tool: the name of the tool that it is about.
        """
        notes: list[str] = []
        for hook in self._hooks:
            if hook.event != event or not is_meant(hook, tool) or cancel.cancelled:
                continue
            told = {"event": event, "sessionId": self._sid, "cwd": str(self._cwd), **details}
            payload = json.dumps(told, ensure_ascii=False, default=str).encode("utf-8", "replace")
            try:
                end = await run_hook(hook, payload, self._cwd, self._child_started, cancel)
            except (OSError, ValueError) as error:
                self._warn(f"The hook of {event} did not start", _shorten(str(error)))
                continue
            if end.exit_code == _REFUSED:
                return HookVerdict(_shorten(end.errors) or "it gave no reason", "\n".join(notes))
            if end.exit_code == 0:
                notes += filter(None, (_shorten(end.output),))
            elif not cancel.cancelled:
                what = f"exit code {end.exit_code}"
                if end.exit_code is None:
                    what = f"it was ended after {hook.timeout_s:g} s"
                self._warn(f"The hook of {event} has failed", _shorten(f"{what}: {end.errors}".rstrip(": ")))
        return HookVerdict(None, "\n".join(notes))


class HookGuard:
    """Judges calls of tools by the hooks before and after them, which *hooks* returns."""

    def __init__(self, hooks: Callable[[], Hooks]) -> None:
        self._hooks = hooks

    async def before(self, name: str, arguments: Mapping[str, Any], cancel: CancelToken) -> HookVerdict:
        """Return whether the tool *name* may be called."""
        told = {"tool": name, "input": arguments}
        return await self._hooks().run("beforeTool", told, cancel, tool=name)

    async def after(
        self, name: str, arguments: Mapping[str, Any], reply: ToolReply, cancel: CancelToken
    ) -> HookVerdict:
        """Return the objection to the *reply* of a call, and a note about it."""
        output = str(reply.output)[:_READ_BYTES]
        told = {"tool": name, "input": arguments, "output": output, "isError": reply.is_error}
        return await self._hooks().run("afterTool", told, cancel, tool=name)


def is_meant(hook: Hook, tool: str) -> bool:
    """Whether *hook* is about the tool *tool*.

    >>> is_meant(Hook(event="beforeTool", command="x", tools=("mcp__*",)), "mcp__git__log")
    True
    """
    return not hook.tools or any(fnmatchcase(tool, pattern) for pattern in hook.tools)


async def run_hook(
    hook: Hook,
    payload: bytes,
    cwd: Path,
    child_started: Callable[[int, str], Callable[[], None]],
    cancel: CancelToken,
) -> HookEnd:
    """Run *hook* to its end, in bounds, and end everything that it started.

    Args:
        hook: the hook.
        payload: its standard input.
        cwd: the folder to run it in.
        child_started: called with its process id and name; returns a function for its end.
        cancel: ends it.

    Raises:
        OSError, ValueError: it cannot be started.
    """
    lifeline, ours = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *supervise(shell_argv(hook.command), lifeline),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=child_environment(copy_environment()),
            start_new_session=os.name != "nt",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            pass_fds=() if os.name == "nt" else (lifeline,),
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(lifeline)
    on_gone = child_started(process.pid, f"hook: {hook.event}")
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    parts = (
        asyncio.ensure_future(_read_bounded(process.stdout)),
        asyncio.ensure_future(_read_bounded(process.stderr)),
        asyncio.ensure_future(write_input(process.stdin, payload)),
        asyncio.ensure_future(process.wait()),
    )
    output, errors, _, ended = parts
    everything = asyncio.gather(*parts)
    try:
        with cancel_future(cancel) as cancelled:
            await asyncio.wait(
                (everything, cancelled), timeout=hook.timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        if everything.done():
            return HookEnd(ended.result(), output.result(), errors.result())
        return HookEnd(None, "", "")
    finally:
        os.close(ours)
        await asyncio.wait((ended,), timeout=_END_S)
        if not ended.done():
            with suppress(ProcessLookupError):
                process.send_signal(KILL if os.name != "nt" else signal.SIGTERM)
        for part in parts:
            part.cancel()
        await asyncio.gather(everything, return_exceptions=True)
        on_gone()


async def _read_bounded(stream: asyncio.StreamReader) -> str:
    """Return the first part of *stream*; the rest is read and dropped."""
    kept = bytearray()
    while data := await stream.read(_READ_BYTES):
        kept += data[: _READ_BYTES - len(kept)]
    return kept.decode("utf-8", "replace").strip()


async def write_input(stream: asyncio.StreamWriter, data: bytes) -> None:
    """Write *data* and close; a hook need not read it."""
    with suppress(OSError):
        stream.write(data)
        await stream.drain()
    with suppress(OSError):
        stream.close()
        await stream.wait_closed()


def _shorten(text: str) -> str:
    return text if len(text) <= NOTE_CHARS else f"{text[:NOTE_CHARS]} [cut]"
