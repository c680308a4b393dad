"""A provider that plays scenes over HTTP, one a call, in whichever format."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

from provider_fakes.anthropic_messages import MessagesWire
from provider_fakes.google_generate import GenerateWire
from provider_fakes.http import Answer, Asked, FakeHttp, serve_http
from provider_fakes.ollama_chat import OllamaWire
from provider_fakes.openai_chat import ChatWire
from provider_fakes.openai_responses import ResponsesWire
from provider_fakes.scenes import Page, Raw, Refused, Scene, Wire
from provider_fakes.strictness import objection
from sidecar.llmgateway.contract import ApiKind
from sidecar.llmgateway.names import ANTHROPIC, GOOGLE, OLLAMA, OPENAI_CHAT, OPENAI_RESPONSES

WIRES: Final[Mapping[ApiKind, Wire]] = MappingProxyType(
    {
        OPENAI_CHAT: ChatWire(),
        OPENAI_RESPONSES: ResponsesWire(),
        ANTHROPIC: MessagesWire(),
        GOOGLE: GenerateWire(),
        OLLAMA: OllamaWire(),
    }
)
"""How each API spells a scene."""

STRICT: Final = "not a valid request"
"""How the refusal of a request begins that breaks a rule of its format."""

_CALLS: Final = ("/chat/completions", "/api/chat", "/responses", "/messages", ":streamGenerateContent")


class FakeProvider:
    """Plays *scenes*, one a call, the last one again and again. Requests that are not valid are refused.

    *pages* are answers to other requests by their path, as JSON.
    """

    def __init__(self, api: ApiKind, scenes: Sequence[Scene], pages: Mapping[str, Any] | None = None) -> None:
        self.api = api
        self._wire = WIRES[api]
        self._scenes = list(scenes)
        self.pages = dict(pages or {})
        self.http: FakeHttp

    @property
    def calls(self) -> Sequence[Asked]:
        """The model calls so far."""
        return [asked for asked in self.http.asked if _is_call(asked)]

    @property
    def sent(self) -> Sequence[Any]:
        """The bodies of the model calls so far."""
        return [asked.json for asked in self.calls]

    def answer(self, asked: Asked) -> Answer:
        """Return the answer to one request."""
        if asked.path in self.pages:
            return _json(200, self.pages[asked.path])
        if not _is_call(asked):
            return _json(404, {"error": {"message": f"no page {asked.path}"}})
        scene = self._scenes[min(len(self.calls), len(self._scenes)) - 1]
        if isinstance(scene[0], Page):
            pieces = [scene[0].body.encode()] if scene[0].body else []
            return Answer(pieces, scene[0].status, headers={"content-type": "text/html"})
        if isinstance(scene[0], Raw):
            return Answer(scene[0].pieces, headers={"content-type": scene[0].content_type})
        reason = objection(self.api, asked.json)
        refused = Refused(400, f"{STRICT}: {reason}") if reason is not None else scene[0]
        if isinstance(refused, Refused):
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


def _is_call(asked: Asked) -> bool:
    """Whether a model is called; servers are asked for other things besides."""
    path = asked.path.partition("?")[0]
    return asked.method == "POST" and path.endswith(_CALLS)
