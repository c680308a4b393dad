"""What the client has looked at, so that it is asked to look again when that has changed, and only then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from sidecar.transport.peer import Peer, PeerGone, PeerRefused

__all__ = ["RefreshRequester", "Spawn"]

Spawn: TypeAlias = Callable[[Awaitable[None], str], object]
"""Runs work beside the connection, which owns it; the text says what failed if it does."""


class RefreshRequester:
    """The things of one kind, by URI, that a client looked at. *method* asks it to look again.

    However often a thing changes, it is asked once until it has looked: nobody looks, nothing is sent.
    """

    def __init__(self, peer: Peer, method: str, spawn: Spawn) -> None:
        self._peer = peer
        self._method = method
        self._spawn = spawn
        self._looked_at: set[str] = set()

    def looked_at(self, uri: str) -> None:
        """The client has just been shown *uri*."""
        self._looked_at.add(uri)

    def changed(self, uri: str) -> None:
        """What *uri* shows has changed."""
        if uri in self._looked_at:
            self._looked_at.discard(uri)
            self._spawn(self._ask({"uri": uri}), self._method)

    def all_changed(self) -> None:
        """Everything may show something else; one request, which names nothing, stands for all."""
        if self._looked_at:
            self._looked_at.clear()
            self._spawn(self._ask(None), self._method)

    async def _ask(self, params: Any) -> None:
        try:
            await self._peer.request(self._method, params)
        except (PeerRefused, PeerGone):
            return  # then it looks when it likes
