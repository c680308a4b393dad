"""``sidecar/session/*``: start, load, list, read, change, export and configure sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from sidecar._internal.errors import InvalidInput
from sidecar._internal.surrogates import has_halves
from sidecar.capabilities.mcp.contract import HttpServer, McpServer, StdioServer
from sidecar.conductor.errors import OpenElsewhereError
from sidecar.conductor.hub import ForkOf, NewSession, check_brief
from sidecar.conductor.record.work import partial_node
from sidecar.conductor.session import Session
from sidecar.protocol import messages as m
from sidecar.protocol.codec import to_wire
from sidecar.protocol.framing import MAX_BODY_BYTES
from sidecar.protocol.jsonrpc import encode_value
from sidecar.runtime.store.place import ListKey, SessionQuery
from sidecar.service.contract import Answer
from sidecar.service.replay import (
    StoryPart,
    entries_of_view,
    last_turns,
    node_view,
    replay_end,
    replay_timeline,
    timeline,
    tree_node,
)

if TYPE_CHECKING:
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection

_T = TypeVar("_T")
_R = TypeVar("_R")

_MAX_PAGE: Final = 1000
_LARGEST: Final = 2**53 - 1
"""The largest number that every client can write."""

_MAX_DIGITS: Final = 18
_MAX_SERVERS: Final = 64
_BLOCK: Final = 1 << 20
"""The bytes that an export writes at once.

