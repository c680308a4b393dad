"""A provider that plays scenes over HTTP, one a call, in whichever format."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

from sidecar.llmgateway.contract import ApiKind
from sidecar.llmgateway.names import ANTHROPIC, GOOGLE, OPENAI_CHAT, OPENAI_RESPONSES
from sidecar.llmgateway.providers.fakes.anthropic_messages import MessagesWire
from sidecar.llmgateway.providers.fakes.google_generate import GenerateWire
from sidecar.llmgateway.providers.fakes.http import Answer, Asked, FakeHttp, serve_http
from sidecar.llmgateway.providers.fakes.openai_chat import ChatWire
from sidecar.llmgateway.providers.fakes.openai_responses import ResponsesWire
from sidecar.llmgateway.providers.fakes.scenes import Refused, Scene, Wire

__all__ = ["WIRES", "FakeProvider", "fake_provider"]

WIRES: Final[Mapping[ApiKind, Wire]] = MappingProxyType(
    {
        OPENAI_CHAT: ChatWire(),
        OPENAI_RESPONSES: ResponsesWire(),
        ANTHROPIC: MessagesWire(),
        GOOGLE: GenerateWire(),
    }
)
"""How each API spells a scene."""


class FakeProvider:
    """Plays *scenes*, one a call, the last one again and again.

    *pages* are answers to other requests by their path, as JSON.
    """

    def __init__(self, api: ApiKind, scenes: Sequence[Scene], pages: Mapping[str, Any] | None = None) -> None:
        self._wire = WIRES[api]
        self._scenes = list(scenes)
        self._pages = dict(pages or {})
        self.http: FakeHttp

    @property
    def calls(self) -> Sequence[Asked]:
        """The model calls so far."""
        return [
            asked for asked in self.http.asked if asked.method == "POST" and asked.path not in self._pages
        ]

    @property
    def sent(self) -> Sequence[Any]:
        """The bodies of the model calls so far."""
        return [asked.json for asked in self.calls]

    def answer(self, asked: Asked) -> Answer:
        """Return the answer to one request."""
        if asked.path in self._pages:
            return _json(200, self._pages[asked.path])
        if asked.method != "POST":
            return _json(404, {"error": {"message": f"no page {asked.path}"}})
        scene = self._scenes[min(len(self.calls), len(self._scenes)) - 1]
        if isinstance(scene[0], Refused):
            refused = scene[0]
            return _json(refused.status, self._wire.refusal(refused), dict(refused.headers))
        return Answer(self._wire.frames(scene))


@asynccontextmanager
async def fake_provider(
    api: ApiKind, scenes: Sequence[Scene], pages: Mapping[str, Any] | None = None
) -> AsyncIterator[FakeProvider]:
    """Serve a :class:`FakeProvider` on the loopback while the context is open."""
    provider = FakeProvider(api, scenes, pages)
    async with serve_http(provider.answer) as provider.http:
        yield provider


def _json(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Answer:
    plain = {"content-type": "application/json", **(headers or {})}
    return Answer((json.dumps(body).encode(),), status, plain)
