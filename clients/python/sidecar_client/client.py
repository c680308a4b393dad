"""The client of a daemon: start or attach, send requests, follow events, leave.

It adds nothing to the daemon's own behaviour, and ends only a process that it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, TypedDict, TypeVar, Unpack, get_args

from sidecar.protocol import messages as m
from sidecar.protocol.codec import result_from_wire, to_wire
from sidecar.protocol.errors import InvalidInput
from sidecar.protocol.handshake import PROTOCOL
from sidecar_client.calls import AsyncCalls
from sidecar_client.errors import ConnectionLost, SidecarClientError, UnexpectedAnswerError
from sidecar_client.events import EventStream, LogReader, Notification
from sidecar_client.inbox import (
    ElicitHandler,
    Inbox,
    PermissionHandler,
    RequestHandler,
    answer_forms,
    answer_permissions,
    reject,
)
from sidecar_client.links import Link, ProcessLink, SocketLink
from sidecar_client.rpc import RpcConnection
from sidecar_client.session import Session

DAEMON: Final = (sys.executable, "-P", "-m", "sidecar", "serve", "--stdio")
"""The daemon of the same installation. ``-P`` keeps the current folder out of its imports."""

_START_S: Final = 30.0
_GRACE_S: Final = 3.0
_ENDS_SESSION: Final = frozenset({"sidecar/session/close", "sidecar/session/delete"})
"""Methods after which the event streams of a session end."""

_HURRY_S: Final = 0.1
"""The grace period of a close that is cancelled itself."""

FileChange: TypeAlias = Literal["created", "changed", "deleted"]
_CHANGE_NUMBERS: Final[dict[FileChange, int]] = {"created": 1, "changed": 2, "deleted": 3}

R = TypeVar("R")
_Open: TypeAlias = Callable[[RpcConnection], Awaitable[Link]]


class Setup(TypedDict, total=False):
    """The options of a client: its part of the handshake, and its handlers.

    Attributes:
        options: ``initializationOptions.sidecar``: ``store``, ``policy``, ``models``, ``trust``, ...
        capabilities: LSP client capabilities, merged over the ones that this client declares by itself.
        permission: answers the daemon's permission requests; without it all are rejected.
        elicit: answers forms of questions; with it this client declares that it shows them.
        handlers: answer other requests of the daemon, by method; with one for ``sidecar/edit/apply`` this
            client declares that it applies edits of the buffers that it has opened, and with one for
            ``sidecar/editor/query`` that it answers questions of every kind; ``{}`` is no answer.
    """

    options: Mapping[str, Any]
    capabilities: Mapping[str, Any]
    permission: PermissionHandler
    elicit: ElicitHandler
    handlers: Mapping[str, RequestHandler]


class SidecarClient(AsyncCalls):
    """One client of one daemon; made by :meth:`spawn` or :meth:`connect`, used in ``async with``.

    Attributes:
        server: the daemon's description of itself: ``capabilities.experimental.sidecar`` of its answer.
    """

    server: Mapping[str, Any]

    def __init__(self, open_link: _Open, root: Path | None, setup: Setup) -> None:
        handlers = {"sidecar/permission/request": answer_permissions(setup.get("permission", reject))}
        if "elicit" in setup:
            handlers["sidecar/elicit"] = answer_forms(setup["elicit"])
        self._inbox = Inbox({**handlers, **setup.get("handlers", {})})
        self._rpc = RpcConnection(self._inbox)
        self._open = open_link
        self._root = root
        self._setup = setup
        self.server = {}
        self._versions: dict[str, int] = {}

    @classmethod
    def spawn(
        cls,
        command: Sequence[str] = DAEMON,
        *,
        cwd: str | Path = ".",
        env: Mapping[str, str] | None = None,
        **setup: Unpack[Setup],
    ) -> Self:
        """Return a client that starts a daemon in *cwd*, and ends it when it leaves.

        Args:
            command: the program and its arguments.
            cwd: the folder that the process starts in, which is also the workspace.
            env: environment variables to add.
            **setup: see :class:`Setup`.
        """
        root = _folder(cwd)
        return cls(lambda rpc: ProcessLink.start(command, rpc, root, env or {}), root, setup)

    @classmethod
    def connect(cls, path: str | Path, **setup: Unpack[Setup]) -> Self:
        """Return a client that attaches to the daemon at the unix socket *path*, and leaves it running."""
        return cls(lambda rpc: SocketLink.open(Path(path), rpc), None, setup)

    async def __aenter__(self) -> Self:
        """Start."""
        return await self.start()

    async def __aexit__(self, *_exc: object) -> None:
        """Close."""
        await self.close()

    async def start(self) -> Self:
        """Open the connection and shake hands. Raises ConnectionLost, with all closed again."""
        try:
            async with asyncio.timeout(_START_S):
                self._rpc.link = await self._open(self._rpc)
                self.server = await self._shake_hands()
        except TimeoutError:
            error = ConnectionLost(
                f"no answer to initialize in {_START_S:.0f} s", stderr_tail=self.stderr_tail
            )
            await self.close()
            raise error from None
        except BaseException:
            await self.close()
            raise
        return self

    async def shutdown(self) -> None:
        """Make the daemon settle and store everything; after this it answers no more requests."""
        await self.request("shutdown")

    async def close(self, grace_s: float = _GRACE_S) -> None:
        """Leave. A daemon that this client started is ended: by request, then by force.

        Each step takes at most *grace_s* seconds.
        """
        self._rpc.is_closing = True
        try:
            if self._root is not None and self.server:
                with contextlib.suppress(SidecarClientError, TimeoutError):
                    async with asyncio.timeout(grace_s):
                        await self.shutdown()
                        await self.notify("exit")
        except BaseException:
            grace_s = _HURRY_S
            raise
        finally:
            await self._rpc.close(grace_s)

    @property
    def owns_daemon(self) -> bool:
        """Whether this client started the daemon, which then ends with it."""
        return self._root is not None

    @property
    def exit_code(self) -> int | None:
        """The daemon's exit code; None while it runs, and for a daemon that this client did not start."""
        return self._rpc.link.exit_code if self._rpc.link is not None else None

    @property
    def stderr_tail(self) -> str:
        """The end of the daemon's standard error."""
        return self._rpc.link.stderr_tail if self._rpc.link is not None else ""

    async def request(self, method: str, params: Any = None) -> Any:
        """Send any request and return its result, both JSON. Raises SidecarRequestError, ConnectionLost."""
        return await self._rpc.request(method, params)

    async def notify(self, method: str, params: Any = None) -> None:
        """Send any notification. Raises ConnectionLost."""
        await self._rpc.notify(method, params)

    async def call(self, method: str, params: object, result: type[R]) -> R:
        wire = to_wire(params)
        answer = await self.request(method, wire)
        if method in _ENDS_SESSION:
            self._inbox.forget(wire["sid"])
        try:
            return result_from_wire(result, answer)
        except InvalidInput as error:
            raise UnexpectedAnswerError(f"the answer to {method} has an unexpected shape: {error}") from error

    async def did_open(self, file: str | Path, text: str, language_id: str = "plaintext") -> None:
        """Open a buffer.

        Args:
            file: its path or URI.
            text: its content, unsaved or not.
            language_id: the language, in the words of LSP.
        """
        uri = uri_of(file)
        self._versions[uri] = 1
        document = {"uri": uri, "languageId": language_id, "version": 1, "text": text}
        await self.notify("textDocument/didOpen", {"textDocument": document})

    async def did_change(self, file: str | Path, change: str | Sequence[Mapping[str, Any]]) -> None:
        """Change a buffer: to the whole new text, or by LSP's ``contentChanges``."""
        uri = uri_of(file)
        version = self._versions[uri] = self._versions.get(uri, 0) + 1
        changes = [{"text": change}] if isinstance(change, str) else list(change)
        document = {"uri": uri, "version": version}
        await self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    async def did_save(self, file: str | Path) -> None:
        """Report that the buffer was saved."""
        await self.notify("textDocument/didSave", {"textDocument": {"uri": uri_of(file)}})

    async def did_close(self, file: str | Path) -> None:
        """Close a buffer; from now on the disk counts."""
        uri = uri_of(file)
        self._versions.pop(uri, None)
        await self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    async def report_editor(
        self,
        *,
        active: m.EditorFile | Literal["none"] | None = None,
        tabs: Sequence[m.EditorTab] | None = None,
        diagnostics: Sequence[m.FileDiagnostics] | None = None,
        replaces_diagnostics: bool = False,
    ) -> None:
        """Report the state of the editor. A member that is not given stays as it was reported before.

        Args:
            active: the file that the user looks at; "none" for no file.
            tabs: all open files.
            diagnostics: the problems of some files. From the first report on, even an empty one, the model
                has a tool for them.
            replaces_diagnostics: whether the files that *diagnostics* does not name have none.
        """
        report = m.EditorContextParams(
            active=None if active == "none" else active,
            tabs=None if tabs is None else tuple(tabs),
            diagnostics=None if diagnostics is None else tuple(diagnostics),
            replaces_diagnostics=replaces_diagnostics,
        )
        cleared = {"active": None} if active == "none" else {}
        await self.notify("sidecar/editor/context", {**to_wire(report), **cleared})

    async def did_change_watched_files(self, changes: Iterable[tuple[str | Path, FileChange]]) -> None:
        """Report changes of files on disk."""
        listed = [{"uri": uri_of(file), "type": _CHANGE_NUMBERS[change]} for file, change in changes]
        await self.notify("workspace/didChangeWatchedFiles", {"changes": listed})

    async def start_session(
        self,
        cwd: str | Path = ".",
        *,
        model: str | None = None,
        engine: str | None = None,
        knowledge: Sequence[str] = (),
        title: str | None = None,
        brief: str = "",
    ) -> Session:
        """Start a session; :meth:`session_new` has more options.

        Args:
            cwd: the folder to work in.
            model: the model that answers, by default the daemon's.
            engine: the engine that compacts, by default the daemon's.
            knowledge: knowledge sources to attach.
            title: shown in lists of sessions.
            brief: appended to the system prompt.
        """
        new = await self.session_new(
            cwd=str(_folder(cwd)),
            model=model,
            engine=engine,
            knowledge=tuple(knowledge),
            title=title,
            brief=brief,
        )
        return Session(self, new.sid, new.seq)

    async def load_session(self, sid: str) -> Session:
        """Load a stored session; :meth:`session_load` can have its past sent again."""
        loaded = await self.session_load(sid)
        return Session(self, sid, loaded.seq)

    def events(self, sid: str, after_seq: int | None = None) -> EventStream:
        """Return the events of *sid* after *after_seq*, received or future; by default only future ones.

        Some MiB of events are kept for each session. Where events are lost, here or because this client read
        too slowly for the daemon, the stream has an event of kind ``gap`` and goes on. It ends when this
        client or the session is closed, and raises ConnectionLost when the daemon is gone. The past that
        ``session_load(..., replay=...)`` sends again has ``seq`` 0; streams with *after_seq* leave it out.
        """
        return self._inbox.events(sid, after_seq)

    def notifications(self) -> LogReader[Notification]:
        """Return every future notification that is not a session event."""
        return self._inbox.notifications()

    def progress(self, token: str | int | None = None) -> AsyncIterator[Mapping[str, Any]]:
        """Return the params of every future ``$/progress``; with *token* only its own, until its end."""
        notifications = self.notifications()

        async def follow() -> AsyncIterator[Mapping[str, Any]]:
            async for notification in notifications:
                params = notification.params
                if notification.method == "$/progress" and token in (None, params.get("token")):
                    yield params
                    if token is not None and _object_at(params, "value").get("kind") == "end":
                        return

        return follow()

    async def _shake_hands(self) -> Mapping[str, Any]:
        uri = self._root.as_uri() if self._root is not None else None
        introduction = {
            "processId": os.getpid() if self._root is not None else None,
            "clientInfo": {"name": "sidecar_client"},
            "rootUri": uri,
            "workspaceFolders": [{"uri": uri, "name": Path(uri).name}] if uri else None,
            "capabilities": _merge(_capabilities(self._setup), self._setup.get("capabilities", {})),
            "initializationOptions": {"sidecar": dict(self._setup.get("options", {}))},
        }
        answer = await self.request("initialize", introduction)
        await self.notify("initialized", {})
        server = _object_at(answer, "capabilities", "experimental", "sidecar")
        if server.get("protocol") != PROTOCOL:
            raise UnexpectedAnswerError(
                f"this is not a daemon of protocol {PROTOCOL}; it describes itself with {server or 'nothing'}"
            )
        return server