With each write a thread leaves the interpreter and enters it again, mostly before the event loop has noticed.
After many short ones the loop would still wait for its turn.
"""


async def new(connection: Connection, params: m.SessionNewParams) -> Answer:
    """Start a session; the client follows it from its first event."""
    session = await connection.hub.new(
        NewSession(
            cwd=params.cwd,
            roots=params.roots,
            title=params.title,
            model=params.model,
            engine=params.engine,
            policy=params.policy or {},
            knowledge=params.knowledge,
            ephemeral=params.ephemeral,
            parent=params.parent,
            servers=tool_servers(params.mcp_servers),
            brief=params.brief,
        )
    )
    return _introduce(connection, session)


async def fork(connection: Connection, params: m.SessionForkParams) -> Answer:
    """Start a session with the turns of another; the client follows it from its first event."""
    servers = None if params.mcp_servers is None else tool_servers(params.mcp_servers)
    wanted = ForkOf(params.sid, params.at_node, params.title, params.cwd, servers, params.roots, params.brief)
    return _introduce(connection, await connection.hub.fork(wanted))


async def load(connection: Connection, params: m.SessionLoadParams) -> Answer:
    """Load a stored session; the client follows it, after as much of its past as it asked for."""
    replay = params.replay
    if isinstance(replay, Mapping):
        match list(replay.items()):
            case [("fromSeq" | "lastTurns", int(n))] if not isinstance(n, bool) and 0 <= n <= _LARGEST:
                pass
            case _:
                hint = f"n is a number from 0 to {_LARGEST}"
                text = 'replay must be "none", "full", {"fromSeq": n} or {"lastTurns": n}'
                raise InvalidInput(text, hint=hint)
    servers = None if params.mcp_servers is None else tool_servers(params.mcp_servers)
    brief = None if params.brief is None else check_brief(params.brief)
    loaded = await connection.hub.load(params.sid, params.cwd, servers, params.roots)
    session, report = loaded.session, loaded.report
    if brief is not None and brief != session.info.brief:
        session.record.amend(partial(replace, brief=brief))
        await session.record.store()
    is_followed = bool(connection.hub.audience.listeners(session.sid))
    connection.take_control(session)
    integrity = m.Integrity(report.ok, report.repaired, report.missing)
    # Taken together, before anything is awaited: the events after *seq* follow on this past.
    seq, history, compactions, newest_end, partial_ends = (
        session.record.log.seq,
        session.record.history.current,
        session.record.compactions.all,
        session.record.work.end,
        dict(session.record.work.partial_ends),
    )
    result = m.SessionLoadResult(
        snapshot=session.snapshot(),
        config_options=session.turns.options.all(),
        usage=session.window.request.usage(),
        integrity=integrity,
        seq=seq,
    )
    parts: Sequence[StoryPart] = ()
    if replay == "full":
        parts = await asyncio.to_thread(timeline, session.record.history.graph, compactions, history.head)
    elif isinstance(replay, Mapping) and "lastTurns" in replay:
        parts = last_turns(history, replay["lastTurns"])
    ends = {
        node: replay_end(session.sid, end, history.head, result.usage)
        for node, end in partial_ends.items()
        if newest_end is None or end.turn_id != newest_end.turn_id
    }
    # The newest turn may have ended with a node that the parts leave out.
    last = (
        [replay_end(session.sid, newest_end, history.head, result.usage)]
        if parts and newest_end is not None and partial_node(newest_end) is not None
        else []
    )

    def follow() -> None:
        if isinstance(replay, Mapping) and "fromSeq" in replay:
            known = replay["fromSeq"]
            if known > seq:
                gap = m.GapNotification(params.sid, seq + 1, known, "notKept")
                connection.sink.notify("sidecar/gap", to_wire(gap))
            connection.follow(session, min(known, seq))
        else:
            if replay != "none":
                described = replay_timeline(session.sid, parts, session.workbench.tools.describe, ends)
                connection.sink.replay(session.sid, chain(described, last))
            connection.follow(session, seq)
        if is_followed:
            connection.introduce(session)
        else:
            session.introduce()

    return Answer(result, follow)


async def list_sessions(connection: Connection, params: m.SessionListParams) -> m.SessionListResult:
    """List the sessions, the newest first."""
    limit = page_limit(params.limit)
    query = SessionQuery(
        limit=limit + 1,
        after=None if params.cursor is None else parse_list_cursor(params.cursor),
        cwd=params.cwd,
        words=tuple((params.query or "").casefold().split()),
        archived=params.archived,
        children=params.children or params.parent is not None,
        parent=params.parent,
    )
    found = await connection.hub.list(query, params.content or "")
    page = tuple(found[:limit])
    has_more = len(found) > limit
    return m.SessionListResult(page, f"{page[-1].updated_at}:{page[-1].sid}" if has_more else None)


async def read(connection: Connection, params: m.SessionReadParams) -> Answer:
    """Read a session's nodes, without loading or locking it."""
    hub, sid, view = connection.hub, params.sid, params.view
    page = page_range(params.cursor, params.limit)
    with_next = range(page.start, page.stop + 1)
    if isinstance(view, Mapping):
        found = (await entries_of_view(hub, sid, view))[with_next.start : with_next.stop]
    else:
        found = await hub.page(sid, with_next, of_path=view != "full")
    shown, next_cursor = cut_page(found, page)
    return await answer_long(lambda: m.SessionReadResult(tuple(map(node_view, shown)), next_cursor))


async def tree(connection: Connection, params: m.SidParams) -> Answer:
    """Return every branch of a session."""
    graph = await connection.hub.graph(params.sid)
    entries, head = tuple(graph.entries.values()), graph.leaf

    def describe() -> m.SessionTreeResult:
        parents = {entry.parent for entry in entries}
        leaves = tuple(entry.node_id for entry in entries if entry.node_id not in parents)
        return m.SessionTreeResult(tuple(map(tree_node, entries)), head, leaves)

    return await answer_long(describe)


def rewind(connection: Connection, params: m.SessionRewindParams) -> Awaitable[m.SessionRewindResult]:
    """Move the end of the conversation."""
    session = connection.hub.session(params.sid)
    rewinding = session.rewind(
        params.to_node, expect_head=params.expect_head, restores_files=params.files == "restore"
    )
    return answer_after(
        rewinding,
        lambda moved: m.SessionRewindResult(
            moved.head, moved.removed, session.record.log.seq, moved.edited_files, moved.files
        ),
    )


async def rename(connection: Connection, params: m.SessionRenameParams) -> m.SeqResult:
    """Give a session a title."""
    return m.SeqResult(await connection.hub.amend(params.sid, lambda info: replace(info, title=params.title)))


async def archive(connection: Connection, params: m.SidParams) -> m.SeqResult:
    """Leave a session out of lists."""
    return m.SeqResult(await connection.hub.amend(params.sid, lambda info: replace(info, archived=True)))


