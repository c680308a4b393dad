"""Calls of tools that other agents recorded, made again with our tools: with the same outcomes.

A command of a shell is not made again: it needs the machine that it ran on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from recorded_sessions import RecordedCall, recorded_calls, recorded_files
from sidecar.capabilities.contract import Tool
from sidecar.capabilities.edit import EDIT, WRITE
from sidecar.capabilities.grep import GREP
from sidecar.capabilities.listing import GLOB
from sidecar.capabilities.read import READ

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk

pytestmark = [pytest.mark.slow, pytest.mark.processes]

TOOLS: Final[dict[str, Tool]] = {"read": READ, "edit": EDIT, "write": WRITE, "grep": GREP, "glob": GLOB}
AGENTS: Final = ("claude-code", "opencode", "pi", "copilot-cli", "gemini-cli")
LEAST_SHARE: Final = 0.99
BY_DESIGN: Final = {
    "missing text": "an edit forgives more mistakes of copying",
    "too large": "a long file is shown in parts",
    "folder": "a folder is listed",
}
"""Recorded errors that need be none here, and why."""


@dataclass
class Replay:
    """The outcomes of the calls of one agent."""

    desk: Desk
    agreed: Counter[str] = field(default_factory=Counter)
    by_design: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    differing: list[str] = field(default_factory=list)

    async def play(self, call: RecordedCall) -> None:
        """Make *call* again, on a file as it was."""
        if call.is_error and not call.problem:
            self.left_out[f"{call.kind}: for a reason that is not known"] += 1
            return
        self.desk.answer = call.problem != "refused"
        await self.set_up(call)
        reply = await self.desk.run(TOOLS[call.kind], call.arguments)
        if reply.is_error == call.is_error:
            self.agreed[call.kind] += 1
        elif call.is_error and call.problem in BY_DESIGN:
            self.by_design[call.problem] += 1
        else:
            told = f"{call.kind} {str(dict(call.arguments))[:300]}\n  recorded: {call.result[:200]!r}"
            self.differing.append(f"{told}\n  here: {str(reply.output)[:300]!r}")

    async def set_up(self, call: RecordedCall) -> None:
        """Bring the file of *call* into the state that its outcome shows."""
        path = call.path
        if path is None or call.problem == "refused":
            return
        if call.problem == "absent":
            path.unlink(missing_ok=True)
        elif call.kind == "read":
            self.show(path, call)
        elif call.kind == "edit":
            await self.set_up_edit(path, call)
        elif call.kind == "write":
            await self.set_up_write(path, call)
        elif not path.exists():
            (path.parent if path.suffix else path).mkdir(parents=True, exist_ok=True)
            if path.suffix:
                path.write_text("")

    def show(self, path: Path, call: RecordedCall) -> None:
        """Let the file have the lines that a result shows."""
        if call.problem == "folder" or "<type>directory" in call.result:
            path.mkdir(parents=True, exist_ok=True)
            return
        known = path.read_text().split("\n") if path.is_file() else []
        lines = call.lines()
        known += [""] * (max(lines, default=1) - len(known))
        for number, line in lines.items():
            known[number - 1] = line
        if not path.is_dir():
            self.put(path, "\n".join(known))

    async def set_up_edit(self, path: Path, call: RecordedCall) -> None:
        old = text_of(call, "old_string", "oldString", "oldText", "old_text")
        text, is_new = read_if_there(path), not exists(path)
        wanted = text
        if call.problem == "missing text":
            wanted = text.replace(old, "")
        elif call.problem == "twice":
            wanted = f"{old}\n{old}\n"
        elif old and (old not in text or (text.count(old) > 1 and not call.arguments.get("replace_all"))):
            wanted = f"{text}\n{old}\n" if old not in text else f"{old}\n"
        if call.problem == "unread":
            self.put(path, f"{wanted}\nanew\n")
            return
        if wanted != text or is_new:
            self.put(path, wanted)
        await self.desk.run(READ, {"path": str(path)})
        if call.problem == "stale":
            self.put(path, f"{wanted}\nchanged\n")

    async def set_up_write(self, path: Path, call: RecordedCall) -> None:
        if call.problem in ("unread", "stale"):
            self.put(path, f"others wrote this {len(self.agreed)}\n")
        elif exists(path):
            await self.desk.run(READ, {"path": str(path)})

    def put(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")


def exists(path: Path) -> bool:
    return path.is_file()


def read_if_there(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def text_of(call: RecordedCall, *names: str) -> str:
    found: list[Any] = [call.arguments.get(name) for name in names]
    return next((value for value in found if isinstance(value, str)), "")


@pytest.mark.parametrize("agent", AGENTS)
async def test_recorded_calls_have_the_same_outcomes(desk: Desk, agent: str) -> None:
    """Reads, edits, writes and searches, with the arguments as they were written, but for the paths."""
    recordings = recorded_files(agent)
    if not recordings:
        pytest.skip("the recorded sessions are not beside this checkout")
    replay = Replay(desk)
    for number, recording in enumerate(recordings):
        for call in recorded_calls(recording, desk.root / str(number)):
            await replay.play(call)
    n_agreed, n_differing = replay.agreed.total(), len(replay.differing)
    share = n_agreed / (n_agreed + n_differing)
    print(
        f"\n{agent}: {share:.1%} of {n_agreed + n_differing} calls agree ({dict(replay.agreed)}); "
        f"by design otherwise: {dict(replay.by_design)}; left out: {dict(replay.left_out)}"
    )
    assert share >= LEAST_SHARE, "\n".join(replay.differing)
