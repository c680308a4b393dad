"""``sidecar demo``: the main features on real files, each step checked.

It is a client of daemons of its own, with a state directory of its own. Its changes in the folder are undone
at the end.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from sidecar._internal.env import expand_home
from sidecar._internal.values import Value
from sidecar.commands.terminal import Screen
from sidecar.commands.views import plan_lines, show_outcome, show_sizes
from sidecar.commands.with_daemon import run_to_end
from sidecar.conductor.contract import Compaction
from sidecar.protocol.codec import to_wire
from sidecar.workspace.ignore import walk
from sidecar_client import ClientEvent, Session, SidecarClient

_WORD: Final = "_".join(("typed", "by", "the", "demo"))
"""In pieces, so that a search of this repository finds it in no file."""

DISK_LINE: Final = "A line that the demo has added on disk."
BUFFER_LINE: Final = f"A line, {_WORD} and not saved."
_MODEL: Final = "offline-1"
_WAIT_S: Final = 20.0
_QUOTED_LINES: Final = 3
_MOST_QUESTIONS: Final = 24
"""The most questions to fill the window with."""

_LEAST_BYTES: Final = 400
_SMALL_BYTES: Final = 1_500
_MOST_BYTES: Final = 9_000
_LOOK_AT: Final = 5_000
_WORDS: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{5,}")
_PROSE: Final = frozenset({".md", ".rst", ".txt"})
_CITED: Final = re.compile(r"`(?P<path>[^`\n]+):(?P<line>\d+)` (?P<text>[^\n]*)")
_CODE: Final = re.compile(r"(`+) ?(.*?) ?\1")


class FaultedTurnError(Exception):
    """A turn ended with a fault; the message is for the user."""


def run(options: argparse.Namespace) -> int:
    """Run the demonstration and return the exit code, 0 when every check was true."""
    folder = expand_home(options.folder).resolve()
    files = choose_files(folder) if folder.is_dir() else None
    if files is None:
        found = (
            "has fewer than three text files of 400 to 9,000 bytes" if folder.is_dir() else "is not a folder"
        )
        Screen(sys.stderr).problem(f"sidecar demo: {folder} {found}; name another folder")
        return 2
    with tempfile.TemporaryDirectory(prefix="sidecar-demo-", ignore_cleanup_errors=True) as home:
        demo = _Demo(files, Path(home), Screen())
        return run_to_end(demo.run)


class _Demo:
    """One demonstration, with its steps in order."""

    def __init__(self, files: DemoFiles, home: Path, screen: Screen) -> None:
        self._files = files
        self._home = home
        self._screen = screen
        self._checks = Checks(screen)
        self._n_steps = 0
        self._auto_compactions: list[Mapping[str, Any]] = []
        self._buffer = f"{BUFFER_LINE}\n{_read(files.in_buffer)}"

    async def run(self) -> int:
        """Run all steps and return the exit code."""
        started = time.monotonic()
        try:
            with self.check_unchanged():
                sid, known = await self.run_first_daemon()
                await self.run_second_daemon(sid, known)
        except FaultedTurnError as error:
            self._screen.problem(f"sidecar demo: a turn failed: {error}")
            return 1
        return self._checks.close(time.monotonic() - started)

    async def run_first_daemon(self) -> tuple[str, list[Any]]:
        """Run the steps of the first daemon; return the session and its nodes when the daemon is killed."""
        async with self.daemon() as client:
            pid = (await client.status()).pid
            self._screen.line(f"sidecar demo, on the files of {self._files.folder}", "bold")
            self._screen.note(f"The daemon is process {pid}; its state is in {self._home} for now.")
            self._screen.note(f"The model is {_MODEL}, built in: it finds and cites, without network or key.")
            session = await client.start_session(self._files.folder, model=_MODEL)
            await self.show_unsaved(session)
            await self.ask_about_file(session)
            with add_on_disk(self._files.on_disk, DISK_LINE):
                await self.show_stale(session)
                done = await self.show_compaction(session)
                await self.show_undo(session, done)
                await self.show_full_window(session)
            known = await _nodes(session)
            await self.kill(session, pid)
        return session.sid, known

    async def run_second_daemon(self, sid: str, known: list[Any]) -> None:
        async with self.daemon() as client:
            session = await client.load_session(sid)
            now = await _nodes(session)
            self._checks.check(
                f"another daemon has all {len(known)} settled turns, unchanged",
                now[: len(known)] == known,
                f"{len(now)} turns",
            )
            self._checks.check("every tool result follows its call", pairs_are_whole(now))
            await self.ask(session, f"What is in {self._files.name(self._files.other)}?")

    def daemon(self) -> SidecarClient:
        return SidecarClient.spawn(cwd=self._files.folder, env={"INDUSAGI_HOME": str(self._home)})

    def begin_step(self, title: str, note: str) -> None:
        self._n_steps += 1
        self._screen.headline(f"{self._n_steps}  {title}")
        self._screen.note(note)

    async def ask(self, session: Session, question: str, quoted: int = _QUOTED_LINES) -> str:
        """Send a question, show the answer, check its citations, and return it."""
        self._screen.line(f"» {question}", "bold")
        texts: list[str] = []
        async for event in session.stream(question):
            last = event
            match event.kind:
                case "toolStarted":
                    self._screen.note(f"  · {event.data['title']}")
                case "message":
                    texts.extend(part["text"] for part in event.data["content"] if part["type"] == "text")
                case "compaction" if event.data["status"] == "completed":
                    self._auto_compactions.append(event.data)
                case "faulted":
                    raise FaultedTurnError(event.data["message"])
        answer = "\n".join(texts)
        n_cited, n_wrong = count_citations(answer, self._files.folder, {self._files.in_buffer: self._buffer})
        lines = [line for line in answer.split("\n") if line.startswith("- `")]
        for line in lines[:quoted]:
            self._screen.stream(f"  {line}\n")
        if quoted and len(lines) > quoted:
            self._screen.note(f"    and {len(lines) - quoted} lines more")
        self._screen.gauge(last.data["usage"], "  ")
        if quoted:
            found = f"{n_cited} cited, {n_wrong} of them wrong"
            self._checks.check(
                f"cites {n_cited} lines, and all of them exist", n_cited > 0 and not n_wrong, found
            )
        elif n_wrong:
            self._checks.check(f"{question} is answered with existing lines", False, f"{n_wrong} wrong ones")
        return answer

    async def show_unsaved(self, session: Session) -> None:
        file, name = self._files.in_buffer, self._files.name(self._files.in_buffer)
        self.begin_step("Unsaved text comes first", f"{name} is open in an editor, with an unsaved line.")
        await session.client.did_open(file, self._buffer)
        answer = await self.ask(session, f"Where is `{_WORD}` in {name}?")
        self._checks.check("the answer has the unsaved line", BUFFER_LINE in answer)
        self._checks.check("the file on disk does not have it", BUFFER_LINE not in _read(file))

    async def ask_about_file(self, session: Session) -> None:
        name = self._files.name(self._files.on_disk)
        self.begin_step("A file changes on disk", f"{name} is read; then it gets a new line.")
        await self.ask(session, f"What is in {self._files.name(self._files.other)}?", quoted=0)
        await self.ask(session, f"What is in {name}?")

    async def show_stale(self, session: Session) -> None:
        file = self._files.on_disk

        def is_ours(event: ClientEvent) -> bool:
            return bool(event.data["uri"] == file.as_uri())

        found: Mapping[str, Any] = {}
        with suppress(TimeoutError):
            found = (await session.wait_for("fileStale", is_ours, timeout_s=_WAIT_S)).data
        self._checks.check(
            "the daemon reports that the model's text is stale, with the new hash",
            found.get("nowHash") == content_hash(_read(file)) and found["source"] == "disk",
            str(dict(found)),
        )

    async def show_compaction(self, session: Session) -> Compaction:
        folder = self._files.folder
        self.begin_step("A manual compaction, after a preview", "Some more questions, then the preview.")
        for file in (self._files.in_buffer, *self._files.more[-1:]):
            await self.ask(session, f"What is in {self._files.name(file)}?", quoted=0)
        before, plan = await session.usage(), await session.preview()
        for line in plan_lines(plan, folder):
            self._screen.line(f"  · {line}")
        self._checks.check("the preview changed nothing", await session.usage() == before)
        done = await session.compact()
        after = await session.usage()
        show_sizes(self._screen, before, after)
        show_outcome(self._screen, done, folder)
        is_smaller = done.post_tokens is not None and done.post_tokens < done.pre_tokens
        found = f"{done.status}, {done.pre_tokens} to {done.post_tokens} tokens"
        self._checks.check("the conversation is smaller", done.status == "completed" and is_smaller, found)
        await self.check_restored(session)
        return done

    async def check_restored(self, session: Session) -> None:
        """Check the content that the model would get now."""
        files = self._files
        nodes = await _nodes(session)
        text = "\n".join(block.get("text", "") for node in nodes for block in node["blocks"])
        known = {file.uri: file for file in await session.files()}
        for file, line, now in (
            (files.on_disk, DISK_LINE, _read(files.on_disk)),
            (files.in_buffer, BUFFER_LINE, self._buffer),
        ):
            found = known.get(file.as_uri())
            is_fresh = found is not None and found.hash == content_hash(now) and not found.stale
            where = "in the buffer" if file == files.in_buffer else "on the disk"
            claim = f"{files.name(file)} was restored as it is {where} now, with the new line and hash"
            self._checks.check(claim, line in text and is_fresh)
        self._checks.check("every tool result follows its call", pairs_are_whole(nodes))

    async def show_undo(self, session: Session, done: Compaction) -> None:
        self.begin_step("Undo", "The old branch was kept; undo returns to it.")
        undone = await session.undo()
        claim = f"{undone.restored_tokens:,} tokens are restored, and the conversation is as before"
        self._checks.check(claim, undone.head == done.before_head)

    async def show_full_window(self, session: Session) -> None:
        self.begin_step("The window fills, and the daemon compacts", "More questions, until that happens.")
        questions = [f"What is in {self._files.name(file)}?" for file in self._files.more]
        for question in questions[:_MOST_QUESTIONS]:
            await self.ask(session, question, quoted=0)
            if self._auto_compactions:
                break
        else:
            self._screen.note("  The folder is too small to fill the window, so no compaction was needed.")
            return
        done = self._auto_compactions[-1]
        before, after = done["preTokens"], done["postTokens"]
        claim = f"it compacted at the next prompt: {before:,} to {after:,} tokens"
        self._checks.check(claim, after < before and done["trigger"] == "auto", str(done["trigger"]))
        self._checks.check("every tool result follows its call", pairs_are_whole(await _nodes(session)))

    async def kill(self, session: Session, pid: int) -> None:
        self.begin_step("kill -9 loses no settled turn", f"Process {pid} is killed in the middle of a turn.")
        await session.prompt(f"What is in {self._files.name(self._files.in_buffer)}?")
        await session.wait_for("toolStarted", timeout_s=_WAIT_S)
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    @contextmanager
    def check_unchanged(self) -> Iterator[None]:
        """Check at the end that the folder is as before."""
        files = (self._files.on_disk, self._files.in_buffer, self._files.other)
        before = [(file.read_bytes(), file.stat().st_mtime_ns) for file in files]
        yield
        after = [(file.read_bytes(), file.stat().st_mtime_ns) for file in files]
        self._checks.check("the folder is as before", after == before)


async def _nodes(session: Session) -> list[Any]:
    return [to_wire(node) for node in (await session.client.session_read(session.sid)).nodes]


def _read(file: Path) -> str:
    return file.read_bytes().decode()


class DemoFiles(Value, kw_only=True):
    """The files of a folder that the demonstration uses.

    Attributes:
        folder: their common folder.
        on_disk: changed on disk. It and *in_buffer* are small, so that a compaction can restore them and
            still save tokens.
        in_buffer: changed only in an unsaved buffer.
        other: a larger file.
        more: files that fill a window, the large ones first.
    """

    folder: Path
    on_disk: Path
    in_buffer: Path
    other: Path
    more: tuple[Path, ...]

    def name(self, file: Path) -> str:
        """Return *file* as the user would type it, always recognisable as a path."""
        path = file.relative_to(self.folder).as_posix()
        return path if "/" in path else f"./{path}"


def choose_files(folder: Path) -> DemoFiles | None:
    """Return the files to use in *folder*, None when fewer than three have a suitable size."""
    entries = walk(folder, folder, cap=_LOOK_AT)
    suitable = [path for entry in entries if is_suitable(path := Path(entry.path))]
    if len(suitable) < 3:
        return None
    small = _sort_by_size(suitable, _SMALL_BYTES)
    # Prose first for the change on disk: nothing rebuilds itself because of it.
    on_disk = next((path for path in small if path.suffix.lower() in _PROSE), small[0])
    rest = [path for path in small if path != on_disk]
    in_buffer = next((path for path in rest if path.suffix.lower() not in _PROSE), rest[0])
    other = next(path for path in _sort_by_size(rest, _MOST_BYTES) if path != in_buffer)
    more = tuple(path for path in reversed(_sort_by_size(rest, 0)) if path not in (in_buffer, other))
    return DemoFiles(folder=folder, on_disk=on_disk, in_buffer=in_buffer, other=other, more=more)


def _sort_by_size(paths: list[Path], size_bytes: int) -> list[Path]:
    """Return *paths*, the nearest to a size first."""
    return sorted(paths, key=lambda path: (abs(path.stat().st_size - size_bytes), str(path)))


@contextmanager
def add_on_disk(file: Path, line: str) -> Iterator[None]:
    """Add *line* in front of *file* in this block; afterwards its bytes and times are as before."""
    before, times = file.read_bytes(), file.stat()
    try:
        _overwrite(file, line.encode() + b"\n" + before)
        yield
    finally:
        _overwrite(file, before)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _overwrite(file: Path, content: bytes) -> None:
    """Give *file* another content. It is empty at no moment: a watcher may look at any."""
    with file.open("r+b", buffering=0) as opened:
        opened.write(content)
        opened.truncate()


def content_hash(text: str) -> str:
    """Return the daemon's hash of *text*."""
    return "sha256:" + sha256(text.encode()).hexdigest()


