"""The life of one connection, as both front ends live it: open late, announce the end, settle, close.

``initialize`` is answered before sessions, models and tools are loaded, because an editor waits for that
answer with its window open. Only a client that brings options for the daemon waits, since the answer refuses
wrong ones. Nothing here knows a method.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from sidecar._internal.errors import SidecarError
from sidecar.protocol.jsonrpc import member
from sidecar.service.contract import Backend, ClientSink, OpenBackend
from sidecar.transport.peer import Dialect, Frontend, Limits, Peer, PeerGoneError, PeerRefused
from sidecar.transport.streams import ByteStream

if TYPE_CHECKING:
    from sidecar.conductor.contract import ElicitationAnswer, HunkAnswer, PermissionAnswer, PermissionRequest

LAST_ANSWERS_S: Final = 0.25
"""How long a turn or a compaction may go on after the end of input."""

_LONGEST_WAIT_S: Final = 10.0
"""How long other requests may still be answered then, as in ``printf ... | sidecar`` on a busy machine."""


class FrontendClient(Protocol):
    """A client after its handshake."""

    @property
    def sink(self) -> ClientSink:
        """The way to the client."""
        ...

    def close(self) -> None:
        """Return everything that the client has lent, and leave the service."""
        ...


ClientT = TypeVar("ClientT", bound=FrontendClient)


class FrontendConnection(Frontend, ABC, Generic[ClientT]):
    """A front end that owns its peer; one for each client."""

    def __init__(
        self, stream: ByteStream, dialect: Dialect, limits: Limits, open_backend: OpenBackend
    ) -> None:
        self._peer = Peer(stream, dialect, self, limits)
        self._new_backend = open_backend
        self._backend: Backend | None = None
        self._client: ClientT | None = None

    @abstractmethod
    def make_client(self) -> ClientT:
        """Return the client of a finished handshake. Raises SidecarError when there is no backend for it."""

    def start(self) -> None:
        """Begin to read."""
        self._peer.start()

    async def wait_answered(self) -> None:
        """Return once the open requests are answered, or soon if a turn or a compaction is at work.

        A client that is gone waits for no model; but opening a session takes as long as the machine needs.
        """
        for _ in range(round(_LONGEST_WAIT_S / LAST_ANSWERS_S)):
            await self._peer.wait_answered(LAST_ANSWERS_S)
            is_working = self._backend is not None and self._backend.service.is_working
            if is_working or not self._peer.requests_open:
                return

    def announce_end(self, reason: str, in_s: float) -> None:
        """Notify a client that is still there that the process will end, and accept nothing more from it."""
        if self._client is not None and not self._peer.is_over:
            self._client.sink.notify("sidecar/closing", {"reason": reason, "inMs": round(in_s * 1000)})
        self._peer.stop_accepting()

    async def settle(self) -> None:
        """Let the service settle, if it was ever opened."""
        if self._backend is not None:
            await self._backend.service.aclose()

    async def aclose(self, seconds: float) -> None:
        """Leave the service, answer the open requests, flush and close, in about *seconds*."""
        if self._client is not None:
            self._client.close()
        await self._peer.aclose(seconds)

    def open_backend(self, options: Mapping[str, Any]) -> Backend:
        if self._backend is None:
            self._backend = self._new_backend(options)
        return self._backend

    def open_client(self) -> ClientT:
        if self._client is None:
            self._client = self.make_client()
        return self._client

    def open_soon(self) -> None:
        """Open once the answer to ``initialize`` is on its way, while the client is busy with it."""
        asyncio.get_running_loop().call_soon(self.open_ahead)

    def open_ahead(self) -> None:
        """Open before the first request; an error is dropped, because that request will meet it again."""
        if not self._peer.is_over:
            with suppress(SidecarError):
                self.open_client()


async def ask_permission(
    peer: Peer, method: str, params: Any, request: PermissionRequest, chosen_id: Callable[[Any], object]
) -> PermissionAnswer:
    """Ask the user for permission in the words of the protocol, and return the answer.

    A clear choice of one of our options counts as an answer. Everything else is ``cancelled``, which the hub
    treats as a rejection: an error, a client that has gone, an unknown option, or a reply of another shape.
    Cancelling this withdraws the question.

    Args:
        peer: the client.
        method: the method of the question.
        params: the question, in the words of the protocol.
        request: the question, with its options.
        chosen_id: takes the reply and returns the id of the chosen option, or None.
    """
    from sidecar.conductor.contract import PermissionAnswer  # not above: a handshake needs no session

    try:
        reply = await peer.request(method, params)
        option_id = chosen_id(reply)
    except (PeerRefused, PeerGoneError):
        return PermissionAnswer("cancelled")
    for option in request.options:
        if option.option_id == option_id:
            try:
                return PermissionAnswer("selected", option.option_id, read_hunks(reply) or None)
            except ValueError:
                return PermissionAnswer("cancelled")  # some part was refused, and it is not known which
    return PermissionAnswer("cancelled")


def read_hunks(reply: Any) -> tuple[HunkAnswer, ...]:
    """Return the answers about hunks in *reply*, beside the outcome or in ``_meta``; empty without any.

    Raises ValueError for answers of another shape.

    >>> read_hunks({"hunks": [{"diff": 0, "hunk": 1, "accepted": False}]})
    (HunkAnswer(diff=0, hunk=1, accepted=False, text=None),)
    """
    from sidecar.conductor.contract import HunkAnswer

    own = member(reply, "_meta", "sidecar")
    hunks = member(own if isinstance(own, Mapping) else reply, "hunks")
    kinds = {"diff": int, "hunk": int, "accepted": bool}
    for each in [] if hunks is None else hunks if isinstance(hunks, list) else [hunks]:
        if not (
            isinstance(each, Mapping)
            and all(type(each.get(name)) is kind for name, kind in kinds.items())
            and isinstance(each.get("text"), str | None)
        ):
            raise ValueError("an answer about a hunk has another shape")
    return tuple(
        HunkAnswer(each["diff"], each["hunk"], each["accepted"], each.get("text")) for each in hunks or ()
    )


async def ask_form(
    peer: Peer, method: str, params: Any, read: Callable[[Any], ElicitationAnswer | None]
) -> ElicitationAnswer | None:
    """Put a form to the user in the words of the protocol, and return the answer, None for none.

    Does not return when the client has left, so that the form stays open for another one. Cancelling this
    withdraws it.

    Args:
        peer: the client.
        method: the method of the form.
        params: the form, in the words of the protocol.
        read: takes the reply and returns the answer in it, or None.
    """
    try:
        return read(await peer.request(method, params))
    except PeerRefused:
        return None
    except PeerGoneError:
        await asyncio.Event().wait()
        raise


def read_form_answer(reply: Any) -> ElicitationAnswer | None:
    """Return the answer ``{"action", "content"}``, as all protocols spell it; None for another reply."""
    from sidecar.conductor.contract import ElicitationAnswer  # not above, as before

    action, content = member(reply, "action"), member(reply, "content")
    if not isinstance(action, str):
        return None
    return ElicitationAnswer(action, content if isinstance(content, Mapping) else None)


def id_of_selection(outcome: Any) -> object:
    """Return the option that ``{"outcome": "selected", "optionId"}`` names, None for any other outcome.

    >>> id_of_selection({"outcome": "selected", "optionId": "yes"})
    'yes'
    """
    return member(outcome, "optionId") if member(outcome, "outcome") == "selected" else None
