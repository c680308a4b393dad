"""``sidecar demo``: the main job on real files, each step checked; exits with 1 when a check fails.

It talks to a daemon as any client does. What it changes in the folder it puts back.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sidecar.commands.daemon import run_with_daemon
from sidecar.commands.demo_files import DemoFiles, added_on_disk, choose_files, content_hash
from sidecar.commands.live import show_turn
from sidecar.commands.terminal import Screen, bar, gauge
from sidecar.protocol.codec import to_wire
from sidecar.protocol.shapes import Compaction, ContextUsage
from sidecar_client import ClientEvent, Session, SidecarClient

__all__ = ["run"]

DISK_LINE: Final = "A line that the demo has added on disk."
BUFFER_LINE: Final = "A line that the demo has typed and not saved."
_CITED: Final = re.compile(r"`(?P<path>[^`\n]+):(?P<line>\d+)` (?P<text>[^\n]*)")
_WAIT_S: Final = 20.0
_PARTS: Final = {
    "system": "system prompt",
    "toolDefs": "tool schemas",
    "user": "you",
    "assistant": "assistant",
    "thinking": "thinking",
    "toolResults": "tool results",
    "images": "images",
    "summary": "digest",
    "files": "restored files",
}


def run(options: argparse.Namespace) -> int:
    """Run the demonstration and return 0 when everything in it truly happened."""
    screen, folder = Screen(), Path(options.folder).expanduser().resolve()
    files = choose_files(folder) if folder.is_dir() else None
    if folder.is_dir() and files is None:
        note = f"{folder} has fewer than three text files of 400 to 9,000 bytes; name another folder"
        Screen(sys.stderr).problem(note)
        return 2

    async def main(client: SidecarClient) -> int:
        assert files is not None  # a folder that is none was refused before
        return await _Demo(client, files, screen).play()

    return run_with_daemon(main, folder)


@dataclass(slots=True)
class _Checks:
    """What was promised, and whether it was so."""

    screen: Screen
    done: list[tuple[str, bool, str]] = field(default_factory=list)

    def check(self, promise: str, kept: bool, found: str = "") -> None:
        """Note whether *promise* was *kept*; *found* says what was seen."""
        self.done.append((promise, kept, found))
        if not kept:
            self.screen.problem(f"not so: {promise}; found {found or 'otherwise'}")

    @property
    def all_kept(self) -> bool:
        return all(kept for _, kept, _ in self.done)


class _Demo:
    """One demonstration: the steps in the order they are shown."""

    def __init__(self, client: SidecarClient, files: DemoFiles, screen: Screen) -> None:
        self._client = client
        self._files = files
        self._screen = screen
        self._checks = _Checks(screen)
        self._started = time.monotonic()

    async def play(self) -> int:
        """Play all of it and return the exit code."""
        files, screen = self._files, self._screen
        screen.heading(f"A conversation about {files.folder}")
        session = await self._client.start_session(files.folder)
        await self._ask(session)
        with self._kept_unchanged(), added_on_disk(files.on_disk, DISK_LINE):
            buffer = await self._change(session)
            first = await self._compact(session, buffer)
            await self._undo(session, first)
            await self._compact(session, buffer, again=True)
            await self._client.did_close(files.in_buffer)
        await session.close()
        return self._close()

    async def _ask(self, session: Session) -> None:
        files = self._files
        questions = (
            f"What is in {files.name(files.other)}?",
            f"What is in {files.name(files.on_disk)} and {files.name(files.in_buffer)}?",
            f"Where is `{files.word}` used?",
        )
        for question in questions:
            self._screen.heading(f"» {question}")
            texts: list[str] = []
            settled = await show_turn(_noting_text(session.stream(question), texts), self._screen)
            self._screen.note(gauge(settled.data["usage"]))
            cited, wrong = _citations("".join(texts), files.folder)
            self._checks.check(
                f"the answer to {question!r} cites lines that are there",
                cited > 0 and not wrong,
                f"{cited} cited, {wrong} wrong",
            )

    async def _change(self, session: Session) -> str:
        """Change a buffer; the file on disk is changed already. Return the buffer's text."""
        files = self._files
        self._screen.heading("Two of the files change behind the model's back")
        buffer = f"{BUFFER_LINE}\n{files.in_buffer.read_text(encoding='utf-8')}"
        await self._client.did_open(files.in_buffer, files.in_buffer.read_text(encoding="utf-8"))
        await self._client.did_change(files.in_buffer, buffer)
        for file, where in ((files.in_buffer, "buffer"), (files.on_disk, "disk")):
            stale = await _wait_for_stale(session, file)
            if stale is None:
                self._checks.check(
                    f"the change of {files.name(file)} ({where}) was noticed", False, "nothing"
                )
                continue
            self._screen.note(
                f"· {files.name(file)} changed, seen in the {where}: what the model read is stale"
            )
            now = content_hash(buffer) if where == "buffer" else content_hash(_read(file))
            self._checks.check(
                f"the change of {files.name(file)} ({where}) was noticed",
                stale["nowHash"] == now and stale["source"] == where,
                f"{stale['source']}, {stale['nowHash']}",
            )
        return buffer

    async def _compact(self, session: Session, buffer: str, *, again: bool = False) -> Compaction:
        self._screen.heading("Compact" + (", once more" if again else ""))
        before, head = await session.usage(), (await self._head(session))
        plan = await session.preview()
        self._checks.check("a preview changes nothing", await self._head(session) == head)
        done = await session.compact()
        after = await session.usage()
        self._show_sizes(before, after)
        self._show_outcome(done, len(plan.dropped.nodes) if plan.dropped else 0)
        shrunk = done.post_tokens is not None and done.post_tokens < done.pre_tokens
        self._checks.check(
            "the compaction made it smaller" + (" again" if again else ""),
            done.status == "completed" and shrunk and after.used < before.used,
            f"{done.status}, {done.pre_tokens} to {done.post_tokens} tokens",
        )
        await self._check_restored(session, buffer)
        return done

    async def _check_restored(self, session: Session, buffer: str) -> None:
        """Look at what the model would be sent now."""
        files = self._files
        nodes = [to_wire(node) for node in (await self._client.session_read(session.sid)).nodes]
        text = "\n".join(block.get("text", "") for node in nodes for block in node["blocks"])
        self._checks.check("the file came back as it is on disk now", DISK_LINE in text)
        self._checks.check("the unsaved buffer came back, not the file", BUFFER_LINE in text)
        self._checks.check("the unsaved text is in no file", BUFFER_LINE not in _read(files.in_buffer))
        known = {file.uri: file for file in await session.files()}
        for file, now in ((files.on_disk, _read(files.on_disk)), (files.in_buffer, buffer)):
            found = known.get(file.as_uri())
            fresh = found is not None and found.hash == content_hash(now) and not found.stale
            self._checks.check(f"{files.name(file)} is fresh for the model, by its hash", fresh)
        self._checks.check("every tool result stands behind its call", _pairs_are_whole(nodes))

    async def _undo(self, session: Session, done: Compaction) -> None:
        self._screen.heading("Undo")
        undone = await session.undo()
        self._screen.note(f"· {undone.restored_tokens:,} tokens are back")
        self._checks.check("undo stands where the conversation stood before", undone.head == done.before_head)

    async def _head(self, session: Session) -> str | None:
        return (await session.usage()).as_of_node

    def _show_sizes(self, before: ContextUsage, after: ContextUsage) -> None:
        was, now = to_wire(before.by), to_wire(after.by)
        most = max(before.used, 1)
        rows = [
            (
                label,
                bar(was[name], most, 16),
                f"{was[name]:>7,}",
                bar(now[name], most, 16),
                f"{now[name]:>7,}",
            )
            for name, label in _PARTS.items()
            if was[name] or now[name]
        ]
        self._screen.table(("tokens", "before", "", "after", ""), rows)
        self._screen.note(f"before {gauge(to_wire(before))}")
        self._screen.note(f"after  {gauge(to_wire(after))}")

    def _show_outcome(self, done: Compaction, n_nodes: int) -> None:
        kept = (done.post_count or 0) - 1 - len(done.rehydrated)
        self._screen.note(
            f"· dropped {done.dropped_count} messages ({n_nodes} turns) into a digest, kept {kept} turns"
        )
        for uri in done.rehydrated:
            self._screen.note(f"· restored fresh: {uri}")

    @contextmanager
    def _kept_unchanged(self) -> Iterator[None]:
        """Check in the end that the folder is as it was."""
        files = (self._files.on_disk, self._files.in_buffer, self._files.other)
        before = [file.read_bytes() for file in files]
        yield
        self._checks.check("the folder is as it was", [file.read_bytes() for file in files] == before)

    def _close(self) -> int:
        self._screen.heading("What was checked")
        rows = [("yes" if kept else "NO", promise) for promise, kept, _ in self._checks.done]
        self._screen.table(("", ""), rows)
        seconds = time.monotonic() - self._started
        self._screen.note(f"{len(rows)} checks in {seconds:.1f} s")
        return 0 if self._checks.all_kept else 1