def is_suitable(path: Path) -> bool:
    """Whether *path* is a text of the size that the demo needs."""
    try:
        if not path.is_file() or not _LEAST_BYTES <= path.stat().st_size <= _MOST_BYTES:
            return False
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return False
    return "\0" not in text and bool(_WORDS.search(text))


class Checks(Struct):
    """The claims that were checked, each shown with its outcome."""

    screen: Screen
    n_true: int = 0
    false_claims: list[str] = field(default_factory=list)

    def check(self, claim: str, is_true: bool, found: str = "") -> None:
        """Show whether *claim* is true.

        Args:
            claim: one sentence.
            is_true: the outcome.
            found: a description of the finding, shown when the claim is false.
        """
        if is_true:
            self.n_true += 1
            self.screen.line(f"✓ {claim}", "green")
        else:
            self.false_claims.append(claim)
            self.screen.line(f"✗ {claim}; found {found or 'something else'}", "bold red")

    def close(self, seconds: float) -> int:
        """Show the outcome of all and return the exit code."""
        if self.false_claims:
            self.screen.line(f"\nNot true: {'; '.join(self.false_claims)}.", "bold red")
            return 1
        self.screen.line(f"\nAll {self.n_true} checks held, in {seconds:.1f} s.", "bold green")
        return 0