async def unarchive(connection: Connection, params: m.SidParams) -> m.SeqResult:
    """Put a session into lists again."""
    return m.SeqResult(await connection.hub.amend(params.sid, lambda info: replace(info, archived=False)))


async def delete(connection: Connection, params: m.SessionDeleteParams) -> m.Empty:
    """Remove a session for good."""
    others = [each.name for each in connection.hub.audience.listeners(params.sid) if each is not connection]
    if others and not params.force:
        raise OpenElsewhereError(params.sid, others)
    await connection.hub.delete(params.sid)
    connection.service.unfollow(params.sid)
    return m.Empty()


async def close(connection: Connection, params: m.SidParams) -> m.SeqResult:
    """Close a session; it stays stored."""
    seq = await connection.hub.close(params.sid)
    connection.service.unfollow(params.sid)
    return m.SeqResult(seq)


async def export(connection: Connection, params: m.SessionExportParams) -> m.SessionExportResult | Answer:
    """Return the conversation as text, or write it to a file that does not exist yet."""
    # Not above: it has the formats of all agents.
    from sidecar.service.export import export_foreign, export_text

    hub, form = connection.hub, params.format
    info = await hub.info(params.sid)
    entries = await entries_of_view(hub, params.sid, params.view)
    if form == "claude-code" or form == "codex":
        parts: Sequence[StoryPart] = entries
        if params.view == "full":
            graph, compactions = await hub.graph(params.sid), await hub.compactions(params.sid)
            parts = await asyncio.to_thread(timeline, graph, compactions, graph.leaf)
        pieces = export_foreign(info, parts, form)
    else:
        pieces = export_text(info, map(node_view, entries), form)
    if params.path is None:
        return await answer_long(lambda: m.SessionExportResult(text=join_pieces(pieces)))
    path = Path(params.path)
    if not path.is_absolute() or "\0" in params.path or has_halves(params.path):
        raise InvalidInput(f"path {params.path!r} is not an absolute path")

    def write() -> None:
        with ExitStack() as undo:
            with path.open("x", _BLOCK, encoding="utf-8", errors="replace", newline="\n") as file:
                undo.callback(path.unlink, missing_ok=True)
                file.writelines(pieces)
            undo.pop_all()  # it is whole

    try:
        await asyncio.to_thread(write)
    except OSError as error:
        hint = "name a file that does not exist, in a folder that does"
        raise InvalidInput(f"cannot write {params.path!r}: {error.strerror}", hint=hint) from None
    return m.SessionExportResult(path=str(path))


async def set_config_option(
    connection: Connection, params: m.SetConfigOptionParams
) -> m.SetConfigOptionResult:
    """Set one option of a session."""
    session = connection.hub.session(params.sid)
    await session.choose(params.config_id, params.value)
    return m.SetConfigOptionResult(session.turns.options.all(), session.record.log.seq)


def tool_servers(configs: Iterable[m.McpServerConfig]) -> tuple[McpServer, ...]:
    """Return the tool servers that a client configured. Raises InvalidInput."""
    servers = tuple(map(tool_server, configs))
    if len(servers) > _MAX_SERVERS:
        raise InvalidInput(f"{len(servers)} tool servers, the limit is {_MAX_SERVERS}")
    return servers


def tool_server(config: m.McpServerConfig) -> McpServer:
    """Return the tool server of a configuration. Raises InvalidInput when it lacks the command or the URL.

    >>> tool_server(m.McpServerConfig("git", command="git-mcp"))
    StdioServer(name='git', command='git-mcp')
    """
    if config.type == "stdio":
        if config.command:
            return StdioServer(config.name, config.command, config.args, _pairs(config.env))
        field, hint = "command", "an absolute path, or a program in the path"
    else:
        if config.url is not None and config.url.startswith(("http://", "https://")):
            headers = _pairs(config.headers)
            return HttpServer(config.name, config.url, headers, is_sse=config.type == "sse")
        field, hint = "url", "one that begins with http"
    raise InvalidInput(f"the server {config.name!r} of type {config.type!r} needs {field!r}", hint=hint)


