"""``sidecar sessions push`` and ``pull``: a session goes to another machine, or comes from it, through SSH.

One side gives and the other takes. ``push HOST`` gives here and has ``ssh HOST sidecar sessions pull -`` take
there; ``pull HOST`` takes here and has ``push -`` give there. A dash is a stream on stdin and stdout, so any
other program that joins two of them does as well. The records of the session go along, the records of
its sub-agents, and the contents of files before their changes; settings, keys and long outputs stay.

The age of a session is that of its conversation: its nodes and heads. A mere look at it may write other
records. A side that has a beginning of the other's is the older one and gets the rest. Where both have gone
on, nothing is written.

    giver                                                  taker
    offers: sid, its conversation, contents           ->
                                                      <-   its conversation, the contents that it has not
    verdict; of each to send: number of bytes, SHA-256 ->
                                                      <-   the bytes that it has from an earlier try
    the records from there on, the contents           ->
                                                      <-   done

Each is a line of JSON, and bytes where it says so. Records wait in ``incoming`` of the state directory until
all are there and their hashes are right. Then the records of each session are written as one batch, which is
a line of a file or a transaction of a database, and read back; the sub-agents first, which no list shows
without their session. So a broken stream, or the death of a side, leaves the session there as it was, or
takes it in whole; the same command goes on where it ended. A sub-agent that has gone on over there is left
as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias

from sidecar._internal.env import indusagi_home
from sidecar._internal.errors import SidecarError
from sidecar._internal.state_folder import make_private_folder
from sidecar._internal.values import Value
from sidecar.boot import place_of_sessions
from sidecar.commands.copy_sessions import Place, fetch_contents
from sidecar.commands.terminal import Screen
from sidecar.llmgateway.config import read_settings
from sidecar.llmgateway.contract import AssistantTurn
from sidecar.runtime.store import SessionLockedError, SessionStore, heal
from sidecar.runtime.store.codec import encode_batch, encode_record
from sidecar.runtime.store.lines import is_sound, parse_line
from sidecar.workspace.kept_contents import KeptContents

Verdict: TypeAlias = Literal["send", "there", "newer", "differs"]
"""The taker lacks something; it has the same; it has more; both have gone on."""

INCOMING: Final = "incoming"
_GREETING: Final = b"sidecar session stream 2\n"
_MOST_NOISE_LINES: Final = 1_000
"""Lines that the login there may write before the greeting."""

_CONVERSATION: Final = (b'{"type":"node"', b'{"type":"head"')
_META: Final = b'{"type":"meta"'
_NAME: Final = re.compile(r"[0-9a-f]{64}\Z")
_BLOCK: Final = 1 << 20
_OLD_S: Final = 7 * 24 * 3600
_ID_CHARS: Final = 8


class MoveError(SidecarError):
    """A session could not be moved; both sides are as they were."""

    kind = "storeUnavailable"
    retryable = True


class Records:
    """The records of a session as sealed lines, and its conversation among them.

    Attributes:
        conversation: the lines by which one session is older than another.
    """

    def __init__(self, raw: bytes) -> None:
        self.lines = raw.splitlines(keepends=True)
        self.conversation = [line for line in self.lines if line.startswith(_CONVERSATION)]

    def digest(self, n_lines: int | None = None) -> str:
        """Return the SHA-256 of the first *n_lines* of the conversation, by default of all."""
        return hashlib.sha256(b"".join(self.conversation[:n_lines])).hexdigest()

    @property
    def meta(self) -> dict[str, Any]:
        """The newest ``meta`` record, empty for none."""
        found = next((line for line in reversed(self.lines) if line.startswith(_META)), b"")
        return parse_line(found) or {}

    def about(self) -> list[Any]:
        """Return the time and the hash of all that stands beside the conversation: title, rules, pins..."""
        skipped = ("cwd", "roots", "seq", "seq_is_last", "sum")
        told = {name: value for name, value in self.meta.items() if name not in skipped}
        return [self.meta.get("updated_at") or 0, hashlib.sha256(encode_record(told)).hexdigest()]

    def behind(self, n_lines: int) -> list[bytes]:
        """Return the lines behind the first *n_lines* of the conversation."""
        if n_lines == 0:
            return self.lines
        seen = 0
        for index, line in enumerate(self.lines):
            seen += line.startswith(_CONVERSATION)
            if seen == n_lines:
                return self.lines[index + 1 :]
        return []

    def contents(self) -> list[str]:
        """Return the names of the contents that checkpoints need."""
        lines = (parse_line(line) or {} for line in self.lines if line.startswith(b'{"type":"checkpoint"'))
        names = dict.fromkeys(str(record.get("content")) for record in lines)
        return [name for name in names if _NAME.match(name)]


class GivenSession(Value, kw_only=True):
    """A session that is given, as it was read."""

    sid: str
    title: str
    records: Records


class Stream:
    """Messages to and from the other side, which is called *name* in errors."""

    def __init__(self, source: IO[bytes], target: IO[bytes], name: str) -> None:
        self._source = source
        self._target = target
        self.name = name
        self._has_met = False
        self._n_sent = 0

    def send(self, message: Mapping[str, Any], *pieces: bytes) -> None:
        """Send *message*, then *pieces*. Raises MoveError."""
        try:
            if not self._n_sent:
                self._target.write(_GREETING)
            self._n_sent += 1
            self._target.write(json.dumps(message).encode() + b"\n")
            for piece in pieces:
                self._target.write(piece)
            self._target.flush()
        except (OSError, ValueError):
            self.receive()  # it may have said why it left
            raise self._early_end() from None

    def receive(self) -> dict[str, Any]:
        """Return the next message. Raises MoveError, also with the error that it tells."""
        line = self._source.readline()
        for _ in range(_MOST_NOISE_LINES):
            if self._has_met or not line:
                break
            self._has_met = line == _GREETING
            if not self._has_met and line.startswith(_GREETING[:-2]):
                raise self._early_end()  # of another version, which waits for us
            line = self._source.readline()
        message = parse_line(line) if line.endswith(b"\n") and self._has_met else None
        if message is None:
            raise self._early_end()
        if "error" in message:
            raise MoveError(f"{self.name}: {message['error']}", hint=message.get("hint"))
        return message

    def read(self, n_bytes: int) -> Iterator[bytes]:
        """Yield *n_bytes* in pieces. Raises MoveError when fewer come."""
        while n_bytes:
            piece = self._source.read(min(n_bytes, _BLOCK))
            if not piece:
                raise self._early_end()
            n_bytes -= len(piece)
            yield piece

    def _early_end(self) -> MoveError:
        if not self._has_met:
            hint = (
                "see whether the command runs there; --sidecar names it where it is not on the PATH of SSH, "
                "as in --sidecar '~/.local/bin/sidecar'"
            )
            return MoveError(f"no sidecar of this version answers from {self.name}", hint=hint)
        hint = "nothing is half there; the same command goes on where it ended"
        return MoveError(f"the connection to {self.name} ended before all was there", hint=hint)


def run(options: argparse.Namespace) -> int:
    """Give or take one session and return 0 when both sides have it."""
    screen, home, gives = Screen(sys.stderr), indusagi_home(), options.query == "push"

    def move(stream: Stream) -> tuple[str, str, Verdict]:
        return give(home, options.session, stream) if gives else take(home, stream)

    if options.host == "-":
        with suppress(SidecarError):  # the other side has it
            move(Stream(sys.stdin.buffer, sys.stdout.buffer, "the other side"))
            return 0
        return 1
    other = ["push", "-", *([options.session] if options.session else [])] if not gives else ["pull", "-"]
    there = f"{options.sidecar} sessions {shlex.join(other)}"
    try:
        with open_stream(options.host, there) as stream:
            screen.note(describe(*move(stream), options.host if gives else None))
        return 0
    except SidecarError as error:
        screen.problem(f"sidecar sessions {options.query}: {error.message}", error.hint)
        return 1


def describe(sid: str, title: str, verdict: Verdict, host: str | None) -> str:
    """Return the outcome in words; *host* has got it, None for this machine."""
    where, named = host or "here", f"{sid[:_ID_CHARS]}, {title or 'untitled'}"
    if verdict == "there":
        return f"{where} has it already: {named}" if host else f"it is here already: {named}"
    go_on = f"sidecar chat --resume {sid[:_ID_CHARS]}"
    return f"{where}: {named}; go on with: " + (f"ssh -t {host} {go_on}" if host else go_on)


@contextmanager
def open_stream(host: str, command: str) -> Iterator[Stream]:
    """Start *command* on *host* by the user's own SSH; it ends with the block. Raises MoveError."""
    if host.startswith("-"):
        raise MoveError(f"{host} is not a host", hint='name one as "ssh" takes it, such as ann@box')
    try:
        process = subprocess.Popen(
            ["ssh", "-T", host, command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    except OSError as error:
        raise MoveError(f"ssh cannot be started: {error.strerror}", hint="install OpenSSH") from error
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Stream(process.stdout, process.stdin, host)
    except BaseException:
        process.terminate()
        raise
    finally:
        with suppress(OSError):
            process.stdin.close()
        process.wait()
        process.stdout.close()


@contextmanager
def report_to(stream: Stream) -> Iterator[None]:
    """Tell the other side of an error in the block."""
    try:
        yield
    except (SidecarError, OSError) as error:
        found = error if isinstance(error, SidecarError) else MoveError(f"the disk: {error.strerror}")
        with suppress(SidecarError):
            stream.send({"error": found.message, "hint": found.hint})
        raise found from error


def give(home: Path, wanted: str | None, stream: Stream) -> tuple[str, str, Verdict]:
    """Give a session with its sub-agents, and return its id, its title and the verdict.

    Args:
        home: the state directory.
        wanted: the start of its id; None for the one that was used last.
        stream: the other side.

    Raises:
        SidecarError: it is not there, or refused; both sides are as they were.
    """
    with report_to(stream):
        stream.receive()  # the taker's first word: it is there
        family, contents = asyncio.run(read_given(home, wanted)), KeptContents(home)
        stream.send({"sessions": [describe_offer(each, contents) for each in family]})
        found = stream.receive()["sessions"]
        verdicts = [compare(each.records, its) for each, its in zip(family, found, strict=True)]
        judged = verdicts.index("differs") if "differs" in verdicts else -1
        verdict = verdicts[judged]
        if verdict == "there" and "send" in verdicts:
            verdict = "send"
        session = family[-1]
        if verdict != "send":
            stream.send({"verdict": verdict, "sid": family[judged].sid})
            check_verdict(verdict, family[judged].sid, stream.name, gives=True)
            return session.sid, session.title, verdict
        sent = [
            (each, its, b"".join(each.records.behind(its["lines"])))
            for each, its, found_to in zip(family, found, verdicts, strict=True)
            if found_to == "send"
        ]
        tails = [[each.sid, hashlib.sha256(tail).hexdigest()] for each, _, tail in sent]
        stream.send({"verdict": "send", "tails": tails})
        for (_, _, tail), offset in zip(sent, stream.receive()["offsets"], strict=True):
            stream.send({"records": len(tail) - offset}, tail[offset:])
        for each, its, _ in sent:
            for name in its["missing"]:
                content = contents.find(each.sid, name) or b""
                stream.send({"content": name, "sid": each.sid, "bytes": len(content)}, content)
        stream.send({"content": None})
        if stream.receive().get("done") != [each.records.digest() for each, _, _ in sent]:
            raise MoveError(f"the session on {stream.name} is not what was sent", hint="repeat the command")
        return session.sid, session.title, verdict


def describe_offer(session: GivenSession, contents: KeptContents) -> dict[str, Any]:
    """Return the offer of *session*."""
    records = session.records
    names = [name for name in records.contents() if contents.find(session.sid, name) is not None]
    offer = {"sid": session.sid, "title": session.title, "lines": len(records.conversation)}
    return offer | {"contents": names, "digest": records.digest(), "about": records.about()}


def compare(records: Records, found: Mapping[str, Any]) -> Verdict:
    """Return whether the taker, which has *found*, lacks something of *records*."""
    n_lines, n_found = len(records.conversation), found["lines"]
    if n_found > n_lines:
        return "newer" if found["digestAtOffer"] == records.digest() else "differs"
    if found["digest"] != records.digest(n_found):
        return "differs"
    ours, theirs = records.about(), found["about"]
    if n_found < n_lines or (ours[1] != theirs[1] and ours[0] >= theirs[0]):
        return "send"
    return "there" if ours[1] == theirs[1] else "newer"


def check_verdict(verdict: str, sid: str, name: str, *, gives: bool) -> None:
    """Raise MoveError where both sides must stay as they are, with the next step of the user."""
    short = sid[:_ID_CHARS]
    if verdict == "newer":
        other = f"sidecar sessions {'pull' if gives else 'push'} {name} {short}"
        raise MoveError(
            f"the session {'on ' + name if gives else 'here'} is newer", hint=f"bring it over with: {other}"
        )
    if verdict == "differs":
        raise MoveError(
            f"session {short} has gone on here and on {name}, and the two are not merged",
            hint="choose one: /fork in the other one keeps it under an id of its own; then delete that other "
            f'one with "sidecar sessions --delete {short}" on its machine, and repeat',
        )


async def read_given(home: Path, wanted: str | None) -> list[GivenSession]:
    """Return the session *wanted*, behind its sub-agents. Raises SidecarError."""
    place = place_of_sessions(home, read_settings(home).store)
    try:
        stored = list(await place.summaries())
        named = {each.session_id: each.meta or {} for each in stored}
        found = [
            each
            for each in stored
            if (each.session_id.startswith(wanted) if wanted else named[each.session_id].get("kind") is None)
        ]
        if not found or (wanted and len(found) > 1):
            ids = ", ".join(each.session_id[:12] for each in found[:4])
            raise MoveError(
                f"{len(found)} sessions begin with {wanted!r}: {ids}"
                if found
                else f"no stored session begins with {wanted!r}"
                if wanted
                else "there are no sessions",
                hint='type more of the id; "sidecar sessions" lists them',
            )
        sid = found[0].session_id
        children = [
            each for each, meta in named.items() if meta.get("kind") is not None and meta.get("parent") == sid
        ]
        family: list[GivenSession] = []
        for each in (*children, sid):
            title, records = str(named[each].get("title") or ""), await read_whole(home, place, each)
            family.append(GivenSession(sid=each, title=title, records=records))
        return family
    finally:
        await place.aclose()


async def read_whole(home: Path, place: Place, sid: str) -> Records:
    """Return the records of *sid*; one that is open is read if no turn runs in it. Raises SidecarError."""
    held = None
    try:
        held = await place.hold(sid)
    except SessionLockedError as error:
        graph = (await place.open(sid)).graph
        turns = [each.turn for each in graph.entry_path(graph.leaf)]
        if not (turns and isinstance(turns[-1], AssistantTurn) and heal(tuple(turns), 0) == tuple(turns)):
            raise MoveError(error.message, hint="a turn runs in it; wait for its end and repeat") from error
    try:
        records = Records(await place.read_raw(sid))
        if not isinstance(place, SessionStore):
            named = [{"type": "checkpoint", "content": name} for name in records.contents()]
            await asyncio.to_thread(fetch_contents, place, KeptContents(home), sid, named)
        return records
    finally:
        if held is not None:
            held.release()


def take(home: Path, stream: Stream) -> tuple[str, str, Verdict]:
    """Take the session that the other side gives; as :func:`give`."""
    with report_to(stream), ExitStack() as stack:
        stream.send({"taker": True})
        offers, contents = stream.receive()["sessions"], KeptContents(home)
        sid, title = str(offers[-1]["sid"]), str(offers[-1]["title"])
        here = asyncio.run(read_here(home, [str(offer["sid"]) for offer in offers]))
        found = [describe_here(here[str(offer["sid"])], offer, contents) for offer in offers]
        stream.send({"sessions": found})
        sent = stream.receive()
        if sent["verdict"] != "send":
            check_verdict(sent["verdict"], str(sent["sid"]), stream.name, gives=False)
            return sid, title, sent["verdict"]
        incoming = {
            owner: stack.enter_context(Incoming(home, owner, str(sha256)))
            for owner, sha256 in sent["tails"]
            if owner in here
        }
        stream.send({"offsets": [each.n_bytes for each in incoming.values()]})
        for each in incoming.values():
            for piece in stream.read(int(stream.receive()["records"])):
                each.add(piece)
        while (named := stream.receive())["content"] is not None:
            content = b"".join(stream.read(int(named["bytes"])))
            is_known = named["sid"] in incoming
            if content and (not is_known or contents.keep(named["sid"], content) != named["content"]):
                raise MoveError("a kept content is not what its name says", hint="repeat the command")
        tails = {owner: each.whole() for owner, each in incoming.items()}
        done: list[str] = []
        for owner, tail in tails.items():
            done.append(asyncio.run(take_in(home, owner, here[owner], tail)).digest())
            incoming[owner].remove()
        stream.send({"done": done})
        return sid, title, "send"


def describe_here(here: Records, offer: Mapping[str, Any], contents: KeptContents) -> dict[str, Any]:
    """Return the part of an *offer* that is *here* already, and the contents that are not."""
    sid, names = str(offer["sid"]), [str(name) for name in offer["contents"]]
    return {
        "lines": len(here.conversation),
        "digest": here.digest(),
        "digestAtOffer": here.digest(offer["lines"]),
        "about": here.about(),
        "missing": [name for name in names if _NAME.match(name) and contents.find(sid, name) is None],
    }


class Incoming:
    """Records of *sid* with the hash *sha256*, as far as they have come, in a file of their own."""

    def __init__(self, home: Path, sid: str, sha256: str) -> None:
        folder = home / INCOMING
        make_private_folder(folder)
        for old in folder.iterdir():
            with suppress(OSError):
                if old.stat().st_mtime < time.time() - _OLD_S:
                    old.unlink()
        self._sha256 = sha256
        digest = hashlib.sha256(f"{sid}\0{sha256}".encode("utf-8", "surrogatepass")).hexdigest()
        self._path = folder / f"{digest}.part"
        self._file = self._path.open("ab")

    def __enter__(self) -> Incoming:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._file.close()

    @property
    def n_bytes(self) -> int:
        """The bytes that are there."""
        return self._file.tell()

    def add(self, piece: bytes) -> None:
        """Append *piece*."""
        self._file.write(piece)

    def whole(self) -> bytes:
        """Return all of them. Raises MoveError when their hash is wrong, and forgets them."""
        self._file.close()
        found = self._path.read_bytes()
        if hashlib.sha256(found).hexdigest() != self._sha256:
            self.remove()
            raise MoveError("the records are not what was sent", hint="repeat the command")
        return found

    def remove(self) -> None:
        """Forget them."""
        self._path.unlink(missing_ok=True)


async def read_here(home: Path, sids: Sequence[str]) -> dict[str, Records]:
    """Return the records of *sids* in this place, none for one that is not stored."""
    place = place_of_sessions(home, read_settings(home).store)
    try:
        return {sid: Records(await place.read_raw(sid)) for sid in sids}
    finally:
        await place.aclose()


async def take_in(home: Path, sid: str, here: Records, tail: bytes) -> Records:
    """Append *tail* to *here*, the records of *sid*, as one batch, and return all as read back.

    Raises:
        MoveError: it is open here, has changed meanwhile, or a record is not whole.
    """
    settings = read_settings(home)
    place: Place = place_of_sessions(home, settings.store)
    if settings.store_checkpoints and not isinstance(place, SessionStore):
        place.find_content = KeptContents(home).find
    try:
        held = await place.take_over(sid)
    except SessionLockedError as error:
        await place.aclose()
        hint = "close it in that program, or end the program, and repeat the command"
        raise MoveError(error.message, hint=hint) from error
    try:
        if Records(await place.read_raw(sid)).lines != here.lines:
            raise MoveError(f"session {sid[:_ID_CHARS]} has changed meanwhile", hint="repeat the command")
        lines = tail.splitlines(keepends=True)
        if not all(is_sound(line.removesuffix(b"\n")) for line in lines):
            raise MoveError("a record is damaged", hint="sidecar doctor looks at the machine that gave it")
        known = {line for line in here.lines if not line.startswith((*_CONVERSATION, _META))}
        records = [parse_line(line) or {} for line in lines if line not in known]
        newest, mine = Records(tail).meta, here.meta
        if newest and mine.get("seq", 0) > newest.get("seq", 0):  # its numbers must not be used again here
            records.append(newest | {name: mine.get(name) for name in ("seq", "seq_is_last")})
        encoded = [
            encode_record({name: value for name, value in each.items() if name != "sum"}) for each in records
        ]
        if encoded:
            await place.write_raw(sid, encode_batch(encoded))
        after = Records(await place.read_raw(sid))
        if len(after.lines) != len(here.lines) + len(encoded):
            raise MoveError("the session is not what was written", hint="repeat the command")
        return after
    finally:
        place.close(sid)
        held.release()
        await place.aclose()