def count_citations(answer: str, folder: Path, buffers: Mapping[Path, str]) -> tuple[int, int]:
    """Return the number of cited places in *answer*, and the number of wrong ones.

    A place is wrong when the cited line does not contain the quoted text.

    Args:
        answer: the text of the model.
        folder: the base of the cited paths.
        buffers: the texts of open files that differ from the disk.
    """
    found = list(_CITED.finditer(answer))
    n_wrong = 0
    for match in found:
        file, number = folder / match["path"], int(match["line"])
        text = buffers.get(file)
        if text is None:
            text = file.read_bytes().decode("utf-8", "replace") if file.is_file() else ""
        lines = text.split("\n")
        code = _CODE.fullmatch(match["text"])
        quoted = code[2] if code else match["text"]
        start = " ".join(quoted.rstrip("…. ").split())  # a long line is cut, with dots
        if not (0 < number <= len(lines) and start in " ".join(lines[number - 1].split())):
            n_wrong += 1
    return len(found), n_wrong


def pairs_are_whole(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether every tool result in *nodes* follows its call."""
    calls: set[str] = set()
    for node in nodes:
        for block in node["blocks"]:
            if block["kind"] == "tool_call":
                calls.add(block["id"])
            elif block["kind"] == "tool_result" and block["callId"] not in calls:
                return False
    return True
