"""A connection to the daemon: start one or attach to one, ask, listen, leave.

It adds nothing of its own to what the daemon does, and ends no process but the one it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, TypedDict, TypeVar, Unpack

from sidecar.protocol.codec import result_from_wire, to_wire
from sidecar.protocol.errors import InvalidInput
from sidecar.protocol.handshake import PROTOCOL
from sidecar.protocol.messages import Empty
from sidecar_client.calls import Calls
from sidecar_client.documents import Documents
from sidecar_client.errors import ConnectionLost, SidecarClientError, UnexpectedAnswer
from sidecar_client.events import EventStream, Notification
from sidecar_client.feed import Stream
from sidecar_client.inbox import Inbox, RequestHandler
from sidecar_client.links import Link, ProcessLink, SocketLink
from sidecar_client.peer import Peer
from sidecar_client.permissions import PermissionHandler, answering, reject
from sidecar_client.session import Session

__all__ = ["DAEMON", "Setup", "SidecarClient"]

DAEMON: Final = (sys.executable, "-P", "-m", "sidecar", "serve", "--stdio")
"""The daemon of the same installation. ``-P`` keeps the folder it starts in out of its imports."""

_START_S: Final = 30.0
_GRACE_S: Final = 3.0
_HURRY_S: Final = 0.1
"""The grace of a close that is cancelled itself."""

R = TypeVar("R")
_Open: TypeAlias = Callable[[Peer], Awaitable[Link]]


class Setup(TypedDict, total=False):
    """How a client introduces itself, and what it answers.

    Attributes:
        options: ``initializationOptions.sidecar``: ``store``, ``policy``, ``models``, ``trust``, ...
        capabilities: LSP client capabilities, laid over those this client declares by itself.
        permission: answers the daemon's permission questions; without it they are all rejected.
        handlers: answers to other requests of the daemon, by method; one for ``sidecar/edit/apply`` says
            that this client takes edits of the buffers it has opened.
    """

    options: Mapping[str, Any]
    capabilities: Mapping[str, Any]
    permission: PermissionHandler
    handlers: Mapping[str, RequestHandler]


class SidecarClient(Calls, Documents):
    """One client of one daemon; made by :meth:`spawn` or :meth:`connect`, used in ``async with``.

    Attributes:
        server: what the daemon said of itself: ``capabilities.experimental.sidecar`` of its answer.
    """

    server: Mapping[str, Any]

    def __init__(self, open_link: _Open, root: Path | None, setup: Setup) -> None:
        super().__init__()
        handlers = {"sidecar/permission/request": answering(setup.get("permission", reject))}
        self._inbox = Inbox({**handlers, **setup.get("handlers", {})})
        self._peer = Peer(self._inbox.answer, self._inbox.notice, self._ended)
        self._open = open_link
        self._root = root
        self._setup = setup
        self._closing = False
        self.server = {}

    @classmethod
    def spawn(
        cls,
        command: Sequence[str] = DAEMON,
        *,
        cwd: str | Path = ".",
        env: Mapping[str, str] | None = None,
        **setup: Unpack[Setup],
    ) -> Self:
        """Return a client that starts a daemon of its own in *cwd*, and ends it when it leaves.

        Args:
            command: the program and its arguments.
            cwd: the folder the process starts in, which is the workspace too.
            env: variables added to those of this process.
            **setup: see :class:`Setup`.
        """
        root = _folder(cwd)
        return cls(lambda peer: ProcessLink.start(command, peer, root, env or {}), root, setup)

    @classmethod
    def connect(cls, path: str | Path, **setup: Unpack[Setup]) -> Self:
        """Return a client that attaches to the daemon at the unix socket *path*, and leaves it running."""
        return cls(lambda peer: SocketLink.open(Path(path), peer), None, setup)

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
                self._peer.link = await self._open(self._peer)
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
        """Ask the daemon to settle and store everything; after this it answers no more requests."""
        await self.request("shutdown")

    async def close(self, grace_s: float = _GRACE_S) -> None:
        """Leave. Ends the daemon if it is ours: politely, then not; each step takes *grace_s* at most."""
        self._closing = True
        try:
            if self._root is not None and self.server:
                await self._say_goodbye(grace_s)
        except BaseException:
            grace_s = _HURRY_S
            raise
        finally:
            await self._peer.close(grace_s)

    @property
    def exit_code(self) -> int | None:
        """How the daemon ended; None while it runs, and when it is not ours."""
        return self._peer.link.exit_code if self._peer.link is not None else None

    @property
    def stderr_tail(self) -> str:
        """The end of what the daemon wrote to its standard error."""
        return self._peer.link.stderr_tail if self._peer.link is not None else ""

    async def request(self, method: str, params: Any = None) -> Any:
        """Send any request and return its result, both JSON. Raises SidecarRequestError, ConnectionLost."""
        return await self._peer.request(method, params)

    async def notify(self, method: str, params: Any = None) -> None:
        """Send any notification. Raises ConnectionLost."""
        await self._peer.notify(method, params)

    async def call(self, method: str, params: object, result: type[R]) -> R:
        """Send *params*, one of the protocol's messages, and return the answer as a *result*."""
        answer = await self.request(method, to_wire(params))
        try:
            return result_from_wire(result, answer)
        except InvalidInput as error:
            raise UnexpectedAnswer(f"{method} was answered with another shape: {error}") from error

    async def session_close(self, sid: str) -> Empty:
        """Close a session; it stays stored. Its event streams come to their end."""
        answer = await Calls.session_close(self, sid)
        self._inbox.forget(sid)
        return answer

    async def session_delete(self, sid: str) -> Empty:
        """Remove a session for good. Its event streams come to their end."""
        answer = await Calls.session_delete(self, sid)
        self._inbox.forget(sid)
        return answer

    async def start_session(
        self,
        cwd: str | Path = ".",
        *,
        model: str | None = None,
        engine: str | None = None,
        knowledge: Sequence[str] = (),
        title: str | None = None,
    ) -> Session:
        """Start a session in *cwd*; :meth:`session_new` knows more options."""
        new = await self.session_new(
            cwd=str(_folder(cwd)), model=model, engine=engine, knowledge=tuple(knowledge), title=title
        )
        return Session(self, new.sid, new.seq)

    async def load_session(self, sid: str) -> Session:
        """Load a stored session; :meth:`session_load` can have its past sent again."""
        loaded = await self.session_load(sid)
        return Session(self, sid, loaded.seq)

    def events(self, sid: str, after_seq: int | None = None) -> EventStream:
        """Return the events of *sid*: those after *after_seq* that came or will; by default from now on.

        Some MiB of events are kept for each session. Where events are lost, here or because this client read
        too slowly for the daemon, the stream says so with an event of kind ``gap`` and goes on. It ends when
        this client or the session is closed, and raises ConnectionLost when the daemon is gone. The past that
        ``session_load(..., replay=...)`` sends again has ``seq`` 0 and goes to streams without *after_seq*.
        """
        return self._inbox.events(sid, after_seq)

    def notifications(self) -> Stream[Notification]:
        """Return every notification from now on that is no session event."""
        return self._inbox.notifications()

    def progress(self, token: str | int | None = None) -> AsyncIterator[Mapping[str, Any]]:
        """Return the params of every ``$/progress`` from now on; of *token* alone until its end."""
        return _progress(self.notifications(), token)

    def _ended(self, error: ConnectionLost) -> None:
        self._inbox.end(None if self._closing else error)

    async def _shake_hands(self) -> Mapping[str, Any]:
        answer = await self.request("initialize", self._introduction())
        await self.notify("initialized", {})
        server = _find(answer, "capabilities", "experimental", "sidecar")
        if server.get("protocol") != PROTOCOL:
            raise UnexpectedAnswer(
                f"no daemon of protocol {PROTOCOL}: it says {server or 'nothing'} of itself"
            )
        return server

    async def _say_goodbye(self, grace_s: float) -> None:
        with contextlib.suppress(SidecarClientError, TimeoutError):
            async with asyncio.timeout(grace_s):
                await self.shutdown()
                await self.notify("exit")

    def _introduction(self) -> dict[str, Any]:
        uri = self._root.as_uri() if self._root is not None else None
        return {
            "processId": os.getpid() if self._root is not None else None,
            "clientInfo": {"name": "sidecar_client"},
            "rootUri": uri,
            "workspaceFolders": [{"uri": uri, "name": Path(uri).name}] if uri else None,
            "capabilities": _laid_over(_capabilities(self._setup), self._setup.get("capabilities", {})),
            "initializationOptions": {"sidecar": dict(self._setup.get("options", {}))},
        }


def _capabilities(setup: Setup) -> dict[str, Any]:
    """Return what this client can. Without a handler for edits, the daemon writes files itself."""
    ours: dict[str, Any] = {"protocol": [PROTOCOL], "events": {}, "permission": {}, "compaction": {}}
    if "sidecar/edit/apply" in setup.get("handlers", {}):
        ours["edits"] = {}
    return {
        "window": {"workDoneProgress": True},
        "general": {"positionEncodings": ["utf-8", "utf-16"]},
        "experimental": {"sidecar": ours},
    }


def _find(value: Any, *keys: str) -> Mapping[str, Any]:
    """Return the object under *keys*, an empty one when there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _laid_over(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """Return *base* with *top* laid over it, object by object."""
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = _laid_over(below, value)
        merged[key] = value
    return merged


def _folder(cwd: str | Path) -> Path:
    return Path(cwd).absolute()


async def _progress(
    notifications: Stream[Notification], token: str | int | None
) -> AsyncIterator[Mapping[str, Any]]:
    async for notification in notifications:
        params = notification.params
        if notification.method == "$/progress" and token in (None, params.get("token")):
            yield params
            if token is not None and _find(params, "value").get("kind") == "end":
                return