def uri_of(file: str | Path) -> str:
    """Return the URI of *file*: a Path is made absolute, a string is one already.

    >>> uri_of("file:///project/a.py")
    'file:///project/a.py'
    """
    return file if isinstance(file, str) else file.absolute().as_uri()


def _capabilities(setup: Setup) -> dict[str, Any]:
    """Return the client capabilities. Without a handler for edits, the daemon writes files itself."""
    ours: dict[str, Any] = {"protocol": [PROTOCOL], "events": {}, "permission": {}, "compaction": {}}
    if "elicit" in setup:
        ours["elicitation"] = {"form": {}, "url": {}}
    if "sidecar/edit/apply" in setup.get("handlers", {}):
        ours["edits"] = {}
    if "sidecar/editor/query" in setup.get("handlers", {}):
        ours["editor"] = {"query": list(get_args(m.QueryKind))}
    return {
        "window": {"workDoneProgress": True},
        "general": {"positionEncodings": ["utf-8", "utf-16"]},
        "experimental": {"sidecar": ours},
    }


def _object_at(value: Any, *keys: str) -> Mapping[str, Any]:
    """Return the JSON object under *keys*, an empty one when there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """Return *base* with *top* merged over it, object by object."""
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = _merge(below, value)
        merged[key] = value
    return merged


def _folder(cwd: str | Path) -> Path:
    return Path(cwd).absolute()
