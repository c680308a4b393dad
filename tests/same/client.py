"""One client's side of a scene, in the words of both faces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from tests.same.player import Message, Place, Player, play_daemon

__all__ = ["DONE", "Client", "Script", "call", "client_of", "say"]

Script: TypeAlias = Sequence[Sequence[Mapping[str, Any]]]
"""The steps of each call of a scripted model."""

DONE: Final = [{"text": "Done."}]


def say(text: str, **step: Any) -> list[dict[str, Any]]:
    """Return the steps of an answer of plain text."""
    return [{"text": text, **step}]


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a step that calls a tool."""
    return {"toolCall": {"name": tool, "input": arguments}}


class Client:
    """A client of a new daemon. Method names are those of the LSP face, and are translated."""

    def __init__(self, player: Player, place: Place) -> None:
        self.player = player
        self.place = place
        self.face = player.face
        self.permissions: Callable[[Any], str | None] = lambda params: "allow_once"
        player.replies["sidecar/permission/request"] = self._answer_ours
        player.replies["session/request_permission"] = self._answer_acp

    async def hello(
        self, models: Mapping[str, Script | Mapping[str, Any]], capabilities: Any = None, **declared: Any
    ) -> Message:
        """Shake hands, with scripted *models*."""
        scripts = {
            name: script if isinstance(script, Mapping) else {"scripted": script, "contextWindow": 32_000}
            for name, script in models.items()
        }
        options = {"models": scripts}
        ours = {"protocol": [1], "permission": {}, **declared}
        if self.face == "acp":
            wanted = {"_meta": {"sidecar": ours}, **(capabilities or {})}
            return await self.player.ask(
                "initialize",
                {"protocolVersion": 1, "clientCapabilities": wanted, "_meta": {"sidecar": options}},
            )
        answer = await self.player.ask(
            "initialize",
            {
                "processId": None,
                "rootUri": None,
                "capabilities": {"experimental": {"sidecar": ours}, **(capabilities or {})},
                "initializationOptions": {"sidecar": options},
            },
        )
        self.player.notify("initialized", {})
        return answer

    async def new(self, model: str, **options: Any) -> str:
        """Start a session in the project and return its id."""
        cwd = str(self.place.project)
        if self.face == "acp":
            own = {"cwd": cwd, "mcpServers": [], "_meta": {"sidecar": {"model": model, **options}}}
            return str((await self.player.ask("session/new", own))["result"]["sessionId"])
        made = await self.call("session/new", cwd=cwd, model=model, **options)
        return str(made["result"]["sid"])

    async def call(self, method: str, **params: Any) -> Message:
        """Return the answer to one of our own methods, without ``sidecar/`` in front."""
        return await self.send(method, **params)

    def send(self, method: str, **params: Any) -> asyncio.Future[Message]:
        """Send one of our own methods; its answer comes later."""
        name = f"sidecar/{method}" if self.face == "lsp" else f"_sidecar/{method}"
        return self.player.send_request(name, params)

    async def prompt(self, sid: str, said: str | Sequence[Any], **meta: Any) -> Message:
        """Send a prompt and return once its turn has ended."""
        return await self.send_prompt(sid, said, **meta)

    def send_prompt(self, sid: str, said: str | Sequence[Any], **meta: Any) -> asyncio.Future[Message]:
        """Send a prompt; the answer comes at the end of its turn."""
        blocks = [{"type": "text", "text": said}] if isinstance(said, str) else list(said)
        if self.face == "lsp":
            return self.send("turn/run", sid=sid, input=blocks, **meta)
        ours = {"_meta": {"sidecar": meta}} if meta else {}
        return self.player.send_request("session/prompt", {"sessionId": sid, "prompt": blocks, **ours})

    def _answer_ours(self, params: Any) -> Any:
        option = self.permissions(params)
        return {"outcome": "selected", "optionId": option} if option else {"outcome": "cancelled"}

    def _answer_acp(self, params: Any) -> Any:
        option = self.permissions(params)
        outcome = {"outcome": "selected", "optionId": option} if option else {"outcome": "cancelled"}
        return {"outcome": outcome}


@asynccontextmanager
async def client_of(face: str, place: Place) -> AsyncIterator[Client]:
    """Give a client of a new daemon in *place*."""
    async with play_daemon(face, place) as player:
        yield Client(player, place)