def _pairs(values: Iterable[m.NamedValue]) -> tuple[tuple[str, str], ...]:
    return tuple((each.name, each.value) for each in values)


def _introduce(connection: Connection, session: Session) -> Answer:
    """Answer with a new session, and follow it once the answer is sent."""
    connection.take_control(session)
    seq = session.record.log.seq
    result = m.SessionNewResult(
        sid=session.sid,
        snapshot=session.snapshot(),
        config_options=session.turns.options.all(),
        usage=session.window.request.usage(),
        seq=seq,
    )

    def follow() -> None:
        connection.follow(session, seq)
        session.introduce()

    return Answer(result, follow)


async def answer_after(doing: Awaitable[_T], make: Callable[[_T], _R]) -> _R:
    """Return the answer that *make* makes of the result of *doing*, which has taken effect already."""
    return make(await doing)


async def answer_long(make: Callable[[], object]) -> Answer:
    """Return the answer of *make*, made and encoded in a thread because it may be long."""
    return Answer(await asyncio.to_thread(lambda: encode_value(to_wire(make()))))


def join_pieces(pieces: Iterable[str]) -> str:
    """Return the text of *pieces*. Raises InvalidInput for one that is too long for a message."""
    joined, size = list[str](), 0
    for piece in pieces:
        joined.append(piece)
        size += len(piece)
        if size > MAX_BODY_BYTES:
            hint = "name a path, and it is written to a file"
            raise InvalidInput(f"the text has more than {MAX_BODY_BYTES:,} characters", hint=hint)
    return "".join(joined)


def take_page(items: Iterable[_T], cursor: str | None, limit: int) -> tuple[tuple[_T, ...], str | None]:
    """Return a page of *items* and the cursor of the next page, None after the last one.

    Of an iterator no more is taken than the page needs.
    """
    page = page_range(cursor, limit)
    start, end = page.start, page.stop + 1
    return cut_page(items[start:end] if isinstance(items, Sequence) else [*islice(items, start, end)], page)


def page_range(cursor: str | None, limit: int) -> range:
    """Return the numbers of a page's items, from 0. Raises InvalidInput."""
    if cursor is not None and not cursor.isdecimal():
        raise unknown_cursor(cursor)
    start = int(cursor or 0)
    return range(start, start + page_limit(limit))


def cut_page(found: Sequence[_T], page: range) -> tuple[tuple[_T, ...], str | None]:
    """Return the items of *page* and the cursor of the next; *found* has one more where there is one."""
    n_items = page.stop - page.start
    return tuple(found[:n_items]), str(page.stop) if len(found) > n_items else None


def parse_list_cursor(cursor: str) -> ListKey:
    """Return the position of the last session of a page, from its cursor. Raises InvalidInput."""
    updated_at, _, sid = cursor.partition(":")
    if not sid or not updated_at.isdecimal() or len(updated_at) > _MAX_DIGITS:
        raise unknown_cursor(cursor)
    return int(updated_at), sid


def page_limit(limit: int) -> int:
    """Return the most items of a page for which a client asks *limit*. Raises InvalidInput."""
    if limit < 1:
        raise InvalidInput(f"limit is {limit}", hint="ask for one or more")
    return min(limit, _MAX_PAGE)


def unknown_cursor(cursor: str) -> InvalidInput:
    """Return the error for a *cursor* that no page had."""
    return InvalidInput(f"unknown cursor {cursor!r:.100}", hint="pass the nextCursor of the page before")


HANDLERS: Final[dict[str, Handler]] = {
    "sidecar/session/new": new,
    "sidecar/session/load": load,
    "sidecar/session/list": list_sessions,
    "sidecar/session/read": read,
    "sidecar/session/tree": tree,
    "sidecar/session/fork": fork,
    "sidecar/session/rewind": rewind,
    "sidecar/session/rename": rename,
    "sidecar/session/archive": archive,
    "sidecar/session/unarchive": unarchive,
    "sidecar/session/delete": delete,
    "sidecar/session/close": close,
    "sidecar/session/export": export,
    "sidecar/session/setConfigOption": set_config_option,
}