async def _noting_text(events: Any, texts: list[str]) -> Any:
    """Pass *events* on, and the text of finished answers to *texts*."""
    async for event in events:
        if event.kind == "message":
            texts.extend(part["text"] for part in event.data["content"] if part["type"] == "text")
        yield event


async def _wait_for_stale(session: Session, file: Path) -> Mapping[str, Any] | None:
    """Return what the daemon told of *file*, None when it told nothing in time."""

    def is_ours(event: ClientEvent) -> bool:
        return bool(event.data["uri"] == file.as_uri())

    start = session.seq
    try:
        event = await session.wait_for("fileStale", is_ours, timeout_s=_WAIT_S)
    except TimeoutError:
        return None
    session.seq = start
    return event.data


def _citations(answer: str, folder: Path) -> tuple[int, int]:
    """Return how many places *answer* cites, and how many of them do not hold the text it quotes."""
    found = list(_CITED.finditer(answer))
    wrong = [
        match for match in found if not _holds(folder / match["path"], int(match["line"]), match["text"])
    ]
    return len(found), len(wrong)


def _holds(file: Path, number: int, quoted: str) -> bool:
    lines = _read(file).split("\n") if file.is_file() else []
    start = " ".join(quoted.rstrip("… ").split())
    return 0 < number <= len(lines) and start in " ".join(lines[number - 1].split())


def _pairs_are_whole(nodes: list[dict[str, Any]]) -> bool:
    asked: set[str] = set()
    for node in nodes:
        for block in node["blocks"]:
            if block["kind"] == "tool_call":
                asked.add(block["id"])
            elif block["kind"] == "tool_result" and block["callId"] not in asked:
                return False
    return True


def _read(file: Path) -> str:
    return file.read_bytes().decode()
